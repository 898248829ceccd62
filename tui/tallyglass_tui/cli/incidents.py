"""``tallyglass incidents``: drops, mass deletes and other incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError, ReadError
from tallyglass.moment import FORMS, Ts, iso
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, warn
from tallyglass_tui.cli.headless import as_json, ask, each_within, print_text, table, timeout_option
from tallyglass_tui.cli.oplog_window import need_oplog, require_window
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, time_of
from tallyglass_tui.cli.shards import named_shards

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallyglass.evidence.store import EvidenceFolder
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Authorship, Candidate, Incident, IncidentScan


log_option = click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="PATH",
    help="Read who did it from a log, an audit log or a folder.",
)
evidence_option = click.option(
    "--evidence", "folder", metavar="DIR", help="Read what tallyglass watch --evidence kept."
)


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
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@timeout_option
def command(
    given: ConnectionOptions,
    since: str | None,
    ns: str | None,
    logs: tuple[str, ...],
    folder: str | None,
    wants_all: bool,
    wants_json: bool,
    seconds: float,
) -> int:
    """List who deleted what: drops, mass deletes and updates; the oldest first.

    Routine (TTL, moved chunks, jobs, the usual writes of an application) has separate lines, marked as such. A + after
    TOOK means that it goes on. BY is the account and application, as far as the server's log shows them beyond doubt.
    The last column is the value of --before with which restore plan undoes it. --incident takes it as well as the
    number, which may change while the oplog grows. With --ns there are no numbers.
    Rotated and compressed logs beside that of --log are read too.
    Exit 3 if one of several shards could not be read: its incidents are missing.
    """
    start = time_of("--since", since)
    files, kept = log_files(logs), evidence_folder(folder)
    if ns is not None and "." not in ns:
        raise InputError("--ns is no collection.", "Name one with its database, such as shop.orders.")
    scan = ask(given, lambda gateway: scan_all(gateway, start, seconds, files, kept, ns=ns or ""), None)
    found = sorted(scan.incidents, key=lambda incident: (incident.number, incident.first))
    if wants_json:
        print_text(as_json([facts(incident) for incident in found], indent=2))
    elif found:
        print_text(as_table(found, whole=wants_all))
    else:
        warn(f"no incidents among the {scan.scanned} entries read.")
    return UNKNOWN if scan.unread else OK


def log_files(paths: Sequence[str]) -> list[Path]:
    """The log files that ``--log`` names. Raises InputError for a path without one."""
    from tallyglass.evidence.log_files import files_of

    return [file for path in paths for file in files_of(absolute_path(path))]


def evidence_folder(path: str | None) -> EvidenceFolder | None:
    """The folder that ``--evidence`` names. Raises InputError if it cannot be used."""
    from tallyglass.evidence.store import EvidenceFolder

    if path is None:
        return None
    folder = absolute_path(path)
    if not folder.is_dir():
        raise InputError(f"There is no folder {clean(str(folder))}.", "tallyglass watch --evidence DIR makes one.")
    return EvidenceFolder(folder)


async def scan_all(
    gateway: Gateway,
    since: Ts | None,
    seconds: float,
    logs: Sequence[Path] = (),
    folder: EvidenceFolder | None = None,
    *,
    ns: str = "",
) -> IncidentScan:
    """The last result of the scan, with who wrote the incidents. Raises ReadError if it could not reach the end."""
    from tallyglass.mongo.gateway import closing
    from tallyglass.oplog.incidents import incident
    from tallyglass.oplog.incidents.across_shards import scan_shards
    from tallyglass.oplog.incidents.authors import naming

    shards = await named_shards(gateway, seconds)
    if shards is not None and ns:
        raise InputError("--ns reads one replica set.", "Leave it out to read all shards.")
    if shards is None:
        await need_oplog(gateway, seconds)
    if not ns:
        await require_window(shards or {"": gateway}, since, None, seconds)
    named = naming(gateway, logs, folder)
    whole = named(gateway, incident.scan(gateway, since, ns=ns)) if shards is None else None
    scans = whole or scan_shards(shards or {}, since, named=named)
    last: IncidentScan | None = None
    async with closing(each_within(scans, seconds)) as scan:
        async for progress in scan:
            last = progress
    if last is None or not last.done:
        raise ReadError("The oplog could not be read to its end.", last.trouble if last else "")
    if last.trouble:
        warn(last.trouble)
    for one in last.running:
        warn(f"{one.statement} on {one.ns} has run for {one.seconds:.0f} s now. To stop it, in mongosh: {one.kill}")
    return last


def as_table(found: list[Incident], *, whole: bool = False) -> str:
    """The incidents as a table with its header. Unless ``whole``, changes of one kind that may be an application's are
    one row."""
    from tallyglass_tui.incidents.fold import Fold, fold

    rows: list[tuple[str, ...]] = [("N", "WALL", "TOOK", "WHAT", "DOCUMENTS", "BY", "NOTE", "BEFORE")]
    for row in found if whole else fold(found):
        if isinstance(row, Fold):
            rows.append(
                ("-", _began(row.incidents[0]), "-", row.title, "-", "-", f"{row.where}; --all shows them", "-")
            )
        else:
            rows.append(_cells(row))
    return table(rows, right=frozenset({0, 2, 4}))


def _cells(incident: Incident) -> tuple[str, ...]:
    return (
        str(incident.number or "-"),
        _began(incident),
        f"{incident.last.t - incident.first.t} s" + ("+" if incident.open else ""),
        incident.title,
        documents(incident),
        incident.by or (f"session {incident.session[:8]}" if incident.session else "-"),
        _note(incident),
        str(incident.limit),
    )


def _began(incident: Incident) -> str:
    return iso(incident.first_wall) if incident.first_wall else iso(incident.first.time)


def documents(incident: Incident) -> str:
    """How many, with ``~`` where some of them are the application's own, ``?`` where unknown."""
    if incident.documents is None:
        return "?"
    return ("" if incident.documents_exact else "~") + str(incident.documents)


def _note(incident: Incident) -> str:
    words = ["routine" if incident.routine else "", " ".join(filter(None, (incident.reading, incident.note)))]
    return ": ".join(filter(None, words)) or "-"


def facts(incident: Incident) -> dict[str, Any]:
    """The incident as a JSON object."""
    return {
        "number": incident.number or None,
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
        "readings": [
            [{"point": str(one.first), "documents": one.documents} for one in reading] for reading in incident.readings
        ],
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
        "evidence": _evidence(incident.evidence),
    }


def _evidence(found: Authorship | None) -> dict[str, Any] | None:
    """Who wrote an incident; the names are null unless that is known beyond doubt, and all are in ``candidates``."""
    if found is None:
        return None
    who = _candidate(found.who) if found.who else dict.fromkeys(_CANDIDATE)
    return {
        "grade": found.grade,
        **who,
        "source": found.source or None,
        "reason": found.reason,
        "candidates": [_candidate(one) for one in found.candidates],
    }


_CANDIDATE = (
    "user", "application", "client", "driver", "connection", "documents", "statement", "statements", "plan", "began",
    "ended", "beside",
)  # fmt: skip


def _candidate(one: Candidate) -> dict[str, Any]:
    found = {name: getattr(one, "clients" if name == "client" else name) for name in _CANDIDATE}
    found |= {
        "client": ", ".join(one.clients),
        "began": one.began and iso(one.began),
        "ended": one.ended and iso(one.ended),
    }
    return {name: value if value != "" else None for name, value in found.items()}
