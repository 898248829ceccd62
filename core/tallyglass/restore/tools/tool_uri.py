"""The URI for mongodump, mongorestore and mongosh, built from the operator's.

PyMongo and the Go tools read the same URI differently: without authSource the tools log in against another
database, with one host and no replicaSet they connect to that host alone, a database in the path makes them dump
that one, and times in milliseconds were taken for seconds. So only what is known to mean the same is carried over.
Never a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri, split_options

from tallyglass.connection.uri_options import SPELLED, check_options
from tallyglass.errors import InputError
from tallyglass.text import clean


class Fate(StrEnum):
    """What becomes of an option on its way into the tools' URI."""

    KEEP = "keep"
    DROP = "drop"
    WARN = "warn"
    """Left out, with a warning to the operator."""
    REFUSE = "refuse"
    """No command can be made that means the same."""


_TOOLS_OWN = "It only concerns how Tallyglass itself reads."
_TIMES = "The tools up to 100.18.0 take milliseconds for seconds."

FATES: dict[str, tuple[Fate, str]] = {
    "appname": (Fate.DROP, "The tools set their own name."),
    "authmechanism": (Fate.KEEP, ""),
    "authmechanismproperties": (Fate.KEEP, "Those that the tools know: see :func:`_properties`."),
    "authsource": (Fate.KEEP, ""),
    "compressors": (Fate.KEEP, ""),
    "connect": (Fate.DROP, _TOOLS_OWN),
    "connecttimeoutms": (Fate.DROP, _TIMES),
    "datetime_conversion": (Fate.DROP, _TOOLS_OWN),
    "directconnection": (Fate.KEEP, ""),
    "driver": (Fate.DROP, _TOOLS_OWN),
    "enableoverloadretargeting": (Fate.DROP, _TOOLS_OWN),
    "fsync": (Fate.DROP, _TOOLS_OWN),
    "heartbeatfrequencyms": (Fate.DROP, _TIMES),
    "journal": (Fate.DROP, "mongorestore waits for a majority, which is more."),
    "loadbalanced": (Fate.REFUSE, "A load balancer hides which member is read; name the members themselves."),
    "localthresholdms": (Fate.DROP, _TIMES),
    "maxadaptiveretries": (Fate.DROP, _TOOLS_OWN),
    "maxconnecting": (Fate.DROP, _TOOLS_OWN),
    "maxidletimems": (Fate.DROP, _TIMES),
    "maxpoolsize": (Fate.DROP, _TOOLS_OWN),
    "maxstalenessseconds": (Fate.DROP, "The commands read from the primary, where the proof was made."),
    "minpoolsize": (Fate.DROP, _TOOLS_OWN),
    "readconcernlevel": (Fate.DROP, "The entries that are read are majority-committed already."),
    "readpreference": (Fate.DROP, "The commands read from the primary, where the proof was made."),
    "readpreferencetags": (Fate.DROP, "The commands read from the primary, where the proof was made."),
    "replicaset": (Fate.KEEP, ""),
    "retryreads": (Fate.DROP, "The tools retry by default."),
    "retrywrites": (Fate.DROP, "The tools retry by default."),
    "server_api": (Fate.DROP, _TOOLS_OWN),
    "servermonitoringmode": (Fate.DROP, _TOOLS_OWN),
    "serverselectiontimeoutms": (Fate.DROP, _TIMES),
    "sockettimeoutms": (Fate.DROP, _TIMES),
    "srvallowedhostssuffix": (Fate.WARN, "Only PyMongo knows it."),
    "srvmaxhosts": (Fate.DROP, "It cannot be combined with the name of the set."),
    "srvservicename": (Fate.KEEP, ""),
    "ssl": (Fate.KEEP, ""),
    "timeoutms": (Fate.DROP, _TIMES),
    "tls": (Fate.KEEP, ""),
    "tlsallowinvalidcertificates": (Fate.REFUSE, "The tools would check nothing at all; give them tlsCAFile."),
    "tlsallowinvalidhostnames": (Fate.REFUSE, "The tools would check nothing at all; use names that are in it."),
    "tlscafile": (Fate.KEEP, ""),
    "tlscertificatekeyfile": (Fate.KEEP, ""),
    "tlscertificatekeyfilepassword": (Fate.DROP, "Only an encrypted key needs it, and that one is refused."),
    "tlscrlfile": (Fate.REFUSE, "The tools have no revocation lists."),
    "tlsdisableocspendpointcheck": (Fate.KEEP, ""),
    "tlsinsecure": (Fate.REFUSE, "It checks nothing at all; give the tools tlsCAFile."),
    "tz_aware": (Fate.DROP, _TOOLS_OWN),
    "unicode_decode_error_handler": (Fate.DROP, _TOOLS_OWN),
    "uuidrepresentation": (Fate.DROP, _TOOLS_OWN),
    "w": (Fate.DROP, "mongorestore waits for a majority, which is more."),
    "waitqueuemultiple": (Fate.DROP, _TOOLS_OWN),
    "waitqueuetimeoutms": (Fate.DROP, _TIMES),
    "wtimeoutms": (Fate.DROP, _TIMES),
    "zlibcompressionlevel": (Fate.DROP, "The tools have no such option."),
}
"""Every URI option of PyMongo, by its lower-case name."""

_WITHOUT_PASSWORD = frozenset({"MONGODB-X509", "GSSAPI", "MONGODB-OIDC"})
_KNOWN_PROPERTIES = frozenset({"SERVICE_NAME", "ENVIRONMENT", "TOKEN_RESOURCE"})
_KNOWN_SAID = "SERVICE_NAME for GSSAPI, ENVIRONMENT and TOKEN_RESOURCE for MONGODB-OIDC"
_ELSEWHERE = _WITHOUT_PASSWORD | {"MONGODB-AWS", "PLAIN"}
"""Mechanisms whose users the server does not keep itself: PyMongo takes $external for them by default."""


@dataclass(frozen=True, slots=True)
class ToolUri:
    """The URI for the tools, without a password; ``warnings`` name what was left out and matters; ``user`` is empty
    without one; ``asks`` tells whether the tools will ask for a password."""

    text: str
    user: str
    asks: bool
    hosts: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def tool_uri(uri: str, set_name: str = "", alone: str = "") -> ToolUri:
    """Make the tools' URI. ``set_name`` is what the server calls its set: without it one host would be the only one.
    ``alone`` is the only address that can be reached, if the names of the set cannot.

    Raises InputError for a URI that cannot be read, or that no tool can be given. The password in it is dropped.
    """
    options, user, hosts, srv = _parsed(uri)
    if alone:
        options, hosts = options | {"directconnection": True}, (alone,)
    kept, warnings = _kept(options)
    _refuse_encrypted_key(kept.get("tlsCertificateKeyFile", ""))
    if kept.get("authMechanism") == "DEFAULT":
        del kept["authMechanism"]
    mechanism = kept.get("authMechanism", "")
    warnings += _said_of(mechanism, "ENVIRONMENT:" in kept.get("authMechanismProperties", ""))
    if srv and user and "authSource" not in kept and mechanism not in _ELSEWHERE:
        warnings.append(
            f"The commands say authSource=admin. If the TXT record of {clean(hosts[0])} says another, add that."
        )
    if (user or mechanism in _ELSEWHERE) and "authSource" not in kept:
        kept["authSource"] = "$external" if mechanism in _ELSEWHERE else "admin"
    if set_name and kept.get("directConnection") != "true":
        kept["replicaSet"] = set_name
    if len(hosts) == 1 and not set_name and not srv:
        kept["directConnection"] = "true"
    scheme = "mongodb+srv" if srv else "mongodb"
    login = f"{quote(user, safe='')}@" if user else ""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(kept.items()))
    text = f"{scheme}://{login}{','.join(hosts)}/" + (f"?{query}" if query else "")
    asks = bool(user) and mechanism not in _WITHOUT_PASSWORD
    return ToolUri(text, user, asks, hosts, tuple(warnings))


def _kept(options: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The options that the tools get, as they spell them, and warnings of what is left out."""
    warnings: list[str] = []
    kept: dict[str, str] = {}
    for name, value in options.items():
        fate, why = FATES.get(name, (Fate.REFUSE, "It is not known how the tools read it."))
        refused = name in ("tlsinsecure", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames", "loadbalanced")
        if fate is Fate.REFUSE and not (refused and not value):
            raise InputError(f"The option {clean(name)} has no equivalent in the database tools.", why)
        if fate is Fate.WARN:
            warnings.append(f"{clean(name)} is left out. {why}")
        if fate is Fate.KEEP and isinstance(value, dict):
            value = _properties(value, warnings)
        if fate is Fate.KEEP and value != "":
            kept[SPELLED["tls" if name == "ssl" else name]] = _as_text(value)
    return kept, warnings


def _properties(given: dict[str, object], warnings: list[str]) -> str:
    """What the tools know of authMechanismProperties; ``warnings`` gets the others. No secret is among them."""
    for name in given.keys() - _KNOWN_PROPERTIES:
        warnings.append(f"{clean(name)} is left out. Of the properties of a login the tools know {_KNOWN_SAID}.")
    return ",".join(f"{name}:{given[name]}" for name in sorted(given.keys() & _KNOWN_PROPERTIES))


def _said_of(mechanism: str, environment: bool) -> list[str]:
    """What the operator must know about a login that needs more than the URI."""
    if mechanism == "MONGODB-OIDC" and not environment:
        raise InputError(
            "The database tools cannot log in with MONGODB-OIDC through a browser.",
            "They can with ENVIRONMENT in authMechanismProperties; or give them a user that logs in with SCRAM.",
        )
    warning = {
        "MONGODB-OIDC": "The database tools log in with MONGODB-OIDC from version 100.11.0 on.",
        "MONGODB-AWS": "A session token of AWS is left out: the tools read it from the variable AWS_SESSION_TOKEN.",
        "GSSAPI": "The commands need a Kerberos ticket (kinit) where they run.",
    }.get(mechanism)
    return [warning] if warning else []


def _refuse_encrypted_key(path: str) -> None:
    """The tools ask for a passphrase only where the key is named by an option, and mongosh never does in a script."""
    try:
        text = Path(path).read_bytes() if path else b""
    except OSError as error:
        raise InputError(f"The key file of TLS cannot be read: {error.strerror}.") from None
    if b"ENCRYPTED" in text:
        raise InputError(
            "The key in tlsCertificateKeyFile is encrypted, and the tools cannot be given its passphrase safely.",
            "Name a copy without a passphrase that only you can read, and remove it after the restore.",
        )


def _parsed(uri: str) -> tuple[dict[str, object], str, tuple[str, ...], bool]:
    srv = uri.startswith("mongodb+srv://")
    check_options(uri)
    start, _, query = uri.partition("?")
    try:
        # The options apart from the hosts: with mongodb:// in place of mongodb+srv:// some would be refused.
        given = split_options(query, validate=True, warn=False) if query else {}
        parsed = parse_uri("mongodb://" + start.removeprefix("mongodb+srv://") if srv else start)
    except OSError as error:
        raise InputError(f"A file that the connection string names cannot be read: {error.strerror}.") from None
    except (PyMongoError, ValueError):
        raise InputError("That connection string cannot be read.", "Write it as mongodb://host:port/.") from None
    options = {str(name).lower(): value for name, value in given.items()}
    hosts = tuple(_host(host, port, srv) for host, port in parsed["nodelist"])
    if srv:
        options.setdefault("tls", True)
    database = parsed.get("database")
    if database and parsed.get("username") and "authsource" not in options:
        options["authsource"] = database
    return options, str(parsed.get("username") or ""), hosts, srv


def _host(host: str, port: int | None, srv: bool) -> str:
    if host.startswith("/"):
        return quote(host, safe="")
    shown = f"[{host}]" if ":" in host else host
    return shown if srv or port is None else f"{shown}:{port}"


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
