"""``tallyglass restore drill``: rehearse a restore on a server of its own."""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path

import click

from tallyglass.errors import EmbeddedServerError, InputError
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.headless import print_text
from tallyglass_tui.cli.monitoring import MonitoringPlugin
from tallyglass_tui.cli.options import PATH, ConnectionOptions, backup_of, connection_options, target_of, time_of
from tallyglass_tui.cli.restore.drill_made import checked_outputs, hand_over, rehearsed
from tallyglass_tui.cli.schedule import as_schedule, deadline_option, emit_option, own_words
from tallyglass_tui.this_program import this_program


def _rate(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    from tallyglass.restore.drill.load import parse_rate

    try:
        rate = parse_rate(value)
    except InputError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None
    if not Path("/proc/self/io").exists():
        raise click.BadParameter("A rate limit works on Linux only.", ctx, parameter)
    return rate


@click.command(cls=MonitoringPlugin, service="DRILL")
@connection_options()
@click.option("--backup", type=PATH, metavar="PATH", help="Restore this backup, or the newest of a folder.")
@click.option("--to", metavar="T", help="Restore to this time; default: the newest proven.")
@click.option("--at", type=click.Choice(["random"]), help="Restore to a random point that is covered.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Draw point N.")
@click.option("--oplog", type=PATH, metavar="PATH", help="Read a saved oplog, or a folder of slices.")
@click.option("--backup-start", metavar="T:I", help="Begin here, where the backup records no start.")
@click.option("--report", type=PATH, metavar="FILE", help="Write the report: .json, .html or Markdown.")
@click.option("--metrics", type=PATH, metavar="FILE", help="Write metrics for Prometheus.")
@click.option("--json", "wants_json", is_flag=True, help="Print the report as one JSON document.")
@deadline_option("Stop after TIME, with exit status 2.")
@click.option(
    "--limit-rate", "rate", callback=_rate, metavar="RATE", help="Read at most this much a second, such as 20M."
)
@click.option(
    "--nice", type=click.IntRange(0, 19), metavar="N", default=10, show_default=True, help="Run with this priority."
)
@click.option("--work-dir", type=PATH, metavar="PATH", help="Put the data of the spare into PATH.")
@emit_option
def drill(
    given: ConnectionOptions, backup: Path | None, to: str | None, at: str | None, seed: int | None,
    oplog: Path | None, backup_start: str | None, report: Path | None, metrics: Path | None, wants_json: bool,
    deadline: float, rate: float | None, nice: int, work_dir: Path | None, emit: str | None,
) -> int:  # fmt: skip
    """Rehearse a restore on a server of its own, and measure it.

    It restores, verifies, and throws away. It runs what Tallyglass emits, the script of restore plan, as it stands, up
    to its phase "verify". It starts a mongod on loopback for that and removes it. The source is only read, and no other
    server is touched.

    One line, as check prints it. Exit 0 proved, 1 proved with warnings, 2 the backup cannot be restored, or not in
    time, 3 unknown: the drill could not be run.
    """
    if at and to:
        raise InputError("--to and --at name two points: give one of them.")
    if seed is not None and not at:
        raise InputError("--seed draws a point: give --at random with it.")
    if at and backup_start:
        raise InputError("--at random needs backups that record when they began: leave --backup-start out.")
    if emit is not None:
        print_text(_schedule(emit, given, backup))
        return 0
    report, metrics = checked_outputs(report, metrics)
    os.nice(max(0, nice - os.nice(0)))
    point, begun, place = time_of("--to", to), time_of("--backup-start", backup_start), _backup(given, backup)
    target = target_of(given)
    started = time.monotonic()
    from tallyglass.restore.drill.request import DrillRequest
    from tallyglass.restore.drill.state import state_folder

    request = DrillRequest(
        backup=place,
        source_uri=target.uri,
        work_root=absolute_path(work_dir) if work_dir else state_folder(),
        mongod=_mongod(),
        tallyglass=this_program(),
        password=dict(target.secrets).get("password"),
        to=point,
        seed=(secrets.randbits(48) if seed is None else seed) if at else None,
        oplog=absolute_path(oplog) if oplog else None,
        backup_start=begun,
        rate=rate,
        deadline=deadline,
        started=started,
    )
    return hand_over(rehearsed(target, request), report, metrics, wants_json=wants_json)


_NO_BACKUP = ("No backup is named.", "Give --backup PATH: a backup, or a folder of backups.")


def _backup(given: ConnectionOptions, named: Path | None) -> Path:
    path = absolute_path(named) if named else backup_of(given)
    if path is None:
        raise InputError(*_NO_BACKUP)
    return path


def _mongod() -> Path | None:
    from tallyglass.restore.tools.find_mongod import find_mongod

    try:
        return find_mongod()
    except EmbeddedServerError:
        return None


def _schedule(emit: str, given: ConnectionOptions, backup: Path | None) -> str:
    from tallyglass.restore.drill.components import search_path
    from tallyglass.restore.tools.schedule import DRILL

    words = own_words(given, sys.argv[1:], _PATHS)
    if backup is None and backup_of(given) is None:
        raise click.UsageError(" ".join(_NO_BACKUP))
    return as_schedule(emit, DRILL, words, search_path(_mongod()))


_PATHS = ("--backup", "--oplog", "--report", "--metrics", "--work-dir", "--password-file")
