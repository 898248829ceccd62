"""From what was proven to what the commands are made from."""

from __future__ import annotations

from collections import Counter

from tallyglass.restore.impact.returns import return_statements
from tallyglass.restore.model.plan import Plan, Slice, Strategy
from tallyglass.restore.runbook.spec import RunbookSpec
from tallyglass.restore.stages import Assessed, ToolUris
from tallyglass.restore.tools.files import WorkDir


def specify(assessed: Assessed, uris: ToolUris, part: Slice, plan: Plan) -> RunbookSpec:
    """Everything that the commands of ``plan`` are made from. ``part`` is what the replay file must hold."""
    replay = assessed.covered.replay
    catalog, live_fixes = replay.catalog, _live_fixes(assessed, plan)
    return RunbookSpec(
        work=WorkDir(plan.work_dir),
        source=uris.source,
        spare=uris.spare,
        contents=assessed.inputs.contents,
        start=assessed.covered.start.ts,
        limit=plan.limit,
        slice=part,
        applied=replay.applied,
        without=(*replay.dead, *replay.made_room, *replay.without),
        open_views=tuple(sorted(replay.unopened_views)),
        expected=plan.expected,
        surplus={ns: catalog.surplus_indexes(ns) for ns in catalog.collections if catalog.surplus_indexes(ns)},
        phantoms=tuple(catalog.phantoms()),
        leftovers=tuple(dict.fromkeys(catalog.leftovers)),
        returns=plan.returns,
        merges=_merges(assessed, plan),
        fixes=tuple(fix.on_spare() for fix in assessed.counters.fixes),
        live_fixes=tuple(fix for fixes in live_fixes.values() for fix in fixes),
        moved=tuple(live_fixes),
        definitions=assessed.definitions.statements,
        own_spare=uris.own_spare,
        set_name=plan.set_name,
        ids=plan.choice.ids if plan.choice else (),
    )


def _merges(assessed: Assessed, plan: Plan) -> dict[str, list[str]]:
    """The statements that merge what came back, by namespace."""
    computed = {item.ns: item.documents for item in plan.expected}
    counters = assessed.counters
    # A counter that was moved forward on the spare before may be new there.
    made = Counter(ns for ns, _ in {(fix.ns, fix.row.id) for fix in counters.fixes if fix.makes})
    merges = {}
    for back in plan.returns:
        count = computed.get(back.ns)
        count = None if count is None else count + made[back.ns]
        merges[back.ns] = return_statements(back, count, counters.paths.get(back.ns, ()))
    return merges


def _live_fixes(assessed: Assessed, plan: Plan) -> dict[str, list[str]]:
    """The statements that move counters forward on the live set, by namespace."""
    back = {row.ns for row in plan.returns if row.strategy is not Strategy.BESIDE}
    fixes: dict[str, list[str]] = {}
    for fix in assessed.counters.fixes:
        statement = fix.on_source(comes_back=fix.ns in back)
        if statement:
            fixes.setdefault(fix.ns, []).append(statement)
    return fixes
