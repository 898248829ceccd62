"""``tallyglass incidents``: what people did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import ReadError
from tallyglass.moment import FORMS, Ts, iso
from tallyglass_tui.cli.headless import as_json, ask, steadily, table, tell, timeout_option
from tallyglass_tui.cli.oplog import need_oplog
from tallyglass_tui.cli.options import Given, connection_options, moment_of
from tallyglass_tui.cli.outermost import warn

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident, IncidentScan


@click.command()
@connection_options()
@click.option("--since", metavar="T", help=f"From here ({FORMS}); without it the whole oplog.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON document.")
@timeout_option
def command(given: Given, since: str | None, wants_json: bool, seconds: float) -> None:
    """Show what people did: drops, mass deletes and updates, renames, transactions; the oldest first.

    The last column is what restore plan takes with --before to undo it.
    """
    start = moment_of(since)
    scan = ask(given, lambda gateway: scan_all(gateway, start, seconds), None)
    found = sorted(scan.incidents, key=lambda incident: incident.number)
    if wants_json:
        tell(as_json([_facts(incident) for incident in found], indent=2))
    elif found:
        tell(as_table(found))
    else:
        warn(f"nothing of that kind is among the {scan.scanned} entries that were read.")


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
    rows = [("N", "WALL", "WHAT", "DOCUMENTS", "BEFORE")]
    rows += [
        (
            str(incident.number),
            iso(incident.first_wall) if incident.first_wall else iso(incident.first.time),
            incident.title,
            "?" if incident.documents is None else str(incident.documents),
            str(incident.limit),
        )
        for incident in found
    ]
    return table(rows, right=frozenset({0, 3}))


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
        "documents": incident.documents,
        "point": str(incident.limit),
        "samples": list(incident.samples),
        "open": incident.open,
        "note": incident.note,
    }
