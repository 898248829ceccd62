"""The dashboard reports certificates that are untrusted, misnamed or expired, and recovers after their renewal."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from certificates import Authority
from lost_screen import AGE, QUICK, SINCE, Open, bump, shown
from proxy import Proxy
from pymongo.errors import OperationFailure

from tallyglass.demo.server import HOST, ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.terminal]

EXPIRED = "The server's TLS certificate has expired."
OWN_EXPIRED = "Your TLS client certificate has expired."


def rotate_and_await_expiry(servers: ReplicaSet, authority: Authority, server: Path) -> None:
    """Make the server use a certificate that is valid now, and wait until it has expired."""
    for seconds in (3, 6, 12, 24, 48):
        until = authority.issue(server, seconds)
        with servers.client(0) as client:
            try:
                client.admin.command("rotateCertificates")
            except OperationFailure:  # it expired before it was loaded
                continue
        while datetime.now(UTC) <= until:
            time.sleep(0.1)
        return
    raise AssertionError("no certificate was loaded before it expired")


@pytest.mark.since(5, 0)
def test_recovers_after_the_server_certificate_is_renewed(open_on: Open, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    server = tmp_path / "server.pem"
    authority.issue(server)
    options = ["--tlsMode=allowTLS", f"--tlsCertificateKeyFile={server}", f"--tlsCAFile={authority.file}"]
    options.append("--tlsAllowConnectionsWithoutCertificates")
    with ReplicaSet(1, options=options) as servers, Proxy(servers.members[0].port, free_port()) as proxy:
        before = bump(servers)
        uri = f"mongodb://{HOST}:{proxy.port}/?directConnection=true&tls=true&{QUICK}"
        terminal = open_on(f"{uri}&tlsCAFile={authority.file}")
        untrusted = open_on(f"{uri}&tlsCAFile={other.file}")
        misnamed = open_on(f"{uri.replace(HOST, 'localhost')}&tlsCAFile={authority.file}")
        terminal.wait(shown(before))
        untrusted.wait("The server's TLS certificate is not signed by an authority that this machine trusts.")
        misnamed.wait("The server's TLS certificate is for another host name.")

        rotate_and_await_expiry(servers, authority, server)
        proxy.reset()
        text = terminal.wait(lambda text: EXPIRED in text and SINCE.search(text) and AGE.search(text))
        assert re.search(before, text)

        authority.issue(server)
        servers.shut_down(0)
        servers.restart(0)
        after = bump(servers)
        terminal.wait(lambda text: shown(after)(text) and not AGE.search(text) and EXPIRED not in text)


def test_recovers_after_the_client_certificate_is_renewed(open_on: Open, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    server, own = tmp_path / "server.pem", tmp_path / "own.pem"
    authority.issue(server)
    authority.issue(own)
    options = ["--tlsMode=preferTLS", f"--tlsCertificateKeyFile={server}", f"--tlsCAFile={authority.file}"]
    with ReplicaSet(1, options=options) as servers, Proxy(servers.members[0].port, free_port()) as proxy:
        before = bump(servers)
        uri = f"mongodb://{HOST}:{proxy.port}/?directConnection=true&tls=true&{QUICK}&tlsCAFile={authority.file}"
        without = open_on(uri)
        terminal = open_on(f"{uri}&tlsCertificateKeyFile={own}")
        terminal.wait(shown(before))
        without.wait("It may require a TLS client")

        authority.issue(own, seconds=1)
        # The server keeps connections whose certificate expires, and only refuses new ones.
        text = terminal.wait(
            lambda text: (OWN_EXPIRED in text and SINCE.search(text) and AGE.search(text)) or proxy.reset()
        )
        assert re.search(before, text)
        authority.issue(own)
        after = bump(servers)
        terminal.wait(lambda text: shown(after)(text) and not AGE.search(text) and OWN_EXPIRED not in text)
