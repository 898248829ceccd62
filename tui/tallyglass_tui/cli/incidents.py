"""``tallyglass incidents``: drops, mass deletes and other incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS, iso
from tallyglass.text import plural, whole_duration
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, print_message, warn
from tallyglass_tui.cli.headless import as_json, ask, print_text, table, timeout_option
from tallyglass_tui.cli.incident_facts import documents, facts
from tallyglass_tui.cli.incident_scan import evidence_folder, log_files, scan_all
from tallyglass_tui.cli.options import (
    ConnectionOptions,
    connection_options,
    evidence_option,
    json_option,
    log_option,
    time_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tallyglass.oplog.snapshot import Incident


class WithReport(click.Command):
    """The list, or with ``report`` as first word the command for one of them."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the words as those of the list or of the report."""
        if args[:1] != ["report"]:
            return super().make_context(info_name, args, parent, **extra)
        from tallyglass_tui.cli.incidents_report import report

        return report.make_context(f"{info_name} report", args[1:], parent, **extra)


@click.command(
    cls=WithReport,
    epilog=f"T is a time: {FORMS}. tallyglass incidents report N --out FILE.html writes one as a page to pass on.",
)
@connection_options(shards=True)
@click.option("--since", metavar="T", help="Start at this time; default: the whole oplog.")
@click.option("--ns", metavar="NS", help="Read one collection alone, as Atlas M0 requires.")
@log_option
@evidence_option
@click.option("--all", "wants_all", is_flag=True, help="List each change that may be an application's.")
@json_option
@timeout_option
def command(
    given: ConnectionOptions,
    since: str | None,
    ns: str | None,
    logs: tuple[Path, ...],
    folder: Path | None,
    wants_all: bool,
    wants_json: bool,
    seconds: float,
) -> int:
    """List who deleted what: drops, mass deletes and updates; the oldest first.

    Routine (TTL, moved chunks, jobs, the usual writes of an application) has separate lines, marked as such. A + after
    TOOK means that it goes on. BY is the account and application, as far as the server's log shows them beyond doubt.
    The last column is the value of --before with which restore plan undoes it. --incident takes it as well as the
    number, which may change while the oplog grows, each with the --since of the list. With --ns there are no numbers.
    Rotated and compressed logs beside that of --log are read too.
    Exit 3 if one of several shards could not be read: its incidents are missing.
    """
    start = time_of("--since", since)
    files, kept = log_files(logs), evidence_folder(folder)
    if ns is not None and not all(ns.partition(".")):
        raise InputError("--ns is no collection.", "Name one with its database, such as shop.orders.")
    scan = ask(given, lambda gateway: scan_all(gateway, start, seconds, files, kept, ns=ns or ""), step=seconds)
    found = sorted(scan.incidents, key=lambda incident: (incident.number, incident.first))
    if wants_json:
        print_text(as_json([facts(incident) for incident in found], indent=2))
    elif found:
        print_text(as_table(found, whole=wants_all))
        if start is not None and not ns:
            print_message(f"restore plan --incident needs --since {start}, too, to find these.")
    else:
        warn(f"no incidents; {plural(scan.scanned, 'entry was', 'entries were')} read.")
    return UNKNOWN if scan.unread else OK


def as_table(found: list[Incident], *, whole: bool = False) -> str:
    """The incidents as a table with its header. Unless ``whole``, changes of one kind that may be an application's are
    one row."""
    from tallyglass_tui.incidents.fold import Fold, fold

    rows: list[tuple[str, ...]] = [("N", "WALL", "TOOK", "WHAT", "DOCUMENTS", "BY", "NOTE", "BEFORE")]
    for row in found if whole else fold(found):
        if isinstance(row, Fold):
            rows.append(
                ("-", iso(row.incidents[0].began), "-", row.title, "-", "-", f"{row.where}; --all shows them", "-")
            )
        else:
            rows.append(_cells(row))
    return table(rows, right=frozenset({0, 2, 4}))


def _cells(incident: Incident) -> tuple[str, ...]:
    return (
        str(incident.number or "-"),
        iso(incident.began),
        whole_duration(incident.last.t - incident.first.t) + ("+" if incident.open else ""),
        incident.title,
        documents(incident),
        incident.by or (f"session {incident.session[:8]}" if incident.session else "-"),
        _note(incident),
        str(incident.limit),
    )


def _note(incident: Incident) -> str:
    words = ["routine" if incident.routine else "", " ".join(filter(None, (incident.reading, incident.note)))]
    return ": ".join(filter(None, words)) or "-"
