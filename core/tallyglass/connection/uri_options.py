"""The options of a connection string and their values. A wrong one is an error.

Drivers only warn of an unknown option or a wrong value, and connect without it: ``tls=ture`` without TLS,
``readPreference=secondry`` to the primary.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_plus

from tallyglass.connection.secret import scrub
from tallyglass.errors import InputError
from tallyglass.text import clean

APP_NAME_BYTES = 128
"""The longest ``appName`` that a server accepts."""

LONGEST_MS = 10**9
"""Drivers refuse a time from here on."""

SHORTEST_STALENESS_S = 90
"""The least that servers and drivers accept as ``maxStalenessSeconds``."""


@dataclass(frozen=True, slots=True)
class Values:
    """Which values an option accepts, in words and as a test of one."""

    words: str
    accept: Callable[[str], bool]


def _one_of(*choices: str) -> Values:
    return Values(_either(choices), choices.__contains__)


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _from(low: int, high: int | None = None) -> Values:
    words = f"a whole number from {low} to {high}" if high is not None else f"a whole number, {low} or more"
    return Values(words, lambda text: _is_number(text) and low <= int(text) <= (int(text) if high is None else high))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?[0-9]{1,18}", text))


def _is_readable(path: str) -> bool:
    if not path or "\0" in path:
        return False
    with Path(path).open("rb"):
        return True


def _are_properties(text: str) -> bool:
    pairs = [pair.partition(":") for pair in unquote_plus(text).split(",")]
    canonical = ("none", "forward", "forwardAndReverse", "true", "false")
    return all(
        name in _PROPERTIES and value and (name != "CANONICALIZE_HOST_NAME" or value in canonical)
        for name, _, value in pairs
    )


_PROPERTIES = (
    "SERVICE_NAME", "SERVICE_HOST", "CANONICALIZE_HOST_NAME", "SERVICE_REALM", "AWS_SESSION_TOKEN", "ENVIRONMENT",
    "TOKEN_RESOURCE",
)  # fmt: skip
_TRUTH = _one_of("true", "false")
_TEXT = Values("a text", bool)
_FILE = Values("the path of a readable file", _is_readable)
_MS = Values("a whole number of milliseconds", lambda text: _is_number(text) and 0 <= int(text) < LONGEST_MS)
_MS_NOT_ZERO = Values(
    "a whole number of milliseconds above 0", lambda text: _is_number(text) and 0 < int(text) < LONGEST_MS
)

OPTIONS: dict[str, Values] = {
    "appName": Values(
        f"a text of at most {APP_NAME_BYTES} bytes", lambda text: 0 < len(text.encode()) <= APP_NAME_BYTES
    ),
    "authMechanism": _one_of(
        "SCRAM-SHA-256", "SCRAM-SHA-1", "MONGODB-X509", "PLAIN", "GSSAPI", "MONGODB-AWS", "MONGODB-OIDC", "DEFAULT"
    ),
    "authMechanismProperties": Values(
        f"NAME:value pairs with a comma between them; a name can be {_either(_PROPERTIES)}", _are_properties
    ),
    "authSource": _TEXT,
    "compressors": Values(
        "zlib, zstd and snappy with a comma between them", lambda text: {*text.split(",")} <= {"zlib", "zstd", "snappy"}
    ),
    "connect": Values("true or false (directConnection=true connects to one server alone)", _TRUTH.accept),
    "connectTimeoutMS": _MS,
    "datetime_conversion": _one_of("DATETIME", "DATETIME_AUTO", "DATETIME_CLAMP", "DATETIME_MS"),
    "directConnection": _TRUTH,
    "enableOverloadRetargeting": _TRUTH,
    "fsync": _TRUTH,
    "heartbeatFrequencyMS": _MS_NOT_ZERO,
    "journal": _TRUTH,
    "loadBalanced": _TRUTH,
    "localThresholdMS": _MS,
    "maxAdaptiveRetries": _from(0),
    "maxConnecting": _from(1),
    "maxIdleTimeMS": _MS_NOT_ZERO,
    "maxPoolSize": _from(0),
    "maxStalenessSeconds": Values(
        f"-1 or a whole number of seconds, {SHORTEST_STALENESS_S} or more",
        lambda text: _is_number(text) and (int(text) == -1 or int(text) >= SHORTEST_STALENESS_S),
    ),
    "minPoolSize": _from(0),
    "readConcernLevel": _one_of("local", "available", "majority", "linearizable", "snapshot"),
    "readPreference": _one_of("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"),
    "readPreferenceTags": Values(
        "name:value pairs with a comma between them, or empty",
        lambda text: not text or all(pair.count(":") == 1 for pair in text.split(",")),
    ),
    "replicaSet": _TEXT,
    "retryReads": _TRUTH,
    "retryWrites": _TRUTH,
    "serverMonitoringMode": _one_of("auto", "stream", "poll"),
    "serverSelectionTimeoutMS": _MS,
    "socketTimeoutMS": _MS,
    "srvAllowedHostsSuffix": _TEXT,
    "srvMaxHosts": _from(0),
    "srvServiceName": _TEXT,
    "ssl": _TRUTH,
    "timeoutMS": _MS,
    "tls": _TRUTH,
    "tlsAllowInvalidCertificates": _TRUTH,
    "tlsAllowInvalidHostnames": _TRUTH,
    "tlsCAFile": _FILE,
    "tlsCertificateKeyFile": _FILE,
    "tlsCertificateKeyFilePassword": _TEXT,
    "tlsCRLFile": _FILE,
    "tlsDisableOCSPEndpointCheck": _TRUTH,
    "tlsInsecure": _TRUTH,
    "tz_aware": _TRUTH,
    "unicode_decode_error_handler": _one_of("strict", "replace", "ignore"),
    "uuidRepresentation": _one_of("unspecified", "standard", "pythonLegacy", "javaLegacy", "csharpLegacy"),
    "w": Values("a text or a whole number, 0 or more", lambda text: bool(text) and not text.startswith("-")),
    "waitQueueMultiple": _from(0),
    "waitQueueTimeoutMS": _MS_NOT_ZERO,
    "wTimeoutMS": _from(0),
    "zlibCompressionLevel": _from(-1, 9),
}
"""Every option of a connection string by its name, as it is usually written; names are read in any case."""

SPELLED = {name.lower(): name for name in OPTIONS}
"""The usual spelling of an option, by its lower-case name."""

SECRET_OPTIONS = frozenset({"tlscertificatekeyfilepassword", "proxypassword"})
"""Options whose value is a secret, by lower-case name."""

_NOT_SHOWN = SECRET_OPTIONS | {"authmechanismproperties"}
_SEVERAL_TIMES = "readpreferencetags"
_NOT_SUPPORTED = {
    **dict.fromkeys(
        ("proxyhost", "proxyport", "proxyusername", "proxypassword"),
        "PyMongo connects through no proxy: forward a port with ssh -L, or start tallyglass with proxychains.",
    ),
    "serverselectiontryonce": "PyMongo always tries until serverSelectionTimeoutMS.",
    "tlsdisablecertificaterevocationcheck": "PyMongo has tlsDisableOCSPEndpointCheck.",
}
"""Options of other drivers, and what to do instead."""


def check_options(uri: str) -> None:
    """Raise InputError for the first option of a connection string that a driver would not apply as it is written."""
    rest = uri.partition("://")[2]
    before, _, query = rest.partition("?")
    if re.search("[&=;]", before.rpartition("@")[2]):
        raise InputError(
            "The connection string has options that do not follow a question mark.",
            "Write them as mongodb://host/?name=value&name=value.",
        )
    if ";" in query:
        raise InputError(
            "The connection string contains a semicolon among its options.",
            "Separate the options with &, and write a semicolon in a value as %3B.",
        )
    seen: set[str] = set()
    for option in query.split("&") if query else ():
        name, equals, value = option.partition("=")
        lower = name.lower()
        if not equals or "=" in value:
            raise InputError(
                f"The option '{_shown(name)}' of the connection string is not of the form name=value.",
                "Separate the options with &, and write = in a value as %3D.",
            )
        _check_name(name, lower)
        if lower in seen and lower != _SEVERAL_TIMES:
            raise InputError(f"The connection string has {SPELLED[lower]} twice.", "Only one of them would apply.")
        seen.add(lower)
        _check_value(SPELLED[lower], value if lower == "authmechanismproperties" else unquote_plus(value))


def _check_name(name: str, lower: str) -> None:
    if lower in SPELLED:
        return
    if lower in _NOT_SUPPORTED:
        raise InputError(f"The driver does not support the option {_shown(name)}.", _NOT_SUPPORTED[lower])
    near = difflib.get_close_matches(lower, SPELLED, n=1)
    raise InputError(
        f"'{_shown(name)}' is not an option of a connection string.",
        f"Did you mean {SPELLED[near[0]]}?" if near else "Correct or remove it.",
    )


def _check_value(name: str, value: str) -> None:
    values = OPTIONS[name]
    try:
        accepted = values.accept(value)
    except OSError as error:
        raise InputError(
            f"The file '{_shown(value, 120)}' in {name} cannot be read: {error.strerror}.", "Check its path."
        ) from None
    if accepted:
        return
    if not value:
        raise InputError(f"{name} has no value in the connection string.", f"It can be {values.words}.")
    shown = "This" if name.lower() in _NOT_SHOWN else f"'{_shown(value)}'"
    raise InputError(f"{shown} is not a value of {name}.", f"It can be {values.words}.")


def _shown(text: str, length: int = 60) -> str:
    return clean(scrub(text), length)
