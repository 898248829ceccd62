"""``tallyglass watch``: new incidents with who wrote them, one a line, without a screen; the evidence on disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tallyglass.moment import iso
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, print_message, warn
from tallyglass_tui.cli.headless import ask, print_text
from tallyglass_tui.cli.incident_journal import IncidentJournal, line_of
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, seconds_option, target_of
from tallyglass_tui.cli.shards import named_shards
from tallyglass_tui.cli.while_read import while_read

if TYPE_CHECKING:
    from pathlib import Path

    from tallyglass.evidence.store import EvidenceFolder
    from tallyglass.mongo.gateway import Gateway

_ANSWER_SECONDS = 60.0  # for the first answer: a set elects within 12 s, and a busy machine needs several times that


@click.command()
@connection_options(shards=True)
@click.option("--evidence", "folder", type=PATH, metavar="DIR", help="Keep the lines of the log that say who wrote.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document per line.")
@seconds_option
def command(given: ConnectionOptions, folder: Path | None, wants_json: bool, seconds: float | None) -> int:
    """Print each new incident: once it is seen, known by whom, and ended.

    --evidence keeps 7 days of lines, 256 MB at most, for incidents --evidence DIR; they contain the filters of
    statements. The oplog is read once at the start to learn what is usual. What is routine is not printed, nor changes
    that may be. Ctrl-C ends it.
    """
    from tallyglass.evidence.store import EvidenceFolder
    from tallyglass.mongo.client import seldom_monitored

    kept = EvidenceFolder(absolute_path(folder), keeps=True) if folder else None

    async def work(gateway: Gateway) -> bool:
        begun = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await while_read(_watch(gateway, kept, wants_json, begun))
        return begun.is_set()

    target = target_of(given)
    if ask(target, work, None, **seldom_monitored(target)):
        return OK
    print_message(f"No answer within {seconds or 0:g} s: nothing was watched.")
    return UNKNOWN


async def _watch(gateway: Gateway, folder: EvidenceFolder | None, wants_json: bool, begun: asyncio.Event) -> None:
    """Print what is new, without end; ``begun`` is set once the server has answered."""
    from tallyglass.mongo.gateway import closing
    from tallyglass.oplog.incidents.across_shards import watch_shards
    from tallyglass.oplog.incidents.authors import naming
    from tallyglass.oplog.incidents.incident import watch
    from tallyglass.oplog.read.past import safe_end

    shards = await named_shards(gateway, _ANSWER_SECONDS)
    since = (await safe_end(gateway if shards is None else next(iter(shards.values())))).ts
    named = naming(gateway, folder=folder)
    # From the beginning of the oplog: what is usual is known only from what was there before.
    scans = named(gateway, watch(gateway)) if shards is None else watch_shards(shards, named=named)
    journal = IncidentJournal(since)
    trouble = ""
    begun.set()
    print_message(f"Watching from {iso(since.time)}; press Ctrl-C to stop.")
    async with closing(scans) as found:
        async for scan in found:
            if scan.trouble and scan.trouble != trouble:
                warn(scan.trouble)
            trouble = scan.trouble
            for one in journal.news(scan):
                print_text(line_of(one, wants_json))
