"""How far back the oplog reaches, how fast it fills, and how far back it will reach at that rate."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Gateway
from tallyglass.oplog.decode.envelope import entries, position
from tallyglass.oplog.read.ends import end_of_oplog
from tallyglass.oplog.snapshot import OplogWindow

SAMPLE_ENTRIES = 2_000
"""Newest entries whose size and age give the recent growth."""

LEAST_SAMPLE_SECONDS = 10
_SAMPLE_MS = 5_000


async def window(gateway: Gateway, *, recent: bool = False) -> OplogWindow:
    """First and last entry, size and growth. What may not be read is None. Errors: those of the gateway.

    ``recent`` also reads the newest entries, for the growth of late, and asks how long entries are kept at least.
    """
    first, last = await end_of_oplog(gateway, 1), await end_of_oplog(gateway, -1)
    used, maximum, lacking = None, None, ""
    try:
        stats = await gateway.command("collStats", OPLOG.collection, db=OPLOG.db)
        used, maximum = _number(stats.get("size")), _number(stats.get("maxSize"))
    except PrivilegeError:
        lacking = f"collStats on {OPLOG}"
    except ReadError:
        pass
    growth = None
    if used is not None and first is not None and last is not None and last.t > first.t:
        growth = used / ((last.t - first.t) / 3600)
    late = await _recent_growth(gateway) if recent else None
    kept = await _kept_hours(gateway) if recent else None
    return OplogWindow(first, last, used, maximum, growth, lacking, late, kept)


async def _recent_growth(gateway: Gateway) -> float | None:
    """Bytes an hour over the newest entries; None where they span too little time to tell."""
    size, newest, oldest = 0, None, None
    with suppress(PrivilegeError, ReadError):
        batches = gateway.find_raw(OPLOG, {}, sort=[("$natural", -1)], limit=SAMPLE_ENTRIES, time_ms=_SAMPLE_MS)
        async for batch in batches:
            for raw in entries(batch):
                size += len(raw)
                oldest = position(raw, 0, len(raw))[0]
                newest = newest or oldest
    return growth_of(size, oldest, newest)


def growth_of(size: int, oldest: Ts | None, newest: Ts | None) -> float | None:
    """Bytes an hour of entries of so many bytes between two timestamps; None where that is too short to tell."""
    if oldest is None or newest is None or newest.t - oldest.t < LEAST_SAMPLE_SECONDS:
        return None
    return size * 3600 / (newest.t - oldest.t)


async def _kept_hours(gateway: Gateway) -> float | None:
    """``oplogMinRetentionHours``: entries are kept so long whatever the size; None where unset or unreadable."""
    try:
        options = (await gateway.command("getCmdLineOpts")).get("parsed", {})
    except (PrivilegeError, ReadError):
        return None
    hours = options.get("storage", {}).get("oplogMinRetentionHours")
    return float(hours) if isinstance(hours, (int, float)) and hours > 0 else None


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None
