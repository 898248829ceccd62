"""The demo without a terminal: a plain report of the four jobs, from the code of the other commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tallyglass.mongo.gateway import Gateway
from tallyglass_tui.cli.demo_reads import MISTAKE, accidents, counters_section, object_id_section, oplog_section
from tallyglass_tui.cli.demo_restore import restore_section
from tallyglass_tui.cli.headless import ask, print_text
from tallyglass_tui.cli.incidents import as_table

if TYPE_CHECKING:
    from tallyglass.demo.session import Demo

_FIRST_ACCIDENT = 1.0  # seconds: nobody watches, so there is no reason to wait
_ROWS = 10  # of each table: the report of four jobs is about a screen long


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
    found = await accidents(gateway)
    # The newest mass delete: the mistake that most people come with. One that may still go on cannot be planned yet.
    worst = next(incident for incident in reversed(found) if incident.kind == MISTAKE and not incident.open)
    yield _title("1 Counters: what runs out first, and when", "tallyglass counters")
    yield _first(await counters_section(gateway))
    yield _title("2 ObjectIds: when an id was made, and which ids belong to a time", "tallyglass oid")
    yield await object_id_section(gateway)
    yield _title("3 Oplog: who changed or deleted what, and when", "tallyglass oplog; tallyglass incidents")
    yield await oplog_section(gateway)
    yield _first(as_table([incident for incident in reversed(found) if not incident.routine]))
    yield _title(
        "4 Restore: the plan to return to the moment before it; none of it was run",
        f"tallyglass restore plan --backup PATH --before {worst.limit}",
    )
    yield await restore_section(gateway, demo, worst)


def _first(table: str) -> str:
    """The first rows of a table, and how many more there are."""
    rows = table.splitlines()
    more = [f"... and {len(rows) - _ROWS} more"] if len(rows) > _ROWS else []
    return "\n".join([*rows[:_ROWS], *more])


def _title(text: str, command: str) -> str:
    return f"\n== {text}\n   ({command})"
