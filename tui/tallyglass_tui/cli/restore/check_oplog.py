"""``tallyglass restore check-oplog``: run by the script before the oplog is kept."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass_tui.cli.headless import print_text
from tallyglass_tui.cli.options import PATH
from tallyglass_tui.cli.restore.plan_file import read_plan


@click.command("check-oplog", hidden=True)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.argument("file", metavar="FILE", type=PATH)
def check_oplog(plan_file: Path, file: Path) -> None:
    """Check that FILE, a dump of the oplog, holds the entries that PLAN needs."""
    plan = read_plan(plan_file)
    from tallyglass.restore.saved_oplog.dumped import check_dumped

    if plan.proof.slice is None:
        raise click.UsageError("This plan replays no oplog.")
    check_dumped(file, plan.proof.slice)
    print_text(f"{plan.proof.slice.entries:,} entries, as proven.")
