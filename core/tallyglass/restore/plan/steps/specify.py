"""From a proven plan to the specification of its steps."""

from __future__ import annotations

from collections import Counter

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.model.undo import Strategy
from tallyglass.restore.plan.steps.spec import Damage, RunbookSpec
from tallyglass.restore.proof.findings import Assessed, ToolUris


def specify(assessed: Assessed, uris: ToolUris, part: Slice, plan: Plan) -> RunbookSpec:
    """Everything that the steps of ``plan`` are made from. ``part`` is what the replay file must hold."""
    replay, spare = assessed.covered.replay, assessed.inputs.spare
    catalog, back = (
        replay.catalog,
        {row.ns for row in plan.undo.returns if row.strategy is Strategy.WHOLE or row.beside},
    )
    changed, saved = assessed.loss.changed, assessed.inputs.saved
    return RunbookSpec(
        mark=plan.mark,
        source=uris.source,
        spare=uris.spare,
        contents=assessed.inputs.contents,
        start=assessed.covered.start.ts,
        limit=plan.facts.limit,
        slice=part,
        applied=replay.applied,
        without=(*replay.dead, *replay.made_room, *replay.without),
        open_views=tuple(sorted(replay.unopened_views)),
        expected=plan.proof.expected,
        surplus={ns: catalog.surplus_indexes(ns) for ns in catalog.collections if catalog.surplus_indexes(ns)},
        phantoms=tuple(catalog.phantoms()),
        leftovers=tuple(dict.fromkeys(catalog.leftovers)),
        returns=plan.undo.returns,
        documents=_documents(assessed, plan),
        paths={row.ns: tuple(assessed.counters.paths.get(row.ns, ())) for row in plan.undo.returns},
        damage={
            row.ns: Damage(changed[row.ns].by_incident, changed[row.ns].others).of(plan.undo.accident, row.ns)
            for row in plan.undo.returns
            if row.ns in changed
        },
        fixes=tuple(fix.on_spare() for fix in assessed.counters.fixes if fix.ns in back),
        live_fixes=tuple(fix for fixes in live_fixes(assessed).values() for fix in fixes),
        definitions=assessed.definitions.statements,
        own_spare=uris.own_spare,
        spare_in_set=bool(spare and spare.set_name),
        set_name=plan.facts.set_name,
        undone=plan.undo.undone,
        left_out=plan.undo.left_out,
        ids=plan.undo.choice.ids if plan.undo.choice else (),
        oplog=plan.from_backup.oplog,
        live_from=saved.oplog.last if saved and not saved.holds(plan.facts.limit) else None,
    )


def _documents(assessed: Assessed, plan: Plan) -> dict[str, int | None]:
    """How many documents of each namespace come back."""
    computed = {item.ns: item.documents for item in plan.proof.expected}
    # A counter that was raised on the spare earlier may be new there.
    made = Counter(ns for ns, _ in {(fix.ns, fix.row.id) for fix in assessed.counters.fixes if fix.makes})
    counts = {row.ns: computed.get(row.ns) for row in plan.undo.returns}
    return {ns: None if count is None else count + made[ns] for ns, count in counts.items()}


def live_fixes(assessed: Assessed) -> dict[str, list[str]]:
    """The statements that raise counters on the live set, by namespace."""
    back = {row.ns for row in assessed.returns if row.strategy is not Strategy.BESIDE}
    fixes: dict[str, list[str]] = {}
    for fix in assessed.counters.fixes:
        statement = fix.on_source(comes_back=fix.ns in back)
        if statement:
            fixes.setdefault(fix.ns, []).append(statement)
    return fixes
