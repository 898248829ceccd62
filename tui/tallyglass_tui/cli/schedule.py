"""What commands that a timer runs share: their options, and the text that calls them again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean_name
from tallyglass_tui.cli.options import DRIVER_VARIABLE, ConnectionOptions, chosen_profile, is_given, named_targets
from tallyglass_tui.this_program import this_program

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass.restore.tools.schedule import TimedCommand

Command = TypeVar("Command", bound=Callable[..., Any])

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_SECONDS = 100 * 366 * 86_400.0
"""A century: a longer time is a slip of the finger, and its end may be no date."""


def duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """An option's duration, such as ``4h``, in seconds; None where it was not given."""
    if value is None:
        return None
    found = _SECONDS.match(value.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise click.BadParameter("Write a duration, such as 4h or 30m.", ctx, parameter)
    return seconds


def deadline_option(text: str) -> Callable[[Command], Command]:
    """``--deadline`` of a command that keeps a server, with its help."""
    return click.option("--deadline", callback=duration, metavar="TIME", default="4h", show_default=True, help=text)


emit_option = click.option(
    "--emit", type=click.Choice(["systemd", "cron"]), help="Print a schedule for this; run nothing."
)
"""``--emit``: print a schedule for the command."""


def as_schedule(kind: str, job: TimedCommand, words: Sequence[str], path: str = "") -> str:
    """The text of one of the two kinds of schedule."""
    from tallyglass.restore.tools import schedule

    emitters = {"systemd": schedule.systemd, "cron": schedule.cron}
    return emitters[kind](job, words, path).rstrip("\n")


_SET_BY_TIMERS = ("HOME", "LOGNAME", "PATH", "SHELL", "USER")
"""The environment variables that both cron and systemd set."""
_FILES = ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")
"""The options of a connection string that name a file."""
_LEFT_OUT = frozenset({"--emit", "--every"})


def own_words(
    given: ConnectionOptions, words: Sequence[str], paths: Collection[str], folder: Path | None = None
) -> list[str]:
    """This command as it was called with ``words``, for a timer: with the deployment that the environment named,
    without its schedule and without a password; ``folder`` and the values of the options ``paths`` by whole paths.

    Raises UsageError, which ends any command with 2, if a timer could not connect with these words.
    """
    try:
        added = _of_the_environment(given)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    return [*this_program(), *_repeated(words, paths, folder), *added]


def _of_the_environment(given: ConnectionOptions) -> list[str]:
    """The words for what the environment of a timer does not hold. Raises InputError for what no words can give it."""
    targets, password_file = named_targets(given)
    profile = chosen_profile(given)
    if profile:
        _check_variables(profile.name)
    _check_secrets(targets, password_file)
    _check_files(targets)
    words = []
    if (driver := os.environ.get(DRIVER_VARIABLE)) and not is_given(given, "driver"):
        words.append(f"--driver={driver}")
    if not (profile or is_given(given, "uri") or is_given(given, "shards")):
        words.append(targets[0].uri)
    return words


def _check_secrets(targets: Sequence[Target], password_file: str) -> None:
    hidden = sorted({name for target in targets for name, _ in target.secrets if name != "password"})
    if hidden:
        raise InputError(
            f"A schedule cannot repeat the secret option {', '.join(map(clean_name, hidden))}.",
            "Connect the timer with a user, or a key file, that needs none.",
        )
    if password_file == "-" or (not password_file and any(one.secrets or one.needs_password for one in targets)):
        raise InputError(
            "A timer needs the password in a file: a schedule holds none, and nobody is there to type it.",
            "Add --password-file FILE, which only the timer's user can read.",
        )


def _check_files(targets: Sequence[Target]) -> None:
    for name in _FILES:
        if any(not one.options.get(name.lower(), "/").startswith("/") for one in targets):
            raise InputError(
                f"A timer starts in another folder: it does not find the file of {name}.", "Give its whole path."
            )


def _check_variables(profile: str) -> None:
    from tallyglass.connection.profiles import load_profile

    try:
        load_profile(profile, environ={name: os.environ.get(name, "") for name in _SET_BY_TIMERS})
    except InputError:
        raise InputError(
            f"Profile '{clean_name(profile, 60)}' uses environment variables, which a timer does not have.",
            "Write its uri without them, and name a password_file.",
        ) from None


def _repeated(given: Sequence[str], paths: Collection[str], folder: Path | None) -> list[str]:
    from tallyglass.connection.secret import without_password

    words: list[str] = []
    for number, word in enumerate(given):
        option, _, value = word.partition("=")
        before = given[number - 1] if number else ""
        if option in _LEFT_OUT or before in _LEFT_OUT:
            continue
        if (before in paths and word != "-") or (folder and absolute_path(word) == absolute_path(folder)):
            word = str(absolute_path(word))
        elif option in paths and value:
            word = f"{option}={absolute_path(value)}"
        uri = len(option) + 1 if option.startswith("-") and value else 0
        words.append(word[:uri] + without_password(word[uri:]) if "://" in word else word)
    return words
