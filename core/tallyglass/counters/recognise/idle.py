"""Recognises idle counters: a guess whose value is exactly the largest id of another collection of its database.

One indexed seek for each field. Small values match by coincidence and are not compared.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.discovery import is_lost
from tallyglass.counters.recognise.ids import IdReader
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import Gateway, Namespace

LEAST_VALUE = 100
"""Smaller values may equal some largest id by chance."""

_MOST_FIELDS = 4
_MOST_COLLECTIONS = 1_000
_READ_MS = 200


async def largest_ids(
    gateway: Gateway, collections: Iterable[Namespace], names: Collection[str], seconds: float
) -> dict[int, IdField]:
    """The indexed fields of at most 1,000 ``collections`` by their largest number, as many as ``seconds`` allow.

    Those whose name resembles one of ``names``, the names of counters, are read first. A number that is the largest of
    several fields is left out. Raises ReadError if no server answers.
    """
    deadline = time.monotonic() + seconds
    found: dict[int, list[IdField]] = {}
    for ns in sorted(collections, key=lambda ns: (not _resembles(ns.collection, names), ns))[:_MOST_COLLECTIONS]:
        if time.monotonic() > deadline:
            break
        try:
            for field in await _indexed_fields(gateway, ns):
                largest = await IdReader(gateway, IdField(ns, field), _READ_MS).end(-1)
                if largest is not None and largest.number >= LEAST_VALUE:
                    found.setdefault(largest.number, []).append(IdField(ns, field))
        except (PrivilegeError, ReadError) as error:
            if is_lost(error):
                raise
    return {number: fields[0] for number, fields in found.items() if len(fields) == 1}


def _resembles(collection: str, names: Collection[str]) -> bool:
    collection = collection.lower()
    return any(name and (name in collection or collection in name) for name in map(str.lower, names))


async def _indexed_fields(gateway: Gateway, ns: Namespace) -> list[str]:
    """``_id`` and the other fields that have an index of their own."""
    fields = ["_id"]
    for index in await gateway.list_indexes(ns):
        key = index.get("key")
        if isinstance(key, Mapping) and len(key) == 1 and "partialFilterExpression" not in index:
            (field, direction), *_ = key.items()
            if direction in (1, -1) and field not in fields:
                fields.append(str(field))
    return fields[:_MOST_FIELDS]
