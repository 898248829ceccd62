"""``tallyglass restore working``: whether a server still works for a program that prints nothing."""

from __future__ import annotations

import click

from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.options import ConnectionOptions, connection_options
from tallyglass_tui.cli.restore.plan_file import server

_ANSWER_SECONDS = 30.0
"""A server that works may be slow to answer."""


@click.command(hidden=True)
@click.argument("named", metavar="SERVER")
@click.option("--app", required=True, help="The name that the program gives to the server.")
@connection_options(uri=False, profile=False)
def working(given: ConnectionOptions, named: str, app: str) -> int:
    """Say whether SERVER runs an operation of a program: exit 0 if it does, 1 if not."""
    from tallyglass.restore.spare.working import works_for

    return 0 if ask(server(named, given), lambda gateway: works_for(gateway, app), _ANSWER_SECONDS) else 1
