"""The demo without a terminal: a plain report of the four jobs, from the code of the other commands."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.errors import ReadError
from tallyglass.moment import iso
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.objectid import decode, range_filter
from tallyglass.restore.model.check import merged_checks
from tallyglass.restore.plan.step_text import fold_line
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.cli import counters, incident_scan, incidents, oplog_lines
from tallyglass_tui.cli.headless import ask, print_text
from tallyglass_tui.cli.restore.plan_text import WORDS

if TYPE_CHECKING:
    from tallyglass.demo.session import Demo
    from tallyglass.oplog.snapshot import Incident
    from tallyglass.restore.model.plan import Plan

_FIRST_ACCIDENT = 1.0
_MISTAKE = "deleteMany"
_PATIENCE = 60.0
_ENTRIES = 4
_ROWS = 10
_AGAIN = 0.25


def report(port: int | None, mongod: str | None) -> int:
    """Start the demo, wait for an accident, print the report of each job, and end it. Returns the exit code."""
    from tallyglass.connection.target import Target
    from tallyglass.demo.session import Demo
    from tallyglass.demo.workload import Schedule

    with Demo(port=port, mongod=mongod, schedule=Schedule(first=_FIRST_ACCIDENT)) as demo:
        target = Target.parse(demo.uri)

        async def work(gateway: Gateway) -> None:
            async for text in _sections(gateway, demo):
                print_text(text)

        ask(target, work)
    return 0


async def _sections(gateway: Gateway, demo: Demo) -> AsyncIterator[str]:
    from tallyglass.deployment.cluster import look_at

    deployment = await look_at(gateway)
    yield f"Tallyglass demo: MongoDB {deployment.version}, {deployment.kind} {deployment.set_name}, under a workload."
    found = await _accidents(gateway)
    # The newest mass delete: the mistake that most people come with.
    worst = next(incident for incident in reversed(found) if incident.kind == _MISTAKE)
    yield _title("1 Counters: what runs out first, and when", "tallyglass counters")
    yield _first(await _counters(gateway))
    yield _title("2 ObjectIds: when an id was made, and which ids belong to a time", "tallyglass oid")
    yield await _object_id(gateway)
    yield _title("3 Oplog: who changed or deleted what, and when", "tallyglass oplog; tallyglass incidents")
    yield await _oplog(gateway)
    yield _first(incidents.as_table([incident for incident in reversed(found) if not incident.routine]))
    yield _title(
        "4 Restore: the plan to return to the moment before it; none of it was run",
        f"tallyglass restore plan --backup PATH --before {worst.limit}",
    )
    yield await _restore(gateway, demo, worst)


def _first(table: str) -> str:
    """The first rows of a table, and how many more there are."""
    rows = table.splitlines()
    more = [f"... and {len(rows) - _ROWS} more"] if len(rows) > _ROWS else []
    return "\n".join([*rows[:_ROWS], *more])


def _title(text: str, command: str) -> str:
    return f"\n== {text}\n   ({command})"


async def _accidents(gateway: Gateway) -> list[Incident]:
    """The incidents, oldest first, once there is a mass delete. The workload makes one within seconds."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            scan = await incident_scan.scan_all(gateway, None, _PATIENCE)
            if any(incident.kind == _MISTAKE for incident in scan.incidents):
                return sorted(scan.incidents, key=lambda incident: incident.number)
            await asyncio.sleep(_AGAIN)


async def _counters(gateway: Gateway) -> str:
    from tallyglass.counters.follow.watch import look

    return counters.as_table(await look(gateway))


async def _object_id(gateway: Gateway) -> str:
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


async def _oplog(gateway: Gateway) -> str:
    from tallyglass.oplog.read import tail

    window = await tail.window(gateway)
    lines = [
        f"window {window.first} .. {window.last}, {fmt.duration((window.hours or 0) * 3600)}, "
        f"{fmt.size(window.used_bytes)} of {fmt.size(window.max_bytes)}"
    ]
    rows = [row async for row in tail.read(gateway, limit=_ENTRIES)]
    return "\n".join([*lines, *(oplog_lines.line(row) for row in rows)]) + "\n"


async def _restore(gateway: Gateway, demo: Demo, incident: Incident) -> str:
    from tallyglass.restore.plan.folder import write_folder
    from tallyglass.restore.plan.from_backup import plan_restore
    from tallyglass.restore.proof.request import RestoreRequest

    # It stays when the demo ends: it is there to be read.
    folder = Path(tempfile.mkdtemp(prefix="tallyglass-demo-")) / "plan"
    plan = await plan_restore(gateway, RestoreRequest(demo.backup, demo.uri, incident=incident, work_dir=str(folder)))
    if plan.steps.commands:
        write_folder(plan, folder)
        where = f"The plan's folder is {folder}: read README.md there; remove it afterwards."
    else:
        folder.parent.rmdir()
        where = "A blocked plan has no commands and no folder."
    return "\n".join([*_plan_lines(plan), "", where])


def _plan_lines(plan: Plan) -> Iterator[str]:
    """The plan in short: what it keeps and undoes, its warnings, the titles of its steps, and the line that replays."""
    limit, proof = plan.facts.limit, plan.proof
    yield f"just before {limit} ({iso(limit.time)}), replaying {proof.operations:,} entries from {proof.start}"
    yield f"undoes: {clean(plan.facts.incident, 100)}"
    for check in merged_checks(plan.checks):
        if check.level != "ok":
            yield from _wrapped(f"{WORDS[check.level]}: {clean(check.title, 300)}")
    for phase, steps in itertools.groupby(plan.steps.commands, key=lambda step: step.phase):
        yield from _wrapped(f"{phase + ':':<9}" + "; ".join(clean(step.title) for step in steps))
    yield from (fold_line(step) for step in plan.steps.commands if "--oplogReplay" in step.argv)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110, subsequent_indent=" " * 9)
