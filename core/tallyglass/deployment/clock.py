"""The clock of the server beside the one here: times such as ``now-5m`` count from the one here."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tallyglass.mongo.gateway import Gateway

TOLERATED_SECONDS = 30.0
"""Clocks that differ by more are reported: with NTP they differ by less than a second, and who types ``-5m`` means it
to the minute."""


async def seconds_ahead(gateway: Gateway) -> float | None:
    """By how many seconds the server's clock is ahead of the one here, to half the time of its answer; None if it does
    not tell the time. Raises the errors of the gateway."""
    before = time.time()
    told = (await gateway.command("hello")).get("localTime")
    here = (before + time.time()) / 2
    return told.replace(tzinfo=UTC).timestamp() - here if isinstance(told, datetime) else None
