"""What the oplog shows from the point on, read once for all who count it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.proof.findings import Covered
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.progress import Progress, steps
from tallyglass.restore.timeline.timeline import VIEWS


async def read_later(gateway: Gateway, covered: Covered, progress: Progress | None) -> tuple[LossCount, LaterWrites]:
    """Go through the oplog from the point on."""
    replay, inputs = covered.replay, covered.inputs
    loss, later = LossCount(inputs.incident), LaterWrites(replay.timeline, inputs.limit, replay.catalog.ids)
    for parts in covered.open_at_limit:
        if parts[0].txn is not None:
            loss.begin(parts[0].txn, parts)
            later.begin(parts[0].txn, parts)
    query = {"ts": {"$gte": stamp(inputs.limit)}}
    sink = _AfterPoint(loss, later, replay.counter_inserts)
    await walk_oplog(gateway, query, sink, steps(progress, covered.start))
    return loss, later


@dataclass(frozen=True, slots=True)
class _AfterPoint:
    """Takes the entries from the point on."""

    loss: LossCount
    later: LaterWrites
    counter_inserts: CounterInserts

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        if ns.endswith(VIEWS) or not self.loss.write(op, ns, key, place):
            return False
        if op == "i":
            self.counter_inserts.write(ns, batch, o)
        self.later.write(op, ns, ui, key)
        return True

    def feed(self, entry: Entry) -> None:
        self.counter_inserts.feed(entry)
        self.loss.feed(entry)
        self.later.feed(entry)
