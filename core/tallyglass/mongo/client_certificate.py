"""The TLS certificate that this client shows: read again once it was renewed on disk, and named where it is at fault.

A client reads it once, when it is made. mongod gives no reason when it refuses one: it closes the connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyglass.connection.secret import Secret
from tallyglass.errors import ReadError
from tallyglass.mongo.unreachable import CLOSED, MAY_WANT_TLS
from tallyglass.text import clean_name

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# The two times of a certificate stand together, each with two or four digits of the year (RFC 5280, 4.1.2.5).
_VALIDITY = re.compile(rb"\x30.(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z", re.DOTALL)


class ClientCertificate:
    """The file that ``tlsCertificateKeyFile`` names; ``file`` is empty without one.

    ``context`` gives the client's ``ssl.SSLContext``, None without TLS or where it cannot be had: then the certificate
    is not renewed. ``renewable``: whether another certificate may be put into it while it is in use, as it may where
    one thread opens all connections.
    """

    def __init__(
        self, file: str, context: Callable[[], Any], *, passphrase: Secret | None = None, renewable: bool = True
    ) -> None:
        self._file = file
        self._context = context
        self._passphrase = passphrase
        self._renewable = renewable
        self._stamp = self._look()
        self._until = valid_until(file) if file else None

    def renew(self) -> None:
        """Read the file again where it was replaced: for connections from now on."""
        stamp = self._look() if self._renewable else None
        context = self._context()
        if context is None or stamp is None or stamp == self._stamp:
            return
        # Who renews it may still be writing: a file that cannot be used yet is tried again.
        with contextlib.suppress(OSError):
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            self._load(context)
            self._until = valid_until(self._file)
            self._stamp = stamp

    def explain(self, error: ReadError) -> ReadError:
        """The error, or a better one where a server that closes each connection may mean this certificate."""
        context = self._context()
        # A certificate implies TLS, also where the context cannot be had.
        if error.title != CLOSED or (context is None and not self._file):
            return error
        if not self._file:
            return _instead(error, "It may want a TLS client certificate (tlsCertificateKeyFile=/path/client.pem)")
        name = clean_name(self._file)
        if self._until and self._until <= datetime.now(UTC):
            renewed = self._renewable and context is not None
            again = "it is read again by itself" if renewed else "then restart: the driver reads it only once"
            return ReadError("Your TLS client certificate has expired.", f"Renew {name}; {again}.")
        return _instead(error, f"It may not trust your TLS client certificate, {name}")

    def _load(self, context: Any) -> None:
        passphrase = self._passphrase
        context.load_cert_chain(self._file, None, passphrase.reveal() if passphrase else lambda: b"")

    def _look(self) -> tuple[int, int, int] | None:
        if not self._file:
            return None
        with contextlib.suppress(OSError):
            found = os.stat(self._file)
            return found.st_mtime_ns, found.st_ino, found.st_size
        return None


def valid_until(file: str) -> datetime | None:
    """When the first certificate in a PEM file ends to be valid; None where that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        pem = _PEM.search(Path(file).read_text("ascii", "replace"))
        found = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(pem[0])) if pem else None
        if found:
            text, form = (found[1], "%y%m%d%H%M%S") if found[1] else (found[2], "%Y%m%d%H%M%S")
            return datetime.strptime(text.decode(), form).replace(tzinfo=UTC)
    return None


def _instead(error: ReadError, advice: str) -> ReadError:
    return ReadError(error.title, error.advice.replace(MAY_WANT_TLS, advice))
