"""The largest and the smallest id in a field: the whole numbers there that a counter can reach.

Other numbers (infinities, NaN, fractions, those beyond 64 bits, those in arrays) are no ids of a counter. They are
counted and not compared: one of them must neither hide that a counter is behind nor stop the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyglass.counters.limits import DECIMAL_STALL, INT64_MAX
from tallyglass.counters.numbers import as_number, encoded, numeric_type
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import NumericType
from tallyglass.mongo.gateway import Gateway

MOST_COUNTED = 1_000
"""Documents are counted up to this many, which bounds the time of the server."""

_MOST_SKIPPED = 20
"""Fractions between the end of a field and its first whole number, each of which costs one seek."""

_MOST_PASSED = 100_000
"""Ids of other counters that are read past, which takes the server a tenth of a second."""

_ANY: dict[str, object] = {"$type": "number"}


@dataclass(frozen=True, slots=True)
class StoredId:
    """One id, the type that it is stored as, and the ``_id`` of its document."""

    number: int
    kind: NumericType
    document: Any


def reach(kind: NumericType) -> int:
    """The largest id that a counter stored as ``kind`` can hand out."""
    return DECIMAL_STALL - 1 if kind is NumericType.DECIMAL else INT64_MAX


def from_to(low: int, high: int) -> dict[str, object]:
    """A query condition for the numbers between two bounds, which an index can serve."""
    return {"$gte": encoded(low), "$lte": encoded(high)}


async def is_indexed(gateway: Gateway, target: IdField) -> bool:
    """Whether an index serves a sort on the numbers of a field: the field is first, and the index is complete."""
    if target.field == "_id":
        return True
    return any(leads(index, target.field) for index in await gateway.list_indexes(target.ns))


def leads(index: Mapping[str, object], field: str) -> bool:
    """Whether an index serves a sort on the numbers of a field, as :func:`is_indexed` says."""
    keys = index.get("key")
    first = next(iter(keys), "") if isinstance(keys, Mapping) else ""
    unusable = "partialFilterExpression" in index or index.get("hidden")
    return first == field and isinstance(keys, Mapping) and keys[first] in (1, -1) and not unusable


class IdReader:
    """Reads ids from one indexed field, each with one seek. ``most`` is the largest that counts as an id.

    With ``apart`` above 1 it reads only those that are a whole number of times so far from the number ``own``, past the
    ids of others in between.
    """

    def __init__(
        self, gateway: Gateway, target: IdField, most: int = INT64_MAX, *, apart: int = 1, own: int = 0
    ) -> None:
        self._gateway = gateway
        self._target = target
        self._most = most
        # The rest has the sign of the number, as the server has it.
        rest = abs(own) % apart * (-1 if own < 0 else 1)
        self._own: dict[str, object] = {"$mod": [apart, rest]} if apart > 1 else {}
        self._beyond = False
        self._fractions: set[float] = set()
        self._arrays: set[str] = set()

    async def end(self, direction: int, condition: dict[str, object] | None = None) -> StoredId | None:
        """The largest (-1) or the smallest (1) id, of those that match ``condition``; None if there is none, or if too
        many of others are before it."""
        if self._own and condition is None:
            outermost = await self._end(direction, _ANY)
            if outermost is None:
                return None
            furthest = outermost.number + direction * _MOST_PASSED
            condition = from_to(*sorted((outermost.number, furthest)))
        return await self._end(direction, {**(condition or _ANY), **self._own})

    async def _end(self, direction: int, condition: dict[str, object]) -> StoredId | None:
        field, span = self._target.field, from_to(-self._most, self._most)
        for _ in range(_MOST_SKIPPED):
            query = {field: {**condition, **self._single()}}
            row = await self._gateway.find_one(self._target.ns, query, projection={field: 1}, sort=[(field, direction)])
            raw = dig(row, field)
            if row is not None and isinstance(raw, list):
                self._arrays.add(repr(row.get("_id")))
                continue
            kind = numeric_type(raw)
            if row is None or kind is None:
                return None
            number = as_number(raw)
            if isinstance(number, int) and abs(number) <= self._most:
                return StoredId(number, kind, row.get("_id"))
            if abs(number) <= self._most:
                self._fractions.add(number)
                condition = {**condition, "$gt" if direction > 0 else "$lt": raw}
            else:
                # NaN, or too large.
                self._beyond = True
                condition = span
        return None

    def _single(self) -> dict[str, object]:
        """The condition that leaves out arrays, once one was met: the server would ask it of each document."""
        return {"$not": {"$type": "array"}} if self._arrays else {}

    async def count_odd(self) -> int:
        """How many of the numbers cannot be compared; of fractions and arrays those that were met. Asks only if another
        was met."""
        met = len(self._fractions) + len(self._arrays)
        if not self._beyond:
            return met
        field, least, most = self._target.field, encoded(-self._most), encoded(self._most)
        beyond: list[dict[str, object]] = [{field: {"$gt": most}}, {field: {"$lt": least}}, {field: float("nan")}]
        found = await self._gateway.extent(self._target.ns, {"$or": beyond}, most=MOST_COUNTED)
        return found.documents + met

    async def count(self, low: int, high: int) -> int:
        """How many documents have an id from ``low`` to ``high``, counted up to 1,000."""
        query = {self._target.field: {**from_to(low, high), **self._own, **self._single()}}
        return (await self._gateway.extent(self._target.ns, query, most=MOST_COUNTED)).documents
