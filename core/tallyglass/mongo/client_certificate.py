"""The client's TLS certificate: reload it after a renewal on disk, and explain errors that it may cause.

A client reads its certificate once, when it is created. mongod gives no reason for refusing one: it closes the
connection.
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
from tallyglass.mongo.driver_texts import CLOSED, MAY_REQUIRE_TLS
from tallyglass.text import clean_name

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# The start and end of validity are adjacent, each with a two-digit or four-digit year (RFC 5280, 4.1.2.5).
_VALIDITY = re.compile(rb"\x30.(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z", re.DOTALL)


class ClientCertificate:
    """The file in ``tlsCertificateKeyFile``. ``file`` is empty without one.

    ``context`` returns the client's ``ssl.SSLContext``, or None without TLS or if it is not accessible; the certificate
    is then not renewed. ``renewable`` says whether a context in use may load another certificate, which is the case if
    one thread opens all connections.
    """

    def __init__(
        self, file: str, context: Callable[[], Any], *, passphrase: Secret | None = None, renewable: bool = True
    ) -> None:
        self._file = file
        self._context = context
        self._passphrase = passphrase
        self._renewable = renewable
        self._stamp = self._file_state()
        self._until = valid_until(file) if file else None

    def renew(self) -> None:
        """Load the file again if it was replaced, for new connections."""
        stamp = self._file_state() if self._renewable else None
        context = self._context()
        if context is None or stamp is None or stamp == self._stamp:
            return
        # A renewal may still be writing the file: retry a file that cannot be loaded yet.
        with contextlib.suppress(OSError):
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            self._load(context)
            self._until = valid_until(self._file)
            self._stamp = stamp

    def explain(self, error: ReadError) -> ReadError:
        """Return the error, or a more precise one if the server may close connections because of this certificate."""
        context = self._context()
        # A certificate implies TLS, even if the context is not accessible.
        if error.title != CLOSED or (context is None and not self._file):
            return error
        if not self._file:
            return _instead(error, "It may require a TLS client certificate (tlsCertificateKeyFile=/path/client.pem)")
        name = clean_name(self._file)
        if self._until and self._until <= datetime.now(UTC):
            renewed = self._renewable and context is not None
            again = "it is loaded automatically" if renewed else "then restart: the driver loads it only once"
            return ReadError("Your TLS client certificate has expired.", f"Renew {name}; {again}.")
        return _instead(error, f"It may not trust your TLS client certificate, {name}")

    def _load(self, context: Any) -> None:
        passphrase = self._passphrase
        context.load_cert_chain(self._file, None, passphrase.reveal() if passphrase else lambda: b"")

    def _file_state(self) -> tuple[int, int, int] | None:
        if not self._file:
            return None
        with contextlib.suppress(OSError):
            found = os.stat(self._file)
            return found.st_mtime_ns, found.st_ino, found.st_size
        return None


def valid_until(file: str) -> datetime | None:
    """Return when the first certificate in a PEM file expires, or None if that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        pem = _PEM.search(Path(file).read_text("ascii", "replace"))
        found = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(pem[0])) if pem else None
        if found:
            text, form = (found[1], "%y%m%d%H%M%S") if found[1] else (found[2], "%Y%m%d%H%M%S")
            return datetime.strptime(text.decode(), form).replace(tzinfo=UTC)
    return None


def _instead(error: ReadError, advice: str) -> ReadError:
    return ReadError(error.title, error.advice.replace(MAY_REQUIRE_TLS, advice))
