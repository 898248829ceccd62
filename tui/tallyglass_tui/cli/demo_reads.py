"""What the demo's report shows of counters, ObjectIds and the oplog."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tallyglass.errors import ReadError
from tallyglass.moment import iso
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.objectid import decode, range_filter
from tallyglass_tui import format as fmt
from tallyglass_tui.cli import counters, oplog_lines
from tallyglass_tui.cli.incident_scan import scan_all

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import Incident

MISTAKE = "deleteMany"
_PATIENCE = 60.0  # seconds; a guard: the first accident comes after one
_ENTRIES = 4  # of the oplog: the report of four jobs is about a screen long
_AGAIN = 0.25  # seconds between two scans, each of which takes about a tenth of that


async def accidents(gateway: Gateway) -> list[Incident]:
    """The incidents, oldest first, once a mass delete has ended. The workload makes one within seconds."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            scan = await scan_all(gateway, None, _PATIENCE)
            if any(incident.kind == MISTAKE and not incident.open for incident in scan.incidents):
                return sorted(scan.incidents, key=lambda incident: incident.number)
            await asyncio.sleep(_AGAIN)


async def counters_section(gateway: Gateway) -> str:
    """The counters as the command lists them."""
    from tallyglass.counters.follow.watch import look

    return counters.as_table(await look(gateway))


async def object_id_section(gateway: Gateway) -> str:
    """What the id of the newest order says. Raises ReadError without one."""
    row = await gateway.find_one(Namespace("shop", "orders"), {}, projection={"_id": 1}, sort=[("_id", -1)])
    if row is None:
        raise ReadError("The demo has no orders.")
    parts, now = decode(str(row["_id"])), datetime.now(UTC)
    return (
        f"{parts.hex}  the newest order: {iso(parts.time)}, {fmt.ago(parts.time, now)}, {fmt.local(parts.time)} local\n"
        f"{'':24}  random part {parts.random_hex} (before 2018: machine {parts.machine:06x}, pid {parts.pid}), "
        f"counter {parts.counter:,}\n"
        f"made in the hour before: {range_filter(parts.time - timedelta(hours=1), parts.time)}"
    )


async def oplog_section(gateway: Gateway) -> str:
    """The span of the oplog, and its newest entries."""
    from tallyglass.oplog.read import tail

    window = await tail.window(gateway)
    lines = [
        f"window {window.first} .. {window.last}, {fmt.duration((window.hours or 0) * 3600)}, "
        f"{fmt.size(window.used_bytes)} of {fmt.size(window.max_bytes)}"
    ]
    rows = [row async for row in tail.read(gateway, limit=_ENTRIES)]
    return "\n".join([*lines, *(oplog_lines.line(row) for row in rows)]) + "\n"
