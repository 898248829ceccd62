"""Explain why no server answers: one sentence and advice, from the driver's text about each address."""

from __future__ import annotations

import re

from tallyglass.connection.secret import scrub
from tallyglass.errors import ConnectError, ReadError
from tallyglass.text import clean

CLOSED = "The server closes every connection."
MAY_REQUIRE_TLS = "It may require TLS (add tls=true to the connection string)"

# A pattern in the driver's text, the sentence, and the advice. The first match is used.
_CAUSES: tuple[tuple[str, str, str], ...] = (
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


_ADDRESS = re.compile(r"(?:(?<![\w.])[A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\]|\S*\.sock):\d{1,5}\b|/\S+\.sock\b")


def why(message: str) -> tuple[str, str]:
    """Return the sentence and the advice for the driver's text when it finds no server: of the text only the addresses
    remain, unless nothing in it is known."""
    detail = clean(scrub(message), 200)
    addresses = _addresses(detail)
    for pattern, title, advice in _CAUSES:
        if re.search(pattern, message, re.IGNORECASE):
            return title, f"{advice} ({addresses})" if addresses else advice
    return "No server answers.", f"({detail})"


def _addresses(detail: str) -> str:
    return ", ".join(dict.fromkeys(_ADDRESS.findall(detail)))


def lost(message: str, code: int | None) -> ReadError:
    """Return the error of a connection that ended while a read ran."""
    # A failed heartbeat cancels pending reads of its server. The text then does not come from the server.
    title = "The server stopped answering." if "cancelled" in message else "The connection to the server was lost."
    addresses = _addresses(clean(scrub(message), 200))
    return ReadError(title, f"({addresses})" if addresses else "", code=code)


def unreachable(message: str) -> ReadError:
    """Return the error of a read for which no server was found, which may be temporary."""
    return ReadError(*why(message))


def not_resolved(message: str) -> ConnectError | None:
    """Return the error of a DNS seed list without servers, or None if the text says something else."""
    if not re.search(r"DNS|SRV|TXT record|nameserver|resolution lifetime", message):
        return None
    unknown = re.search(r"does not exist|does not contain an answer", message)
    advice = "Its name is not known: check it." if unknown else "Check that a name server answers on this machine."
    return ConnectError("The DNS seed list returns no servers.", advice)
