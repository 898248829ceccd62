"""Why no server answers: one sentence and advice, from what the driver says about each address."""

from __future__ import annotations

import re

from tallyglass.connection.secret import scrub
from tallyglass.errors import ConnectError, ReadError
from tallyglass.text import clean

CLOSED = "The server closes each connection at once."
MAY_WANT_TLS = "It may want TLS (add tls=true to the connection string)"

# What the driver's text holds, the sentence, and the advice. The first that fits is taken.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"certificate has expired",
        "The server's TLS certificate has expired.",
        "Renew it on the server; reading without a valid certificate would show the password to anybody between.",
    ),
    (
        r"hostname mismatch|doesn't match|not valid for|IP address mismatch",
        "The server's TLS certificate is for another host name.",
        "Connect by the name in the certificate.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|self.signed certificate|unable to get local issuer",
        "The server's TLS certificate is not signed by an authority that this machine trusts.",
        "Name the authority's file with tlsCAFile=/path/ca.pem in the connection string.",
    ),
    (
        r"certificate required|bad certificate|unknown ca|peer did not return a certificate",
        "The server wants a TLS client certificate that it trusts.",
        "Name yours with tlsCertificateKeyFile=/path/client.pem in the connection string.",
    ),
    (
        r"SSL handshake failed|WRONG_VERSION_NUMBER|wrong version number|UNEXPECTED_EOF|record layer failure",
        "The server does not speak TLS on this port.",
        "Leave tls=true out of the connection string, or use the server's TLS port.",
    ),
    (
        r"connection closed|connection is already closed|Connection reset",
        CLOSED,
        f"{MAY_WANT_TLS}, or refuse this machine's address.",
    ),
    (
        r"Name or service not known|nodename nor servname|getaddrinfo|No address associated"
        r"|Temporary failure in name resolution|Name does not resolve",
        "A host name in the connection string is not known.",
        "Check its spelling, and that this machine can resolve it.",
    ),
    (
        r"No replica set members available for replica set name|client is configured to connect to a replica set named",
        "The servers belong to another replica set than the connection string says.",
        "Correct or leave out replicaSet in the connection string.",
    ),
    (
        r"Connection refused|Connect call failed|Errno 111",
        "No server listens at that address.",
        "Check host and port, and that mongod runs there.",
    ),
    (
        r"timed out|NetworkTimeout|timeout|No servers found yet",
        "The server does not answer.",
        "A firewall may be in between, or the server hangs. Check host and port.",
    ),
    (
        r"No primary available|No replica set members match|No replica set members available",
        "The replica set has no member that may be read now.",
        "It may be electing a primary; try again in a few seconds.",
    ),
)


_PLAINLY = ("A host name in the connection string is not known.", "No server listens at that address.")
_PLAIN = re.compile(r": \[Errno -?\d+\] (?:Connect call failed \([^)]*\)|[A-Z][A-Za-z ]+)")
"""What the operating system adds to an address, where the sentence has said it already."""


def why(said: str) -> tuple[str, str]:
    """The sentence and the advice for what the driver says when it finds no server."""
    detail = clean(scrub(said), 200)
    for pattern, title, advice in _CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            return title, f"{advice} ({_PLAIN.sub('', detail) if title in _PLAINLY else detail})"
    return "No server answers.", f"({detail})"


def unreachable(said: str) -> ReadError:
    """The error of a read for which no server was found: it may pass."""
    return ReadError(*why(said))


def not_resolved(said: str) -> ConnectError | None:
    """The error of a DNS seed list that gives no servers; None where the text says something else."""
    if not re.search(r"DNS|SRV|TXT record|nameserver|resolution lifetime", said):
        return None
    advice = f"Check its name, and that a name server answers here. ({clean(scrub(said), 200)})"
    return ConnectError("That DNS seed list gives no servers.", advice)
