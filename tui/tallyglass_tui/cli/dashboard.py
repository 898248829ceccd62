"""``tallyglass [URI]``: the dashboard."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import ConnectError, InputError, TallyglassError
from tallyglass.paths import absolute_path
from tallyglass.text import clean_name
from tallyglass_tui.cli.counter_look import config_option, history_option, watch_settings
from tallyglass_tui.cli.options import (
    PATH,
    ConnectionOptions,
    chosen_profile,
    connection_options,
    target_of,
    target_of_profile,
)
from tallyglass_tui.pages import PAGES

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass_tui.shell.context import Context

_INSTEAD = "The other commands need no terminal: tallyglass counters, oplog, incidents, doctor (--json for scripts)."


@click.command("tallyglass", context_settings={"help_option_names": ["-h", "--help"]})
@connection_options(shards=True)
@click.option("--backup", type=PATH, metavar="PATH", help="Start the restore page with this backup.")
@click.option("--mouse", is_flag=True, help="Use wheel and clicks; Shift then selects text.")
@click.option(
    "--alarm",
    type=click.Choice(["off", "bell", "notify"]),
    metavar="HOW",
    default="off",
    show_default=True,
    envvar="TALLYGLASS_ALARM",
    help="Alert by bell or notify.",
)
@click.option("--record", type=PATH, metavar="FILE", help="Record what is shown, for tallyglass replay.")
@config_option
@history_option
def command(
    given: ConnectionOptions,
    backup: Path | None = None,
    config: Path | None = None,
    no_history: bool = False,
    mouse: bool = False,
    alarm: str = "off",
    record: Path | None = None,
) -> int:
    """Show counters, oplog, incidents and restores, live."""
    target = target_of(given)
    missing = why_no_terminal()
    if missing:
        raise InputError(missing, _INSTEAD)
    profile = chosen_profile(given)
    if backup is None and profile:
        backup = profile.backup
    watch = watch_settings(given, config, history=not no_history)

    def open_profile(name: str, *, ask: bool = True) -> Context:
        from tallyglass.connection.profiles import load_profile
        from tallyglass_tui.shell.context import Context

        found = load_profile(name)
        settings = watch_settings(ConnectionOptions(profile=name), config, history=not no_history)
        try:
            target = target_of_profile(found, ask=ask)
        except click.Abort:
            raise ConnectError(f"No password was typed for {clean_name(name, 60)}.") from None
        return Context(target, found.backup, name, settings)

    return open_dashboard(
        target,
        backup,
        label=profile.name if profile else "",
        watch=watch,
        mouse=mouse,
        alarm=alarm,
        open_profile=open_profile,
        record=record,
    )


def open_dashboard(
    target: Target, backup: Path | None, *, label: str = "", record: Path | None = None, **options: Any
) -> int:
    """Import and run the dashboard; returns its exit code. ``options`` are those of ``run_dashboard``."""
    module = dashboard_module()
    recorder = None
    if record:
        from tallyglass_tui.cli.record import print_result, recorder_of

        record = absolute_path(record)
        recorder = recorder_of(record, target, label)
    try:
        return int(module.run_dashboard(target, PAGES, backup, label=label, recorder=recorder, **options))
    finally:
        if recorder and record:
            recorder.close()
            print_result(recorder, record)


def dashboard_module() -> ModuleType:
    """The module that runs the dashboard. Raises TallyglassError where Textual is not installed."""
    try:
        return importlib.import_module("tallyglass_tui.shell.run")
    except ModuleNotFoundError as error:
        raise TallyglassError(
            f"The dashboard cannot be opened: {error.name} is not installed.", "pip install 'tallyglass[tui]'"
        ) from None


def why_no_terminal() -> str:
    """Why the dashboard cannot run here, in one sentence; empty if it can."""
    # Textual draws on stderr; messages after the end go to stdout.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return "The dashboard needs a terminal for its input and its output."
    term = os.environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return f"This terminal ({f'TERM={term}' if term else 'TERM is not set'}) cannot show the dashboard."
    return ""
