"""The options that say which deployment (the URI, a profile, a password file, the driver), and moments."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import ConnectError, InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.text import clean, clean_name
from tallyglass_tui.cli.outermost import warn

if TYPE_CHECKING:
    from tallyglass.connection.profiles import Profile
    from tallyglass.connection.target import Target

URI_VARIABLE = "TALLYGLASS_URI"
DRIVER_VARIABLE = "TALLYGLASS_DRIVER"
_NOWHERE = (
    "No server is named.",
    f"Give a connection string (mongodb://host:27017/), --profile NAME or ${URI_VARIABLE}; "
    "or try it on one of its own: tallyglass demo",
)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Given:
    """What was given of it on the command line; empty where nothing was."""

    uri: str = ""
    profile: str = ""
    password_file: str = ""
    driver: str = ""

    def over(self, other: Given) -> Given:
        """This, with what is empty here taken from ``other``."""
        return Given(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


def connection_options(*, uri: bool = True, profile: bool = True) -> Callable[[Command], Command]:
    """Add the options to a command, which gets them as one :class:`Given` named ``given``."""

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def gathered(*args: Any, **kwargs: Any) -> Any:
            parsed = Given(*(kwargs.pop(name, None) or "" for name in Given.__slots__))
            return function(*args, **{"given": parsed, **kwargs})

        wrapped: Any = gathered
        wrapped = click.option("--driver", type=click.Choice(["pymongo", "motor"]), help="Default: pymongo.")(wrapped)
        wrapped = click.option(
            "--password-file", metavar="FILE", help="Read the password from the first line of FILE; - is stdin."
        )(wrapped)
        if profile:
            wrapped = click.option("--profile", metavar="NAME", help="A deployment named in profiles.toml.")(wrapped)
        if uri:
            wrapped = click.argument("uri", metavar="[URI]", required=False)(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def profile_of(given: Given) -> Profile | None:
    """The profile that was named, on the command or before it."""
    name = _whole(given).profile
    if not name:
        return None
    from tallyglass.connection.profiles import load_profile

    return load_profile(name)


def target_of(given: Given) -> Target:
    """The deployment that is meant, with its password asked for where it needs one.

    Raises InputError where none is named, ConnectError where a password is needed and nobody can be asked.
    """
    from tallyglass.connection.target import Driver, Target

    given = _whole(given)
    profile = None if given.uri else profile_of(given)
    uri = given.uri or (profile.uri if profile else os.environ.get(URI_VARIABLE, ""))
    if not uri:
        raise InputError(*_NOWHERE)
    driver = given.driver or os.environ.get(DRIVER_VARIABLE, "") or (profile.driver if profile else "") or "pymongo"
    if driver not in list(Driver):
        raise InputError(f"'{clean(driver, 40)}' is not a driver.", "Use pymongo or motor.")
    target = Target.parse(uri, Driver(driver))
    if given.uri and target.secrets:
        warn(
            "a password on the command line can be seen by every user of this machine (ps). "
            f"Leave it out to be asked for it, or use --password-file, ${URI_VARIABLE} or a profile."
        )
    password_file = given.password_file or (str(profile.password_file or "") if profile else "")
    target = _with_password(target, password_file)
    if target.secrets:
        _write_no_core_file()
    return target


def _write_no_core_file() -> None:
    """A core file would hold the password, as the memory does."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _whole(given: Given) -> Given:
    before = click.get_current_context().find_root().obj
    return given.over(before) if isinstance(before, Given) else given


def _with_password(target: Target, password_file: str) -> Target:
    from tallyglass.connection.secret import Secret

    if password_file:
        if not target.user:
            raise InputError(
                "There is a password but no user name.", "Put the user into the connection string: mongodb://user@..."
            )
        return target.with_password(Secret(read_password(password_file)))
    if not target.needs_password:
        return target
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConnectError(
            f"A password is needed for {clean_name(target.user)}, and there is no terminal to ask at.",
            "Give it with --password-file.",
        )
    asked = click.prompt(
        f"Password for {clean_name(target.user)}", hide_input=True, err=True, default="", show_default=False
    )
    return target.with_password(Secret(asked))


def moment_of(given: str | None) -> Ts | None:
    """A moment that may have been given, as a timestamp. Raises InputError."""
    return parse_since(given) if given is not None else None


def read_password(name: str) -> str:
    """The first line of a file, or of stdin for ``-``. Raises InputError; warns where others may read the file."""
    if name == "-":
        line = sys.stdin.readline()
    else:
        path = Path(name).expanduser()
        try:
            with path.open(encoding="utf-8") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.fstat(file.fileno()).st_mode & 0o077:
                    warn(f"{path} can be read by other users; chmod 600 it.")
                line = file.readline(10_000)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InputError(f"The password file {clean(str(path))} cannot be read: {reason}.") from None
    password = line.rstrip("\r\n")
    if not password:
        raise InputError("The password file is empty.", "Its first line is the password.")
    return password
