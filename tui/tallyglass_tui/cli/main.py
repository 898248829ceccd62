"""The ``tallyglass`` command: its subcommands and the modules they are in."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from tallyglass import __version__
from tallyglass.connection.target import with_scheme
from tallyglass_tui.cli.command_group import CommandGroup
from tallyglass_tui.cli.error_boundary import ReaderLeftError, error_boundary
from tallyglass_tui.cli.options import ConnectionOptions, connection_options

COMMANDS = {
    "counters": "list all counters: which runs out first, and when",
    "check": "print one line for monitoring systems; exit 0, 1, 2 or 3",
    "metrics": "write the counters as a Prometheus text file",
    "export": "serve the counters as metrics over HTTP",
    "repair": "show why a counter and its collection differ, and the $max",
    "oid": "decode ObjectIds, or print the first one of a time",
    "oplog": "print oplog entries, one per line",
    "incidents": "list who deleted what: drops, mass deletes and updates",
    "watch": "print new incidents with who wrote them, and keep the evidence",
    "record": "keep what the dashboard shows in a file, without a screen",
    "replay": "show the dashboard on such a file",
    "restore": "plan how to get it back, and print the commands",
    "doctor": "show what this user may read, and which role is missing",
    "demo": "start an embedded MongoDB with a workload, to try it",
}
DASHBOARD = "dashboard"


def _names_server(word: str) -> bool:
    return "://" in word or with_scheme(word) != word


class Front(CommandGroup):
    """Loads the module of a command when it is called; a connection string opens the dashboard."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order of the help."""
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Words that name no command are for the dashboard, whose options need no connection string before them. A
        shell that completes a word leaves it out: there a command may still follow."""
        names_none = not ctx.resilient_parsing and self._are_for_dashboard(ctx, args)
        return super().parse_args(ctx, [DASHBOARD, *args] if names_none else args)

    def _are_for_dashboard(self, ctx: click.Context, args: list[str]) -> bool:
        if any(word in ("-h", "--help") for word in args):
            return False
        dashboard = self.get_command(ctx, DASHBOARD)
        assert dashboard is not None
        try:
            found, rest, _ = dashboard.make_parser(click.Context(dashboard)).parse_args(args.copy())
        except click.UsageError:
            return False
        named = found.get("uri")
        return not rest and (not isinstance(named, str) or _names_server(named))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command with that name."""
        if cmd_name not in COMMANDS and cmd_name != DASHBOARD:
            return None
        command = importlib.import_module(f"tallyglass_tui.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read the first word as a command, or as the connection string of the dashboard."""
        word = args[0]
        if word == DASHBOARD:
            return DASHBOARD, self.get_command(ctx, DASHBOARD), args[1:]
        if word not in COMMANDS and _names_server(word):
            command = next((other for other in args[1:] if other in COMMANDS), None)
            if command is not None:
                raise click.UsageError(
                    f"The command comes before the connection string: tallyglass {command} URI.", ctx=ctx
                )
            return DASHBOARD, self.get_command(ctx, DASHBOARD), args
        if word not in COMMANDS:
            title = f"'{word}' is neither a command nor a connection string (mongodb://...)."
            raise click.UsageError(f"{title} {self._meant(ctx, word)}".rstrip(), ctx=ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> str:
        """The command that somebody who typed this may have meant, as a question; empty if there is none."""
        from difflib import get_close_matches

        restore = self.get_command(ctx, "restore")
        assert isinstance(restore, click.Group)
        full = {name: f"restore {name}" for name in restore.list_commands(ctx)} | {name: name for name in COMMANDS}
        close = get_close_matches(word, full, n=1)
        return f"Did you mean tallyglass {full[close[0]]}?" if close else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderLeftError from error

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run with these arguments, by default those of the process, and exit."""
        words = list(sys.argv[1:] if args is None else args)
        sys.exit(error_boundary(lambda: click.Group.main(self, words, prog_name="tallyglass", standalone_mode=False)))


@click.group(
    cls=Front,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Without a server: tallyglass demo. In the dashboard, ? is the help. "
    "tallyglass COMMAND --help describes a command; tallyglass URI --help the dashboard.",
)
@connection_options(uri=False, shards=True)
@click.version_option(__version__, prog_name="tallyglass", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, given: ConnectionOptions) -> None:
    """A terminal dashboard for MongoDB's counters, ObjectIds, oplog and restores.

    tallyglass URI opens the dashboard; so does tallyglass alone, with --profile NAME or $TALLYGLASS_URI.
    """
    ctx.obj = given
