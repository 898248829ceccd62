"""``tallyglass restore``: plan, prepare and verify a point-in-time restore. Only the drill runs one."""

from __future__ import annotations

import importlib

import click

_MODULES = {
    "backups": "backups",
    "check-return": "account",
    "cut-oplog": "oplog",
    "drill": "drill",
    "images": "images",
    "outcome": "account",
    "plan": "plan",
    "plan-for-screen": "for_screen",
    "prepare": "prepare",
    "recover": "account",
    "save-oplog": "oplog",
    "unpack": "backups",
    "verify": "verify",
    "window": "window",
    "working": "verify",
}
"""The module of each subcommand, which has a function of that name."""


class Restore(click.Group):
    """Imports a subcommand when it is called: a script calls several of them, one after the other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands, in the order of the help."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand with that name."""
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"tallyglass_tui.cli.restore.{_MODULES[cmd_name]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Restore, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Go back to just before a mistake: plan it, prepare for the next one, verify the result."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("Name a subcommand: plan, prepare, verify, backups or drill.", ctx=ctx)
