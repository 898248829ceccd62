"""``tallyglass restore check-return``: run by the script before the return begins."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass_tui.cli.headless import ask, print_text
from tallyglass_tui.cli.options import PATH, ConnectionOptions
from tallyglass_tui.cli.restore.plan_file import read_plan, server


@click.command("check-return", hidden=True)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.option("--source", metavar="URI", required=True, help="Read the live set: a URI, or a .yml file.")
@click.option("--source-password-file", metavar="FILE", default="", help="Read the live set's password from FILE.")
def check_return(plan_file: Path, source: str, source_password_file: str) -> None:
    """Check the privileges that the return needs on the live set, before it begins. Nothing is written."""
    plan = read_plan(plan_file)
    from tallyglass.restore.undo.return_needs import check_return as check

    target = server(source, ConnectionOptions(password_file=source_password_file))
    if not ask(target, lambda gateway: check(gateway, plan)):
        print_text("Unknown without replSetGetConfig: whether this is another set of the same name.")
    print_text("This user has all privileges that the return needs.")
