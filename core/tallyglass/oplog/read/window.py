"""How far back the oplog reaches, how fast it fills, and how far back it will reach at that rate."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from bson import Timestamp

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.codec import whole_number
from tallyglass.mongo.gateway import OPLOG, Gateway
from tallyglass.oplog.read.entries import end_of_oplog
from tallyglass.oplog.snapshot import OplogWindow

SPANS = (1, 10, 60, 300)
"""Seconds over which the newest entries are added up: the longest of these that holds no more than MOST_ENTRIES."""

MOST_ENTRIES = 60_000
"""The most entries that the server adds up for one span: some tenths of a second."""

CHANGE = 1.25
"""The last minute counts instead of a longer span only above this ratio: a single mass write is no change of load."""

GROWTH_SECONDS = 60.0
"""How often a reader that stays adds up the newest entries again."""

_MINUTE = 60  # seconds
_LEAST_SECONDS = 10
"""The shortest span over which growth is stated."""

_TIME_MS = 5_000
"""Milliseconds that the server may take to add up one span."""


class WindowReader:
    """Reads the window again and again, the newest entries for its growth only every :data:`GROWTH_SECONDS`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._known: OplogWindow | None = None
        self._measured = 0.0

    async def read(self) -> OplogWindow:
        """The window now. Errors: those of the gateway."""
        known, now = self._known, time.monotonic()
        if known is None or known.recent_bytes_per_hour is None or now - self._measured >= GROWTH_SECONDS:
            self._measured = now
            self._known = await window(self._gateway, recent=True)
        else:
            found = await window(self._gateway)
            self._known = replace(found, recent_bytes_per_hour=known.recent_bytes_per_hour, kept_hours=known.kept_hours)
        return self._known


async def window(gateway: Gateway, *, recent: bool = False) -> OplogWindow:
    """First and last entry, size and growth. What may not be read is None. Errors: those of the gateway.

    ``recent`` also has the server add up the newest entries, for the growth of late, and asks how long entries are kept
    at least.
    """
    first, last = await end_of_oplog(gateway, 1), await end_of_oplog(gateway, -1)
    used, maximum, lacking = None, None, ""
    try:
        stats = await gateway.command("collStats", OPLOG.collection, db=OPLOG.db)
        used, maximum = whole_number(stats.get("size")), whole_number(stats.get("maxSize"))
    except PrivilegeError:
        lacking = f"collStats on {OPLOG}"
    except ReadError:
        pass
    growth = None
    if used is not None and first is not None and last is not None and last.t - first.t >= _LEAST_SECONDS:
        growth = used / ((last.t - first.t) / 3600)
    late = await _recent_growth(gateway, first, last) if recent and first and last else None
    kept = await _kept_hours(gateway) if recent else None
    return OplogWindow(first, last, used, maximum, growth, lacking, late, kept)


async def _recent_growth(gateway: Gateway, first: Ts, last: Ts) -> float | None:
    """Bytes an hour over the newest entries; None where they span too little time to tell.

    Whole seconds are added up, up to the one of ``last``, and over minutes: mass writes of a few seconds then hardly
    change the result from one look to the next.
    """
    found: dict[int, float] = {}
    with suppress(PrivilegeError, ReadError):
        for span in SPANS:
            seconds = min(span, last.t - first.t)
            if seconds < min(span, _LEAST_SECONDS):
                break
            query = {"ts": {"$gte": Timestamp(last.t - seconds, 0), "$lt": Timestamp(last.t, 0)}}
            held = await gateway.extent(OPLOG, query, most=MOST_ENTRIES, time_ms=_TIME_MS)
            if held.documents >= MOST_ENTRIES and found:
                break
            found[span] = held.bytes * 3600 / seconds
    if last.t - first.t < _LEAST_SECONDS or not found:
        return None
    return max(found[max(found)], found.get(_MINUTE, 0.0) / CHANGE)


async def _kept_hours(gateway: Gateway) -> float | None:
    """``oplogMinRetentionHours``: entries are kept so long whatever the size; None where unset or unreadable."""
    try:
        options = (await gateway.command("getCmdLineOpts")).get("parsed", {})
    except (PrivilegeError, ReadError):
        return None
    hours = options.get("storage", {}).get("oplogMinRetentionHours")
    return float(hours) if isinstance(hours, (int, float)) and hours > 0 else None
