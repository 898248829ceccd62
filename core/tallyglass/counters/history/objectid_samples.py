"""Weeks of past values from the target collection of a counter: an ObjectId holds the creation time of its document.

Where the target's documents have ObjectIds and keep the number in an indexed field, a few dozen reads by index give
``(time, value)`` points as far back as the documents go.
"""

from __future__ import annotations

import asyncio
import time

from bson.objectid import ObjectId

from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.ids import IdReader, from_to, reach
from tallyglass.counters.snapshot import NumericType
from tallyglass.mongo.gateway import Gateway

POINTS = 48
_AT_ONCE = 4
_READ_MS = 300


async def read_dated(
    gateway: Gateway, target: IdField, largest: int, kind: NumericType, ahead: int, seconds: float
) -> list[PastValue]:
    """Past values of a counter whose ids are in ``target``, oldest first, as many as can be read in ``seconds``.

    ``largest`` is the largest id there; ``ahead`` is 1 if the counter stores the next id, else 0.
    """
    deadline = time.monotonic() + seconds
    ids = IdReader(gateway, target, _READ_MS, reach(kind))
    first = await _at_least(ids, None, largest)
    if first is None or first[1] >= largest:
        return []
    found = {first}
    wanted = _spread(first[1], largest)
    while wanted and time.monotonic() < deadline:
        batch, wanted = wanted[:_AT_ONCE], wanted[_AT_ONCE:]
        found |= {row for row in await asyncio.gather(*(_at_least(ids, at, largest) for at in batch)) if row}
    points: list[PastValue] = []
    top: int | None = None
    for at, number in sorted(found):
        # A document may be written long after its id was issued; keep only increasing values.
        if top is None or number > top:
            points.append(PastValue(at, number + ahead, kind))
            top = number
    return points


def _spread(low: int, high: int) -> list[int]:
    """Values between two bounds: half spread over the whole range, half over the newest eighth; most useful first."""
    half = POINTS // 2
    whole = [low + (high - low) * n // half for n in range(half, 0, -1)]
    recent = low + (high - low) * 7 // 8
    newest = [recent + (high - recent) * n // half for n in range(half - 1, 0, -1)]
    return list(dict.fromkeys([*whole, *newest]))


async def _at_least(ids: IdReader, least: int | None, most: int) -> tuple[float, int] | None:
    """The smallest id from ``least`` on, with the time in the ObjectId of its document."""
    found = await ids.end(1, None if least is None else from_to(least, most))
    if found is None or not isinstance(found.document, ObjectId):
        return None
    return found.document.generation_time.timestamp(), found.number
