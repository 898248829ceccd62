"""The options that name the deployment (URI, profile, password file, driver), and times."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import ConnectError, InputError
from tallyglass.moment import Ts, counts_from_now, parse_since, parse_time
from tallyglass.paths import absolute_path
from tallyglass.text import clean, clean_name
from tallyglass_tui.cli.clocks import note_relative
from tallyglass_tui.cli.error_boundary import print_message, warn

if TYPE_CHECKING:
    from tallyglass.connection.profiles import Profile
    from tallyglass.connection.target import Target

URI_VARIABLE = "TALLYGLASS_URI"
DRIVER_VARIABLE = "TALLYGLASS_DRIVER"
_NO_SERVER = (
    "No server was given.",
    f"Give a connection string (mongodb://host:27017/), --profile NAME or ${URI_VARIABLE}; "
    "or try the embedded server: tallyglass demo",
)

Command = TypeVar("Command", bound=Callable[..., Any])
Time = TypeVar("Time", Ts, datetime)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The connection options on the command line; empty if not given."""

    uri: str = ""
    profile: str = ""
    password_file: str = ""
    driver: str = ""
    shards: tuple[str, ...] = ()

    def or_else(self, other: ConnectionOptions) -> ConnectionOptions:
        """These options; empty ones are taken from ``other``."""
        return ConnectionOptions(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


class _Path(click.Path):
    """A file or a folder, with the home folder for a leading ``~``, which shells leave alone in ``--out=~/x``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; one that is relative stays so. An empty one, as of an unset variable, is not the present folder."""
        if value == "":
            self.fail("The path is empty.", param, ctx)
        return Path(os.path.expanduser(str(super().convert(value, param, ctx))))


class Number(click.FloatRange):
    """A number within a range, and not NaN: nothing is below that, so a limit would be none. Where it is ``finite``,
    infinity is refused, too: no such threshold can be written into perfdata."""

    def __init__(self, min: float, *, finite: bool = False) -> None:
        super().__init__(min=min)
        self._finite = finite

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that was typed. Fails for any other text, and outside the range."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number) or (self._finite and math.isinf(number)):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


PATH = _Path(path_type=Path)
"""The type of an option that names a file or a folder."""

json_option = click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")

seconds_option = click.option("--seconds", type=Number(min=0.1), metavar="SECONDS", help="Stop after this time.")

source_password_option = click.option(
    "--source-password-file", type=PATH, metavar="FILE", help="Read the live set's password from FILE."
)

log_option = click.option(
    "--log",
    "logs",
    type=PATH,
    multiple=True,
    metavar="PATH",
    help="Read who did it from a log, an audit log or a folder.",
)
evidence_option = click.option(
    "--evidence", "folder", type=PATH, metavar="DIR", help="Read what tallyglass watch --evidence kept."
)


def not_empty(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty word, as of an unset variable: it would stand for another deployment, or for all entries."""
    if value == "":
        raise click.BadParameter("It is empty.", ctx, parameter)
    return value


_URI = click.argument("uri", metavar="[URI]", required=False, callback=not_empty)
_SHARD = click.option(
    "--shard", "shards", multiple=True, metavar="URI", help="Read this shard instead of URI; repeat for each."
)
_PROFILE = click.option("--profile", metavar="NAME", callback=not_empty, help="Read the deployment from profiles.toml.")
_PASSWORD_FILE = click.option(
    "--password-file", metavar="FILE", callback=not_empty, help="Read the password from FILE; - is stdin."
)
_DRIVER = click.option(
    "--driver", type=click.Choice(["pymongo", "motor"]), metavar="NAME", help="Connect with pymongo (default) or motor."
)


def connection_options(*, uri: bool = True, profile: bool = True, shards: bool = False) -> Callable[[Command], Command]:
    """Add the options to a command, which gets them as one :class:`ConnectionOptions` named ``given``."""
    wanted = [_URI] * uri + [_SHARD] * shards + [_PROFILE] * profile + [_PASSWORD_FILE, _DRIVER]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def with_connection_options(*args: Any, **kwargs: Any) -> Any:
            known = {name: kwargs.pop(name, None) for name in ConnectionOptions.__slots__}
            parsed = ConnectionOptions(**{name: value for name, value in known.items() if value})
            return function(*args, **{"given": parsed, **kwargs})

        wrapped: Any = with_connection_options
        for option in reversed(wanted):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def profile_of(given: ConnectionOptions) -> Profile | None:
    """The profile named on the command line, before or after the command."""
    name = _with_global_options(given).profile
    if not name:
        return None
    from tallyglass.connection.profiles import load_profile

    return load_profile(name)


def backup_of(given: ConnectionOptions) -> Path | None:
    """The backup, or folder of backups, that the profile names."""
    profile = profile_of(given)
    return absolute_path(profile.backup) if profile and profile.backup else None


def chosen_profile(given: ConnectionOptions) -> Profile | None:
    """The profile whose deployment is read; None where the command line names the deployment itself."""
    given = _with_global_options(given)
    return None if given.uri or given.shards else profile_of(given)


def target_of(given: ConnectionOptions) -> Target:
    """The deployment to connect to. Asks for the password if one is needed.

    Raises InputError if none is given, ConnectError if a password is needed and there is no terminal.
    """
    targets, password_file = named_targets(given)
    given = _with_global_options(given)
    if (given.uri or given.shards) and any(target.secrets for target in targets):
        warn(
            "every user of this machine can see a password on the command line (ps). "
            f"Leave it out to be prompted, or use --password-file, ${URI_VARIABLE} or a profile."
        )
    return _complete(targets, password_file)


def named_targets(given: ConnectionOptions) -> tuple[list[Target], str]:
    """The deployment to connect to, one target for each shard that is named, and the password file, empty without one.

    No password is read or asked for: a target has those of its connection string. Raises InputError if none is given.
    """
    given = _with_global_options(given)
    if given.uri and given.shards:
        raise InputError("Give either URI or --shard, not both.", "Name every shard with a separate --shard.")
    profile = chosen_profile(given)
    uris: tuple[str, ...]
    if profile:
        uris = profile.shards or (profile.uri,)
    else:
        uris = given.shards or tuple(filter(None, (given.uri or os.environ.get(URI_VARIABLE, ""),)))
    if not uris:
        raise InputError(*_NO_SERVER)
    password_file = given.password_file or (str(profile.password_file or "") if profile else "")
    targets = _parsed(uris, given.driver or os.environ.get(DRIVER_VARIABLE, "") or (profile.driver if profile else ""))
    return targets, password_file


def target_of_profile(profile: Profile, *, ask: bool = True) -> Target:
    """The deployment of a profile, whatever else the command line names: its password goes to no other server.

    Without ``ask`` a password is not prompted for, nor read from stdin: ConnectError says so.
    """
    password_file = str(profile.password_file or "")
    targets = _parsed(profile.shards or (profile.uri,), os.environ.get(DRIVER_VARIABLE, "") or profile.driver)
    if not ask and (password_file == "-" or (not password_file and any(one.needs_password for one in targets))):
        user = next((one.user for one in targets if one.user), "")
        raise ConnectError(f"User {clean_name(user)} needs a password.", "Switch to this profile to be asked for it.")
    return _complete(targets, password_file)


def _parsed(uris: Sequence[str], driver: str) -> list[Target]:
    from tallyglass.connection.target import Driver, Target

    driver = driver or Driver.PYMONGO
    if driver not in list(Driver):
        raise InputError(f"'{clean(driver, 40)}' is not a driver.", "Use pymongo or motor.")
    return [Target.parse(uri, Driver(driver)) for uri in uris]


def _complete(targets: Sequence[Target], password_file: str) -> Target:
    from tallyglass.connection.target import Target

    targets = _with_passwords(targets, password_file)
    if any(target.secrets for target in targets):
        _write_no_core_file()
    return Target.of_shards(targets)


def _with_passwords(targets: Sequence[Target], password_file: str) -> list[Target]:
    """The targets with their passwords. One user of several shards is asked once."""
    filled: list[Target] = []
    for target in targets:
        first = filled[0] if filled else None
        if first is not None and target.user == first.user and (password_file or target.needs_password):
            known = dict(first.secrets).get("password")
            filled.append(target.with_password(known) if known else target)
        else:
            filled.append(_with_password(target, password_file))
    return filled


def is_named(given: ConnectionOptions) -> bool:
    """Whether any deployment is named: on the command line, by a profile, or in the environment."""
    given = _with_global_options(given)
    return bool(given.uri or given.profile or os.environ.get(URI_VARIABLE))


def is_given(given: ConnectionOptions, option: str) -> bool:
    """Whether the command line itself has this option, before or after the command."""
    return bool(getattr(_with_global_options(given), option))


def _write_no_core_file() -> None:
    """Disable core files: they would hold the password."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _with_global_options(given: ConnectionOptions) -> ConnectionOptions:
    before = click.get_current_context().find_root().obj
    return given.or_else(before) if isinstance(before, ConnectionOptions) else given


def _with_password(target: Target, password_file: str) -> Target:
    from tallyglass.connection.secret import Secret

    if password_file:
        if not target.user:
            raise InputError(
                "A password was given but no user name.", "Add the user to the connection string: mongodb://user@..."
            )
        return target.with_password(Secret(read_password(password_file)))
    if not target.needs_password:
        return target
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConnectError(
            f"User {clean_name(target.user)} needs a password, and there is no terminal to ask for it.",
            "Use --password-file.",
        )
    asked = click.prompt(
        f"Password for {clean_name(target.user)}", hide_input=True, err=True, default="", show_default=False
    )
    return target.with_password(Secret(asked))


def spare_of(spare: str | None) -> tuple[str, str]:
    """Host and port of the spare, and its URI where one was given. Raises InputError for anything else."""
    if not spare:
        return "", ""
    from tallyglass.connection.target import Target, is_address, is_uri
    from tallyglass.restore.model.source import SPARE_PORT

    if is_address(spare):
        return spare, ""
    if not is_uri(spare):
        raise InputError(f"--spare '{clean(spare, 60)}' is not HOST:PORT.", f"For example 127.0.0.1:{SPARE_PORT}.")
    Target.parse(spare)
    return "", spare


def time_of(option: str, text: str | None) -> Ts | None:
    """The timestamp of a time option; None if it was not given. Raises InputError that names the option.

    What a typed time means is printed to stderr: UTC, local time and age.
    """
    return None if text is None else _typed(option, text, parse_since, lambda found: found.time)


def moment_of(option: str, text: str) -> datetime:
    """Like :func:`time_of`, for a moment to the microsecond."""
    return _typed(option, text, parse_time, lambda found: found)


def _typed(option: str, text: str, parse: Callable[[str], Time], moment: Callable[[Time], datetime]) -> Time:
    from tallyglass_tui.format import typed_time

    try:
        found = parse(text)
    except InputError as error:
        raise InputError(f"{option}: {error.title}", error.advice) from None
    print_message(f"{option} is {typed_time(moment(found))}.")
    if counts_from_now(text):
        note_relative(option)
    return found


def read_password(name: str) -> str:
    """The first line of a file, or of stdin for ``-``. Raises InputError; warns if other users can read the file."""
    if name == "-":
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError:
            raise InputError("The password on stdin is not UTF-8 text.") from None
    else:
        path = absolute_path(name)
        try:
            with path.open(encoding="utf-8") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.fstat(file.fileno()).st_mode & 0o077:
                    warn(f"other users can read {path}; run chmod 600 on it.")
                line = file.readline(10_000)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InputError(f"The password file {clean(str(path))} cannot be read: {reason}.") from None
    password = line.rstrip("\r\n")
    if not password:
        raise InputError("The password file is empty.", "Its first line is the password.")
    return password
