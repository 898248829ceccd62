"""``tallyglass restore``: plan, prepare and verify a point-in-time restore. Nothing here runs a restore."""

from __future__ import annotations

import click

from tallyglass_tui.cli.restore_plan import plan
from tallyglass_tui.cli.restore_prepare import prepare
from tallyglass_tui.cli.restore_return import outcome, recover
from tallyglass_tui.cli.restore_verify import verify


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Go back to just before a mistake: plan it, prepare for the next one, verify the result."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("What about a restore: plan, prepare or verify?", ctx=ctx)


command.add_command(plan)
command.add_command(prepare)
command.add_command(verify)
command.add_command(recover)
command.add_command(outcome)
