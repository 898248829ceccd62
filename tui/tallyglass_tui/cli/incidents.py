"""``tallyglass incidents``: what people did."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError, ReadError, TallyglassError
from tallyglass.moment import FORMS, Ts, iso
from tallyglass_tui.cli.headless import as_json, ask, steadily, table, tell, timeout_option
from tallyglass_tui.cli.oplog import need_oplog
from tallyglass_tui.cli.options import Given, connection_options, moment_of
from tallyglass_tui.cli.outermost import warn
from tallyglass_tui.cli.shards import ask_shards, shard_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident, IncidentScan


@click.command()
@connection_options()
@click.option("--since", metavar="T", help=f"From here ({FORMS}); without it the whole oplog.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON document.")
@shard_option
@timeout_option
def command(given: Given, since: str | None, wants_json: bool, shards: tuple[str, ...], seconds: float) -> None:
    """Show what people did: drops, mass deletes and updates, scripts, renames, transactions; the oldest first.

    Routine (TTL, moved chunks, jobs, what an application usually does) has lines of its own, marked as such. A + after
    TOOK means that it goes on. The last column is what restore plan takes with --before to undo it.
    """
    start = moment_of(since)
    if shards and given.uri:
        raise InputError("Give either URI or --shard, not both.", "Name every shard with a --shard of its own.")
    if shards:
        found, scanned = ask_shards(given, shards, lambda opened: _scan_shards(opened, start, seconds), seconds)
    else:
        scan = ask(given, lambda gateway: scan_all(gateway, start, seconds), None)
        found, scanned = sorted(scan.incidents, key=lambda incident: incident.number), scan.scanned
    if wants_json:
        tell(as_json([_facts(incident) for incident in found], indent=2))
    elif found:
        tell(as_table(found))
    else:
        warn(f"nothing of that kind is among the {scanned} entries that were read.")


async def _scan_shards(shards: Mapping[str, Gateway], start: Ts | None, seconds: float) -> tuple[list[Incident], int]:
    """All shards side by side; one that fails is named, and the others count."""
    from tallyglass.oplog.incidents.across_shards import combine

    async def one(name: str, gateway: Gateway) -> IncidentScan | None:
        try:
            return await scan_all(gateway, start, seconds)
        except TallyglassError as error:
            warn(f"{name} is left out: {error}")
            return None

    scans = dict(zip(shards, await asyncio.gather(*(one(*shard) for shard in shards.items())), strict=True))
    by_shard = {name: scan.incidents for name, scan in scans.items() if scan is not None}
    return list(combine(by_shard)), sum(scan.scanned for scan in scans.values() if scan is not None)


async def scan_all(gateway: Gateway, since: Ts | None, seconds: float) -> IncidentScan:
    """The whole scan, its last word. Raises ReadError where it could not reach the end."""
    from tallyglass.mongo.gateway import closing
    from tallyglass.oplog.incidents import incident

    await need_oplog(gateway, seconds)
    last: IncidentScan | None = None
    async with closing(steadily(incident.scan(gateway, since), seconds)) as scan:
        async for progress in scan:
            last = progress
    if last is None or not last.done:
        raise ReadError("The oplog could not be read to its end.", last.trouble if last else "")
    if last.trouble:
        warn(last.trouble)
    return last


def as_table(found: list[Incident]) -> str:
    """The incidents as a table with its header."""
    rows = [("N", "WALL", "TOOK", "WHAT", "DOCUMENTS", "BY", "NOTE", "BEFORE")]
    rows += [
        (
            str(incident.number),
            iso(incident.first_wall) if incident.first_wall else iso(incident.first.time),
            f"{incident.last.t - incident.first.t} s" + ("+" if incident.open else ""),
            incident.title,
            documents(incident),
            incident.user or (f"session {incident.session[:8]}" if incident.session else "-"),
            _note(incident),
            str(incident.limit),
        )
        for incident in found
    ]
    return table(rows, right=frozenset({0, 2, 4}))


def documents(incident: Incident) -> str:
    """How many, with ``~`` where some of them are the application's own, ``?`` where unknown."""
    if incident.documents is None:
        return "?"
    return ("" if incident.documents_exact else "~") + str(incident.documents)


def _note(incident: Incident) -> str:
    words = ["routine" if incident.routine else "", incident.note]
    return ": ".join(filter(None, words)) or "-"


def _facts(incident: Incident) -> dict[str, Any]:
    return {
        "number": incident.number,
        "kind": incident.kind,
        "ns": incident.ns,
        "title": incident.title,
        "harm": incident.harm,
        "first_ts": str(incident.first),
        "last_ts": str(incident.last),
        "wall": iso(incident.first_wall) if incident.first_wall else None,
        "ops": incident.ops,
        "operations": incident.ops,
        "op": incident.op or None,
        "documents": incident.documents,
        "documents_exact": incident.documents_exact,
        "seconds": incident.last.t - incident.first.t,
        "point": str(incident.limit),
        "samples": list(incident.samples),
        "open": incident.open,
        "note": incident.note,
        "routine": incident.routine,
        "reason": incident.reason or (incident.kind if incident.routine else None),
        "confidence": incident.confidence,
        "sessions": incident.sessions,
        "session": incident.session or None,
        "user": incident.user or None,
        "user_hash": incident.user_hash or None,
        "who": incident.who,
        "shards": list(incident.shards),
    }
