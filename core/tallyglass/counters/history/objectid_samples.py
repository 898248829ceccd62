"""Weeks of past values from the target collection of a counter: an ObjectId holds the creation time of its document.

Where the target's documents have ObjectIds, the first document from a moment on is one seek in the index of ``_id``.
So the samples are evenly spaced in time: spaced by value they would leave holes in the past of a counter that grows,
in which no trend can be seen.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import itemgetter

from bson.objectid import ObjectId

from tallyglass.counters.forecast.series import DAY
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.numbers import whole
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import NumericType
from tallyglass.moment import from_seconds
from tallyglass.mongo.gateway import Gateway
from tallyglass.objectid import first_of

POINTS = 120
"""How many samples are read: one a day over the four months that a series keeps."""

_LONGEST = POINTS * DAY

_CLOSEST = 60.0
"""Seconds between samples: of minutes the oplog tells more, and each sample is a request."""

_AT_ONCE = 4
"""Requests under way at a time, as for the oplog."""


async def read_dated(
    gateway: Gateway, target: IdField, last: int, kind: NumericType, ahead: int, direction: int = 1, *, until: float
) -> list[PastValue]:
    """Past values of a counter whose ids are in ``target``, oldest first, over the four months before ``until``.

    ``last`` is the id there that a counter of this ``direction`` (1, -1) reaches last; ``ahead`` is how far the number
    is past it, 0 if that is stored. Raises PrivilegeError or ReadError.
    """
    # An ObjectId may hold any time: one from the future would move all samples there.
    oldest, newest = await asyncio.gather(
        _dated(gateway, target, _ANY, 1), _dated(gateway, target, {"$lt": _first_at(until)}, -1)
    )
    if oldest is None or newest is None or oldest[0] >= newest[0]:
        return []
    first, span = max(oldest[0], newest[0] - _LONGEST), min(newest[0] - oldest[0], _LONGEST)
    parts = max(1, min(POINTS, int(span / _CLOSEST)))
    moments = [first + span * n / parts for n in range(parts + 1)]
    found: set[tuple[float, int]] = set()
    while moments:
        batch, moments = moments[:_AT_ONCE], moments[_AT_ONCE:]
        rows = await asyncio.gather(*(_dated(gateway, target, _from(at), 1) for at in batch))
        ids = [(at, number * direction) for at, number in filter(None, rows) if number is not None]
        found |= {(at, place) for at, place in ids if place <= last * direction}
    return [PastValue(at, (place + ahead) * direction, kind) for at, place in _rising(found)]


def _rising(points: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """The most points, in order of time, whose numbers rise: a document may be written long after its id was issued."""
    chains: list[tuple[int, _Chain]] = []
    for at, number in sorted(points):
        # chains[n] is the chain of n + 1 points that ends at the lowest number.
        length = bisect_left(chains, number, key=itemgetter(0))
        chains[length : length + 1] = [(number, (at, number, chains[length - 1][1] if length else None))]
    rising: list[tuple[float, int]] = []
    link: _Chain | None = chains[-1][1] if chains else None
    while link is not None:
        at, number, link = link
        rising.append((at, number))
    return rising[::-1]


_Chain = tuple[float, int, "_Chain | None"]


_ANY: Mapping[str, object] = {"$type": "objectId"}


def _from(at: float) -> Mapping[str, object]:
    return {"$gte": _first_at(at)}


def _first_at(at: float) -> ObjectId:
    return ObjectId(first_of(from_seconds(int(at))))


async def _dated(
    gateway: Gateway, target: IdField, condition: Mapping[str, object], direction: int
) -> tuple[float, int | None] | None:
    """The time of the first (1) or last (-1) document with such an ObjectId, and its id; None if there is none."""
    row = await gateway.find_one(target.ns, {"_id": condition}, projection={target.field: 1}, sort=[("_id", direction)])
    document, raw = (row.get("_id"), dig(row, target.field)) if row else (None, None)
    if not isinstance(document, ObjectId):
        return None
    return document.generation_time.timestamp(), whole(raw)
