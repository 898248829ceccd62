"""From a request to a plan: gather the facts, judge them, and only then make commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts, iso
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.decode.entry import row
from tallyglass.restore.checks.checks import judge
from tallyglass.restore.facts import Facts
from tallyglass.restore.gather import RestoreRequest, gather
from tallyglass.restore.impact.definitions import find_definitions
from tallyglass.restore.impact.returns import merge_steps, plan_returns
from tallyglass.restore.model.plan import ExpectedNamespace, Level, Plan, Slice, Strategy
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.replay.expectation import expect
from tallyglass.restore.runbook.commands import commands
from tallyglass.restore.runbook.order import Order
from tallyglass.restore.tools.files import WorkDir
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.text import clean_name

__all__ = ["RestoreRequest", "plan_restore"]


async def plan_restore(gateway: Gateway, request: RestoreRequest) -> Plan:
    """Prove the restore, then emit its commands; a blocked plan has none.

    Reads the whole window of the oplog and the whole backup, so it may take minutes. Raises InputError for a request or
    a backup that cannot be read, and the errors of the gateway.
    """
    facts = await gather(gateway, request)
    expected = expect(facts.replay.catalog, facts.base) if facts.replay and facts.base else ()
    stamp = facts.limit.time.strftime("%Y%m%dT%H%M%S")
    if facts.loss is not None:
        live, unknown = await live_names(gateway, {item.ns.partition(".")[0] for item in expected})
        facts.returns = plan_returns(expected, facts.loss.changed, live, facts.incident, stamp, unknown)
        if facts.replay is not None:
            catalog, changed = facts.replay.catalog, facts.loss.changed
            facts.definitions = await find_definitions(gateway, catalog, changed, live, facts.incident, facts.returns)
    plan = _describe(facts, request, expected)
    if plan.level is Level.BLOCK:
        return plan
    return replace(plan, commands=commands(_order(facts, plan)))


async def live_names(gateway: Gateway, databases: set[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The collections and views that exist now in these databases, and the databases where that cannot be told."""
    names: set[str] = set()
    unknown: set[str] = set()
    for db in sorted(databases):
        try:
            names |= {str(item.ns) for item in await gateway.list_collections(db)}
        except (PrivilegeError, ReadError):
            unknown.add(db)
    return frozenset(names), frozenset(unknown)


def _describe(facts: Facts, request: RestoreRequest, expected: tuple[ExpectedNamespace, ...]) -> Plan:
    replay = facts.replay
    incident = facts.incident
    return Plan(
        point=facts.limit,
        start=facts.start.ts if facts.start else None,
        limit=facts.limit,
        backup=facts.contents.backup,
        set_name=facts.deployment.set_name,
        spare=facts.spare.address if facts.spare else f"127.0.0.1:{facts.own_spare}" if facts.own_spare else "",
        made=datetime.now(UTC).replace(microsecond=0),
        before=_line(facts.before_limit),
        after=_line(facts.at_limit),
        incident=f"{incident.title}, {iso(incident.first.time)}" if incident else "",
        operations=replay.entries if replay else None,
        expected_applied=replay.applied if replay else None,
        hours_left=facts.hours_left,
        checks=judge(facts),
        loss=facts.loss.losses() if facts.loss else (),
        reissue=facts.counters.rows,
        expected=expected,
        leftovers=tuple(replay.catalog.phantoms()) + tuple(replay.catalog.leftovers) if replay else (),
        returns=facts.returns,
        slice=_slice(facts),
        cut_transactions=tuple(f"{chain.entries[0].ts}, {len(chain.entries)} entries" for chain in facts.open_at_limit),
        server_version=facts.deployment.version,
        tools_needed=".".join(map(str, needed_for(facts.deployment.version))),
        work_dir=request.work_dir or default_work_dir(facts.limit),
        source_user=clean_name(facts.source_uri.user) if facts.source_uri else "",
        spare_user=clean_name(facts.spare_uri.user) if facts.spare_uri else "",
        passwords=tuple(
            role
            for role, uri in (("source", facts.source_uri), ("spare", facts.spare_uri))
            if uri is not None and uri.asks and not (role == "spare" and facts.own_spare)
        ),
    )


def default_work_dir(limit: Ts) -> str:
    """A folder in the home directory, named after the point."""
    return str(Path.home() / f"tallyglass-{limit.time:%Y%m%d-%H%M%S}-{limit.i}")


def _line(entry: Entry | None) -> str:
    if entry is None:
        return ""
    shown = row(entry.head.raw)
    return f"{shown.ts} {shown.ns} {shown.what} {shown.id}".strip()


def _slice(facts: Facts) -> Slice | None:
    """What the replay file will hold: the window, and the entry at the limit, which proves that it reaches it."""
    replay = facts.replay
    if replay is None or replay.first is None or replay.last is None:
        return None
    last, entries, size = replay.last, replay.entries, replay.bytes
    at = facts.at_limit
    if at is not None and at.ts == facts.limit and not facts.limit_is_left_out:
        last, entries, size = at.ts, entries + 1, size + at.size
    return Slice(entries, replay.first, last, size)


def _order(facts: Facts, plan: Plan) -> Order:
    replay, loss = facts.replay, facts.loss
    assert replay is not None
    assert loss is not None
    assert loss.last is not None, "the point is an entry of the oplog or before one"
    assert facts.source_uri is not None
    assert facts.spare_uri is not None
    assert plan.start is not None
    assert plan.slice is not None
    catalog, live_fixes = replay.catalog, _live_fixes(facts, plan)
    return Order(
        work=WorkDir(plan.work_dir),
        source=facts.source_uri,
        spare=facts.spare_uri,
        contents=facts.contents,
        start=plan.start,
        limit=plan.limit,
        slice=plan.slice,
        applied=replay.applied,
        without=(*replay.dead, *replay.made_room, *replay.without),
        open_views=tuple(sorted(replay.unopened_views)),
        expected=plan.expected,
        surplus={ns: catalog.surplus_indexes(ns) for ns in catalog.collections if catalog.surplus_indexes(ns)},
        phantoms=tuple(catalog.phantoms()),
        leftovers=tuple(dict.fromkeys(catalog.leftovers)),
        returns=plan.returns,
        merges=_merges(facts, plan, loss.last),
        fixes=tuple(fix.on_spare() for fix in facts.counters.fixes),
        live_fixes=tuple(fix for fixes in live_fixes.values() for fix in fixes),
        moved=tuple(live_fixes),
        definitions=facts.definitions.statements,
        own_spare=facts.own_spare,
        set_name=plan.set_name,
    )


def _merges(facts: Facts, plan: Plan, seen: Ts) -> dict[str, list[str]]:
    """The statements that merge what came back, by namespace."""
    assert facts.loss is not None
    computed = {item.ns: item.documents for item in plan.expected}
    # A counter that was moved forward on the spare before may be new there.
    made = Counter(ns for ns, _ in {(fix.ns, fix.row.id) for fix in facts.counters.fixes if fix.makes})
    merges = {}
    for back in plan.returns:
        count = computed.get(back.ns)
        count = None if count is None else count + made[back.ns]
        changed, paths = facts.loss.changed.get(back.ns), facts.counters.paths.get(back.ns, ())
        merges[back.ns] = merge_steps(back, changed, facts.incident, seen, count, paths)
    return merges


def _live_fixes(facts: Facts, plan: Plan) -> dict[str, list[str]]:
    """The statements that move counters forward on the live set, by namespace."""
    back = {row.ns for row in plan.returns if row.strategy is not Strategy.BESIDE}
    fixes: dict[str, list[str]] = {}
    for fix in facts.counters.fixes:
        statement = fix.on_source(comes_back=fix.ns in back)
        if statement:
            fixes.setdefault(fix.ns, []).append(statement)
    return fixes
