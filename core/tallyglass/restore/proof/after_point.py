"""What the oplog shows from the point on, read once for all who count it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import Transactions
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.proof.findings import Covered
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.progress import Progress, reporter
from tallyglass.restore.timeline.timeline import VIEWS


async def read_later(gateway: Gateway, covered: Covered, progress: Progress | None) -> tuple[LossCount, LaterWrites]:
    """Go through the oplog from the point on."""
    replay, inputs = covered.replay, covered.inputs
    loss, later = LossCount(inputs.incident), LaterWrites(replay.timeline, inputs.limit, replay.catalog.ids)
    sink = AfterPoint(loss, later, replay.counter_inserts)
    for parts in covered.open_at_limit:
        if parts[0].txn is not None:
            sink.transactions.begin(parts[0].txn, parts)
    query = {"ts": {"$gte": stamp(inputs.limit)}}
    await walk_oplog(gateway, query, sink, reporter(progress, covered.start))
    return loss, later


@dataclass(frozen=True, slots=True)
class AfterPoint:
    """The sink of the entries from the point on: it puts the operations of transactions in order, and counts them."""

    loss: LossCount
    later: LaterWrites
    counter_inserts: CounterInserts
    transactions: Transactions = field(default_factory=Transactions)

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """Count the write of one document, as :class:`tallyglass.oplog.entry.batch.Sink` describes it."""
        if ns.endswith(VIEWS) or not self.loss.write(op, ns, key, place):
            return False
        if op == "i":
            self.counter_inserts.write(ns, batch, o)
        self.later.write(op, ns, ui, key)
        return True

    def feed(self, entry: Entry) -> None:
        """Count what takes effect with the next entry."""
        self.counter_inserts.feed(entry)
        self.loss.observe(entry)
        if entry.op == "n":
            return
        for operation, whole in self.transactions.feed(entry):
            self.loss.count(operation, whole)
            self.later.record(operation, whole.ts)
