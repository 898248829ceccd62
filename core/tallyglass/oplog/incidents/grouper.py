"""Turn entries into incidents, streaming, in either direction of time, with bounded memory."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import IntEnum

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry.batch import UNREADABLE, EntryGroup, Walker, position, stamp, whole_entries
from tallyglass.oplog.entry.entry import LINKED_WRITES, Entry, read_entry
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.layout import is_before_ts
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents import acts, fold, rows, session_verdict, verdict
from tallyglass.oplog.incidents.acts import Act, CollectionDefinitions
from tallyglass.oplog.incidents.compaction import Compactor, piece_of
from tallyglass.oplog.incidents.database_drops import DATABASE_MILLIS, DatabaseDrops, Remakes
from tallyglass.oplog.incidents.families import BURST_LIMIT, Family, Writes
from tallyglass.oplog.incidents.run import Run
from tallyglass.oplog.incidents.transaction_runs import LARGE, TransactionRuns
from tallyglass.oplog.incidents.users import UserNames
from tallyglass.oplog.incidents.verdict import Explained, FamilyVerdict, Window
from tallyglass.oplog.snapshot import Incident

FINISHED_LIMIT = 2_000
"""The most incidents kept; above that the least harmful are only counted, but never the only one of a kind."""

ROUTINE_LIMIT = 500
KIND_QUOTA = 100
OPEN_LIMIT = 1_000
MIGRATION_LIMIT = 5_000

_FROM_MIGRATE = b"\x08fromMigrate\0\x01"
_BUCKETS = "system.buckets."
_SWEEP_SECONDS = 5

Key = tuple[str, ...]


class EntryClass(IntEnum):
    """What an envelope means for the incidents."""

    IGNORED = 0
    WRITE = 1
    """A delete or update without a session."""
    SESSION_WRITE = 2
    ENTRY = 4
    """The entry must be read: a command, or a change of users, roles or the compatibility version."""


class Grouper:
    """Feed it entries in order: oldest first, or newest first with ``backward``. Read the incidents at any time.

    Entries that cannot be part of an incident may be left out: see ``MATCH`` in incident.py. ``known`` says which
    collections have a TTL index or are capped; definitions that it reads in the oplog are added. ``users`` names the
    users that sessions belong to.
    """

    def __init__(self, *, backward: bool = False) -> None:
        self._backward = backward
        self._walker = Walker(_judge)
        self._writes = Compactor(self._compress, backward=backward)
        self._open: OrderedDict[Key, Run] = OrderedDict()
        self._transactions = TransactionRuns(backward=backward)
        self._drops = DatabaseDrops()
        self._remakes = Remakes()
        self._finished: list[Run] = []
        self._migrated: dict[tuple[str, str], Family] = {}
        self._left_out: Counter[str] = Counter()
        self._swept = 0
        self._at: Ts = ZERO
        self._at_wall: int | None = None
        self._newest: Ts | None = None
        self._newest_wall: int | None = None
        self._oldest: Ts | None = None
        self._cut = 0
        self.known = CollectionDefinitions()
        self.users = UserNames()
        self.fed = 0
        self.damaged = 0
        """Lower bound of the number of unreadable entries: a run of broken bytes counts as one."""

    @property
    def left_out(self) -> int:
        """How many incidents were dropped, to limit memory or the length of the list."""
        return self._left_out.total() + self._cut

    def deleted_from(self) -> set[str]:
        """The namespaces of all mass deletes so far, so that the caller can add their definitions to ``known``."""
        return {
            family.ns
            for family in self._writes.families.values()
            if family.op == "d" and family.writes is Writes.PLAIN and (family.documents > 1)
        }

    def note_newest(self, ts: Ts, wall: int | None) -> None:
        """Note how far the oplog has been read, so that an incident that is still going on is known as such."""
        if self._newest is None or ts > self._newest:
            self._newest, self._newest_wall = ts, wall
            self._writes.note_newest(ts)

    def note_oldest(self, ts: Ts) -> None:
        """Note how far back the oplog was read, even if nothing was found there."""
        if ts != ZERO and (self._oldest is None or ts < self._oldest):
            self._oldest = ts

    def feed_batch(self, batch: bytes) -> None:
        """Take a batch of whole entries. Bytes that are not an entry are skipped and counted in ``damaged``."""
        try:
            groups = self._walker.gather(batch)
        except Malformed:
            self.damaged += 1
            batch = whole_entries(batch)
            groups = self._walker.gather(batch)
        if not groups:
            return
        moved = batch.find(_FROM_MIGRATE) >= 0
        first, last, look = len(batch), -1, list[tuple[int, int]]()
        for envelope, places, *_ in groups:
            self.fed += len(places) // 2
            if envelope.tag == EntryClass.IGNORED:
                continue
            if places[0] < first:
                first, first_end = places[0], places[1]
            if places[-2] > last:
                last, last_end = places[-2], places[-1]
            if envelope.tag == EntryClass.ENTRY:
                look += zip(places[::2], places[1::2], strict=True)
        for start, end in sorted(look):
            self._guarded(batch, start, end)
        for one in groups:
            if one.envelope.tag in (EntryClass.WRITE, EntryClass.SESSION_WRITE):
                kept = self._without_moved(batch, one) if moved else one
                if kept.places:
                    self._feed_writes(batch, kept)
        if last >= 0:
            self._note_end(batch, first, first_end)
            self._note_end(batch, last, last_end)
        self._sweep()

    def _feed_writes(self, batch: bytes, group: EntryGroup) -> None:
        try:
            if group.envelope.tag == EntryClass.WRITE:
                self._writes.plain(batch, group)
            else:
                self._writes.in_sessions(batch, group)
        except Malformed:
            self.damaged += 1

    def _without_moved(self, batch: bytes, group: EntryGroup) -> EntryGroup:
        """Remove the entries that a migration wrote, and count them."""
        envelope, kept, moved = group.envelope, list[int](), list[int]()
        for start, end in zip(group.starts, group.ends, strict=True):
            if batch.find(_FROM_MIGRATE, start, end) < 0 or not self._is_moved(batch, start, end):
                kept += (start, end)
            else:
                moved += (start, end)
        if moved:
            stamps = [stamp(batch, *moved[:2]), stamp(batch, *moved[-2:])]
            family = self._moved_family(envelope.op, envelope.ns)
            family.count_all(len(moved) // 2, (stamps[0], stamps[1]), ())
        return group._replace(places=kept)

    def _note_end(self, batch: bytes, start: int, end: int) -> None:
        try:
            number, wall, _ = stamp(batch, start, end)
            ts = Ts.of_number(number)
        except Malformed:
            ts, wall = position(batch, start, end)[0], 0
        if ts != ZERO:
            self.note_newest(ts, wall)
            self.note_oldest(ts)
            self._at, self._at_wall = ts, wall

    def incidents(self) -> tuple[Incident, ...]:
        """All so far, worst first; ``number`` counts them from 1 by time, oldest first."""
        found = [*self._finished, *self._open.values(), *self._transactions.with_known_end(), *self._write_runs()]
        acting = [run for run in found if not run.reason]
        kept = _bounded(acting)
        routine = [run for run in found if run.reason]
        routine.sort(key=lambda run: run.rank)
        self._cut = len(acting) - len(kept) + max(len(routine) - ROUTINE_LIMIT, 0)
        runs = [*kept, *routine[:ROUTINE_LIMIT]]
        for run in runs:
            run.user = self.users.name_of(run.user_hash)
        runs.sort(key=lambda run: (run.first, run.kind, run.ns))
        numbered = [(run, run.incident(n, self._newest, self._newest_wall)) for n, run in enumerate(runs, 1)]
        numbered.sort(key=lambda pair: pair[0].rank)
        return tuple(incident for _, incident in numbered)

    def turn(self) -> None:
        """Continue with new entries, oldest first, after the past was fed newest first.

        Incidents within reach of the newest entry are open again, so that one that continues stays one incident.
        """
        self._backward = self._transactions.backward = False
        self._writes.turn()
        self._drops = DatabaseDrops()
        for run in sorted(self._finished, key=lambda one: one.first):
            if run.kind == "drop" and self._near_newest(run, DATABASE_MILLIS):
                self._drops.hold(run)

    def close(self) -> tuple[Incident, ...]:
        """End all runs, and return all incidents, worst first."""
        for run in self._open.values():
            self._finish(run)
        self._open.clear()
        for run in self._transactions.with_known_end():
            self._finish(run)
        self._transactions = TransactionRuns(backward=self._backward)
        self._drops = DatabaseDrops()
        return self.incidents()

    # Deletes and updates

    def _window(self) -> Window:
        newest, oldest = self._newest or ZERO, self._oldest or ZERO
        return Window(oldest.t * 1_000, newest.t * 1_000)

    def _explained(self, family: Family) -> Explained:
        ns, known = family.ns, self.known
        return Explained(ns in known.ttl, ns in known.capped, known.since.get(ns, ZERO).number)

    def _compress(self, family: Family) -> None:
        forgotten = family.forgotten
        pool = self._pool_of(family)
        fold.compress(family, pool, self._window(), self._explained(family), BURST_LIMIT // 2)
        self._left_out[family.op] += family.forgotten - forgotten

    def _write_runs(self) -> list[Run]:
        writes, window, found = self._writes, self._window(), list[Run]()
        writes.index_open_runs()
        for family in list(writes.families.values()):
            if family.documents < 2 or family.writes is Writes.FAN_OUT:
                continue
            if family.writes is Writes.PLAIN:
                verdicts = verdict.judge_plain(family, window, self._explained(family))
                found += self._as_runs(verdicts, family)
                continue
            runs = writes.runs_of(family)
            pool = self._pool_of(family)
            judged = session_verdict.judge_runs(family, runs, window, pool)
            spread = session_verdict.judge_fan_out(pool, judged, runs, window) if pool is not None else []
            found += self._as_runs(judged, family)
            found += [rows.act_run(one, pool) for one in spread if pool is not None]
        return found + [rows.migration_run(family) for family in self._migrated.values()]

    def _pool_of(self, family: Family) -> Family | None:
        """The writes of all sessions on the namespace of a family of runs."""
        if family.writes is not Writes.SESSION:
            return None
        return self._writes.families.get((family.ns, family.op, Writes.FAN_OUT))

    def _as_runs(self, verdicts: FamilyVerdict, family: Family) -> list[Run]:
        found = [rows.act_run(act, family) for act in verdicts.acts]
        if verdicts.routine is not None:
            found.append(rows.routine_run(verdicts.routine, family))
        return found

    def _is_moved(self, batch: bytes, start: int, end: int) -> bool:
        """Whether a migration wrote this entry."""
        if is_before_ts(batch, end, _FROM_MIGRATE):
            return True
        try:
            return read_entry(batch[start:end]).from_migrate
        except Malformed:
            return False

    def _moved(self, op: str, ns: str, entry: Entry, documents: int) -> None:
        self._moved_family(op, ns).count(piece_of(entry, documents))

    def _moved_family(self, op: str, ns: str) -> Family:
        key = (ns, op)
        if key not in self._migrated and len(self._migrated) >= MIGRATION_LIMIT:
            key = ("", op)
        return self._migrated.setdefault(key, Family(key[0], op, Writes.PLAIN))

    # Commands, users and roles, transactions

    def _near_newest(self, run: Run, millis: int) -> bool:
        return self._newest is not None and run.distance(self._newest, self._newest_wall) <= millis

    def _guarded(self, batch: bytes, start: int, end: int) -> None:
        try:
            self._read(read_entry(batch[start:end]))
        except Malformed:
            self.damaged += 1

    def _read(self, entry: Entry) -> None:
        """One entry that is a command, or touches users, roles or the compatibility version."""
        if entry.op == "n":
            self._add_act(acts.noop_act(entry), entry)
        elif entry.op != "c":
            self._add_act(acts.system_act(entry), entry)
        elif entry.in_transaction:
            self._transaction(entry)
        elif entry.command in ("commitTransaction", "abortTransaction"):
            self._finish(self._transactions.take_end(entry, committed=entry.command == "commitTransaction"))
        elif entry.command == "applyOps":
            self._apply_ops(entry)
        else:
            self._command(entry)
        self.note_newest(entry.ts, entry.wall_millis)
        self.note_oldest(entry.ts)
        self._at, self._at_wall = entry.ts, entry.wall_millis

    def _transaction(self, entry: Entry) -> None:
        """One applyOps of a transaction: small ones count as ordinary writes of their session."""
        whole = entry.previous is None and not (entry.flag(b"partialTxn") or entry.flag(b"prepare"))
        counts: Counter[tuple[str, str]] = Counter()
        for inner in entry.inner():
            if inner.ns in acts.SYSTEM and inner.op in "iud":
                self._add_act(acts.system_act(inner), inner)
            elif inner.op in "ud" and not inner.ns.startswith(acts.INTERNAL) and not inner.from_migrate:
                counts[inner.op, inner.ns] += 1
        if whole and counts.total() < LARGE // 5:
            self._in_session(entry, counts)
        self._finish(self._transactions.take(entry))

    def _in_session(self, entry: Entry, counts: Counter[tuple[str, str]]) -> None:
        session, user = entry.session_and_user
        for (op, ns), count in counts.items():
            piece = piece_of(entry, count, -1 if entry.txn_number is None else entry.txn_number)
            self._writes.add_to_run(ns, op, session, user, piece)

    def _apply_ops(self, entry: Entry) -> None:
        """Batched deletes (6.1), a session's writes in one entry, or an applyOps that a user ran."""
        counts: Counter[tuple[str, str]] = Counter()
        moved: Counter[tuple[str, str]] = Counter()
        samples: dict[tuple[str, str], Entry] = {}
        for inner in entry.inner():
            if inner.from_migrate:
                moved[inner.op, inner.ns] += 1
            elif inner.op in "du" and _judge(inner.op, inner.ns, False) == EntryClass.WRITE:
                counts[inner.op, inner.ns] += 1
                samples.setdefault((inner.op, inner.ns), inner)
            elif inner.op in "iud" and inner.ns in acts.SYSTEM:
                self._add_act(acts.system_act(inner), inner)
            elif inner.op == "c" and inner.command != "applyOps":
                self._command(inner)
        for (op, ns), count in moved.items():
            self._moved(op, ns, entry, count)
        if entry.txn_number is not None and entry.multi == LINKED_WRITES:
            self._in_session(entry, counts)
            return
        for (op, ns), count in counts.items():
            found = samples[op, ns].id_at
            sample = id_text(entry.raw, found, 60) if found is not None else ""
            family = self._writes.family(ns, op, Writes.PLAIN)
            self._writes.add_plain(family, piece_of(entry, count, sample=sample))

    def _command(self, entry: Entry) -> None:
        name = entry.command
        self.known.learn(entry)
        if entry.from_migrate:
            ns = acts.result_of(entry)
            if not ns.startswith(acts.INTERNAL) and not acts.is_temporary(ns):
                self._moved("c", ns, entry, 0)
            return
        if name == "dropDatabase":
            run, drops = self._drops.take_database(entry, backward=self._backward)
            absorbed = {id(drop) for drop in drops}
            self._finished = [one for one in self._finished if id(one) not in absorbed]
            self._finish(run)
            return
        act = acts.command_act(entry)
        if name == "create":
            self._remakes.created(entry.target, entry)
        if name == "drop":
            if act is not None:
                drop = self._drops.take(act, entry)
                self._remakes.dropped(drop)
                self._finish(drop)
            return
        self._drops.forget(entry.db)
        self._add_act(act, entry)

    def _add_act(self, act: Act | None, entry: Entry) -> None:
        """An act of one entry, which may join an open run of the same kind."""
        if act is None:
            return
        if not act.key:
            run = act.run(entry)
            run.add(entry.ts, entry.wall_millis, 1, act.documents)
            self._finish(run)
            return
        if act.ends and self._backward:
            self._end(act.key)
        run = self._run(act.key, act, entry, act.reach)
        run.add(entry.ts, entry.wall_millis, 1, act.documents)
        if act.ends and not self._backward:
            self._end(act.key)

    def _run(self, key: Key, act: Act, entry: Entry, reach: int) -> Run:
        """The open run of that key within reach of this entry, or a new one."""
        run = self._open.get(key)
        if run is not None and run.distance(entry.ts, entry.wall_millis) > reach:
            self._finish(self._open.pop(key))
            run = None
        if run is None:
            run = act.run(entry)
            self._open[key] = run
            if len(self._open) > OPEN_LIMIT:
                self._finish(self._open.popitem(last=False)[1])
        return run

    def _end(self, key: Key) -> None:
        run = self._open.pop(key, None)
        if run is not None:
            run.closed = True
            self._finish(run)

    def _finish(self, run: Run | None) -> None:
        if run is None:
            return
        self._finished.append(run)
        if len(self._finished) > FINISHED_LIMIT * 2:
            kept = _bounded(self._finished)
            self._left_out["c"] += len(self._finished) - len(kept)
            self._finished = kept

    def _sweep(self) -> None:
        """From time to time, between batches, forget drops that no dropDatabase can follow any more."""
        if abs(self._at.t - self._swept) < _SWEEP_SECONDS:
            return
        self._swept = self._at.t
        self._drops.sweep(self._at, self._at_wall)


def _bounded(runs: Iterable[Run]) -> list[Run]:
    """Apply the limit: the worst of each kind and the first of each namespace are kept before all others."""
    ordered = sorted(runs, key=lambda run: run.rank)
    if len(ordered) <= FINISHED_LIMIT:
        return ordered
    kinds: Counter[str] = Counter()
    names: Counter[str] = Counter()
    ranked = []
    for place, run in enumerate(ordered):
        kinds[run.kind] += 1
        names[run.ns] += 1
        preferred = 0 if kinds[run.kind] <= KIND_QUOTA else 1 if names[run.ns] == 1 else 2
        ranked.append((preferred, place, run))
    ranked.sort(key=lambda one: one[:2])
    return [run for _, _, run in ranked[:FINISHED_LIMIT]]


def _judge(op: str, ns: str, session: bool) -> EntryClass:
    """What an envelope means: nothing, a delete or update with or without a session, or something to examine."""
    if op == "c" or op == UNREADABLE:
        return EntryClass.ENTRY
    if op == "n":
        return EntryClass.IGNORED if session else EntryClass.ENTRY
    if op in ("i", "u", "d") and ns in acts.SYSTEM:
        return EntryClass.ENTRY
    if op not in ("u", "d") or ns.startswith(acts.INTERNAL) or acts.is_temporary(ns):
        return EntryClass.IGNORED
    if op == "u" and ns.partition(".")[2].startswith(_BUCKETS):
        return EntryClass.IGNORED
    return EntryClass.SESSION_WRITE if session else EntryClass.WRITE
