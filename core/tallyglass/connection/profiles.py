"""Named deployments in the user's own ``profiles.toml``: a URI without a password, and where the password is.

::

    [prod]
    uri = "mongodb://monitor:${PROD_PASSWORD}@db1.example.com/?replicaSet=rs0"
    password_file = "~/.secrets/prod"    # instead of ${...} in the URI
    driver = "pymongo"                   # or motor
    backup = "/backups/prod/latest"      # what restore plan takes unless told otherwise

``${NAME}`` stands for an environment variable. A password written out in the file is refused.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import platformdirs

from tallyglass.connection.secret import password_of
from tallyglass.errors import InputError
from tallyglass.text import clean, clean_name

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FIELDS = ("uri", "password_file", "driver", "backup", "counters")


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """One deployment by name. ``uri`` may hold a password that came from the environment, so no repr shows it.

    ``password_file``, ``backup`` and ``counters`` (a file of counter definitions) are paths, None where not named.
    """

    name: str
    uri: str
    driver: str = ""
    password_file: Path | None = None
    backup: Path | None = None
    counters: Path | None = None


def default_path() -> Path:
    """Where the profiles are unless told otherwise: the user's configuration folder."""
    return platformdirs.user_config_path("tallyglass") / "profiles.toml"


def load_profile(name: str, path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Profile:
    """The profile of that name. Raises InputError where the file, the name or a variable is missing or wrong."""
    path = path or default_path()
    sections = _read(path)
    fields = sections.get(name)
    if not isinstance(fields, dict):
        known = ", ".join(clean_name(key, 40) for key in sections) or "none"
        raise InputError(
            f"There is no profile named '{clean_name(name, 60)}' in {clean(str(path))}.", f"It has: {known}."
        )
    where = f"Profile '{clean_name(name, 60)}'"
    for key, value in fields.items():
        if key not in _FIELDS or not isinstance(value, str):
            raise InputError(
                f"{where} has '{clean(key, 40)}', which cannot be read.", f"Texts named {', '.join(_FIELDS)} can."
            )
    if "uri" not in fields:
        raise InputError(f"{where} has no uri.", 'Add uri = "mongodb://...".')
    _refuse_password(fields["uri"], where)
    plain = {key: _filled(value, environ, where) for key, value in fields.items() if key != "uri"}
    return Profile(
        name,
        _filled(fields["uri"], environ, where, encode=True),
        plain.get("driver", ""),
        *(Path(plain[key]).expanduser() if key in plain else None for key in ("password_file", "backup", "counters")),
    )


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise InputError(
            f"There are no profiles: {clean(str(path))} does not exist.",
            'Make it with a section such as [prod] and uri = "mongodb://user@host/".',
        ) from None
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{clean(str(path))} is not TOML: {clean(str(error), 100)}.") from None


def _refuse_password(uri: str, where: str) -> None:
    password = password_of(uri)
    if password and not re.fullmatch(_VARIABLE, password.reveal()):
        raise InputError(
            f"{where} holds a password.",
            "Write ${NAME} in its place and set that variable, name a password_file, or leave it out to be asked.",
        )


def _filled(text: str, environ: Mapping[str, str], where: str, *, encode: bool = False) -> str:
    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found[1])
        if value is None:
            raise InputError(f"{where} needs the environment variable {found[1]}, which is not set.")
        # Inside user:password@ a variable is taken as it is meant; elsewhere it may be a whole piece of the URI.
        in_user_info = encode and found.start() < text.rfind("@")
        return quote(value, safe="") if in_user_info else value

    return _VARIABLE.sub(value_of, text)
