"""Run the dashboard on the terminal, with the driver and the interpreter's settings that a bastion host wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.connection.target import Target
from tallyglass.mongo.gateway import Gateway
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.feed import Feeds
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.shell.session import Session
from tallyglass_tui.terminal.driver import BastionDriver
from tallyglass_tui.terminal.keys_first import Garbage, put_keys_first

if TYPE_CHECKING:
    from tallyglass.counters.follow.watch import WatchSettings


def run_dashboard(
    target: Target,
    pages: Sequence[PageSpec],
    backup: Path | None = None,
    *,
    label: str = "",
    watch: WatchSettings | None = None,
) -> int:
    """Show the dashboard on the terminal until the user leaves it; the exit status.

    Raises ConnectError for a target that cannot be used. stdin and stderr must be the terminal.
    """
    session = Session(target, backup, label, watch, Garbage())
    app = Dashboard(session, Feeds(lambda: open_target(target)), pages)
    app.driver_class = BastionDriver
    put_keys_first()
    try:
        app.run(mouse=False)
    finally:
        app.feeds.close()
    if app.feeds.fatal:
        raise app.feeds.fatal
    return app.return_code or 0


def open_target(target: Target) -> Gateway:
    """The gateway to a target; the driver comes with it, so it is imported in the background thread."""
    from tallyglass.mongo.client import open_gateway

    return open_gateway(target)
