"""What a process knows about the documents of a pool: where each ends, and how much room it has at most. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from bson.int64 import Int64

from tallyglass.allocate.errors import PoolOverlap
from tallyglass.allocate.layout import ARTICLE, Layout, number_in
from tallyglass.text import clean

_DRAWS: Final = 8


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
        if self.documents < 1 or self.span < 1 or self.first < 0:
            raise ValueError("a pool needs documents, a span and a first id that is not negative")
        if self.first + self.documents * self.span > 2**63 - 1:
            raise ValueError("the ids of this pool do not fit into 64 bits")

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
class Row:
    """One document: it hands out ids below ``end``; ``room`` is how many it has at most; ``seen`` its next id."""

    key: Any
    end: int
    seen: int
    room: int


class PoolMap:
    """The rows that may still have room. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self.rows: dict[Any, Row] = {}
        self._open: list[Any] = []
        self._places: dict[Any, int] = {}

    def load(self, layout: PoolLayout, documents: Iterable[Mapping[str, Any]], where: str) -> None:
        """Replace all rows by what was read; what was seen of a row stays seen.

        Raises PoolOverlap where two documents could hand out one id, CounterTypeError for a wrong type.
        """
        rows = [self._row(layout, document, where) for document in documents]
        _check_apart(rows, where)
        self.rows = {_hashable(row.key): row for row in rows}
        self._open, self._places = [], {}
        for key, row in self.rows.items():
            if row.room > 0:
                self._places[key] = len(self._open)
                self._open.append(key)

    @property
    def full(self) -> int:
        """Documents without room."""
        return len(self.rows) - len(self._open)

    def room(self) -> int:
        """Ids left at most, over all documents."""
        return sum(self.rows[key].room for key in self._open)

    def choose(self, least: int) -> Row | None:
        """A random row with room for ``least`` ids; None when there is none."""
        for _ in range(min(_DRAWS, len(self._open))):
            row = self.rows[random.choice(self._open)]
            if row.room >= least:
                return row
        fitting = [key for key in self._open if self.rows[key].room >= least]
        return self.rows[random.choice(fitting)] if fitting else None

    def update(self, row: Row, *, next_id: int) -> bool:
        """Note that the next id of ``row`` is at least ``next_id``; whether that filled it up."""
        row.seen = max(row.seen, next_id)
        row.room = max(0, row.end - row.seen)
        return row.room == 0 and self._close(row)

    def remove(self, row: Row) -> None:
        """Forget a document that is gone."""
        self._close(row)
        if self.rows.get(_hashable(row.key)) is row:
            del self.rows[_hashable(row.key)]

    def _close(self, row: Row) -> bool:
        key = _hashable(row.key)
        if self.rows.get(key) is not row or key not in self._places:
            return False
        place = self._places.pop(key)
        last = self._open.pop()
        if last != key:
            self._open[place] = last
            self._places[last] = place
        return True

    def _row(self, layout: PoolLayout, document: Mapping[str, Any], where: str) -> Row:
        name = f"{where} {clean(repr(document['_id']), 80)}"
        next_id = layout.counter.next_id(number_in(layout.counter, document, name))
        end = number_in(Layout(layout.maximum, layout.counter.semantics), document, name)
        known = self.rows.get(_hashable(document["_id"]))
        return Row(document["_id"], end, max(next_id, known.seen) if known else next_id, max(0, end - next_id))


def _check_apart(rows: list[Row], where: str) -> None:
    ordered = sorted(rows, key=lambda row: row.end)
    for before, after in pairwise(ordered):
        if after.room and after.seen < before.end:
            raise PoolOverlap(
                f"In {where} the documents {clean(repr(before.key), 80)} and {clean(repr(after.key), 80)} "
                "own the same ids.",
                "Give each its own span, or keep pools of different id spaces in different collections.",
            )


def _hashable(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else repr(key)
