"""Check whether a backup reaches the moment before a mistake, and print the steps that restore it. Nothing is run.

python -m examples.plan_a_restore mongodb://127.0.0.1:27017/?replicaSet=demo /backups/latest 1795197974:14
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import tallyglass
from tallyglass.moment import Ts, parse_ts
from tallyglass.restore import Plan, RestoreRequest, plan_restore


async def plan(uri: str, backup: Path, before: Ts) -> Plan:
    """Plan a restore. Print its checks, and its steps unless a check blocks.

    ``write_folder(made, path)`` writes the folder in which the lines run, with a script that runs them all.
    """
    gateway = tallyglass.open_gateway(uri)
    try:
        made = await plan_restore(gateway, RestoreRequest(backup, uri, before=before))
    finally:
        await gateway.close()
    for check in made.checks:
        print(f"{check.level} {check.id}: {check.title}")
    for step in made.steps.commands:
        print(f"# {step.title} ({step.effect})\n{step.shell}")
    return made


if __name__ == "__main__":
    asyncio.run(plan(sys.argv[1], Path(sys.argv[2]), parse_ts(sys.argv[3])))
