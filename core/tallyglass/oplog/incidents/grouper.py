"""Turn entries into incidents, streaming, in either direction of time, with bounded memory."""

from __future__ import annotations

import heapq
from collections import OrderedDict

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode.envelope import UNREADABLE, Envelope, Walker
from tallyglass.oplog.decode.head import Head, command_of, inner_heads, read_head
from tallyglass.oplog.decode.render import id_text
from tallyglass.oplog.decode.transaction import is_part
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.oplog.incidents import acts, trims
from tallyglass.oplog.incidents.acts import Act, Definitions
from tallyglass.oplog.incidents.database_drops import DATABASE_MILLIS, DatabaseDrops
from tallyglass.oplog.incidents.run import GAP_MILLIS, MASS, Run
from tallyglass.oplog.incidents.transaction_runs import TransactionRuns
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.text import clean_name

FINISHED_LIMIT = 2_000
"""Incidents that are kept; beyond it the least harmful are only counted."""

OPEN_LIMIT = 1_000
_SWEEP_SECONDS = 5
IGNORED, MASS_WRITE, LOOK = 0, 1, 2

Key = tuple[str, ...]


class Grouper:
    """Feed it entries in order, oldest first, or newest first with ``backward``; ask for the incidents at any time.

    Entries that cannot be part of an incident may be left out: see ``MATCH`` in incident.py. ``known`` says which
    collections have a TTL index or are capped; those whose definition passes by are added.
    """

    def __init__(self, *, backward: bool = False) -> None:
        self._backward = backward
        self._walker = Walker(_judge)
        self._open: OrderedDict[Key, Run] = OrderedDict()
        self._transactions = TransactionRuns(backward=backward)
        self._drops = DatabaseDrops()
        self._finished: list[Run] = []
        self._strays: list[Run] = []
        self._left_out = 0
        self._swept = 0
        self._at: Ts = ZERO
        self._at_wall: int | None = None
        self._newest: Ts | None = None
        self._newest_wall: int | None = None
        self.known = Definitions()
        self.fed = 0

    @property
    def left_out(self) -> int:
        """Incidents that were forgotten to bound the memory."""
        return self._left_out

    def deleted_from(self) -> set[str]:
        """The namespaces of all mass deletes so far: whoever knows, adds to ``known``."""
        return {run.ns for run in [*self._open.values(), *self._finished] if run.kind == "deleteMany"}

    def note_newest(self, ts: Ts, wall: int | None) -> None:
        """Say how far the oplog has come, so that an incident that is still going on can be told."""
        if self._newest is None or ts > self._newest:
            self._newest, self._newest_wall = ts, wall

    def feed_batch(self, batch: bytes) -> None:
        """Take a batch of whole entries. Bytes that are no entry are passed over."""
        try:
            counts, chosen = self._walker.tally(batch)
        except Malformed:
            return
        self.fed += sum(counts.values())
        masses: dict[Envelope, list[tuple[int, int]]] = {}
        for start, end, envelope in chosen:
            if envelope.tag == MASS_WRITE:
                masses.setdefault(envelope, []).append((start, end))
            else:
                self._guarded(batch, start, end)
        for envelope, places in masses.items():
            try:
                self._mass(batch, envelope, places)
            except Malformed:
                continue
        self._sweep()

    def incidents(self) -> tuple[Incident, ...]:
        """All so far, worst first; ``number`` counts them from 1 by time, oldest first."""
        runs = [
            run for run in [*self._finished, *self._open.values(), *self._transactions.whole_enough()] if run.counts
        ]
        runs = trims.tell_apart(runs, self.known)
        runs.sort(key=lambda run: (run.first, run.kind, run.ns))
        numbered = [(run, run.incident(n, self._newest, self._newest_wall)) for n, run in enumerate(runs, 1)]
        numbered.sort(key=lambda pair: pair[0].rank)
        return tuple(incident for _, incident in numbered)

    def turn(self) -> None:
        """After all of the past was fed newest first: go on with what comes, oldest first.

        What lies within reach of the newest entry is open again, so that what goes on there stays one incident.
        """
        self._backward = self._transactions.backward = False
        self._drops = DatabaseDrops()
        for key, run in list(self._open.items()):
            if not self._near_newest(run, GAP_MILLIS):
                self._finish(self._open.pop(key))
        reach = [run for run in [*self._finished, *self._strays] if self._near_newest(run, GAP_MILLIS)]
        for run in sorted(reach, key=lambda one: one.last, reverse=True):
            if run.kind in MASS and (run.kind, run.ns) not in self._open:
                self._open[run.kind, run.ns] = run
                self._finished = [one for one in self._finished if one is not run]
        for run in sorted(self._finished, key=lambda one: one.first):
            if run.kind == "drop" and self._near_newest(run, DATABASE_MILLIS):
                self._drops.hold(run)
        self._strays.clear()

    def _near_newest(self, run: Run, millis: int) -> bool:
        return self._newest is not None and run.distance(self._newest, self._newest_wall) <= millis

    def close(self) -> tuple[Incident, ...]:
        """End all runs, and give all incidents, worst first."""
        for run in self._open.values():
            self._finish(run)
        self._open.clear()
        for run in self._transactions.whole_enough():
            self._finish(run)
        self._transactions = TransactionRuns(backward=self._backward)
        self._drops = DatabaseDrops()
        return self.incidents()

    def _guarded(self, batch: bytes, start: int, end: int) -> None:
        try:
            self._look(read_head(batch[start:end]))
        except Malformed:
            return

    def _mass(self, batch: bytes, envelope: Envelope, places: list[tuple[int, int]]) -> None:
        """Deletes or updates of one namespace: only the ends of a stretch are parsed, if it has no hole."""
        ends = [read_head(batch[start:end]) for start, end in (places[0], places[-1])]
        apart = abs((ends[0].wall_millis or 0) - (ends[1].wall_millis or 0))
        if len(places) > 1 and apart > GAP_MILLIS:
            for start, end in places:
                self._mass(batch, envelope, [(start, end)])
            return
        kind = "deleteMany" if envelope.op == "d" else "updateMany"
        run = self._mass_run(kind, envelope.ns, ends[0])
        heads = ends[:1] if len(places) == 1 else ends
        for head in heads:
            run.add(head.ts, head.wall_millis, 1, 1)
            self._sample(run, head)
        run.add(heads[-1].ts, None, len(places) - len(heads), len(places) - len(heads))
        self._saw(heads[-1])

    def _mass_run(self, kind: str, ns: str, head: Head) -> Run:
        harm = Harm.LOSS if kind == "deleteMany" else Harm.CHANGE
        return self._run((kind, ns), Act(kind, harm, f"{kind} on {clean_name(ns, 255)}", ns), head, GAP_MILLIS)

    def _run(self, key: Key, act: Act, head: Head, reach: int) -> Run:
        """The open run of that key that reaches to this entry, or a new one."""
        run = self._open.get(key)
        if run is not None and run.distance(head.ts, head.wall_millis) > reach:
            self._finish(self._open.pop(key))
            run = None
        if run is None:
            run = act.run(head)
            self._open[key] = run
            if len(self._open) > OPEN_LIMIT:
                self._finish(self._open.popitem(last=False)[1])
        return run

    def _sample(self, run: Run, head: Head) -> None:
        found = head.document_id
        if found is not None:
            run.samples.append(id_text(head.raw, found, 60))

    def _look(self, head: Head) -> None:
        """One entry that is a command, or touches users, roles or the compatibility version."""
        if head.op != "c":
            self._one(acts.system_act(head), head)
        elif is_part(head):
            self._finish(self._transactions.take(head))
        elif _name(head) in (b"commitTransaction", b"abortTransaction"):
            committed = _name(head) == b"commitTransaction"
            self._finish(self._transactions.take_end(head, committed=committed))
        elif _name(head) == b"applyOps":
            self._apply_ops(head)
        else:
            self._command(head)
        self._saw(head)

    def _apply_ops(self, head: Head) -> None:
        """Batched deletes (6.1), or an applyOps that somebody ran: each operation counts for itself."""
        touched: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, str], Head] = {}
        for inner in inner_heads(head):
            if inner.op in "du" and _judge(inner.op, inner.ns, False) == MASS_WRITE:
                key = (inner.op, inner.ns)
                touched[key] = touched.get(key, 0) + 1
                last[key] = inner
            elif inner.op == "c" and _name(inner) != b"applyOps":
                self._command(inner)
        for (op, ns), count in touched.items():
            run = self._mass_run("deleteMany" if op == "d" else "updateMany", ns, head)
            run.add(head.ts, head.wall_millis, 1, count)
            self._sample(run, last[op, ns])

    def _command(self, head: Head) -> None:
        name = _name(head)
        self.known.learn(head)
        if name == b"dropDatabase":
            run, drops = self._drops.take_database(head, backward=self._backward)
            gone = {id(drop) for drop in drops}
            self._finished = [one for one in self._finished if id(one) not in gone]
            self._finish(run)
            return
        act = acts.command_act(head)
        if name == b"drop":
            if act is not None:
                self._finish(self._drops.take(act, head))
            return
        self._drops.forget(head.db)
        self._one(act, head)

    def _one(self, act: Act | None, head: Head) -> None:
        """An act by one entry, or one that joins a run of its like."""
        if act is None:
            return
        if not act.key:
            run = act.run(head)
            run.add(head.ts, head.wall_millis, 1, act.documents)
            self._finish(run)
            return
        if act.ends and self._backward:
            self._end(act.key)
        run = self._run(act.key, act, head, act.reach)
        run.add(head.ts, head.wall_millis, 1, act.documents)
        if act.ends and not self._backward:
            self._end(act.key)

    def _end(self, key: Key) -> None:
        run = self._open.pop(key, None)
        if run is not None:
            run.closed = True
            self._finish(run)

    def _finish(self, run: Run | None) -> None:
        if run is None:
            return
        if not run.counts:
            if self._backward and self._near_newest(run, GAP_MILLIS):
                self._strays.append(run)
            return
        self._finished.append(run)
        if len(self._finished) > FINISHED_LIMIT * 2:
            kept = heapq.nsmallest(FINISHED_LIMIT, self._finished, key=lambda one: one.rank)
            self._left_out += len(self._finished) - len(kept)
            self._finished = kept

    def _saw(self, head: Head) -> None:
        """Note how far the stream has come."""
        self.note_newest(head.ts, head.wall_millis)
        self._at, self._at_wall = head.ts, head.wall_millis

    def _sweep(self) -> None:
        """Now and then, between batches, end what is out of reach."""
        if abs(self._at.t - self._swept) < _SWEEP_SECONDS:
            return
        self._swept = self._at.t
        for key, run in list(self._open.items()):
            if key[0] in MASS and run.distance(self._at, self._at_wall) > GAP_MILLIS:
                self._finish(self._open.pop(key))
        self._drops.sweep(self._at, self._at_wall)


def _name(head: Head) -> bytes:
    first = command_of(head)
    return first.name if first is not None else b""


def _judge(op: str, ns: str, session: bool) -> int:
    """What an envelope means: nothing, one of a mass of deletes or updates, or something to look at."""
    if op == "c" or op == UNREADABLE:
        return LOOK
    if op in ("i", "u", "d") and ns in acts.SYSTEM:
        return LOOK
    if op in ("u", "d") and not session and not ns.startswith(acts.INTERNAL):
        return MASS_WRITE
    return IGNORED
