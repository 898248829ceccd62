"""``tallyglass restore``: plan, run, prepare and verify a point-in-time restore."""

from __future__ import annotations

import importlib

import click

from tallyglass_tui.cli.command_group import CommandGroup

_COMMANDS = (
    "backups",
    "check-oplog",
    "check-return",
    "cut-oplog",
    "drill",
    "images",
    "look",
    "outcome",
    "plan",
    "plan-for-screen",
    "prepare",
    "recover",
    "run",
    "save-oplog",
    "start-copy",
    "unpack",
    "verify",
    "window",
)
"""Each has a module with a function of its name, underscores for hyphens."""


class Restore(CommandGroup):
    """Imports a subcommand when it is called: a script calls several of them, one after the other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands, in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand with that name."""
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Restore, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Go back to just before a mistake: plan, run, rehearse, prepare."""
    if ctx.invoked_subcommand is None:
        found = [command.get_command(ctx, name) for name in _COMMANDS]
        shown = [one.name or "" for one in found if one is not None and not one.hidden]
        raise click.UsageError(f"Name a subcommand: {', '.join(shown[:-1])} or {shown[-1]}.", ctx=ctx)
