"""The ``tallyglass`` command: which words it knows, and where each lives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from tallyglass import __version__
from tallyglass_tui.cli.options import Given, connection_options
from tallyglass_tui.cli.outermost import guarded

COMMANDS = {
    "counters": "what runs out first, and when: all counters, once",
    "check": "for monitoring systems: one line, exit 0, 1, 2 or 3",
    "metrics": "the counters as a text file for Prometheus",
    "export": "the counters as metrics over HTTP",
    "repair": "why a counter and its collection differ, and the $max",
    "oid": "take ObjectIds apart, or give the first of a moment",
    "oplog": "entries of the oplog, one a line",
    "incidents": "who deleted what: drops, mass deletes and updates",
    "restore": "the commands to get it back: plan, prepare, verify",
    "doctor": "what this user may see, and the role for the rest",
    "demo": "a real server with a lively workload to try it on",
}
DASHBOARD = "dashboard"


class Front(click.Group):
    """Loads the module of a command when it is called, and takes a connection string as the dashboard's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        if cmd_name not in COMMANDS and cmd_name != DASHBOARD:
            return None
        command = importlib.import_module(f"tallyglass_tui.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the first word as a command, or as the connection string of the dashboard."""
        word = args[0]
        if word not in COMMANDS and "://" in word:
            return DASHBOARD, self.get_command(ctx, DASHBOARD), args
        if word not in COMMANDS:
            raise click.UsageError(f"'{word}' is neither a command nor a connection string (mongodb://...).", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run with these arguments, else the process's own, and exit."""
        words = list(sys.argv[1:] if args is None else args)
        sys.exit(guarded(lambda: click.Group.main(self, words, prog_name="tallyglass", standalone_mode=False)))


@click.group(
    cls=Front,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="To try it without a server: tallyglass demo. In the dashboard ? is the help. "
    "tallyglass COMMAND --help says more of a command; tallyglass URI --help, of the dashboard.",
)
@connection_options(uri=False)
@click.version_option(__version__, prog_name="tallyglass", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, given: Given) -> Any:
    """A terminal dashboard for MongoDB's counters, ObjectIds, oplog and restores.

    tallyglass URI opens the dashboard; so does tallyglass alone, with --profile NAME or $TALLYGLASS_URI.
    """
    ctx.obj = given
    if ctx.invoked_subcommand is None:
        dashboard = main.get_command(ctx, DASHBOARD)
        assert dashboard is not None
        return ctx.invoke(dashboard, given=Given())
    return None
