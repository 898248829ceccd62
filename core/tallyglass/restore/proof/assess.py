"""What a restore means for the live data: what came after the point, which counters it touches, what is brought
back."""

from __future__ import annotations

from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import ARCHIVE
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.proof.counter_search import CounterFacts
from tallyglass.restore.proof.definitions import find_definitions
from tallyglass.restore.proof.findings import Assessed, Replayed
from tallyglass.restore.proof.reissue import find_reissues
from tallyglass.restore.proof.returns import plan_returns, with_again
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.identity import list_live
from tallyglass.restore.undo.expiry import expiry_of
from tallyglass.restore.undo.infer import find_accident, with_removals


async def assess(gateway: Gateway, replayed: Replayed, copy: Gateway | None = None) -> Assessed:
    """Compare what came after the point with what is live. ``copy`` is the spare that runs on data files."""
    covered = replayed.covered
    inputs = covered.inputs
    loss = replayed.loss
    names = {item.ns for item in replayed.expected} | ({inputs.choice.target} if inputs.choice else set())
    live = await list_live(gateway, {name.partition(".")[0] for name in names})
    stamp = inputs.limit.time.strftime("%Y%m%dT%H%M%S")
    if inputs.choice is not None:
        row = Return(inputs.choice.ns, Strategy.COPY, inputs.choice.target)
        taken = inputs.choice.target in live.names
        return Assessed(replayed, returns=(row,), target_taken=taken)
    seen = loss.last or covered.start.newest
    found = await find_accident(
        gateway, inputs.incident, inputs.limit, seen, covered.located.at_limit, names, inputs.evidence
    )
    accident = found.accident
    if inputs.incident is None:
        found = with_removals(found, loss.changed)
    updated = accident.ns if accident.updates else ""
    returns = plan_returns(
        replayed.expected, loss.changed, live.names, inputs.incident, stamp, live.unlisted, updated, live.views
    )
    catalog = covered.replay.catalog
    return Assessed(
        replayed,
        found,
        counters=await _find_counters(gateway, replayed, copy),
        returns=with_again(returns, replayed.base.again, accident),
        definitions=await find_definitions(
            gateway, catalog, loss.changed, live.names - live.views, inputs.incident, returns
        ),
        expiring=await expiry_of(
            gateway, accident, (row.ns for row in returns if row.strategy is Strategy.MERGE and row.ns in live.names)
        ),
        overwritten=await coverage.overwritten(gateway, covered.start),
    )


async def _find_counters(gateway: Gateway, replayed: Replayed, copy: Gateway | None) -> CounterFacts:
    covered, loss, later = replayed.covered, replayed.loss, replayed.later
    inputs, at_point = covered.inputs, covered.replay.catalog.collections
    names = {item.uuid: ns for ns, item in at_point.items() if item.uuid}
    # A collection that was renamed had its inserts under another name, which decides what a counter looks like.
    renamed = {names[uuid] for uuid in covered.replay.timeline.renamed | later.timeline.renamed if uuid in names}
    backup = inputs.contents.backup
    return await find_reissues(
        gateway,
        {ns: item.base for ns, item in at_point.items() if item.base is not None},
        loss.changed,
        covered.start.ts,
        inputs.limit,
        names=names,
        inserted=covered.replay.counter_inserts.found,
        renamed=renamed,
        archive=backup.path if backup.form == ARCHIVE else None,
        copy=copy,
    )
