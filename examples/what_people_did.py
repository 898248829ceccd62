"""Report what people did to a deployment, from its oplog, and the latest entries.

python -m examples.what_people_did mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import asyncio
import sys

import tallyglass
from tallyglass.oplog import IncidentScan, OplogFilter, read_past, scan


async def report(uri: str) -> IncidentScan | None:
    """Read the whole oplog backwards. Print one line for each incident, and the latest entries."""
    gateway = tallyglass.open_gateway(uri)
    found: IncidentScan | None = None
    try:
        async for latest in scan(gateway):
            found = latest
        for incident in found.incidents if found else ():
            print(f"{incident.first.time:%H:%M:%S} {incident.title}; the point before it is {incident.limit}")
        async for row in read_past(gateway, OplogFilter.parse("op:iud !ns:config.*"), limit=10):
            print(f"{row.ts} {row.op} {row.ns} {row.id}")
    finally:
        await gateway.close()
    return found


if __name__ == "__main__":
    asyncio.run(report(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017/?replicaSet=demo"))
