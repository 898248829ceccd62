"""The operations on one collection from the point on, in a file, and which of them are the accident's."""

from __future__ import annotations

import hashlib
import marshal
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from tallyglass.moment import Ts
from tallyglass.oplog.entry.changes import Changes, changes_of
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.history_file import HistoryFile
from tallyglass.restore.undo.increments import Increments

OTHERS, OWN, UNCERTAIN, REPAIR, UNDONE, OLDER, RENAMED = 0, 1, 2, 3, 4, 5, 6
"""To whom an operation belongs: to others, to the accident, unclear, it is what a return wrote, or what that undid; or
what a return wrote to undo what is older than the history; or it is a removal by others, after which another collection
was renamed to this one, as a return of it does: what that holds is in no entry under its own name."""

NO_REPAIR = f"own NOT IN ({REPAIR}, {OLDER})"
ACCIDENT = f"own IN ({OWN}, {UNCERTAIN})"

_SETTLED = (
    "SELECT c.id FROM computed AS c WHERE c.written IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM removal WHERE removal.n > c.n)"
    " AND NOT EXISTS (SELECT 1 FROM operation AS o WHERE o.id = c.id"
    f" AND ((o.n > c.n AND o.n != c.written) OR o.own = {UNDONE}))"
)
"""The documents whose repair was written as it was computed, between which and now there is no other operation."""

LAST_NUMBER = "SELECT coalesce(max(n), 0) FROM (SELECT max(n) AS n FROM operation UNION SELECT max(n) FROM removal)"


class HistoryStep(NamedTuple):
    """One operation on a document; ``o`` is empty for a delete."""

    number: int
    owner: int
    op: str
    o: bytes
    ts: Ts
    may_be_expiry: bool = False
    """Whether it is a delete without a session, as those of the TTL monitor are."""


@dataclass(slots=True)
class History:
    """The operations on one collection from the point on, in a file that :meth:`close` removes or keeps."""

    ns: str
    accident: Accident
    file: HistoryFile
    ambiguous: bool = False
    """Whether others write the fields that the accident computed, in a way that looks the same."""
    removals: list[HistoryStep] = field(default_factory=list)
    """The commands that removed all documents."""
    increments: Increments = field(default_factory=dict)
    """The numbers to which others only add, in documents that the accident updated."""
    expiring: frozenset[str] = frozenset()
    """The fields by which a TTL index that there was since the point removes documents."""

    @property
    def removed(self) -> bool:
        """Whether the accident removed all documents at once."""
        return any(step.owner == OWN for step in self.removals)

    def close(self) -> None:
        """Remove the file, or put it where the next reader finds it."""
        self.file.close()

    @property
    def rows(self) -> sqlite3.Connection:
        """The connection to the tables."""
        return self.file.rows

    def of(self, key: bytes) -> list[HistoryStep]:
        """The operations on one document, and the removals, in order."""
        found = self.rows.execute(f"SELECT {_STEP} FROM operation WHERE id = ?", (key,))
        return self._with_removals(key, [_step(row) for row in found])

    def _with_removals(self, key: bytes, steps: list[HistoryStep]) -> list[HistoryStep]:
        """The operations on one document in order, with the removals, of which a return may have undone some in it."""
        if not self.removals:
            return sorted(steps)
        undone = {Ts(t, i) for t, i in self.rows.execute("SELECT t, i FROM undone WHERE id = ?", (key,))}
        known = (one.owner not in (OTHERS, RENAMED) or one.ts not in undone for one in self.removals)
        back = [one if kept else one._replace(owner=UNDONE) for one, kept in zip(self.removals, known, strict=True)]
        return sorted((*steps, *back))

    def hit(self) -> Iterator[tuple[bytes, list[HistoryStep]]]:
        """The ids of the documents that the accident's operations are about, or may be, each with what :meth:`of`
        gives."""
        return self.each(f"SELECT id FROM operation WHERE {ACCIDENT}")

    def open(self) -> Iterator[tuple[bytes, list[HistoryStep]]]:
        """Those of :meth:`hit` without the documents into which a return wrote what was last computed for them, if
        nobody wrote them since."""
        return self.each(f"SELECT id FROM operation WHERE {ACCIDENT} EXCEPT {_SETTLED}")

    def settled(self) -> int:
        """How many documents :meth:`open` leaves out."""
        (count,) = self.rows.execute(f"SELECT count(*) FROM ({_SETTLED})").fetchone()
        return int(count)

    def each(self, ids: str) -> Iterator[tuple[bytes, list[HistoryStep]]]:
        """The ids that a query finds, each with what :meth:`of` gives."""
        query = f"SELECT {_STEP}, id FROM operation WHERE id IN ({ids}) ORDER BY id, n"
        for key, rows in groupby(self.rows.execute(query), key=itemgetter(-1)):
            steps = [_step(row) for row in rows]
            yield key, self._with_removals(key, steps) if self.removals else steps

    def computed(self, repairs: Iterable[tuple[bytes, bytes, bool]]) -> None:
        """Store which repairs were computed from the operations so far: the ``_id`` and the :func:`digest` of each, and
        whether it inserts its document."""
        (last,) = self.rows.execute(LAST_NUMBER).fetchone()
        removed = self.removed  # then the operations on a document alone do not say what is undone in it
        found = ((key, last, what, inserts and not removed, None) for key, what, inserts in repairs)
        self.rows.execute("BEGIN")
        self.rows.executemany("INSERT OR REPLACE INTO computed VALUES (?, ?, ?, ?, ?)", found)
        self.rows.execute("COMMIT")

    def staging(self) -> Iterator[tuple[str, Ts]]:
        """The staging collections of returns since the point, each with when it was first made."""
        found = self.rows.execute("SELECT name, t, i, min(rowid) FROM staging GROUP BY name")
        return ((name, Ts(t, i)) for name, t, i, _ in found)

    def touched(self) -> Iterator[bytes]:
        """The ids of all documents that were written."""
        return (key for (key,) in self.rows.execute("SELECT DISTINCT id FROM operation"))

    def updates(
        self, after: int = 0, most: int = -1, among: str = NO_REPAIR
    ) -> Iterator[tuple[int, bytes, Ts, Changes]]:
        """The updates that the sender of the accident may have made, from the one after number ``after`` on: number,
        id, ``ts``, and what each changes. Raises Malformed."""
        query = (
            "SELECT n, id, t, i, o, changes FROM operation LEFT JOIN refined USING (n) "
            f"WHERE sender AND op = 'u' AND n > ? AND {among} ORDER BY n LIMIT ?"
        )
        for n, key, t, i, o, changes in self.rows.execute(query, (after, most)):
            yield n, key, Ts(t, i), changes_of(o) if changes is None else marshal.loads(changes)

    def own_updates(self) -> Iterator[Changes]:
        """What the accident's updates change. Raises Malformed."""
        return (changes for *_, changes in self.updates(among=f"own = {OWN}"))

    def updates_beside(self, seconds: int) -> Iterator[tuple[bytes, Changes]]:
        """The ids of documents that no operation of the accident is about, and what others' updates change in them
        amid the accident's updates, or up to so many seconds before and after. Raises Malformed."""
        first, last = self.accident.first, self.accident.updates_end
        near = f"own = {OTHERS} AND t BETWEEN {first.t - seconds} AND {last.t + seconds}"
        among = f"{near} AND id NOT IN (SELECT id FROM operation WHERE {ACCIDENT})"
        return ((key, changes) for _, key, _, changes in self.updates(among=among))

    def ends(self) -> list[tuple[int, int]]:
        """The first and the last of the accident's operations, each its number and the server's clock; empty where
        there are none."""
        query = "SELECT n, millis FROM operation WHERE n = (SELECT {}(n) FROM operation WHERE own = ?)"
        return [row for end in ("min", "max") for row in self.rows.execute(query.format(end), (OWN,))]

    def inserted_beside(self, pause: int) -> Iterator[bytes]:
        """The ids of documents that the sender of the accident's updates may have inserted between them, or after them
        without a pause of so many milliseconds."""
        query = (
            "SELECT n, id, millis FROM operation WHERE sender AND op = 'i' AND NOT own AND n > ?"
            f" AND id NOT IN (SELECT id FROM operation WHERE {ACCIDENT}) ORDER BY n"
        )
        for (first, _), (last, end) in pairwise(self.ends()):
            for n, key, millis in self.rows.execute(query, (first,)):
                if n > last:
                    if millis - end > pause:
                        return
                    end = millis
                yield key


_STEP = "n, own, op, o, t, i, op = 'd' AND NOT linked"


def _step(row: Sequence[Any]) -> HistoryStep:
    n, own, op, o, t, i, may_be_expiry = row[:7]
    return HistoryStep(n, own, op, o, Ts(t, i), bool(may_be_expiry))


def digest(repair: bytes) -> bytes:
    """What tells one repair from another."""
    return hashlib.blake2b(repair, digest_size=16).digest()
