"""What the driver's texts mean: a pattern, one sentence, and advice.

Where its errors have no type or code of their own, only their text tells what is wrong.
"""

from __future__ import annotations

import re

from tallyglass.connection.secret import scrub
from tallyglass.errors import ConnectError, InputError, ReadError
from tallyglass.text import clean

CLOSED = "The server closes every connection."
MAY_REQUIRE_TLS = "It may require TLS (add tls=true to the connection string)"

Meanings = tuple[tuple[str, str, str], ...]
"""A pattern in the driver's text, the sentence, and the advice. The first match counts."""

NO_SERVER: Meanings = (
    (
        r"certificate has expired",
        "The server's TLS certificate has expired.",
        "Renew it on the server. Without a valid certificate, others on the network could read the password.",
    ),
    (
        r"hostname mismatch|doesn't match|not valid for|IP address mismatch",
        "The server's TLS certificate is for another host name.",
        "Connect to a name in the certificate.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|self.signed certificate|unable to get local issuer",
        "The server's TLS certificate is not signed by an authority that this machine trusts.",
        "Set tlsCAFile=/path/ca.pem in the connection string to the certificate of its authority.",
    ),
    (
        r"certificate required|bad certificate|unknown ca|peer did not return a certificate",
        "The server requires a TLS client certificate that it trusts.",
        "Set tlsCertificateKeyFile=/path/client.pem in the connection string.",
    ),
    (
        r"SSL handshake failed|WRONG_VERSION_NUMBER|wrong version number|UNEXPECTED_EOF|record layer failure",
        "The server does not speak TLS on this port.",
        "Remove tls=true from the connection string, or use the server's TLS port.",
    ),
    (
        r"connection closed|connection is already closed|Connection reset",
        CLOSED,
        f"{MAY_REQUIRE_TLS}, or refuse this machine's address.",
    ),
    (
        r"Name or service not known|nodename nor servname|getaddrinfo|No address associated"
        r"|Temporary failure in name resolution|Name does not resolve",
        "A host name in the connection string cannot be resolved.",
        "Check its spelling, and the name resolution on this machine.",
    ),
    (
        r"No replica set members available for replica set name|client is configured to connect to a replica set named",
        "The servers belong to another replica set than the one in the connection string.",
        "Correct or remove replicaSet in the connection string.",
    ),
    (
        r"Connection refused|Connect call failed|Errno 111",
        "No server listens at that address.",
        "Check host and port, and that mongod runs there.",
    ),
    (
        r"timed out|NetworkTimeout|timeout|No servers found yet",
        "The server does not answer.",
        "It may hang, or a firewall may block the connection. Check host and port.",
    ),
    (
        r"No primary available|No replica set members match|No replica set members available",
        "The replica set has no readable member at the moment.",
        "It may be electing a primary; try again in a few seconds.",
    ),
)

"""Why no server answers."""

LOGIN: Meanings = (
    (
        r"mechanism \S+ which is (?:unknown or )?not enabled|Unsupported mechanism",
        "The server does not support the authentication mechanism in authMechanism.",
        "Ask its administrator which mechanisms it supports. Without authMechanism, SCRAM is used.",
    ),
    (
        r"SASLprep",
        "The password contains a character that SCRAM-SHA-256 does not allow.",
        "Set a password without control characters, or log in with authMechanism=SCRAM-SHA-1.",
    ),
    (
        r"must be installed to use|requires pymongo-auth-aws|requires pykerberos",
        "This authentication mechanism needs a Python package that is not installed.",
        "",
    ),
    (
        r"^Could not find user .* for db .\$external",
        "The server has no user with the name in this client certificate.",
        "",
    ),
    (r"access token|IMDS", "This machine's environment provides no token for MONGODB-OIDC.", ""),
)
"""Why a login cannot be attempted. Without advice, the driver's text is shown."""

CONNECTION_STRING: Meanings = (
    (r"^Port (?:contains|must)", "A port in the connection string is not a number from 1 to 65535.", ""),
    (
        r"^Username and password must be escaped",
        "In user name and password write @ as %40, : as %3A, / as %2F, % as %25.",
        "",
    ),
    (
        r"conflicting values for URI options ssl and tls",
        "ssl and tls in the connection string contradict each other.",
        "",
    ),
    (r"TLS has not been enabled", "The connection string has TLS options, and not tls=true.", ""),
    (r"^Cannot specify multiple hosts with directConnection", "directConnection=true needs a single host.", ""),
    (r"^minPoolSize must be", "minPoolSize is larger than maxPoolSize.", ""),
    (r"^Must provide at least one hostname", "The connection string names no host.", "Write mongodb://host:27017/."),
)
"""Why the driver refuses a connection string."""

_ADDRESS = re.compile(r"(?:(?<![\w.])[A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\]|\S*\.sock):\d{1,5}\b|/\S+\.sock\b")

_BARE_IPV6 = re.compile(r"(?<![\w.:\[])((?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.]{0,15}):(\d{1,5})\b")
"""An address as the driver writes it, which is unclear without brackets."""


def meaning_of(message: str, meanings: Meanings) -> tuple[str, str] | None:
    """The sentence and the advice for a text of the driver; None for one that is not known."""
    for pattern, title, advice in meanings:
        if re.search(pattern, message, re.IGNORECASE):
            return title, advice
    return None


def unreachable(message: str) -> ReadError:
    """Return the error of a read for which no server was found, which may be temporary: of the driver's text only the
    addresses remain, unless nothing in it is known."""
    detail = clean(scrub(message), 200)
    addresses = _addresses(detail)
    found = meaning_of(message, NO_SERVER)
    if found is None:
        return ReadError("No server answers.", f"({detail})")
    title, advice = found
    return ReadError(title, f"{advice} ({addresses})" if addresses else advice)


def login_refused(message: str) -> ConnectError | None:
    """Return the error of a login that cannot be attempted, or None if the text says something else."""
    found = meaning_of(message, LOGIN)
    return ConnectError(found[0], found[1] or f"({clean(scrub(message), 200).rstrip('.')})") if found else None


def _addresses(detail: str) -> str:
    return ", ".join(dict.fromkeys(_ADDRESS.findall(_BARE_IPV6.sub(r"[\1]:\2", detail))))


def lost(message: str) -> tuple[str, str]:
    """Return title and advice for a connection that ended while a read ran."""
    # A failed heartbeat cancels pending reads of its server. The text then does not come from the server.
    title = "The server stopped answering." if "cancelled" in message else "The connection to the server was lost."
    addresses = _addresses(clean(scrub(message), 200))
    return title, f"({addresses})" if addresses else ""


def not_resolved(message: str) -> ConnectError | None:
    """Return the error of a DNS seed list without servers, or None if the text says something else."""
    if not re.search(r"DNS|SRV|TXT record|nameserver|resolution lifetime", message):
        return None
    unknown = re.search(r"does not exist|does not contain an answer", message)
    advice = "Its name is not known: check it." if unknown else "Check that a name server answers on this machine."
    return ConnectError("The DNS seed list returns no servers.", advice)


def unusable(message: str) -> InputError:
    """Return the error of a connection string that the driver refuses, of which the reason is in ``message``."""
    known = meaning_of(message, CONNECTION_STRING)
    title = f"The connection string cannot be used: {_sentence(message)}"
    return InputError(*known) if known else InputError(title, "Check host, port and options.")


def _sentence(message: str) -> str:
    return message if message.endswith(("?", "!")) else f"{message.rstrip('.')}."
