"""Report every counter of a deployment and when it runs out.

python -m examples.counters_report mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import asyncio
import sys

import tallyglass
from tallyglass.counters import CountersSnapshot, WatchSettings, look


async def report(uri: str) -> CountersSnapshot:
    """Read the counters once, and print one line for each."""
    gateway = tallyglass.open_gateway(uri)
    try:
        snapshot = await look(gateway, WatchSettings())
    finally:
        await gateway.close()
    for counter in snapshot.counters:
        likely = counter.forecast.likely
        when = f"about {likely:%Y-%m-%d}" if likely else "not known"
        used = "unknown" if counter.used is None else f"{counter.used:.1%}"
        print(f"{counter.ns} {counter.id}: {counter.value}, {used} of its range, runs out: {when}")
    return snapshot


if __name__ == "__main__":
    asyncio.run(report(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017/?replicaSet=demo"))
