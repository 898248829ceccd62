"""``tallyglass restore plan``: the proof and the exact commands. It runs none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS
from tallyglass.paths import absolute_path
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES
from tallyglass.text import clean
from tallyglass_tui.cli.headless import timeout_option
from tallyglass_tui.cli.incident_name import agreed, chosen, incident_name
from tallyglass_tui.cli.incident_scan import evidence_folder, log_files, scan_all
from tallyglass_tui.cli.options import (
    PATH,
    ConnectionOptions,
    backup_of,
    connection_options,
    evidence_option,
    json_option,
    log_option,
    spare_of,
    target_of,
    time_of,
)
from tallyglass_tui.cli.restore.plan_made import planned
from tallyglass_tui.cli.restore.plan_outputs import checked_outputs, hand_over

if TYPE_CHECKING:
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.proof.request import RestoreRequest
    from tallyglass.restore.undo.evidence import KnownStatement


@click.command()
@connection_options()
@click.option("--backup", type=PATH, metavar="PATH", help="Start from this backup.")
@click.option("--before", metavar="TIME", help="Restore to just before this entry or time.")
@click.option(
    "--incident", "number", type=incident_name, metavar="N", help="Undo incident N, by its number or its last column."
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
@click.option("--oplog", type=PATH, metavar="PATH", help="Read a saved oplog before the live one.")
@click.option("--spare", metavar="HOST:PORT", help="Restore onto this empty server; may be a URI.")
@click.option("--backup-start", metavar="T:I", help="Begin here, where the backup records no start.")
@click.option("--only", metavar="NS", help="Restore one collection, under another name.")
@click.option("--as", "target_ns", metavar="NS2", help="Name it so; default: its name and the point.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Restore this document of it; may be repeated.")
@click.option("--work-dir", type=PATH, metavar="PATH", help="Put the files of the commands into PATH.")
@json_option
@click.option("--out", type=PATH, metavar="DIR", help="Write the plan as a folder: run it there.")
@click.option("--script", type=PATH, metavar="FILE", help="Write the plan as one self-extracting script.")
@timeout_option
def plan(given: ConnectionOptions, wants_json: bool, script: Path | None, seconds: float, **typed: Any) -> int:
    """Prove that a restore is possible, and print its commands.

    With --incident its damage alone is undone: --from backup, as with --only, --spare or --oplog, or from its
    pre-images. A number may mean another incident by now: at a terminal you are asked. --oplog is a mongodump of
    local.oplog.rs or a folder of slices that join. --only leaves the live collection alone. Exit 0 ready, 1 ready with
    warnings, 2 blocked: the reasons are on stderr.
    """
    asked = _Asked(**typed)
    for is_wrong, title, advice in _COMBINATIONS:
        if is_wrong(asked):
            raise InputError(title, advice)
    known = _evidence(asked.statement, asked.count)
    limit, start = time_of("--before", asked.before), time_of("--since", asked.since)
    begun = time_of("--backup-start", asked.backup_start)
    logs, kept = log_files(asked.logs), evidence_folder(asked.folder)
    place, spare_uri = spare_of(asked.spare)
    backup = _backup(given, asked)
    script = checked_outputs(asked.out, script)
    work = asked.out or asked.work_dir
    target = target_of(given)

    async def wanted(gateway: Gateway) -> RestoreRequest:
        from tallyglass.restore.proof.choice import read_choice
        from tallyglass.restore.proof.request import RestoreRequest

        incident = None
        if asked.number is not None:
            incident = chosen(await scan_all(gateway, start, seconds, logs, kept), asked.number)
            await agreed(incident, asked.number, start)
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
        if asked.only is None:
            return request
        return replace(request, choice=read_choice(asked.only, asked.target_ns, asked.ids, request.limit))

    return hand_over(planned(target, wanted), wants_json, asked.out, script)


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
    logs: tuple[Path, ...]
    folder: Path | None
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
        lambda asked: (
            asked.number is None and (asked.statement or asked.count or asked.logs or asked.since or asked.folder)
        ),
        "--statement, --count, --log, --since and --evidence need --incident N.",
        "They say which incident it was, or what.",
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


def _evidence(statement: str, count: int | None) -> KnownStatement | None:
    if not statement and count is None:
        return None
    from tallyglass.restore.undo.evidence import read_evidence

    return read_evidence(statement, count)


def _backup(given: ConnectionOptions, asked: _Asked) -> Path | None:
    """The backup of the command line, or of the profile; None where an incident can be undone without one."""
    path = absolute_path(asked.backup) if asked.backup else None
    if path is None and asked.from_ != "pre-images":
        path = backup_of(given)
    if path is None:
        if asked.number is not None and asked.from_ != "backup" and not asked.by_backup:
            return None
        raise InputError("No backup is named.", "Give --backup PATH: a mongodump directory, an archive, or data files.")
    if not path.exists():
        raise InputError(f"There is no backup at {clean(str(path))}.", "Give --backup PATH.")
    return path
