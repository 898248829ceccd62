"""Which collections keep pre-images and how far back, and what it would cost the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Gateway
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.pre_images.settings import Retention, keeps_images, oldest_image, retention

_SAMPLE = 20_000
"""How many of the newest oplog entries the estimate of the cost reads."""
_SHORTEST_SECONDS = 60
"""The shortest span of entries that gives a rate."""
_MOST = 50
"""How many collections are queried one by one."""


@dataclass(frozen=True, slots=True)
class ImageCost:
    """What keeping images would store for one collection at the present rate: updates and deletes an hour, and the
    bytes of the documents that they change, None if this user may not read the average size."""

    ns: str
    changes_per_hour: float
    bytes_per_hour: float | None


@dataclass(frozen=True, slots=True)
class Survey:
    """Which collections keep images. Names as stored. ``unknown`` counts those whose options may not be read.

    ``oldest`` is when the oldest image was stored, None if there is none; a collection is absent if that may not be
    read or was not queried. ``costs`` covers the collections without images that change most; ``sampled_seconds`` is
    the span of oplog that the estimate uses, None if the oplog gives no rate.
    """

    keeping: tuple[str, ...]
    without: tuple[str, ...]
    unknown: int
    kept: Retention
    oldest: Mapping[str, datetime | None] = field(default_factory=dict)
    costs: tuple[ImageCost, ...] = ()
    sampled_seconds: int | None = None


async def survey(gateway: Gateway) -> Survey:
    """Read all collections that this user may list. Raises the errors of the gateway."""
    found: dict[bool | None, list[CollectionInfo]] = {True: [], False: [], None: []}
    for db in await gateway.list_databases():
        if db not in LEFT_OUT:
            for info in await gateway.list_collections(db):
                if info.kind == "collection" and not info.ns.collection.startswith("system."):
                    found[keeps_images(info)].append(info)
    seconds, changes = await _changes(gateway)
    busiest = sorted(found[False], key=lambda info: -changes[info.uuid])[:_MOST]
    return Survey(
        keeping=_names(found[True]),
        without=_names(found[False]),
        unknown=len(found[None]),
        kept=await retention(gateway) if found[True] else Retention(),
        oldest=await _oldest(gateway, found[True]),
        costs=tuple([await _cost(gateway, info, changes[info.uuid], seconds) for info in busiest if changes[info.uuid]])
        if seconds
        else (),
        sampled_seconds=seconds,
    )


def _names(found: list[CollectionInfo]) -> tuple[str, ...]:
    return tuple(sorted(str(info.ns) for info in found))


async def _oldest(gateway: Gateway, keeping: list[CollectionInfo]) -> dict[str, datetime | None]:
    found: dict[str, datetime | None] = {}
    for info in keeping[:_MOST]:
        try:
            found[str(info.ns)] = await oldest_image(gateway, info.uuid)
        except (PrivilegeError, ReadError):
            break
    return found


async def _changes(gateway: Gateway) -> tuple[int | None, Counter[bytes]]:
    """Updates and deletes by collection in the newest entries, and the seconds that these cover; None if that is too
    short for a rate, or the oplog may not be read."""
    changes: Counter[bytes] = Counter()
    first = last = None
    try:
        newest = gateway.find_raw(OPLOG, {}, sort=[("$natural", -1)], limit=_SAMPLE, time_ms=60_000)
        async for raw in unpacked(newest):
            entry = read_entry(raw)
            first, last = entry.ts, last or entry.ts
            for operation in entry.inner() if entry.command == "applyOps" else (entry,):
                changes[operation.ui] += operation.op in ("u", "d")
    except (PrivilegeError, ReadError, Malformed):
        return None, Counter()
    seconds = last.t - first.t if first and last else 0
    return (seconds if seconds >= _SHORTEST_SECONDS else None), changes


async def _cost(gateway: Gateway, info: CollectionInfo, changes: int, seconds: int) -> ImageCost:
    an_hour = changes * 3_600 / seconds
    try:
        stats = await gateway.command("collStats", info.ns.collection, db=info.ns.db)
    except (PrivilegeError, ReadError):
        return ImageCost(str(info.ns), an_hour, None)
    size = stats.get("avgObjSize")
    return ImageCost(str(info.ns), an_hour, an_hour * size if isinstance(size, (int, float)) else None)
