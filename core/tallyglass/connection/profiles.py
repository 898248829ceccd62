"""Named deployments in the user's own ``profiles.toml``: a URI without a password, and where to read the password.

::

    [prod]
    uri = "mongodb://monitor:${PROD_PASSWORD}@db1.example.com/?replicaSet=rs0"
    password_file = "~/.secrets/prod"    # instead of ${...} in the URI
    driver = "pymongo"                   # or motor
    backup = "/backups/prod/latest"      # the default of restore plan

    [cluster]                            # a sharded cluster without its mongos: one URI for each shard
    shards = ["mongodb://monitor@a1.example.com/?replicaSet=s0", "mongodb://monitor@b1.example.com/?replicaSet=s1"]

``${NAME}`` stands for an environment variable. A secret written out in the file is refused.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import platformdirs

from tallyglass.connection.secret import SECRET_OPTIONS, password_of
from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean, clean_name

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FIELDS = ("uri", "password_file", "driver", "backup", "counters")


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """One deployment by name. ``uri`` may contain a password from the environment, so there is no repr.

    ``shards`` are URIs in place of ``uri``. ``password_file``, ``backup`` and ``counters`` (a file of counter
    definitions) are paths, None if not set.
    """

    name: str
    uri: str = ""
    driver: str = ""
    password_file: Path | None = None
    backup: Path | None = None
    counters: Path | None = None
    shards: tuple[str, ...] = ()


def default_path() -> Path:
    """The default path: in the user's configuration folder."""
    return platformdirs.user_config_path("tallyglass") / "profiles.toml"


def profile_names() -> tuple[str, ...]:
    """The names in the file, in its order; none if there is no file. Raises InputError for an invalid file."""
    path = default_path()
    return tuple(_read(path)) if path.exists() else ()


def load_profile(name: str, path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Profile:
    """The profile with that name. Raises InputError if the file, the name or a variable is missing or invalid."""
    fields = _section(name, path or default_path())
    where = f"Profile '{clean_name(name, 60)}'"
    shards = _shard_uris(fields.pop("shards", []), where)
    for key, value in fields.items():
        if key not in _FIELDS or not isinstance(value, str):
            raise InputError(
                f"{where} has '{clean(key, 40)}', which is not a known key.",
                f"A profile can contain the strings {', '.join(_FIELDS)}.",
            )
    uri = fields.pop("uri", None)
    if shards and uri is not None:
        raise InputError(f"{where} has both uri and shards.", "Name the cluster's mongos, or each of its shards.")
    if not shards and uri is None:
        raise InputError(f"{where} has no uri.", 'Add uri = "mongodb://...".')
    filled = [_filled_uri(one, environ, where) for one in shards or (uri,)]
    plain = {key: _expand_variables(value, environ, where) for key, value in fields.items()}
    driver = plain.pop("driver", "")
    named = {"shards": tuple(filled)} if shards else {"uri": filled[0]}
    paths = {key: absolute_path(value) for key, value in plain.items()}
    return Profile(name, driver=driver, **named, **paths)  # type: ignore[arg-type]


def _section(name: str, path: Path) -> dict[str, Any]:
    """What the file says of this profile."""
    sections = _read(path)
    if name not in sections:
        known = ", ".join(clean_name(key, 40) for key in sections) or "none"
        raise InputError(
            f"There is no profile named '{clean_name(name, 60)}' in {clean(str(path))}.", f"It contains: {known}."
        )
    fields = sections[name]
    if not isinstance(fields, dict):
        raise InputError(
            f"'{clean_name(name, 60)}' in {clean(str(path))} stands outside of any profile.",
            "Write the name of its profile in brackets above it, such as [prod].",
        )
    return fields


def _shard_uris(given: object, where: str) -> tuple[str, ...]:
    if isinstance(given, list) and all(isinstance(uri, str) and uri for uri in given):
        return tuple(given)
    raise InputError(f"{where} has shards that cannot be read.", 'Write shards = ["mongodb://...", "mongodb://..."].')


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise InputError(
            f"There are no profiles: {clean(str(path))} does not exist.",
            'Create it with a section such as [prod] and uri = "mongodb://user@host/".',
        ) from None
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{clean(str(path))} is not TOML: {clean(str(error), 100)}.") from None


def _filled_uri(uri: str, environ: Mapping[str, str], where: str) -> str:
    """The URI with the values of its variables. Raises InputError for a secret that is written out in it."""
    password = password_of(uri)
    if password and not _VARIABLE.fullmatch(password.reveal()):
        raise InputError(
            f"{where} contains a password.",
            "Replace it by ${NAME} and set that variable, name a password_file, or leave it out to be prompted.",
        )
    secrets = [*SECRET_OPTIONS.finditer(uri)]
    for found in secrets:
        if found[3] and not _VARIABLE.fullmatch(found[3]):
            raise InputError(f"{where} contains the secret {found[2]}.", "Replace it by ${NAME} and set that variable.")
    user_info = re.match(r"[^/]*//[^/?]*@", uri)
    # In these places a variable is one value and is encoded; elsewhere it may be any part of the URI.
    whole = [one.span() for one in (user_info, *secrets) if one]
    return _expand_variables(uri, environ, where, whole)


def _expand_variables(
    text: str, environ: Mapping[str, str], where: str, encoded: Sequence[tuple[int, int]] = ()
) -> str:
    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found[1])
        if value is None:
            raise InputError(f"{where} needs the environment variable {found[1]}, which is not set.")
        return quote(value, safe="") if any(start <= found.start() < end for start, end in encoded) else value

    return _VARIABLE.sub(value_of, text)
