"""Client certificates: their expiry, their renewal, and the advice if a server closes every connection."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
from certificates import Authority
from pymongo import AsyncMongoClient

from programs import require_programs
from tallyglass.connection.secret import Secret
from tallyglass.errors import ReadError
from tallyglass.mongo.client import tls_context
from tallyglass.mongo.client_certificate import ClientCertificate, valid_until
from tallyglass.mongo.driver_texts import unreachable

CLOSED = unreachable("db1:27017: connection closed")


class Context:
    """A fake TLS context that counts the certificates it loads."""

    def __init__(self) -> None:
        self.loads = 0

    def load_cert_chain(self, *_: object) -> None:
        self.loads += 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    require_programs("openssl")
    return Authority(tmp_path_factory.mktemp("certificates") / "ca")


def explained(file: Path | str, error: ReadError = CLOSED, *, tls: bool = True, renewable: bool = True) -> str:
    context = Context() if tls else None
    return str(ClientCertificate(str(file), lambda: context, renewable=renewable).explain(error))


@pytest.mark.parametrize("seconds", [-60, 3_600, 40 * 365 * 86_400])
def test_valid_until_reads_both_time_formats(authority: Authority, tmp_path: Path, seconds: int) -> None:
    assert valid_until(str(tmp_path / "own.pem")) is None
    assert authority.issue(tmp_path / "own.pem", seconds) == valid_until(str(tmp_path / "own.pem"))
    (tmp_path / "own.pem").write_text("-----BEGIN CERTIFICATE-----\nMDA=\n-----END CERTIFICATE-----\n")
    assert valid_until(str(tmp_path / "own.pem")) is None


def test_explains_a_server_that_closes_every_connection(authority: Authority, tmp_path: Path) -> None:
    good, old = tmp_path / "good.pem", tmp_path / "old.pem"
    authority.issue(good)
    authority.issue(old, -60)
    assert "add tls=true" in explained("", tls=False)
    assert "It may require a TLS client certificate" in explained("")
    assert f"It may not trust your TLS client certificate, {good}, or refuse" in explained(good)
    assert explained(old).startswith(
        f"Your TLS client certificate has expired. Renew {old}; it is loaded automatically"
    )
    assert "then restart" in explained(old, renewable=False)
    assert "(db1:27017)" in explained(good)
    refused = unreachable("db1:27017: Connection refused")
    assert explained(old, refused) == str(refused)


def test_reloads_a_renewed_certificate_once_it_is_complete(authority: Authority, tmp_path: Path) -> None:
    own, context = tmp_path / "own.pem", Context()
    authority.issue(own, -60, passphrase="words")
    held = ClientCertificate(str(own), lambda: context, passphrase=Secret("words"))
    fixed = ClientCertificate(str(own), lambda: context, renewable=False)
    held.renew()
    assert context.loads == 0

    authority.issue(own, passphrase="words")
    whole = own.read_text()
    own.write_text(whole[:-200])
    held.renew()
    own.unlink()
    held.renew()
    assert context.loads == 0
    assert "expired" in str(held.explain(CLOSED))

    own.write_text(whole)
    held.renew()
    held.renew()
    fixed.renew()
    assert context.loads == 1
    assert "expired" not in str(held.explain(CLOSED))


async def test_finds_the_tls_context_of_the_installed_pymongo() -> None:
    async with AsyncMongoClient("mongodb://db1/?tls=true", connect=False) as client:
        assert isinstance(tls_context(client), ssl.SSLContext)
    async with AsyncMongoClient("mongodb://db1", connect=False) as client:
        assert tls_context(client) is None


def test_without_a_tls_context_certificates_are_not_renewed(authority: Authority, tmp_path: Path) -> None:
    client = SimpleNamespace(options=SimpleNamespace(pool_options=SimpleNamespace()))
    own = tmp_path / "own.pem"
    authority.issue(own, -60)
    held = ClientCertificate(str(own), lambda: tls_context(client))
    authority.issue(own)
    held.renew()
    assert "has expired. Renew " in str(held.explain(CLOSED))
    assert "then restart" in str(held.explain(CLOSED))
