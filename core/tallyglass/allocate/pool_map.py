"""What a process knows about the documents of a pool: where each ends, and how many ids it may have left. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from bson.int64 import Int64

from tallyglass.allocate.engine.checks import field_name, whole
from tallyglass.allocate.errors import PoolOverlap
from tallyglass.allocate.layout import ARTICLE, Layout, number_in
from tallyglass.counters.limits import INT64_MAX
from tallyglass.text import clean

_DRAWS: Final = 8
"""Random draws before all rows are searched for room: only near the end of a pool do so many fail."""


@dataclass(frozen=True, slots=True)
class PoolLayout:
    """The documents of a pool: ``{_id, COUNT, MAX_VALUE, NOTES}``, as in the MongoDB article.

    Document ``n`` of ``documents`` owns the ids ``first + n * span <= id < first + (n + 1) * span``; its
    ``MAX_VALUE`` is where they end. ``MAX_VALUE`` itself is never handed out, so that documents of which it is the
    last id and documents of which it is the first id of the next one both keep their ids apart.
    """

    documents: int = 1000
    span: int = 10**9
    first: int = 0
    prefix: str = "UNIQUE COUNT DOCUMENT IDENTIFIER "
    counter: Layout = ARTICLE
    maximum: str = "MAX_VALUE"

    def __post_init__(self) -> None:
        whole(self.documents, "documents of a pool", low=1)
        whole(self.span, "span of a pool", low=1)
        whole(self.first, "first of a pool", low=0)
        if self.first + self.documents * self.span > INT64_MAX:
            raise ValueError("the ids of this pool do not fit into 64 bits")
        field_name(self.maximum, "maximum", dotted=False)

    def key(self, n: int) -> str:
        """The ``_id`` of document ``n``."""
        return f"{self.prefix}{n}"

    def start(self, n: int) -> int:
        """The first id of document ``n``."""
        return self.first + n * self.span

    def new_document(self, n: int) -> dict[str, Any]:
        """The fields of document ``n``, without ``_id``."""
        start = self.start(n)
        return self.counter.new_document(self.key(n), start) | {self.maximum: Int64(start + self.span)}


@dataclass(slots=True)
class PoolDocument:
    """One document: it hands out ids below ``end``; ``room`` is how many may be left; ``seen`` its known next id."""

    key: Any
    end: int
    seen: int
    room: int


class PoolMap:
    """The documents of a pool, and which of them may still have room.

    Thread-safe and signal-safe without a lock: each change is one assignment. When two threads race and one change
    is lost, this process only has an older view of the document: the next call to it finds out.
    """

    def __init__(self) -> None:
        self.rows: dict[Any, PoolDocument] = {}
        self._open: tuple[PoolDocument, ...] = ()
        self._gone: dict[Any, PoolDocument] = {}

    def load(self, layout: PoolLayout, documents: Iterable[Mapping[str, Any]], where: str) -> None:
        """Replace all rows with those read, keeping the highest next id seen of each row, also of one that was gone.

        Raises PoolOverlap if two documents could hand out the same id, CounterTypeError for a wrong type.
        """
        known = self._gone | self.rows
        rows = [_row(layout, document, where, known) for document in documents]
        check_apart(rows, where)
        self._gone = known
        self.rows = {_hashable(row.key): row for row in rows}
        self._open = tuple(row for row in rows if row.room)

    @property
    def full(self) -> int:
        """The number of documents whose span is used up."""
        return sum(not row.room for row in tuple(self.rows.values()))

    def room(self) -> int:
        """Ids left at most, over all documents."""
        return sum(row.room for row in self._open)

    def choose(self, least: int) -> PoolDocument | None:
        """A random row with room for ``least`` ids; None when there is none."""
        rows = self._open
        for _ in range(min(_DRAWS, len(rows))):
            row = random.choice(rows)
            if row.room >= least:
                return row
        fitting = [row for row in rows if row.room >= least]
        return random.choice(fitting) if fitting else None

    def update(self, row: PoolDocument, *, next_id: int) -> bool:
        """Record that the next id of ``row`` is at least ``next_id``; returns whether that filled the row."""
        had_room = row.room > 0
        if next_id > row.seen:
            row.seen = next_id
        row.room = max(0, row.end - row.seen)
        if row.room:
            return False
        self._open = tuple(other for other in self._open if other is not row)
        return had_room and self.rows.get(_hashable(row.key)) is row

    def remove(self, row: PoolDocument) -> None:
        """Leave out a document that was deleted: a restore may bring it back with ids that were handed out."""
        self._open = tuple(other for other in self._open if other is not row)
        if self.rows.get(_hashable(row.key)) is row:
            self._gone = self._gone | {_hashable(row.key): row}
            self.rows.pop(_hashable(row.key), None)


def _row(layout: PoolLayout, document: Mapping[str, Any], where: str, rows: Mapping[Any, PoolDocument]) -> PoolDocument:
    name = f"{where} {clean(repr(document['_id']), 80)}"
    next_id = layout.counter.next_id(number_in(layout.counter, document, name))
    end = number_in(Layout(layout.maximum, layout.counter.semantics), document, name)
    known = rows.get(_hashable(document["_id"]))
    return PoolDocument(document["_id"], end, max(next_id, known.seen) if known else next_id, max(0, end - next_id))


def check_apart(rows: Iterable[PoolDocument], where: str) -> None:
    """Raise PoolOverlap if two documents could hand out the same id."""
    # Of those with the same end the full ones first: the other has ids left that they have handed out.
    ordered = sorted(rows, key=lambda row: (row.end, row.room))
    for before, after in pairwise(ordered):
        if after.room and after.seen < before.end:
            raise PoolOverlap(
                f"In {where} the documents {clean(repr(before.key), 80)} and {clean(repr(after.key), 80)} "
                "own the same ids.",
                "Give each its own span, or keep pools of different id spaces in different collections.",
            )


def _hashable(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else repr(key)
