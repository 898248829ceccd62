"""Predicts what mongorestore will do with a run of oplog entries. Pure; fed one entry at a time.

Follows ``mongorestore --oplogReplay`` (100.15 and newer) without ``--preserveUUID``: which entries it skips, applies or
refuses, what counts in its line "applied N oplog entries", and which collections and indexes exist at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import Transactions
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.proof.catalog import Catalog, Collection
from tallyglass.restore.proof.command_effects import Commands
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.timeline.chains import Problem, is_complete, is_left_out
from tallyglass.restore.timeline.timeline import Timeline
from tallyglass.text import clean, clean_name

KEPT_CONFIG = frozenset({"chunks", "collections", "databases", "settings", "shards", "tags", "version"})
SKIPPED_OPS = frozenset({"n", "cd", "ci", "cu", "km"})
SKIPPED_COMMANDS = frozenset({"startIndexBuild", "abortIndexBuild", "setMultikeyMetadata", "dropIdent"})
"""Commands that mongorestore skips. ``dropIdent`` (MongoDB 9.0) since 100.18, which that server needs anyway."""

_USERS = ("system.users", "system.roles")


class Removals(Enum):
    """How the oplog records the documents that a capped collection removes to make room for new ones."""

    UNLOGGED = "each member removes its own: how many documents are left cannot be computed"
    REFUSED = "each is an entry that a replay stops at: left out, since the spare removes its own oldest documents"
    REPLAYED = "each is an entry like any other"

    @classmethod
    def of(cls, version: tuple[int, int] | None) -> Removals:
        """What a server of this version logs. Tested on 4.4.2, 5.0.4, 6.0.5 and 6.0.27."""
        if version is None or version >= (6, 0):
            return cls.REPLAYED
        return cls.REFUSED if version >= (5, 0) else cls.UNLOGGED


class Replay:
    """Feed entries in order with :meth:`feed`, then read the resulting state. ``running``: the spare runs on a copy of
    the data files, so mongorestore does not know its indexes."""

    def __init__(
        self,
        stored: Mapping[str, StoredCollection],
        *,
        upserts: bool = True,
        removals: Removals = Removals.REPLAYED,
        running: bool = False,
        without: frozenset[Ts] = frozenset(),
        begun_after: Ts | None = None,
    ) -> None:
        self.catalog = Catalog(stored, running=running, counts_capped=removals is not Removals.UNLOGGED)
        self.upserts = upserts
        """Whether an update of a missing document inserts it, as servers before 8.1 do during a replay."""
        self.removals = removals
        self.without = without
        """Entries that are left out of the file: updates of documents that a later delete removes anyway, and groups
        whose effect the backup holds."""
        self._places_without = frozenset(ts.number for ts in without)
        self.applied = 0
        self.entries = 0
        self.bytes = 0
        self.first: Ts | None = None
        self.problems: list[Problem] = []
        self.kinds: set[str] = set()
        """Operations that a check reports: rename, collMod, dropIndexes, views, timeseries, validator, users."""
        self.on_missing_collection: dict[Ts, tuple[str, bytes]] = {}
        """Entries to leave out, with the namespace and the UUID of the collection that no longer exists."""
        self.capped_deletes: list[Ts] = []
        """Deletes on capped collections to leave out, if ``removals`` are refused."""
        self.left_to_repair: list[Ts] = []
        """Entries to leave out: the repair makes the indexes what they must be."""
        self.groups_on_missing_collections: dict[Ts, tuple[str, bytes]] = {}
        """Transactions and groups all of whose operations are on such collections. They were not applied;
        read the window again with :meth:`groups_to_leave_out` in ``without``."""
        self.unlinked: dict[Ts, Ts] = {}
        """Entries of a transaction whose beginning lies before the window: its last entry here and the link to it."""
        self.unopened_views: set[str] = set()
        """Databases where a view is written before ``system.views`` exists."""
        self._stored = frozenset(item.uuid for item in self.catalog.collections.values() if item.uuid)
        self._begun_after = begun_after
        self._split: list[tuple[frozenset[Ts], frozenset[bytes]]] = []
        self._commands = Commands(self.catalog, self.kinds, self._problem, running=running)
        if any(item.options.get("recordIdsReplicated") for item in stored.values()):
            self.kinds.add("recordIds")
        if any("encryptedFields" in item.options for item in stored.values()):
            self.kinds.add("encrypted")
        self._validated = any("validator" in item.options for item in stored.values())
        self._transactions = Transactions()
        self.timeline = Timeline()
        self.counter_inserts = CounterInserts()
        self._term = -1
        self._last = -1
        self._plain: dict[str, Collection | None] = {}

    def feed(self, entry: Entry) -> None:
        """Apply the next entry of the window."""
        self.timeline.feed(entry)
        self.counter_inserts.feed(entry)
        self._plain.clear()
        self._check_order(entry)
        if is_left_out(entry.ns):
            self._report_left_out(entry)
            return
        if entry.ts in self.without:
            self._lose_count(entry)
            return
        parts = self._parts(entry) if entry.chained or entry.txn is not None else []
        if entry.txn is not None:
            if parts and is_complete(parts) and not self._all_dead(parts):
                for inner in chain.from_iterable(part.inner() for part in parts):
                    self._apply(inner, top=False)
        elif self._is_dead(entry):
            self.on_missing_collection[entry.ts] = (_place(entry), entry.ui)
            return
        elif self._makes_room(entry):
            self.capped_deletes.append(entry.ts)
            self._document(entry, top=True)
            return
        elif self._commands.is_left_to_repair(entry):
            self.left_to_repair.append(entry.ts)
            self._commands.apply(entry)
            return
        elif entry.command == "applyOps" and self._all_dead([entry]):
            return
        else:
            self._apply(entry, top=True)
        self.entries += 1
        self.bytes += entry.size
        self.first = self.first or entry.ts
        self._last = entry.ts.number

    def _check_order(self, entry: Entry) -> None:
        if self.last is not None and entry.ts <= self.last:
            self._problem("order", f"the oplog goes from {self.last} back to {entry.ts}", entry)
        if entry.term is not None:
            if entry.term < self._term:
                self._problem("order", f"the term goes from {self._term} back to {entry.term} at {entry.ts}", entry)
            self._term = entry.term

    @property
    def last(self) -> Ts | None:
        """The newest entry of the file; None before the first."""
        return None if self._last < 0 else Ts.of_number(self._last)

    @property
    def is_plain(self) -> bool:
        """Whether tools before 100.15 replay it as newer ones do: it holds no validator, no changed and no encrypted
        collection."""
        return not self._validated and self.kinds.isdisjoint({"collMod", "validators", "recordIds", "encrypted"})

    @property
    def needs_set(self) -> bool:
        """Whether the spare must be a replica set: a standalone server refuses collections with Queryable Encryption.
        Tested on 6.0.5."""
        return "encrypted" in self.kinds

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """Apply an insert, update or delete, as :class:`tallyglass.oplog.entry.batch.Sink` describes it."""
        try:
            found = self._plain[ns]
        except KeyError:
            found = self._plain[ns] = self._plain_collection(ns)
        if found is None or place <= self._last or term < self._term or place in self._places_without:
            return False
        if op == "i":
            self.counter_inserts.write(ns, batch, o)
        self._term = term
        self._last = place
        self.applied += 1
        self.entries += 1
        self.bytes += size
        if self.first is None:
            self.first = Ts.of_number(place)
        touched = found.touched
        if touched is not None:
            touched.touch(key, op, None if self.upserts else place)
        return True

    def _plain_collection(self, ns: str) -> Collection | None:
        """The collection whose writes only need counting; None if they need more."""
        found = self.catalog.collections.get(ns)
        special = is_left_out(ns) or _ignored(ns) or ".system." in ns
        if found is None or special or (found.is_capped and self.removals is not Removals.REPLAYED):
            return None
        return found

    def open_transactions(self) -> list[list[Entry]]:
        """The entries of each transaction that has begun and has neither committed nor aborted so far."""
        return [parts for txn, parts in self._transactions.open.items() if txn.session]

    def finish(self) -> None:
        """End the window: decide what could not be decided before."""
        self.catalog.end()
        for txn, parts in self._transactions.open.items():
            if not txn.session:
                text = f"a batched write that began at {parts[0].ts} ends after the point"
                self.problems.append(Problem("batch-cut", text, parts[0].ts))
        dropped = self.timeline.is_dropped_by
        self.problems += [problem for problem, uuid in self._commands.overlaps if not dropped(uuid, self._begun_after)]
        for ts, ns in self.unexplained().items():
            self.problems.append(
                Problem("base-incomplete", f"{clean_name(ns)} is written at {ts} but is not in the backup", ts)
            )

    def unexplained(self) -> dict[Ts, str]:
        """Entries on collections that are missing though nothing dropped or renamed them: the backup lacks them."""
        dead = self.on_missing_collection | self.groups_on_missing_collections
        gone = self.timeline.is_gone
        return {ts: ns for ts, (ns, uuid) in dead.items() if uuid not in self._stored and not gone(uuid)}

    def groups_to_leave_out(self) -> frozenset[Ts]:
        """Entries of transactions and groups that cannot be applied and are not needed.

        These are the dead groups, and the groups with some writes to a collection that was dropped before the backup
        began: the backup no longer saw that collection, so it saw everything else in the group.
        """
        past = (places for places, uuids in self._split if all(map(self._left_before_backup, uuids)))
        return frozenset(self.groups_on_missing_collections).union(*past)

    def _left_before_backup(self, uuid: bytes) -> bool:
        """Whether the backup no longer saw a collection under its old name: it was dropped, or has another name
        there."""
        return uuid in self._stored or self.timeline.is_dropped_by(uuid, self._begun_after)

    # --- one entry -------------------------------------------------------------------------------------------

    def _report_left_out(self, entry: Entry) -> None:
        if entry.db != "admin" or entry.op in SKIPPED_OPS:
            return
        if entry.document_id == "featureCompatibilityVersion" and entry.ns == "admin.system.version":
            self._problem("fcv-change", f"the feature compatibility version is changed at {entry.ts}", entry)
        elif entry.ns.partition(".")[2] in _USERS:
            self.kinds.add("users")
        elif not entry.ns.partition(".")[2].startswith("system."):
            self.kinds.add("admin-collections")

    def _parts(self, entry: Entry) -> list[Entry]:
        """The entries of the transaction that ``entry`` commits, or of the batched write without a session that it
        ends. The server applies those with the last; mongorestore applies each by itself, so all must be in the window
        or none."""
        if entry.previous is not None and self._transactions.key(entry) not in self._transactions.open:
            self.unlinked[entry.ts] = entry.previous
        return self._transactions.complete(entry)

    def _lose_count(self, entry: Entry) -> None:
        """Drop the counts of collections that were removed before the backup: what a skipped group did to them is
        unknown."""
        for inner in entry.inner():
            found = self.catalog.collections.get(inner.ns)
            if found is not None and found.base is None:
                found.touched = None

    def _all_dead(self, parts: Sequence[Entry]) -> bool:
        """Whether the whole group is on collections that do not exist; then all its entries can be left out."""
        operations = [inner for part in parts for inner in part.inner() if not _ignored(inner.ns)]
        made = {inner.ui for inner in operations if inner.command == "create" and not self._is_dead(inner)}
        dead = [inner for inner in operations if inner.ui not in made and self._is_dead(inner)]
        if not dead:
            return False
        if len(dead) < len(operations):
            self._split.append((frozenset(part.ts for part in parts), frozenset(inner.ui for inner in dead)))
            return False
        for part in parts:
            self.groups_on_missing_collections[part.ts] = (operations[0].ns, operations[0].ui)
        return True

    def _is_dead(self, entry: Entry) -> bool:
        """A write or index change on a collection that does not exist: it was dropped or renamed before the backup read
        it. All that happened to it where a view, or a time series, has its name now: they refuse that, or go with it.
        """
        if entry.ui and _place(entry) in self.catalog.views:
            return entry.op != "c" or "viewOn" not in entry.o
        if entry.command == "collMod":
            found = self.catalog.collections.get(f"{entry.db}.{entry.o['collMod']}")
            return bool(entry.ui) and "index" in entry.o and (found is None or found.uuid not in (b"", entry.ui))
        return (
            entry.op in ("i", "u")
            and entry.ns not in self.catalog.collections
            and not entry.ns.endswith(".system.views")
        )

    def _makes_room(self, entry: Entry) -> bool:
        found = self.catalog.collections.get(entry.ns)
        return self.removals is Removals.REFUSED and entry.op == "d" and found is not None and found.is_capped

    def _apply(self, entry: Entry, *, top: bool) -> None:
        if _ignored(entry.ns) or entry.op in SKIPPED_OPS or entry.command in SKIPPED_COMMANDS:
            return
        self.applied += 1
        if entry.op == "c":
            self._command(entry)
        elif entry.op in ("i", "u", "d"):
            self._document(entry, top=top)
        else:
            self._problem("unknown-command", f"operation type {clean(entry.op)!r}", entry)

    def _document(self, entry: Entry, *, top: bool) -> None:
        if entry.ns.endswith(".system.views"):
            self._view(entry)
            return
        found = self.catalog.collections.get(entry.ns)
        if found is None:
            if entry.op != "d":
                self._problem(
                    "dead-operation", f"{clean_name(entry.ns)} is written inside a group at {entry.ts}", entry
                )
            return
        if ".system.buckets." in entry.ns:
            self.kinds.add("timeseries")
        if found.touched is not None:
            place = entry.ts.number if top else 0
            found.touched.touch(entry.id_key, entry.op, None if self.upserts else place)

    def _view(self, entry: Entry) -> None:
        name = str(entry.document_id)
        self.kinds.add("views")
        db = entry.db
        if f"{db}.system.views" not in self.catalog.collections:
            self.unopened_views.add(db)
        if entry.op == "d":
            self.catalog.views.pop(name, None)
        else:
            self.catalog.views[name] = {key: value for key, value in entry.o.items() if key != "_id"}

    def _command(self, entry: Entry) -> None:
        if entry.command != "applyOps":
            self._commands.apply(entry)
            return
        for inner in entry.inner():
            self._apply(inner, top=False)

    def _problem(self, kind: str, text: str, entry: Entry) -> None:
        self.problems.append(Problem(kind, text, entry.ts))


def _place(entry: Entry) -> str:
    """The namespace that an entry changes."""
    return entry.target if entry.op == "c" else entry.ns


def _ignored(ns: str) -> bool:
    if ns.startswith("__mdb_internal"):
        return True
    return ns.startswith("config.") and ns.removeprefix("config.") not in KEPT_CONFIG
