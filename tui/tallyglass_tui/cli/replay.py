"""``tallyglass replay FILE``: the dashboard on a recording."""

from __future__ import annotations

import click

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.dashboard import dashboard_module, why_no_terminal
from tallyglass_tui.pages import PAGES


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--mouse", is_flag=True, help="Use wheel and clicks; Shift then selects text.")
def command(file: str, mouse: bool) -> int:
    """Show the dashboard on a recording.

    FILE comes from tallyglass record FILE or tallyglass URI --record FILE.
    [ and ] go to what was recorded before and next, { and } by a minute, < and > change the speed, p plays and pauses.
    Nothing is read from a server, and nothing is copied or written.
    """
    missing = why_no_terminal()
    if missing:
        raise InputError(missing)
    module = dashboard_module()
    from tallyglass_tui.recorded import KINDS
    from tallyglass_tui.shell.recording import Recording

    return int(module.run_replay(Recording(absolute_path(file), KINDS), PAGES, mouse=mouse))
