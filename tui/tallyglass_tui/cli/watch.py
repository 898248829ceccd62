"""``tallyglass watch``: new incidents with who wrote them, one a line, without a screen; the evidence on disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tallyglass.moment import iso
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import print_message, warn
from tallyglass_tui.cli.headless import as_json, ask, print_text
from tallyglass_tui.cli.incidents import documents, facts
from tallyglass_tui.cli.oplog import need_oplog
from tallyglass_tui.cli.options import ConnectionOptions, connection_options
from tallyglass_tui.cli.shards import named_shards

if TYPE_CHECKING:
    from tallyglass.evidence.store import EvidenceFolder
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident

_ANSWER_SECONDS = 60.0


@click.command()
@connection_options(shards=True)
@click.option(
    "--evidence",
    "folder",
    metavar="DIR",
    help="Keep the lines of the server's log that name who wrote in DIR, for 7 days, 256 MB at most; "
    "incidents --evidence DIR uses them. They contain the filters of statements.",
)
@click.option("--json", "wants_json", is_flag=True, help="One JSON document per line.")
@click.option("--seconds", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Stop after this time.")
def command(given: ConnectionOptions, folder: str | None, wants_json: bool, seconds: float | None) -> None:
    """Print each new incident as soon as it is known who wrote it, or that nobody can be named; without a screen.

    An incident that goes on, or whose author is known only later, is printed again. Ctrl-C ends it.
    """
    from tallyglass.evidence.store import EvidenceFolder

    kept = EvidenceFolder(absolute_path(folder)) if folder else None

    async def work(gateway: Gateway) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _watch(gateway, kept, wants_json)

    ask(given, work, None)


async def _watch(gateway: Gateway, folder: EvidenceFolder | None, wants_json: bool) -> None:
    from tallyglass.mongo.gateway import closing
    from tallyglass.oplog.incidents.across_shards import watch_shards
    from tallyglass.oplog.incidents.authors import naming
    from tallyglass.oplog.incidents.incident import watch
    from tallyglass.oplog.read.past import safe_end

    shards = await named_shards(gateway, _ANSWER_SECONDS)
    if shards is None:
        await need_oplog(gateway, _ANSWER_SECONDS)
    since = (await safe_end(gateway if shards is None else next(iter(shards.values())))).ts
    named = naming(gateway, folder=folder, keeps=True)
    scans = named(gateway, watch(gateway, since)) if shards is None else watch_shards(shards, since, named=named)
    shown: dict[object, str] = {}
    trouble = ""
    print_message(f"Watching from {iso(since.time)}; press Ctrl-C to stop.")
    async with closing(scans) as found:
        async for scan in found:
            if scan.trouble and scan.trouble != trouble:
                warn(scan.trouble)
            trouble = scan.trouble
            for one in sorted(scan.incidents, key=lambda incident: incident.number):
                line = _line(one, wants_json)
                if not one.routine and shown.get(_key(one)) != line:
                    shown[_key(one)] = line
                    print_text(line)


def _key(incident: Incident) -> object:
    return (incident.kind, incident.ns, incident.first, incident.session)


def _line(incident: Incident, wants_json: bool) -> str:
    if wants_json:
        return as_json(facts(incident) | {"number": None})
    grade = incident.evidence.grade if incident.evidence else "none"
    who = f"{incident.by} ({grade})" if incident.by else "nobody known"
    goes_on = ", goes on" if incident.open else ""
    return (
        f"{iso(incident.first.time)}  {incident.title}  {documents(incident)} documents{goes_on}  by {who}  "
        f"--before {incident.limit}"
    )
