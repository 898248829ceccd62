"""The URI for mongodump, mongorestore and mongosh, built from the operator's.

PyMongo and the Go tools read the same URI differently: without authSource the tools log in against another
database, with one host and no replicaSet they connect to that host alone, a database in the path makes them dump
that one, and times in milliseconds were taken for seconds. So only what is known to mean the same is carried over.
Never a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri, split_options

from tallyglass.connection.uri_options import SPELLED, check_options
from tallyglass.errors import InputError
from tallyglass.text import clean

CARRIED = frozenset({
    "authmechanism", "authmechanismproperties", "authsource", "compressors", "directconnection", "replicaset",
    "srvservicename", "ssl", "tls", "tlscafile", "tlscertificatekeyfile", "tlsdisableocspendpointcheck",
})  # fmt: skip
"""Options that mean the same to the tools; of the properties of a login, those that :func:`_properties` knows."""

DROPPED = frozenset({
    # How Tallyglass itself reads; the tools set a name of their own, and retry by default.
    "appname", "connect", "datetime_conversion", "driver", "enableoverloadretargeting", "fsync", "maxadaptiveretries",
    "maxconnecting", "maxpoolsize", "minpoolsize", "retryreads", "retrywrites", "server_api", "servermonitoringmode",
    "tz_aware", "unicode_decode_error_handler", "uuidrepresentation", "waitqueuemultiple", "zlibcompressionlevel",
    # The tools up to 100.18.0 take milliseconds for seconds.
    "connecttimeoutms", "heartbeatfrequencyms", "localthresholdms", "maxidletimems", "serverselectiontimeoutms",
    "sockettimeoutms", "timeoutms", "waitqueuetimeoutms", "wtimeoutms",
    # The tools read from the primary, where the proof was made, entries that a majority has; mongorestore waits for a
    # majority, which is more than any of these.
    "maxstalenessseconds", "readconcernlevel", "readpreference", "readpreferencetags", "journal", "w",
    # The first cannot be combined with the name of the set; only an encrypted key needs the other, and that is refused.
    "srvmaxhosts", "tlscertificatekeyfilepassword",
})  # fmt: skip
"""Options that change nothing of what the tools read or write."""

WARNED = {"srvallowedhostssuffix": "Only PyMongo knows it."}
"""Options that are left out with a warning to the operator."""

REFUSED = {
    "loadbalanced": "A load balancer hides which member is read; name the members themselves.",
    "tlsallowinvalidcertificates": "The tools would check nothing at all; give them tlsCAFile.",
    "tlsallowinvalidhostnames": "The tools would check nothing at all; use names that are in it.",
    "tlscrlfile": "The tools have no revocation lists.",
    "tlsinsecure": "It checks nothing at all; give the tools tlsCAFile.",
}
"""Options for which no command can be made that means the same; harmless where they are false."""

_FILES = frozenset({"tlscafile", "tlscertificatekeyfile"})
_KNOWN = CARRIED | DROPPED | WARNED.keys() | REFUSED.keys()

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
    carried, warnings = _carried(options)
    _refuse_encrypted_key(carried.get("tlsCertificateKeyFile", ""))
    if carried.get("authMechanism") == "DEFAULT":
        del carried["authMechanism"]
    mechanism = carried.get("authMechanism", "")
    warnings += _login_warnings(mechanism, "ENVIRONMENT:" in carried.get("authMechanismProperties", ""))
    elsewhere = mechanism in _ELSEWHERE
    if (user or elsewhere) and "authSource" not in carried:
        carried["authSource"] = "$external" if elsewhere else "admin"
        if srv and not elsewhere:
            told = clean(hosts[0])
            warnings.append(f"The commands say authSource=admin. If the TXT record of {told} says another, add that.")
    if set_name and carried.get("directConnection") != "true":
        carried["replicaSet"] = set_name
    if len(hosts) == 1 and not set_name and not srv:
        carried["directConnection"] = "true"
    text = _assembled("mongodb+srv" if srv else "mongodb", user, hosts, carried)
    asks = bool(user) and mechanism not in _WITHOUT_PASSWORD
    return ToolUri(text, user, asks, hosts, tuple(warnings))


def _assembled(scheme: str, user: str, hosts: tuple[str, ...], options: Mapping[str, str]) -> str:
    login = f"{quote(user, safe='')}@" if user else ""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(options.items()))
    return f"{scheme}://{login}{','.join(hosts)}/" + (f"?{query}" if query else "")


def _carried(options: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The options that the tools get, as they spell them, and warnings of what is left out."""
    warnings: list[str] = []
    carried: dict[str, str] = {}
    for name, value in options.items():
        if name in REFUSED and not value:
            continue
        if name not in _KNOWN or name in REFUSED:
            why = REFUSED.get(name, "It is not known how the tools read it.")
            raise InputError(f"The option {clean(name)} has no equivalent in the database tools.", why)
        if name in WARNED:
            warnings.append(f"{clean(name)} is left out. {WARNED[name]}")
        if name in CARRIED:
            text = _properties(value, warnings) if isinstance(value, dict) else _as_text(value)
            # The commands run in the plan's folder, not where the URI was typed.
            text = str(Path(text).absolute()) if name in _FILES else text
            carried |= {SPELLED["tls" if name == "ssl" else name]: text} if text else {}
    return carried, warnings


def _properties(given: dict[str, object], warnings: list[str]) -> str:
    """What the tools know of authMechanismProperties; ``warnings`` gets the others. No secret is among them."""
    for name in given.keys() - _KNOWN_PROPERTIES:
        warnings.append(f"{clean(name)} is left out. Of the properties of a login the tools know {_KNOWN_SAID}.")
    return ",".join(f"{name}:{given[name]}" for name in sorted(given.keys() & _KNOWN_PROPERTIES))


def _login_warnings(mechanism: str, environment: bool) -> list[str]:
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
