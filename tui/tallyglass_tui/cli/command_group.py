"""The base of the groups of commands."""

from __future__ import annotations

from typing import Any

import click


class CommandGroup(click.Group):
    """A group of which every usage error names the command whose help tells more: Click names none where an option
    lacks its value."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = error.ctx or click.Context(self, info_name=ctx.invoked_subcommand, parent=ctx)
            raise
