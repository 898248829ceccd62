"""``tallyglass restore plan``: the proof and the exact commands. It runs none of them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS, iso
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass.whole_file import check_writable, write_whole
from tallyglass_tui.cli.error_boundary import print_aside, print_message
from tallyglass_tui.cli.headless import ask, print_text, printable_json, timeout_option
from tallyglass_tui.cli.incidents import scan_all
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, profile_of, target_of, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident
    from tallyglass.restore.model.plan import Check, Choice, Plan
    from tallyglass.restore.plan.precheck import QuickAnswer
    from tallyglass.restore.proof.prove import Progress, Step
    from tallyglass.restore.undo.evidence import KnownStatement

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}\Z")
CODES = {"ok": 0, "warn": 1, "block": 2}
WORDS = {"ok": "ok", "warn": "warning", "block": "blocked"}


@click.command(short_help="Plan a point-in-time restore and print its commands.")
@connection_options()
@click.option("--backup", type=click.Path(path_type=Path), metavar="PATH", help="Start from this backup.")
@click.option("--before", metavar="TIME", help="Restore to just before this entry of the oplog, or this time.")
@click.option(
    "--incident",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="Restore to just before incident N (see tallyglass incidents).",
)
@click.option(
    "--from",
    "from_",
    type=click.Choice(["backup", "pre-images"]),
    default=None,
    help="With --incident: undo it from the pre-images of its collection, or from a backup. Default: the backup, and "
    "pre-images where none is named.",
)
@click.option("--statement", metavar="TEXT", default="", help="With --incident: the updateMany that was run.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="... and how many documents it reported.")
@click.option("--since", metavar="T", help="With --incident: the --since of the list that showed N.")
@click.option(
    "--oplog",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A saved oplog, read before the live one: a mongodump of local.oplog.rs, or a folder of slices that join.",
)
@click.option("--spare", metavar="HOST:PORT", help="The empty scratch server to restore onto; may also be a URI.")
@click.option(
    "--backup-start", metavar="T:I", help="An oplog position from before the backup began, if the backup records none."
)
@click.option("--only", metavar="NS", help="Only this collection, under another name; the live one is not touched.")
@click.option(
    "--as",
    "target_ns",
    metavar="NS2",
    help="With --only: the other name; default: the collection's name and the point.",
)
@click.option("--id", "ids", multiple=True, metavar="ID", help="With --only: this document; may be repeated.")
@click.option("--work-dir", metavar="PATH", default="", help="Put the files of the commands into PATH.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write the plan as a folder: run it there.")
@click.option(
    "--script", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan as one self-extracting script."
)
@timeout_option
def plan(
    given: ConnectionOptions,
    backup: Path | None,
    before: str | None,
    number: int | None,
    from_: str | None,
    statement: str,
    count: int | None,
    since: str | None,
    oplog: Path | None,
    spare: str | None,
    backup_start: str | None,
    only: str | None,
    target_ns: str | None,
    ids: tuple[str, ...],
    work_dir: str,
    wants_json: bool,
    out: Path | None,
    script: Path | None,
    seconds: float,
) -> int:
    """Prove that a backup and the oplog reach the point, and give the exact commands.

    Exit 0 ready, 1 ready with warnings, 2 blocked: the reasons are on stderr.
    """
    if (before is None) == (number is None):
        advice = f"Give either --before TIME or --incident N, also with --only. TIME is {FORMS}."
        raise InputError("The point is not clear.", advice)
    if only is None and (target_ns or ids):
        raise InputError("--as and --id need --only NS.", "Name the collection with --only.")
    if number is None and (statement or count):
        raise InputError("--statement and --count need --incident N.", "They say what the incident was.")
    known = _evidence(statement, count)
    limit, start = time_of("--before", before), time_of("--since", since)
    begun = time_of("--backup-start", backup_start)
    place, spare_uri = _spare(spare)
    if from_ == "pre-images" and (number is None or only or spare or oplog):
        advice = "Give --incident N, without --only, --spare and --oplog."
        raise InputError("--from pre-images undoes an incident.", advice)
    by_backup = bool(only or spare or oplog)
    unnamed = from_ is None and number is not None and not by_backup and _named_backup(given, backup) is None
    images = unnamed or from_ == "pre-images"
    backup_path = None if images and not backup else _backup(given, backup)
    if out and work_dir:
        raise InputError(
            "--work-dir and --out cannot be combined.", "The commands keep their files in the folder of --out."
        )
    if out:
        from tallyglass.restore.plan.folder import check_free

        check_free(out)
    if script:
        script = absolute_path(script)
        check_writable(script)
    work = out or (Path(work_dir) if work_dir else None)
    folder = str(absolute_path(work)) if work else ""
    slices = absolute_path(oplog) if oplog else None
    target = target_of(given)

    async def make(gateway: Gateway) -> Plan:
        from tallyglass.restore.plan.from_backup import RestoreRequest, plan_restore
        from tallyglass.restore.plan.from_images import UndoRequest, plan_undo
        from tallyglass.restore.plan.precheck import quick_answer

        incident = await _incident(gateway, number, start, seconds) if number is not None else None
        if incident is not None and from_ is None:
            await _tell_ways(gateway, incident, backup_path, target.uri)
        if images and incident is not None:
            undo = await plan_undo(gateway, UndoRequest(incident, target.uri, folder, backup_path, begun, known))
            if undo.level != "block" or backup_path is None:
                return undo
            tell_doubts(undo.checks)
            print_message("pre-images cannot undo it; planning from the backup")
        assert backup_path is not None
        point = limit or (incident.limit if incident else None)
        request = RestoreRequest(
            backup=await _newest_backup(gateway, backup_path, point, slices),
            source_uri=target.uri,
            before=limit,
            incident=incident,
            spare=place,
            spare_uri=spare_uri,
            backup_start=begun,
            work_dir=folder,
            choice=_choice(only, target_ns, ids, point),
            oplog=slices,
            evidence=known,
        )
        tell_first(await quick_answer(gateway, request))
        return await plan_restore(gateway, request, _show_progress())

    made = ask(target, make)
    tell_doubts(made.checks)
    _hand_over(made, wants_json, out, script)
    return CODES[made.level]


async def _tell_ways(gateway: Gateway, incident: Incident, backup: Path | None, uri: str) -> None:
    """How the incident can be undone, best first, on stderr."""
    from tallyglass.restore.plan.from_backup import RestoreRequest
    from tallyglass.restore.plan.ways import possible_ways

    request = None
    if backup is not None:
        request = RestoreRequest(await _newest_backup(gateway, backup, incident.limit), uri, incident=incident)
    for way in await possible_ways(gateway, incident, request):
        print_message(clean(way.line, 600))


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


def tell_first(found: QuickAnswer) -> None:
    """What is known before the proof, on stderr: saving the oplog cannot wait for it."""
    print_message(found.line)
    if found.save:
        print_message("Save the oplog now with this line, since the proof may take long:")
        print_aside(found.save)


def _show_progress() -> Progress:
    """One line that is overwritten on a terminal; elsewhere a line every 30 s."""
    terminal = sys.stderr.isatty()
    every = _SHOWN_SECONDS if terminal else _LOGGED_SECONDS
    begun = shown = time.monotonic()

    def show(step: Step) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < every:
            return
        shown = now
        left = (now - begun) * (1 - step.share) / step.share if step.share else 0.0
        line = f"{step.entries:,} entries, at {iso(step.at.time)}, about {left:,.0f} s left"
        if not terminal:
            print_message(line)
            return
        sys.stderr.write(f"\r{line:<70}\r")
        sys.stderr.flush()

    return show


_SHOWN_SECONDS = 0.5
_LOGGED_SECONDS = 30.0


def tell_doubts(checks: Iterable[Check]) -> None:
    """Prints the checks that warn or block to stderr; equal ones of many namespaces as one."""
    from tallyglass.restore.model.group import merged_checks

    for check in merged_checks(checks):
        if check.level != "ok":
            print_message(f"{WORDS[check.level]}: {in_words(check)}")


def in_words(check: Check) -> str:
    """A check's title and advice, safe to show."""
    return f"{clean(check.title, 2_000)} {clean(check.advice)}".rstrip()


def _evidence(statement: str, count: int | None) -> KnownStatement | None:
    if not statement and count is None:
        return None
    from tallyglass.restore.undo.evidence import read_evidence

    return read_evidence(statement, count)


def _choice(only: str | None, target: str | None, ids: tuple[str, ...], point: Ts | None) -> Choice | None:
    """The choice made with --only, --as and --id."""
    if only is None or point is None:
        return None
    from tallyglass.restore.model.plan import Choice

    target = target or f"{only}_pitr_{point.time:%Y%m%dT%H%M%S}"
    for ns in (only, target):
        if not all(ns.partition(".")[::2]) or "$" in ns or len(ns.encode()) > _LONGEST_NAMESPACE:
            raise InputError(f"'{clean(ns, 80)}' is not a collection.", "Write it as DATABASE.COLLECTION.")
    if only == target:
        raise InputError("--as names the collection itself.", "Give another name: the live collection is not touched.")
    return Choice(only, target, tuple(extended for one in ids for extended in _as_extended_json(one)))


_LONGEST_NAMESPACE = 255


def _as_extended_json(given: str) -> list[str]:
    """An ``_id`` as typed: Extended JSON, else a string; 24 hexadecimal digits may also be an ObjectId."""
    try:
        return [json.dumps(json.loads(given))]
    except ValueError:
        text = [json.dumps(given)]
    return [*text, json.dumps({"$oid": given})] if re.fullmatch("[0-9a-fA-F]{24}", given) else text


def _named_backup(given: ConnectionOptions, named: Path | None) -> Path | None:
    """The backup of the command line, or of the profile."""
    if named is None:
        profile = profile_of(given)
        named = profile.backup if profile else None
    return named


def _backup(given: ConnectionOptions, named: Path | None) -> Path:
    named = _named_backup(given, named)
    if named is None:
        raise InputError("No backup is named.", "Give --backup PATH: a mongodump directory, an archive, or data files.")
    path = absolute_path(named)
    if not path.exists():
        raise InputError(f"There is no backup at {clean(str(path))}.", "Give --backup PATH.")
    return path


async def _newest_backup(gateway: Gateway, path: Path, point: Ts | None, oplog: Path | None = None) -> Path:
    """The newest backup of a folder of backups that reaches the point; ``path`` itself where it is one backup."""
    from tallyglass.restore.catalogue.backups import holds_backups, list_backups, newest_before

    if point is None or not holds_backups(path):
        return path
    if oplog is not None:
        from tallyglass.restore.saved_oplog.joined import join
        from tallyglass.restore.saved_oplog.saved_oplog import read_saved

        gateway, _ = await join(gateway, await asyncio.to_thread(read_saved, [oplog]))
    chosen = newest_before([one async for one in list_backups(path, gateway)], point)
    print_message(f"using the backup {chosen}")
    return chosen


def _spare(spare: str | None) -> tuple[str, str]:
    """Host and port of the spare, and its URI where one was given."""
    if not spare:
        return "", ""
    if _HOST_AND_PORT.match(spare):
        return spare, ""
    from tallyglass.connection.target import Target, is_uri

    if not is_uri(spare):
        raise InputError(f"--spare '{clean(spare, 60)}' is not HOST:PORT.", "Such as 127.0.0.1:27117.")
    Target.parse(spare)
    return "", spare


async def _incident(gateway: Gateway, number: int, since: Ts | None, seconds: float) -> Incident:
    scan = await scan_all(gateway, since, seconds)
    for incident in scan.incidents:
        if incident.number == number:
            return incident
    raise InputError(f"There is no incident {number}.", f"There are {len(scan.incidents)}: see tallyglass incidents.")


_MOST_LOSSES = 20


def as_lines(made: Plan) -> Iterator[str]:
    """The plan for a person: lines to paste in its folder, everything else as comments of a shell."""
    from tallyglass.restore.model.group import merged_checks

    how = f"replaying from {made.start}" if made.start else "from pre-images"
    yield f"# Restore to just before {made.limit} ({iso(made.limit.time)}), {how}."
    if made.before:
        yield f"# Last entry kept:    {clean(made.before, 160)}"
    if made.after:
        yield f"# First entry undone: {clean(made.after, 160)}"
    for row in made.undone[:_MOST_LOSSES]:
        yield f"# undone: {clean(row.line, 1_000)}"
    if len(made.undone) > _MOST_LOSSES:
        yield f"# undone: {len(made.undone) - _MOST_LOSSES} more rows; --json lists them all"
    yield "#"
    for check in merged_checks(made.checks):
        yield f"# {WORDS[check.level]:<8} {in_words(check)}"
    for loss in made.loss[:_MOST_LOSSES]:
        yield (
            f"# after the point on {clean(loss.ns)}: {loss.inserts} inserts, {loss.updates} updates, "
            f"{loss.deletes} deletes"
        )
    if len(made.loss) > _MOST_LOSSES:
        yield f"# after the point: {len(made.loss) - _MOST_LOSSES} more namespaces; --json lists them all"
    for reissue in made.reissue:
        yield (
            f"# {clean(reissue.ns)} {clean(reissue.id)} would hand out ids again: "
            f"{reissue.restored} restored, {reissue.live} live"
        )
    yield from _steps(made)


def _steps(made: Plan) -> Iterator[str]:
    from tallyglass.restore.plan.step_text import fold_line

    if made.commands:
        yield "#"
        yield "# The lines below run in the plan's folder. Write it with --out DIR; restore.sh there runs them all."
    phase = ""
    for number, step in enumerate(made.commands, start=1):
        if step.phase != phase:
            phase = step.phase
            yield from ("", f"# --- {phase} ---")
        effect = "" if step.effect == "files only" else f" ({step.effect})"
        yield f"# {number}. {clean(step.title)}{effect}"
        yield fold_line(step)


def _write_folder(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.folder import SCRIPT, write_folder

    written = clean(str(write_folder(made, path)), 300)
    print_message(f"the plan is in {written}: read README.md there, then run bash {SCRIPT}; it asks before each step.")


def _write_script(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.self_extracting import MODE, script

    write_whole(path, script(made), MODE)
    point = f"just before {made.limit} ({iso(made.limit.time)})"
    print_message(f"{clean(str(path), 300)} restores to {point}; it asks before each step. Read it, then run it.")
