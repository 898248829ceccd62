"""``tallyglass restore run``: the steps of a plan's folder, for a person at a terminal."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import termios
from pathlib import Path

import click

from tallyglass.errors import TallyglassError
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import print_aside
from tallyglass_tui.cli.headless import cells, padded, shortened
from tallyglass_tui.cli.options import PATH, source_password_option

_PHASES = ("secure", "restore", "verify", "return", "clean")
_ANSWER_SECONDS = 30.0
"""A server that works may be slow to answer."""
_TERMINAL = "/dev/tty"


@click.command()
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--yes", is_flag=True, help="Ask nothing; leave out what needs a decision.")
@click.option("--until", type=click.Choice(_PHASES), metavar="PHASE", default=_PHASES[-1], help="End after this phase.")
@source_password_option
@click.option("--spare-password-file", type=PATH, metavar="FILE", help="Read the spare's password from FILE.")
@click.option(
    "--max-silence",
    type=click.IntRange(0, 999_999),
    default=600,
    metavar="SECONDS",
    help="End a tool that stands still.",
)
def run(
    folder: Path,
    yes: bool,
    until: str,
    source_password_file: Path | None,
    spare_password_file: Path | None,
    max_silence: int,
) -> int:
    """Run the steps of a plan's folder, asking before each.

    DIR is what restore plan --out wrote. Each step is checked; the first doubt stops. --until is secure, restore,
    verify, return or clean. --max-silence ends a tool that prints nothing new while no server works for it, after 600 s
    unless told otherwise; 0 is never. Run it again to resume. Exit 0 all done, and nothing that the accident touched is
    damaged; 1 stopped; 3 done, but something is damaged or unclear, or --yes left out what still needs a decision.
    """
    from tallyglass.restore.model.step import Phase
    from tallyglass.restore.run.runner import RunRequest
    from tallyglass.restore.run.runner import run as run_steps

    named = {"source": source_password_file, "spare": spare_password_file}
    request = RunRequest(
        absolute_path(folder),
        _works,
        yes,
        Phase(until),
        {role: absolute_path(path) for role, path in named.items() if path is not None},
        max_silence,
    )
    return run_steps(request, AtTerminal())


def _works(server_file: Path, app: str) -> bool:
    """Whether the server of a configuration file works for a program; no if it does not answer."""
    from tallyglass.restore.spare.working import works_for
    from tallyglass_tui.cli.headless import ask
    from tallyglass_tui.cli.options import ConnectionOptions
    from tallyglass_tui.cli.restore.plan_file import server

    try:
        target = server(str(server_file), ConnectionOptions())
        return ask(target, lambda gateway: works_for(gateway, app), _ANSWER_SECONDS)
    except TallyglassError:
        return False


class AtTerminal:
    """The person at this terminal; messages and questions go to stderr, answers come from the terminal itself."""

    def __init__(self) -> None:
        self._shows_progress = sys.stderr.isatty()
        self._shown = 0

    @property
    def width(self) -> int | None:
        """The width of the terminal as it is now; None where stderr is no terminal."""
        try:
            return os.get_terminal_size(sys.stderr.fileno()).columns or None
        except (OSError, ValueError):
            return None

    def tell(self, text: str) -> None:
        """Show lines on stderr, as they are."""
        print_aside(text)

    def show_progress(self, text: str) -> None:
        """Overwrite the last such line; nothing where stderr is no terminal."""
        if not self._shows_progress or not (text or self._shown):
            return
        line = shortened(text, (self.width or cells(text) + 1) - 1)
        with contextlib.suppress(OSError):
            sys.stderr.write(f"\r{padded(line, self._shown)}\r")
            sys.stderr.flush()
        self._shown = cells(line)

    def agrees(self) -> bool | None:
        """Ask for y or n; anything else, and no answer, is a no. What was typed before the question is no answer."""
        try:
            with open(_TERMINAL, encoding="utf-8", errors="replace") as terminal:
                termios.tcflush(terminal, termios.TCIFLUSH)
                sys.stderr.write("  run it? [y/N] ")
                sys.stderr.flush()
                return terminal.readline().strip() in ("y", "Y")
        except OSError:
            return None

    def password(self, prompt: str) -> str | None:
        """Ask without showing what is typed."""
        try:
            with open(_TERMINAL, "rb"):
                return getpass.getpass(prompt)
        except OSError:
            return None
        except EOFError:
            return ""
