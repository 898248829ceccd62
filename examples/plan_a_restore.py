"""Whether a backup reaches the moment before a mistake, and the commands that go there. Nothing is run.

python -m examples.plan_a_restore mongodb://127.0.0.1:27017/?replicaSet=demo /backups/latest 1795197974:14
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import tallyglass
from tallyglass.moment import Ts, parse_ts
from tallyglass.restore import Plan, RestoreRequest, plan_restore, script


async def plan(uri: str, backup: Path, before: Ts) -> Plan:
    """Plan, and print the checks; the script where no check blocks."""
    gateway = tallyglass.open_gateway(uri)
    try:
        made = await plan_restore(gateway, RestoreRequest(backup, uri, before=before))
    finally:
        await gateway.close()
    for check in made.checks:
        print(f"{check.level} {check.id}: {check.title}")
    if made.commands:
        print(script(made))
    return made


if __name__ == "__main__":
    asyncio.run(plan(sys.argv[1], Path(sys.argv[2]), parse_ts(sys.argv[3])))
