"""What commands that a timer runs share: their options, and the text that calls them again."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.paths import absolute_path
from tallyglass_tui.this_program import this_program

if TYPE_CHECKING:
    from tallyglass.restore.tools.schedule import TimedCommand

Command = TypeVar("Command", bound=Callable[..., Any])

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """An option's duration, such as ``4h``, in seconds; None where it was not given."""
    if value is None:
        return None
    found = _SECONDS.match(value.strip())
    if not found or not float(found[1]):
        raise click.BadParameter("Write a duration, such as 4h or 30m.", ctx, parameter)
    return float(found[1]) * _UNITS[found[2]]


def deadline_option(text: str) -> Callable[[Command], Command]:
    """``--deadline`` of a command that keeps a server, with its help."""
    return click.option("--deadline", callback=duration, metavar="TIME", default="4h", show_default=True, help=text)


def emit_option(function: Command) -> Command:
    """``--emit``: print a schedule for the command."""
    option = click.option(
        "--emit", type=click.Choice(["systemd", "cron"]), help="Print a schedule for this; run nothing."
    )
    return option(function)


def as_schedule(kind: str, job: TimedCommand, words: Sequence[str], path: str = "") -> str:
    """The text of one of the two kinds of schedule."""
    from tallyglass.restore.tools import schedule

    emitters = {"systemd": schedule.systemd, "cron": schedule.cron}
    return emitters[kind](job, words, path).rstrip("\n")


_LEFT_OUT = frozenset({"--emit", "--every"})


def own_words(given: Sequence[str], paths: Collection[str], folder: Path | None = None) -> list[str]:
    """This command as it was called, without its schedule and without a password; ``folder`` and the values of the
    options ``paths`` by their whole paths."""
    from tallyglass.connection.secret import without_password

    words: list[str] = []
    for number, word in enumerate(given):
        option, _, value = word.partition("=")
        before = given[number - 1] if number else ""
        if option in _LEFT_OUT or before in _LEFT_OUT:
            continue
        if (before in paths and word != "-") or word == str(folder or ""):
            word = str(absolute_path(word))
        elif option in paths and value:
            word = f"{option}={absolute_path(value)}"
        words.append(without_password(word) if "://" in word else word)
    return [*this_program(), *words]
