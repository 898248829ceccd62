"""Turn the entries of an oplog into incidents, slice by slice, with bounded memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from hashlib import sha256

from tallyglass.moment import ZERO, Ts, from_millis
from tallyglass.oplog.entry.batch import UNREADABLE, EntryGroup, Walker, time_of, whole_entries
from tallyglass.oplog.entry.entry import LINKED_WRITES, Entry, read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents import acts, rows
from tallyglass.oplog.incidents.batch_entries import FROM_MIGRATE, BatchEntries, moved_apart
from tallyglass.oplog.incidents.burst import MANY, Burst
from tallyglass.oplog.incidents.commands import FINISHED_LIMIT, CommandRows, bounded
from tallyglass.oplog.incidents.compaction import Compactor, burst_in
from tallyglass.oplog.incidents.explanations import Explanations, is_staging, result_of
from tallyglass.oplog.incidents.recurrence import EPISODE_MILLIS, Window
from tallyglass.oplog.incidents.transaction_runs import TransactionRuns
from tallyglass.oplog.incidents.verdict import judge
from tallyglass.oplog.snapshot import BUCKETS, Harm, Incident, Recurring
from tallyglass.text import clean_name

__all__ = ["FINISHED_LIMIT", "ROUTINE_LIMIT", "Grouper"]

ROUTINE_LIMIT = 500
"""The most rows of routine: more are no help to a reader."""


class EntryClass(IntEnum):
    """What an envelope means for the incidents."""

    IGNORED = 0
    WRITE = 1
    """A delete or update without a session."""
    SESSION_WRITE = 2
    ENTRY = 4
    """The entry must be read: a command, or a change of users, roles or the compatibility version."""


class Grouper:
    """Feed it slices of an oplog, each oldest first and each older or newer than all before it. Read the incidents at
    any time: they do not depend on how the oplog was cut, nor from where it was read.

    Entries that cannot be part of an incident may be left out: see ``MATCH`` in incident.py. ``known`` says which
    collections have a TTL index or are capped; definitions that it reads in the oplog are added.
    """

    def __init__(self) -> None:
        self._walker = Walker(_judge)
        self._writes = Compactor()
        self._transactions = TransactionRuns()
        self._commands = CommandRows()
        self._inner: defaultdict[tuple[int, str, str], list[Burst]] = defaultdict(list)
        """Writes that one entry holds several of, as an envelope of their own would say it."""
        self._newest, self._oldest = ZERO, ZERO
        self._newest_wall: int | None = None
        self._timed, self._ahead_millis = ZERO, 0
        self._cut = 0
        self.known = Explanations()
        self.recurring: tuple[Recurring, ...] = ()
        """The commands of the routine of the last list."""
        self._users: dict[str, str] = {}
        self.fed = 0
        self.damaged = 0
        """Lower bound of the number of unreadable entries: a run of broken bytes counts as one."""

    @property
    def left_out(self) -> int:
        """How many incidents were dropped, to limit memory or the length of the list."""
        return self._commands.left_out + self._cut

    def learn_users(self, names: Iterable[str]) -> None:
        """Note users, each as ``user@db`` as stored: ``lsid.uid`` is the SHA-256 of that."""
        for name in names:
            self._users[sha256(name.encode()).hexdigest()] = clean_name(name, 120)

    def deleted_from(self) -> set[str]:
        """The namespaces of all mass deletes so far, so that the caller can add their definitions to ``known``."""
        families = self._writes.families.values()
        return {one.ns for one in families if one.op == "d" and one.user is None and one.whole.documents > 1}

    def note_newest(self, ts: Ts, wall: int | None) -> None:
        """Note how far the oplog has been read, so that an incident that is still going on is known as such."""
        if ts > self._newest:
            self._newest, self._newest_wall = ts, wall
        if wall is not None and ts > self._timed:
            self._timed, self._ahead_millis = ts, max(ts.t * 1_000 - wall, 0)

    def note_oldest(self, ts: Ts) -> None:
        """Note how far back the oplog was read, even if nothing was found there."""
        if ts != ZERO and (self._oldest == ZERO or ts < self._oldest):
            self._oldest = ts

    def feed_batch(self, batch: bytes) -> None:
        """Take a slice of whole entries. Bytes that are not an entry are skipped and counted in ``damaged``."""
        try:
            groups = self._walker.gather(batch)
        except Malformed:
            self.damaged += 1
            batch = whole_entries(batch)
            groups = self._walker.gather(batch)
        moved = batch.find(FROM_MIGRATE) >= 0
        ends, look = list[tuple[int, int]](), list[tuple[int, int]]()
        for envelope, places, *_ in groups:
            self.fed += len(places) // 2
            if envelope.tag != EntryClass.IGNORED:
                ends += ((places[0], places[1]), (places[-2], places[-1]))
            if envelope.tag == EntryClass.ENTRY:
                look += zip(places[::2], places[1::2], strict=True)
        for start, end in sorted(look):
            try:
                self._read(read_entry(batch[start:end]))
            except Malformed:
                self.damaged += 1
        self._take_transactions()
        for one in groups:
            if one.envelope.tag in (EntryClass.WRITE, EntryClass.SESSION_WRITE):
                self._feed_writes(batch, one, moved=moved)
        for tag, op, ns in list(self._inner):
            self._take_writes(tag, op, ns, None)
        if ends:
            self._note_end(batch, *min(ends))
            self._note_end(batch, *max(ends))

    def _feed_writes(self, batch: bytes, group: EntryGroup, *, moved: bool) -> None:
        envelope = group.envelope
        try:
            if moved:
                group, by_migration = moved_apart(batch, group)
                if by_migration is not None:
                    self._writes.count_moved(envelope.ns, envelope.op, by_migration)
            if not group.places:
                return
            entries = BatchEntries(batch, group.starts, group.ends, group)
            self._take_writes(envelope.tag, envelope.op, envelope.ns, entries)
        except Malformed:
            self.damaged += 1

    def _take_writes(self, tag: int, op: str, ns: str, entries: BatchEntries | None) -> None:
        take = self._writes.plain if tag == EntryClass.WRITE else self._writes.in_sessions
        take(ns, op, entries, self._inner.pop((tag, op, ns), []))

    def _note_end(self, batch: bytes, start: int, end: int) -> None:
        with suppress(Malformed):
            number, wall = time_of(batch, start, end)
            self.note_newest(Ts.of_number(number), wall)
            self.note_oldest(Ts.of_number(number))

    def incidents(self) -> tuple[Incident, ...]:
        """All so far, worst first; ``number`` counts them from 1 by time, oldest first."""
        window = self._window()
        commands, recurring = self._commands.rows(window)
        self.recurring = tuple(recurring)
        routine_commands = (one.row for one in recurring)
        found = [*commands, *routine_commands, *self._transactions.with_known_end(), *self._write_rows(window)]
        acting, routine = [one for one in found if not one.routine], [one for one in found if one.routine]
        shown = [*bounded(acting), *sorted(routine, key=rows.rank)[:ROUTINE_LIMIT]]
        self._cut = len(found) - len(shown)
        shown.sort(key=lambda one: (one.first, one.kind, one.ns))
        return tuple(sorted((self._numbered(one, n) for n, one in enumerate(shown, 1)), key=rows.rank))

    def _numbered(self, row: Incident, number: int) -> Incident:
        """A row as it is shown. Writes are open while the newest known entry is within reach of their end."""
        wall = None if self._newest_wall is None else from_millis(self._newest_wall)
        near = bool(row.op and not row.routine) and rows.millis_after(row, self._newest, wall) <= EPISODE_MILLIS
        user = self._users.get(row.user_hash, "")
        return replace(row, number=number, point=row.limit, user=user, open=row.open or near)

    # Deletes and updates

    def _window(self) -> Window:
        """What was read, by the server's clock: the cluster's time can be ahead of it."""
        return Window(self._oldest.t * 1_000 - self._ahead_millis, self._newest.t * 1_000 - self._ahead_millis)

    def _write_rows(self, window: Window) -> list[Incident]:
        found, alike = list[Incident](), self._writes.alike(self.known.ttl | self.known.capped)
        for family in self._writes.families.values():
            if family.whole.documents > 1:
                found += [rows.row(one, family) for one in judge(family, window, self.known, alike.get(id(family)))]
        return found + [rows.migration_row(family) for family in self._writes.moved.values()]

    # Commands, users and roles, transactions

    def _read(self, entry: Entry) -> None:
        """One entry that is a command, or touches users, roles or the compatibility version."""
        if entry.op == "n":
            self._add(acts.noop_act(entry))
        elif entry.op in "ud" and acts.holds_views(entry.ns):
            self._add(acts.view_act(entry))
        elif entry.op != "c" and not is_staging(entry.ns):
            self._add(acts.system_act(entry))
        elif entry.op != "c":
            self.known.note_return(entry)
        elif entry.in_transaction:
            self._transaction(entry)
        elif entry.command in ("commitTransaction", "abortTransaction"):
            self._transactions.take_end(entry, committed=entry.command == "commitTransaction")
        elif entry.command == "applyOps":
            self._apply_ops(entry)
        else:
            self._command(entry)
        self.note_newest(entry.ts, entry.wall_millis)
        self.note_oldest(entry.ts)

    def _transaction(self, entry: Entry) -> None:
        """One applyOps of a transaction: small ones count as ordinary writes of their session."""
        whole = entry.previous is None and not (entry.flag(b"partialTxn") or entry.flag(b"prepare"))
        counts: Counter[tuple[str, str]] = Counter()
        for inner in entry.inner():
            if inner.ns in acts.SYSTEM and inner.op in "iud":
                self._add(acts.system_act(inner))
            elif inner.op in "ud" and not inner.ns.startswith(acts.INTERNAL) and not inner.from_migrate:
                counts[inner.op, inner.ns] += 1
        if whole and counts.total() < MANY:
            self._in_session(entry, counts)
        if self._transactions.is_full:
            self._take_transactions()
        self._transactions.take(entry)

    def _take_transactions(self) -> None:
        for row in self._transactions.take_complete():
            self._add(row)

    def _in_session(self, entry: Entry, counts: Counter[tuple[str, str]]) -> None:
        session, user = entry.session_and_user
        for (op, ns), count in counts.items():
            burst = burst_in(entry, count, entry.txn_number or 0)
            burst.session, burst.user = session, user
            self._inner[EntryClass.SESSION_WRITE, op, ns].append(burst)

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
                self._add(acts.system_act(inner))
            elif inner.op == "c" and inner.command != "applyOps":
                self._command(inner)
        for (op, ns), count in moved.items():
            self._writes.count_moved(ns, op, burst_in(entry, count))
        if entry.txn_number is not None and entry.multi == LINKED_WRITES:
            self._in_session(entry, counts)
            return
        for (op, ns), count in counts.items():
            self._inner[EntryClass.WRITE, op, ns].append(burst_in(entry, count, inner=samples[op, ns]))

    def _command(self, entry: Entry) -> None:
        name = entry.command
        self.known.learn(entry)
        if entry.from_migrate:
            ns = result_of(entry)
            if not ns.startswith(acts.INTERNAL) and not acts.is_temporary(ns):
                self._writes.count_moved(ns, "c", burst_in(entry, 0))
            return
        if name == "create":
            self._commands.created(entry)
        elif name == "drop" and is_staging(entry.target):
            self.known.note_return(entry)
        elif name == "dropDatabase":
            title = f"dropDatabase {clean_name(entry.db, 120)}"
            self._add(rows.row_of(entry, "dropDatabase", Harm.LOSS, title, entry.db))
        else:
            self._add(acts.command_act(entry))

    def _add(self, row: Incident | None) -> None:
        if row is not None:
            self._commands.add(row, self._window())


def _judge(op: str, ns: str, session: bool) -> EntryClass:
    """What an envelope means: nothing, a delete or update with or without a session, or something to examine."""
    if op == "c" or op == UNREADABLE:
        return EntryClass.ENTRY
    if op == "n":
        return EntryClass.IGNORED if session else EntryClass.ENTRY
    if op in ("i", "u", "d") and ns in acts.SYSTEM:
        return EntryClass.ENTRY
    if (op == "u" and is_staging(ns)) or (op in "ud" and acts.holds_views(ns) and not session):
        return EntryClass.ENTRY
    if op not in ("u", "d") or ns.startswith(acts.INTERNAL) or acts.is_temporary(ns):
        return EntryClass.IGNORED
    if op == "u" and ns.partition(".")[2].startswith(BUCKETS):
        return EntryClass.IGNORED
    return EntryClass.SESSION_WRITE if session else EntryClass.WRITE
