"""``tallyglass restore``: plan, prepare and verify a point-in-time restore. Only the drill runs one."""

from __future__ import annotations

import click

from tallyglass_tui.cli.restore_backups import backups
from tallyglass_tui.cli.restore_drill import drill
from tallyglass_tui.cli.restore_for_screen import plan_for_screen
from tallyglass_tui.cli.restore_images import images
from tallyglass_tui.cli.restore_oplog import cut_oplog, save_oplog
from tallyglass_tui.cli.restore_plan import plan
from tallyglass_tui.cli.restore_prepare import prepare
from tallyglass_tui.cli.restore_return import check_return, outcome, recover
from tallyglass_tui.cli.restore_verify import verify


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Go back to just before a mistake: plan it, prepare for the next one, verify the result."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("Name a subcommand: plan, prepare, verify, backups or drill.", ctx=ctx)


command.add_command(plan)
command.add_command(prepare)
command.add_command(verify)
command.add_command(backups)
command.add_command(drill)
command.add_command(check_return)
command.add_command(images)
command.add_command(recover)
command.add_command(outcome)
command.add_command(save_oplog)
command.add_command(cut_oplog)
command.add_command(plan_for_screen)
