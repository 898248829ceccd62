"""Run the dashboard on the terminal, with driver and interpreter settings that suit a bastion host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tallyglass.connection.profiles import profile_names
from tallyglass.connection.target import Target
from tallyglass.errors import TallyglassError
from tallyglass_tui import bound
from tallyglass_tui.shell.alarm import AlarmKind
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context, OpenProfile
from tallyglass_tui.shell.feed import Feeds, open_target
from tallyglass_tui.shell.keymap import load_keymap
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.terminal.driver import BastionDriver
from tallyglass_tui.terminal.interpreter import collector_held, tune_interpreter

if TYPE_CHECKING:
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass_tui.shell.recording import Recorder, Recording


_QUESTIONS = 4
"""The pages that answer a question about the deployment come first."""


def run_dashboard(
    target: Target,
    pages: Sequence[PageSpec],
    backup: Path | None = None,
    *,
    label: str = "",
    watch: WatchSettings | None = None,
    mouse: bool = False,
    alarm: str = AlarmKind.OFF,
    open_profile: OpenProfile | None = None,
    recorder: Recorder | None = None,
) -> int:
    """Show the dashboard on the terminal until the user leaves it; the exit status.

    ``open_profile`` makes the context of a profile that the user switches to; None offers no profiles.
    ``mouse`` takes wheel and clicks, which the terminal then no longer uses to select text.
    ``alarm`` is an :class:`AlarmKind`. ``recorder`` keeps what the first deployment shows.
    Raises ConnectError for a target that cannot be used, InputError for an invalid keymap file. stdin and stderr must
    be the terminal.
    """
    context, notice, begins = Context(target, backup, label, watch, collector_held), "", True
    keymap = load_keymap(pages)
    tune_interpreter()
    while True:
        profiles: Sequence[str] = ()
        try:
            profiles = profile_names() if open_profile else ()
        except TallyglassError as error:
            notice = notice or str(error)
        app = Dashboard(
            context,
            Feeds(partial(open_target, context.target), recorder),
            pages,
            keymap=keymap,
            profiles=profiles,
            open_profile=open_profile,
            alarm=AlarmKind(alarm),
            notice=notice,
        )
        app.driver_class = BastionDriver
        if begins:
            app.notice = app.notice or _questions(pages)
        try:
            app.run(mouse=mouse)
        finally:
            app.feeds.close()
            recorder, begins = None, False
        if app.next_profile is not None and open_profile:
            # The app has left the terminal here, so a password can be asked for.
            try:
                context, notice = replace(open_profile(app.next_profile), building=context.building), ""
            except TallyglassError as error:
                notice = str(error)
        elif app.feeds.fatal:
            raise app.feeds.fatal
        else:
            return app.return_code or 0


def _questions(pages: Sequence[PageSpec]) -> str:
    """What the dashboard answers and the keys for it, for a user of whom no history was kept yet; empty afterwards."""
    if platformdirs.user_state_path("tallyglass").exists():
        return ""
    questions = (f"{page.key} {page.answers}" for page in pages[:_QUESTIONS])
    return "; ".join([*questions, f"{bound.key('app.help', '?')} tells more."])


def run_replay(recording: Recording, pages: Sequence[PageSpec], *, mouse: bool = False) -> int:
    """Show the dashboard on a recording until the user leaves it; the exit status. Raises InputError for an invalid
    keymap file."""
    from tallyglass_tui.shell.replay import ReplayDashboard

    context = Context(Target("mongodb://recorded/"), label=recording.label, recorded=True)
    app = ReplayDashboard(recording, pages, context, keymap=load_keymap(pages))
    tune_interpreter()
    app.driver_class = BastionDriver
    try:
        app.run(mouse=mouse)
    finally:
        app.feeds.close()
    return app.return_code or 0
