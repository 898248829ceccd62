"""The state of single documents after a pass over the oplog: in memory, or in a temporary file above a limit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from tallyglass.restore.undo.temporary import temporary_tables

IN_MEMORY = 150_000
"""The most ids of one pass held in memory before they are written to the file. About 30 MB."""

EXISTS, UPDATE_ONLY, EXISTED, INSERTED = 1, 2, 4, 8
"""Bits of a state: the document exists after its last operation; its operations began with an update, and it was not
inserted since; it existed before its first operation; it was inserted."""

_AFTER = {
    "i": [(state | EXISTS | INSERTED) & ~UPDATE_ONLY for state in range(16)],
    "u": [state | EXISTS if state else EXISTS | UPDATE_ONLY | EXISTED for state in range(16)],
    "d": [state & ~EXISTS if state else EXISTED for state in range(16)],
}
"""The state after an operation by the state before it, 0 for a document that was not seen before."""

AT_ONCE = 500
"""The most documents whose states are asked for in one query. SQLite before 3.32 takes 999 values."""

_CHUNK = 10_000
"""Documents that are marked in one transaction of the file: so many ids take less than 1 MB."""
_PLACE_BYTES = 8
"""Of the ``ts`` of an entry, as one number."""

# A document that the file knows already: existence is the newer one, the beginning is the older one, inserts are both.
_ADD = """
INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
  bits = (excluded.bits & 9) | (CASE WHEN excluded.bits & 8 THEN 0 ELSE bits & 2 END) | (bits & 12),
  places = CASE WHEN excluded.bits & 8 THEN NULL
           ELSE CAST(coalesce(places, x'') || coalesce(excluded.places, x'') AS BLOB) END
"""


class IdStore:
    """The states of all collections of one pass. Ends with :meth:`close`, or with the object."""

    def __init__(self, in_memory: int | None = None) -> None:
        self._most = IN_MEMORY if in_memory is None else in_memory
        self._held = 0
        self._all: list[IdStates] = []
        self.rows: sqlite3.Connection | None = None
        """The file; None while everything is in memory."""

    def new(self) -> IdStates:
        """The states of one more collection."""
        states = IdStates(self, len(self._all))
        self._all.append(states)
        return states

    def count_new(self) -> None:
        """Count one more id in memory, and move all to the file above the limit."""
        self._held += 1
        if self._held > self._most:
            self.spill()

    def spill(self) -> None:
        """Move what is in memory to the file."""
        if self.rows is None:
            self.rows = temporary_tables()
            self.rows.execute("PRAGMA page_size = 16384")
            self.rows.execute("PRAGMA cache_size = -16000")
            self.rows.execute(
                "CREATE TABLE state (collection INTEGER, id BLOB, bits INTEGER, places BLOB, "
                "PRIMARY KEY (collection, id)) WITHOUT ROWID"
            )
        self.rows.execute("BEGIN")
        for states in self._all:
            states.move_to(self.rows)
        self.rows.execute("COMMIT")
        self._held = 0

    def end(self) -> None:
        """All operations have been noted; from now on the states are only read."""
        if self.rows is not None:
            self.spill()

    def close(self) -> None:
        """Remove the file. Call it last."""
        if self.rows is not None:
            self.rows.close()


class IdStates:
    """The states of one collection's documents: :meth:`touch` them in order; read them after :meth:`IdStore.end`."""

    __slots__ = ("_number", "_places", "_seen", "_store", "held")

    def __init__(self, store: IdStore, number: int) -> None:
        self._store = store
        self._number = number
        self.held: dict[bytes, int] = {}
        self._places: dict[bytes, bytearray] = {}
        self._seen: list[bytes] = []

    def touch(self, key: bytes, op: str, place: int | None = None) -> None:
        """Record an insert, update or delete. ``place`` is kept for updates of a document that was not inserted
        before."""
        state = self.held.get(key, 0)
        self.held[key] = _AFTER[op][state]
        if place is not None:
            self._record_place(key, op, state, place)
        if not state:
            self._store.count_new()

    def _record_place(self, key: bytes, op: str, state: int, place: int) -> None:
        if op == "i":
            self._places.pop(key, None)
        elif op == "u" and (not state or (state & EXISTS and state & UPDATE_ONLY)):
            self._places.setdefault(key, bytearray()).extend(place.to_bytes(_PLACE_BYTES, "big"))

    def move_to(self, rows: sqlite3.Connection) -> None:
        """Move all states to the file, sorted, so that neighbours share pages."""
        held, places = self.held, self._places
        keys = sorted(held)
        rows.executemany(_ADD, zip(repeat(self._number), keys, map(held.get, keys), map(places.get, keys)))
        self.held = {}
        self._places = {}

    def get(self, key: bytes) -> int | None:
        """The state of one document; None if nothing was noted."""
        if self._store.rows is None:
            return self.held.get(key)
        found = self._store.rows.execute(
            "SELECT bits FROM state WHERE collection = ? AND id = ?", (self._number, key)
        ).fetchone()
        return None if found is None else int(found[0])

    def of(self, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        """The states of these documents, at most :data:`AT_ONCE`, by id; none of unknown ones. There may be others."""
        if self._store.rows is None:
            return self.held
        marks = ",".join("?" * len(keys))
        query = f"SELECT id, bits FROM state WHERE collection = ? AND id IN ({marks})"
        return dict(self._store.rows.execute(query, (self._number, *keys)))

    def mark_in_backup(self, key: bytes) -> None:
        """Record that the backup has the document, so that an update of it does not count as missing."""
        if self._store.rows is None:
            self.held[key] &= ~UPDATE_ONLY
            return
        self._seen.append(key)
        if len(self._seen) == _CHUNK:
            self._write_seen()

    def existing(self) -> int:
        """How many of the documents exist after their last operation."""
        if self._store.rows is None:
            return sum(state & EXISTS for state in self.held.values())
        query = "SELECT count(*) FROM state WHERE collection = ? AND bits & 1"
        return int(self._store.rows.execute(query, (self._number,)).fetchone()[0])

    def existing_of(self, types: Sequence[bytes]) -> Iterator[bytes]:
        """The ids of these BSON types whose documents exist after their last operation."""
        if self._store.rows is None:
            yield from (key for key, state in self.held.items() if state & EXISTS and key[:1] in types)
            return
        query = "SELECT id FROM state WHERE collection = ? AND id >= ? AND id < ? AND bits & 1"
        for kind in types:
            for (key,) in self._store.rows.execute(query, (self._number, kind, bytes((kind[0] + 1,)))):
                yield key

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Id and state of every document."""
        if self._store.rows is None:
            yield from self.held.items()
            return
        yield from self._store.rows.execute("SELECT id, bits FROM state WHERE collection = ?", (self._number,))

    def update_only(self) -> Iterator[tuple[bool, list[int]]]:
        """The documents that were updated and neither inserted nor seen: whether each exists, and the places."""
        if self._store.rows is None:
            for key, state in self.held.items():
                if state & UPDATE_ONLY:
                    yield bool(state & EXISTS), _numbers(self._places.get(key))
            return
        self._write_seen()
        query = "SELECT bits, places FROM state WHERE collection = ? AND bits & 2"
        for bits, places in self._store.rows.execute(query, (self._number,)):
            yield bool(bits & EXISTS), _numbers(places)

    def _write_seen(self) -> None:
        if self._store.rows is not None and self._seen:
            query = "UPDATE state SET bits = bits & ~2 WHERE collection = ? AND id = ?"
            self._store.rows.execute("BEGIN")
            self._store.rows.executemany(query, [(self._number, key) for key in sorted(self._seen)])
            self._store.rows.execute("COMMIT")
            self._seen = []


def _numbers(places: bytes | bytearray | None) -> list[int]:
    return (
        [int.from_bytes(places[at : at + _PLACE_BYTES], "big") for at in range(0, len(places), _PLACE_BYTES)]
        if places
        else []
    )
