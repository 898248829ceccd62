"""``tallyglass check``: one line and an exit code for monitoring systems."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.cli.check_oplog import OplogHours, with_oplog, with_restore
from tallyglass_tui.cli.counter_look import config_option, guesses_option, history_option, look_once
from tallyglass_tui.cli.headless import print_text, timeout_of
from tallyglass_tui.cli.monitoring import MonitoringPlugin
from tallyglass_tui.cli.options import PATH, Command, ConnectionOptions, Number, connection_options
from tallyglass_tui.cli.restore.window import WindowOptions


def _share(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    text = value.strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    # As in Monitoring Plugins: -w 75 is 75 percent.
    number = number / 100 if text.endswith("%") or number > 1 else number
    if not 0 <= number <= 1:
        raise click.BadParameter("Write a share, such as 0.75, 75 or 75%.", ctx, parameter)
    return number


def _share_option(short: str, name: str, default: str, text: str) -> Callable[[Command], Command]:
    return click.option(
        short, name, callback=_share, default=default, show_default=True, metavar="SHARE", help=f"{text} is used."
    )


def _span_option(name: str, unit: str, text: str, default: float | None = None) -> Callable[[Command], Command]:
    kind = Number(min=0, finite=True)
    return click.option(name, type=kind, default=default, show_default=default is not None, metavar=unit, help=text)


_LEAST_SECONDS = 1.0
"""What each part has, even where those before it took all the time: a server that works answers in less."""


def _left(end: float) -> float:
    return max(end - time.monotonic(), _LEAST_SECONDS)


@click.command(cls=MonitoringPlugin, service="COUNTERS")
@connection_options(shards=True)
@config_option
@history_option
@_share_option("-w", "--warn-used", "75%", "Warn if more of the range")
@_share_option("-c", "--crit-used", "90%", "Alert if more of the range")
@_span_option("--warn-days", "DAYS", "Warn if one ends sooner.", 90.0)
@_span_option("--crit-days", "DAYS", "Alert if one ends sooner.", 30.0)
@guesses_option
@_span_option("--oplog-hours-warn", "HOURS", "Warn if the oplog covers fewer hours.")
@_span_option("--oplog-hours-crit", "HOURS", "Alert if the oplog covers fewer hours.")
@click.option(
    "--restore",
    "backups",
    type=PATH,
    metavar="DIR",
    multiple=True,
    help="Check the recoverable window of the backups, too.",
)
@click.option(
    "--restore-oplog", "slices", type=PATH, metavar="PATH", multiple=True, help="Read this saved oplog for --restore."
)
@timeout_of(30.0, "-t")
@click.option("-v", "--verbose", count=True, help="Add a line for each note, and counter not OK.")
def command(
    given: ConnectionOptions,
    config: Path | None,
    no_history: bool,
    warn_used: float,
    crit_used: float,
    warn_days: float,
    crit_days: float,
    guesses: bool,
    oplog_hours_warn: float | None,
    oplog_hours_crit: float | None,
    backups: tuple[Path, ...],
    slices: tuple[Path, ...],
    seconds: float,
    verbose: int,
) -> int:
    """Print one line with perfdata; exit 0 ok, 1 warning, 2 critical, 3 unknown.

    A counter warns by the share of its range that is used, and by the days until it may run out. With
    --oplog-hours-warn or --oplog-hours-crit the oplog's reach counts too: what it is, or will be at the recent rate.
    """
    from tallyglass.counters.check_line import check_counters
    from tallyglass.counters.verdict import Thresholds

    if warn_used > crit_used or warn_days < crit_days:
        raise InputError(
            "A warning has to come before the critical state.",
            "Give a --warn-used below --crit-used, and a --warn-days above --crit-days.",
        )
    if slices and not backups:
        raise InputError("--restore-oplog needs --restore.", "Name the folder of the backups, too.")
    hours = OplogHours(oplog_hours_warn, oplog_hours_crit)
    end = time.monotonic() + seconds
    snapshot = look_once(given, config, seconds, history=not no_history)
    result = check_counters(snapshot, Thresholds(warn_used, crit_used, warn_days, crit_days), guesses=guesses)
    line, level = result.line, result.level
    if hours != OplogHours():
        line, level = with_oplog(line, level, given, hours, _left(end))
    if backups:
        line, level = with_restore(line, level, given, WindowOptions(backups, slices), _left(end))
    print_text(clean(line, len(line)))
    for detail in result.details if verbose else ():
        print_text(clean(detail))
    return level
