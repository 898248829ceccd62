"""Recognises idle counters: a guess whose value is exactly the largest id of another collection of its database.

One indexed seek for each field. Small values match by coincidence and are not compared. A guess that is in use moves on
meanwhile: then the largest id lies between its value before and after.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tallyglass.counters.numbers import Number
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.identity import resembles
from tallyglass.counters.recognise.ids import IdReader, leads
from tallyglass.errors import ServerError
from tallyglass.mongo.gateway import Gateway, Namespace

LEAST_VALUE = 100
"""Smaller values may equal some largest id by chance."""

_MOST_MOVED = 100
"""How far a counter may move while it is compared with largest ids; further on, one may lie between by chance."""

_MOST_FIELDS, _MOST_COLLECTIONS = 4, 1_000
"""Indexed fields of a collection, and collections of a database, that are read: one seek each."""


class LargestIds:
    """The indexed fields of at most 1,000 collections by their largest number, read a few at a time.

    Those whose name resembles one of ``names``, the names of counters, are read first.
    """

    def __init__(self, gateway: Gateway, collections: Iterable[Namespace], names: Collection[str]) -> None:
        self._gateway = gateway
        ordered = sorted(collections, key=lambda ns: (not resembles(ns.collection, names), ns))
        self._waiting = ordered[:_MOST_COLLECTIONS][::-1]
        self._found: dict[int, list[IdField]] = {}

    async def advance(self, deadline: float) -> bool:
        """Read on until ``deadline`` (monotonic); returns whether all were read. Raises ReadError without a server."""
        while self._waiting and time.monotonic() <= deadline:
            ns = self._waiting.pop()
            with suppress(ServerError):
                for field in await _indexed_fields(self._gateway, ns):
                    largest = await IdReader(self._gateway, IdField(ns, field)).end(-1)
                    if largest is not None and largest.number >= LEAST_VALUE:
                        self._found.setdefault(largest.number, []).append(IdField(ns, field))
        return not self._waiting

    def by_number(self) -> dict[int, IdField]:
        """The field of each number; one that is the largest of several fields is left out."""
        return {number: fields[0] for number, fields in self._found.items() if len(fields) == 1}


@dataclass(frozen=True, slots=True)
class IdleGuesses:
    """Guesses of one database, by key: the collection and the last id when the reading of ``largest`` began."""

    largest: LargestIds
    before: dict[str, tuple[Namespace, Number | None]]

    def moved(self) -> set[Namespace]:
        """The collections with a guess that reached a largest id if it is in use: they must be read once more."""
        numbers = sorted(self.largest.by_number())
        return {
            ns
            for ns, issued in self.before.values()
            if issued is not None and _one_between(numbers, int(issued), int(issued) + _MOST_MOVED) is not None
        }

    def target(self, key: str, now: Number | None) -> IdField | None:
        """The field whose largest id is the number of a guess, or lies between its values before and ``now``."""
        issued, largest = self.before[key][1], self.largest.by_number()
        if issued is None or now is None:
            return None
        if int(issued) in largest:
            return largest[int(issued)]
        number = _one_between(sorted(largest), int(issued), min(int(now), int(issued) + _MOST_MOVED))
        return None if number is None else largest[number]


def _one_between(ordered: Sequence[int], low: int, high: int) -> int | None:
    """The only one of some ordered numbers from ``low`` to ``high``; None if there is none, or more than one."""
    first, end = bisect_left(ordered, low), bisect_right(ordered, high)
    return ordered[first] if end - first == 1 else None


async def _indexed_fields(gateway: Gateway, ns: Namespace) -> list[str]:
    """``_id`` and the other fields that have an index of their own."""
    fields = ["_id"]
    for index in await gateway.list_indexes(ns):
        key = index.get("key")
        field = str(next(iter(key))) if isinstance(key, Mapping) and len(key) == 1 else ""
        if field not in fields and leads(index, field):
            fields.append(field)
    return fields[:_MOST_FIELDS]
