"""``tallyglass restore plan``: the proof and the exact commands. It runs none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS, iso
from tallyglass.paths import absolute_path
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES
from tallyglass.text import clean
from tallyglass.whole_file import check_writable, write_whole
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import ask, print_text, printable_json, timeout_option
from tallyglass_tui.cli.incident_name import chosen, incident_name
from tallyglass_tui.cli.incident_scan import evidence_folder, evidence_option, log_files, log_option, scan_all
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, profile_of, target_of, time_of
from tallyglass_tui.cli.restore.plan_text import CODES, as_lines, show_progress, tell_doubts, tell_first

if TYPE_CHECKING:
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.model.undo import Choice
    from tallyglass.restore.proof.request import RestoreRequest
    from tallyglass.restore.undo.evidence import KnownStatement

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}\Z")


@click.command()
@connection_options()
@click.option("--backup", type=click.Path(path_type=Path), metavar="PATH", help="Start from this backup.")
@click.option("--before", metavar="TIME", help="Restore to just before this entry or time.")
@click.option(
    "--incident",
    "number",
    type=incident_name,
    metavar="N",
    help="Undo incident N, by its number or its last column.",
)
@click.option(
    "--from",
    "from_",
    type=click.Choice(["backup", "pre-images"]),
    metavar="WAY",
    default=None,
    help="Undo from backup or pre-images; default: the best.",
)
@click.option("--statement", metavar="TEXT", default="", help="State what was run, as in mongosh.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="State how many documents it reported.")
@click.option("--since", metavar="T", help="Count incidents from T on, as the list did.")
@log_option
@evidence_option
@click.option(
    "--oplog",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Read a saved oplog before the live one.",
)
@click.option("--spare", metavar="HOST:PORT", help="Restore onto this empty server; may be a URI.")
@click.option("--backup-start", metavar="T:I", help="Begin here, where the backup records no start.")
@click.option("--only", metavar="NS", help="Restore one collection, under another name.")
@click.option(
    "--as",
    "target_ns",
    metavar="NS2",
    help="Name it so; default: its name and the point.",
)
@click.option("--id", "ids", multiple=True, metavar="ID", help="Restore this document of it; may be repeated.")
@click.option(
    "--work-dir", type=click.Path(path_type=Path), metavar="PATH", help="Put the files of the commands into PATH."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write the plan as a folder: run it there.")
@click.option(
    "--script", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan as one self-extracting script."
)
@timeout_option
def plan(given: ConnectionOptions, wants_json: bool, script: Path | None, seconds: float, **typed: Any) -> int:
    """Prove that a restore is possible, and print its commands.

    With --incident its damage alone is undone: --from backup, as with --only, --spare or --oplog, or from its
    pre-images. --oplog is a mongodump of local.oplog.rs or a folder of slices that join. --only leaves the live
    collection alone. Exit 0 ready, 1 ready with warnings, 2 blocked: the reasons are on stderr.
    """
    asked = _Asked(**typed)
    for is_wrong, title, advice in _COMBINATIONS:
        if is_wrong(asked):
            raise InputError(title, advice)
    known = _evidence(asked.statement, asked.count)
    limit, start = time_of("--before", asked.before), time_of("--since", asked.since)
    begun = time_of("--backup-start", asked.backup_start)
    logs, kept = log_files(asked.logs), evidence_folder(asked.folder)
    place, spare_uri = _spare(asked.spare)
    backup = _backup(given, asked)
    if asked.out:
        from tallyglass.restore.plan.folder import check_free

        check_free(asked.out)
    if script:
        script = absolute_path(script)
        check_writable(script)
    work = asked.out or asked.work_dir
    target = target_of(given)

    async def make(gateway: Gateway) -> Plan:
        from tallyglass.restore.proof.request import RestoreRequest

        incident = None
        if asked.number is not None:
            incident = chosen(await scan_all(gateway, start, seconds, logs, kept), asked.number)
        request = RestoreRequest(
            backup=backup,
            source_uri=target.uri,
            before=limit,
            incident=incident,
            spare=place,
            spare_uri=spare_uri,
            backup_start=begun,
            work_dir=str(absolute_path(work)) if work else "",
            oplog=absolute_path(asked.oplog) if asked.oplog else None,
            evidence=known,
            way=_WAYS[asked.from_],
        )
        return await _make(gateway, replace(request, choice=_choice(asked, request.limit)))

    made = ask(target, make)
    tell_doubts(made.checks)
    _hand_over(made, wants_json, asked.out, script)
    return CODES[made.level]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options that say what is wanted, as typed."""

    backup: Path | None
    before: str | None
    number: int | Ts | None
    from_: str | None
    statement: str
    count: int | None
    since: str | None
    logs: tuple[str, ...]
    folder: str | None
    oplog: Path | None
    spare: str | None
    backup_start: str | None
    only: str | None
    target_ns: str | None
    ids: tuple[str, ...]
    work_dir: Path | None
    out: Path | None

    @property
    def by_backup(self) -> bool:
        return bool(self.only or self.spare or self.oplog)


_COMBINATIONS: tuple[tuple[Callable[[_Asked], object], str, str], ...] = (
    (
        lambda asked: (asked.before is None) == (asked.number is None),
        "The point is not clear.",
        f"Give either --before TIME or --incident N, also with --only. TIME is {FORMS}.",
    ),
    (
        lambda asked: asked.only is None and (asked.target_ns or asked.ids),
        "--as and --id need --only NS.",
        "Name the collection with --only.",
    ),
    (
        lambda asked: asked.number is None and (asked.statement or asked.count or asked.logs or asked.folder),
        "--statement, --count, --log and --evidence need --incident N.",
        "They say what the incident was.",
    ),
    (
        lambda asked: asked.from_ == "pre-images" and (asked.number is None or asked.by_backup),
        "--from pre-images undoes an incident.",
        "Give --incident N, without --only, --spare and --oplog.",
    ),
    (
        lambda asked: asked.out and asked.work_dir,
        "--work-dir and --out cannot be combined.",
        "The commands keep their files in the folder of --out.",
    ),
)
"""Options that do not go together: the test, and the error."""

_WAYS = {None: "", "backup": FROM_BACKUP, "pre-images": FROM_IMAGES}


async def _make(gateway: Gateway, request: RestoreRequest) -> Plan:
    """The plan, with all that is known on the way to it on stderr."""
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.plan.make import make_plan
    from tallyglass.restore.plan.precheck import QuickAnswer
    from tallyglass.restore.plan.ways import Decision

    made: Plan | None = None
    async for found in make_plan(gateway, request, show_progress()):
        if isinstance(found, Plan):
            made = found
        elif isinstance(found, QuickAnswer):
            tell_first(found)
        elif not isinstance(found, Decision):
            print_message(f"using the backup {found}")
        elif made is None:
            for way in found.ways:
                print_message(clean(way.line, 600))
        else:
            tell_doubts(made.checks)
            print_message("pre-images cannot undo it; planning from the backup")
    assert made is not None
    return made


def _hand_over(made: Plan, wants_json: bool, out: Path | None, script: Path | None) -> None:
    if made.level != "block":
        if out is not None:
            _write_folder(out, made)
        if script is not None:
            _write_script(script, made)
    if wants_json:
        from tallyglass.restore.model.document import to_json

        print_text(printable_json(to_json(made, indent=2)))
    elif script is None and out is None:
        print_text("\n".join(as_lines(made)))


def _evidence(statement: str, count: int | None) -> KnownStatement | None:
    if not statement and count is None:
        return None
    from tallyglass.restore.undo.evidence import read_evidence

    return read_evidence(statement, count)


def _choice(asked: _Asked, point: Ts) -> Choice | None:
    """The choice made with --only, --as and --id."""
    only = asked.only
    if only is None:
        return None
    from tallyglass.restore.model.undo import Choice

    target = asked.target_ns or f"{only}_pitr_{point.time:%Y%m%dT%H%M%S}"
    for ns in (only, target):
        if not all(ns.partition(".")[::2]) or "$" in ns or len(ns.encode()) > _LONGEST_NAMESPACE:
            raise InputError(f"'{clean(ns, 80)}' is not a collection.", "Write it as DATABASE.COLLECTION.")
    if only == target:
        raise InputError("--as names the collection itself.", "Give another name: the live collection is not touched.")
    return Choice(only, target, tuple(extended for one in asked.ids for extended in _as_extended_json(one)))


_LONGEST_NAMESPACE = 255


def _as_extended_json(given: str) -> list[str]:
    """An ``_id`` as typed: Extended JSON, else a string; 24 hexadecimal digits may also be an ObjectId."""
    try:
        return [json.dumps(json.loads(given))]
    except ValueError:
        text = [json.dumps(given)]
    return [*text, json.dumps({"$oid": given})] if re.fullmatch("[0-9a-fA-F]{24}", given) else text


def _backup(given: ConnectionOptions, asked: _Asked) -> Path | None:
    """The backup of the command line, or of the profile; None where an incident can be undone without one."""
    named = asked.backup
    if named is None and asked.from_ != "pre-images":
        profile = profile_of(given)
        named = profile.backup if profile else None
    if named is None:
        if asked.number is not None and asked.from_ != "backup" and not asked.by_backup:
            return None
        raise InputError("No backup is named.", "Give --backup PATH: a mongodump directory, an archive, or data files.")
    path = absolute_path(named)
    if not path.exists():
        raise InputError(f"There is no backup at {clean(str(path))}.", "Give --backup PATH.")
    return path


def _spare(spare: str | None) -> tuple[str, str]:
    """Host and port of the spare, and its URI where one was given."""
    if not spare:
        return "", ""
    if _HOST_AND_PORT.match(spare):
        return spare, ""
    from tallyglass.connection.target import Target, is_uri

    if not is_uri(spare):
        raise InputError(f"--spare '{clean(spare, 60)}' is not HOST:PORT.", "For example 127.0.0.1:27117.")
    Target.parse(spare)
    return "", spare


def _write_folder(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.folder import run_line, write_folder

    written = write_folder(made, path)
    print_message(
        f"the plan is in {clean(str(written), 300)}: see README.md there. To run it, asking before each step: "
        f"{run_line(written)}"
    )


def _write_script(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.self_extracting import MODE, script

    write_whole(path, script(made), MODE)
    point = f"just before {made.facts.limit} ({iso(made.facts.limit.time)})"
    print_message(f"{clean(str(path), 300)} restores to {point}; it asks before each step. Read it, then run it.")
