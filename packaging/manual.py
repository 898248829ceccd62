"""Manual pages and shell completions of the command line: ``python packaging/manual.py SHARE VERSION EPOCH``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from click_man.core import write_man_pages

from tallyglass_tui.cli.main import Front
from tallyglass_tui.cli.main import main as command

COMPLETIONS: list[tuple[type[ShellComplete], str]] = [
    (BashComplete, "bash-completion/completions/tallyglass"),
    (ZshComplete, "zsh/site-functions/_tallyglass"),
    (ZshComplete, "zsh/vendor-completions/_tallyglass"),  # where Debian looks
    (FishComplete, "fish/vendor_completions.d/tallyglass.fish"),
]


def main(share: Path, version: str, epoch: int) -> None:
    """Write both below ``share``, in the layout of ``/usr/share``."""
    assert isinstance(command, Front)
    context = click.Context(command)
    for name in command.list_commands(context):
        subcommand = command.get_command(context, name)
        assert subcommand is not None
        command.add_command(subcommand, name)
    pages = share / "man" / "man1"
    pages.mkdir(parents=True)
    day = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d")
    write_man_pages("tallyglass", command, version=version, target_dir=str(pages), date=day)
    for shell, place in COMPLETIONS:
        target = share / place
        target.parent.mkdir(parents=True)
        target.write_text(shell(command, {}, "tallyglass", "_TALLYGLASS_COMPLETE").source())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
