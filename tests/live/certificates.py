"""A certificate authority for tests, with expiry times to the second. Uses openssl."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_CONFIG = """
[ca]
default_ca = own
[own]
dir = {folder}
new_certs_dir = $dir
database = $dir/index.txt
serial = $dir/serial
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
policy = any
unique_subject = no
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
basicConstraints = CA:FALSE
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Signs certificates. ``file`` is the CA certificate, which clients must trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        self._folder = folder
        self.file = folder / "ca.pem"
        self._openssl(
            "req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=Tests", "-addext",
            "keyUsage=critical,keyCertSign,cRLSign", "-keyout", "ca.key", "-out", "ca.pem",
        )  # fmt: skip

    def issue(
        self, path: Path, seconds: float = 86_400, names: str = "IP:127.0.0.1", subject: str = "/CN=tests",
        passphrase: str = "",
    ) -> datetime:  # fmt: skip
        """Write a key and a certificate that is valid for ``seconds`` to ``path``, and return its expiry time.

        The key is encrypted if ``passphrase`` is given.
        """
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
        (self._folder / "config").write_text(_CONFIG.format(folder=self._folder, names=names))
        self._openssl("req", "-new", *_KEY, "-subj", subject, "-keyout", "leaf.key", "-out", "leaf.csr")
        self._openssl(
            "ca", "-batch", "-notext", "-config", "config", "-in", "leaf.csr", "-out", "leaf.pem",
            "-startdate", f"{datetime.now(UTC) - timedelta(days=1):%Y%m%d%H%M%SZ}",
            "-enddate", f"{until:%Y%m%d%H%M%SZ}",
        )  # fmt: skip
        key = "leaf.key"
        if passphrase:
            key = "locked.key"
            self._openssl("pkey", "-in", "leaf.key", "-out", key, "-aes256", "-passout", f"pass:{passphrase}")
        path.write_text((self._folder / key).read_text() + (self._folder / "leaf.pem").read_text())
        return until

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True)
