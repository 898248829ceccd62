"""``tallyglass restore plan``: the proof and the exact commands. It runs none of them."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.errors import InputError
from tallyglass.moment import iso
from tallyglass.text import clean
from tallyglass_tui.cli.headless import ask, printable_json, tell, timeout_option
from tallyglass_tui.cli.incidents import scan_all
from tallyglass_tui.cli.options import Given, connection_options, moment_of, profile_of, target_of
from tallyglass_tui.cli.outermost import complain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident
    from tallyglass.restore.model.plan import Check, Choice, Plan

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}\Z")
CODES = {"ok": 0, "warn": 1, "block": 2}
WORDS = {"ok": "ok", "warn": "warning", "block": "blocked"}


@click.command(short_help="Prove that backup and oplog reach the point; the commands.")
@connection_options()
@click.option("--backup", type=click.Path(path_type=Path), metavar="PATH", help="The backup to start from.")
@click.option("--before", metavar="T:I", help="Restore to just before this entry of the oplog, or this time.")
@click.option("--incident", "number", type=click.IntRange(min=1), metavar="N", help="... or before this incident.")
@click.option("--since", metavar="T", help="With --incident: the --since that its number was shown for.")
@click.option("--spare", metavar="HOST:PORT", help="The empty scratch server to restore onto; a URI is taken too.")
@click.option("--backup-start", metavar="T:I", help="An oplog position from before the backup began, if it has none.")
@click.option("--only", metavar="NS", help="Only this collection, put beside the live data under another name.")
@click.option("--as", "target_ns", metavar="NS2", help="With --only: that name; else the collection's with the point.")
@click.option(
    "--id", "ids", multiple=True, metavar="ID", help="With --only: this document; may be given several times."
)
@click.option("--work-dir", metavar="PATH", default="", help="Where the commands keep their files.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON document.")
@click.option("--script", type=click.Path(path_type=Path), metavar="FILE", help="Write the runbook as a script.")
@timeout_option
def plan(
    given: Given,
    backup: Path | None,
    before: str | None,
    number: int | None,
    since: str | None,
    spare: str | None,
    backup_start: str | None,
    only: str | None,
    target_ns: str | None,
    ids: tuple[str, ...],
    work_dir: str,
    wants_json: bool,
    script: Path | None,
    seconds: float,
) -> int:
    """Prove that a backup and the oplog reach the point, and give the exact commands.

    Exit 0 ready, 1 ready with warnings, 2 blocked: the reasons are on stderr.
    """
    if (before is None) == (number is None):
        raise InputError("The point is not clear.", "Give either --before T:I or --incident N.")
    if only is None and (target_ns or ids):
        raise InputError("--as and --id belong to --only NS.", "Name the collection with --only.")
    limit, start, begun = moment_of(before), moment_of(since), moment_of(backup_start)
    place, spare_uri = _spare(spare)
    backup = _backup(given, backup)
    folder = str(Path(work_dir).expanduser().absolute()) if work_dir else ""
    target = target_of(given)

    async def work(gateway: Gateway) -> Plan:
        from tallyglass.restore.planner import RestoreRequest, plan_restore

        incident = await _incident(gateway, number, start, seconds) if number is not None else None
        point = limit or (incident.limit if incident else None)
        request = RestoreRequest(
            backup=backup,
            source_uri=target.uri,
            before=limit,
            incident=incident,
            spare=place,
            spare_uri=spare_uri,
            backup_start=begun,
            work_dir=folder,
            choice=_choice(only, target_ns, ids, point),
        )
        return await plan_restore(gateway, request)

    made = ask(target, work)
    tell_doubts(made.checks)
    _hand_over(made, wants_json, script)
    return CODES[made.level]


def _hand_over(made: Plan, wants_json: bool, script: Path | None) -> None:
    if script is not None and made.level != "block":
        _write_script(script, made)
    if wants_json:
        from tallyglass.restore.model.document import to_json

        tell(printable_json(to_json(made, indent=2)))
    elif script is None:
        tell("\n".join(as_lines(made)))


def tell_doubts(checks: Iterable[Check]) -> None:
    """The checks that warn or block, on stderr."""
    for check in checks:
        if check.level != "ok":
            complain(f"{WORDS[check.level]}: {in_words(check)}")


def in_words(check: Check) -> str:
    """A check's title and advice, safe to show."""
    return f"{clean(check.title)} {clean(check.advice)}".rstrip()


def _choice(only: str | None, target: str | None, ids: tuple[str, ...], point: Ts | None) -> Choice | None:
    """What was asked for with --only, --as and --id."""
    if only is None or point is None:
        return None
    from tallyglass.restore.model.plan import Choice

    target = target or f"{only}_pitr_{point.time:%Y%m%dT%H%M%S}"
    for ns in (only, target):
        if not all(ns.partition(".")[::2]) or "$" in ns or len(ns.encode()) > _LONGEST_NAMESPACE:
            raise InputError(f"'{clean(ns, 80)}' is not a collection.", "Write it as DATABASE.COLLECTION.")
    if only == target:
        raise InputError("--as names the collection itself.", "Give another name: what is live is not touched.")
    return Choice(only, target, tuple(extended for one in ids for extended in _as_extended_json(one)))


_LONGEST_NAMESPACE = 255


def _as_extended_json(given: str) -> list[str]:
    """An ``_id`` as it was typed: Extended JSON, or else a text; 24 hexadecimal digits may be an ObjectId too."""
    try:
        return [json.dumps(json.loads(given))]
    except ValueError:
        text = [json.dumps(given)]
    return [*text, json.dumps({"$oid": given})] if re.fullmatch("[0-9a-fA-F]{24}", given) else text


def _backup(given: Given, named: Path | None) -> Path:
    if named is None:
        profile = profile_of(given)
        named = profile.backup if profile else None
    if named is None:
        raise InputError("No backup is named.", "Give --backup PATH: a mongodump directory, an archive, or data files.")
    path = named.expanduser().absolute()
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
        raise InputError(f"--spare '{clean(spare, 60)}' is not HOST:PORT.", "Such as 127.0.0.1:27117.")
    Target.parse(spare)
    return "", spare


async def _incident(gateway: Gateway, number: int, since: Ts | None, seconds: float) -> Incident:
    scan = await scan_all(gateway, since, seconds)
    for incident in scan.incidents:
        if incident.number == number:
            return incident
    raise InputError(f"There is no incident {number}.", f"There are {len(scan.incidents)}: see tallyglass incidents.")


def as_lines(made: Plan) -> Iterator[str]:
    """The plan for a person: commands as they are, everything else as comments of a shell."""
    yield f"# Restore to just before {made.limit} ({iso(made.limit.time)}), replaying from {made.start}."
    if made.before:
        yield f"# Kept last:  {clean(made.before, 160)}"
    if made.after:
        yield f"# Lost first: {clean(made.after, 160)}"
    yield "#"
    for check in made.checks:
        yield f"# {WORDS[check.level]:<8} {in_words(check)}"
    for loss in made.loss:
        yield (
            f"# after the point on {clean(loss.ns)}: {loss.inserts} inserts, {loss.updates} updates, "
            f"{loss.deletes} deletes"
        )
    for reissue in made.reissue:
        yield (
            f"# {clean(reissue.ns)} {clean(reissue.id)} would hand out ids again: "
            f"{reissue.restored} restored, {reissue.live} live"
        )
    phase = ""
    for step in made.commands:
        yield ""
        if step.phase != phase:
            phase = step.phase
            yield f"# --- {phase} ---"
        yield f"# {clean(step.title)}"
        yield step.shell


def _write_script(path: Path, made: Plan) -> None:
    """Write beside the place and move over it: a script that is half written is never there."""
    from tallyglass.restore.runbook.runbook import MODE, script

    path = path.expanduser().absolute()
    try:
        handle, draft = tempfile.mkstemp(prefix=".tallyglass-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(script(made))
        Path(draft).replace(path)
    except OSError as error:
        raise InputError(f"The script {clean(str(path))} cannot be written: {error.strerror}.") from None
    point = f"just before {made.limit} ({iso(made.limit.time)})"
    complain(f"the script that goes back to {point} is {path}; it asks before each step. Read it, then run it.")
