"""A set whose member names cannot be reached from here, as behind ssh -L, is read through the address that answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from lost_screen import QUICK, Open, bump, shown
from proxy import Proxy

from access_control import start_guarded
from tallyglass.connection.target import Driver
from tallyglass.demo.server import HOST, ReplicaSet, free_port
from tallyglass.deployment.cluster import look_at
from tallyglass.errors import ConnectError
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Namespace
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

NAME = "localhost"
"""A name that the server resolves, and this machine in these tests does not."""

UNRESOLVED = """
import socket
plain = socket.getaddrinfo
def resolve(host, *more, **named):
    if host in ({name!r}, {name!r}.encode()):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return plain(host, *more, **named)
socket.getaddrinfo = resolve
"""


def rename(servers: ReplicaSet) -> int:
    """Give the only member another name; its port."""
    with servers.client(0) as client:
        config = client.admin.command("replSetGetConfig")["config"]
        config["members"][0]["host"] = f"{NAME}:{servers.members[0].port}"
        client.admin.command("replSetReconfig", config | {"version": config["version"] + 1}, force=True)
    servers.await_primary()
    return servers.members[0].port


@pytest.fixture(scope="module")
def remote() -> Iterator[ReplicaSet]:
    """A set whose member is called :data:`NAME`."""
    with ReplicaSet(1) as servers:
        rename(servers)
        with servers.client(0) as client:
            client.tunnel.counters.insert_one({"_id": "orders", "seq": 3})
        yield servers


@pytest.fixture
def unresolved(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if host in (NAME, NAME.encode()):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return plain(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("unresolved")
def test_every_command_reads_the_seed_and_says_so(remote: ReplicaSet, tmp_path: Path) -> None:
    port = remote.members[0].port
    uri = f"mongodb://{HOST}:{port}/"
    sentence = (
        f"tallyglass: This set calls its members {NAME}:{port}, which cannot be reached from here: "
        f"reading {HOST}:{port} alone."
    )
    for words, found in (
        (["counters"], "orders"),
        (["check"], "OK"),
        (["oplog"], "tunnel"),
        (["incidents"], ""),
        (["doctor"], f"reading {HOST}:{port} alone"),
        (["restore", "prepare", f"--out={tmp_path / 'backup'}"], "directConnection=true"),
    ):
        result = CliRunner().invoke(main, [*words, uri])
        assert found in result.stdout, (words, result.output)
        assert result.exit_code == 0
        assert [line for line in result.stderr.splitlines() if "alone" in line] == [sentence]


@pytest.mark.parametrize("driver", Driver)
async def test_members_that_do_not_answer(driver: Driver) -> None:
    back, front = free_port(), free_port()
    proxy = Proxy(back, front)
    with ReplicaSet(1, ports=[back], advertised=[front]) as servers:
        proxy.close()
        told: list[str] = []
        gateway = open_gateway(
            f"mongodb://{HOST}:{back}/?replicaSet={servers.set_name}", driver=driver, tell=told.append
        )
        try:
            assert await gateway.find_one(Namespace("tunnel", "things"), {}) is None
            deployment = await look_at(gateway)
        finally:
            await gateway.close()
    assert deployment.reached_at == f"{HOST}:{back}"
    assert told == [str(deployment.alone)]
    assert f"{HOST}:{front}, which cannot be reached" in told[0]


async def test_a_member_that_answers_is_read_by_its_name() -> None:
    back, front = free_port(), free_port()
    with Proxy(back, front), ReplicaSet(1, ports=[back], advertised=[front]):
        gateway = open_gateway(f"mongodb://{HOST}:{back}/")
        try:
            deployment = await look_at(gateway)
            assert (deployment.alone, deployment.primary) == (None, f"{HOST}:{front}")
        finally:
            await gateway.close()


@pytest.mark.usefixtures("unresolved")
async def test_a_refused_login_is_not_a_name_that_does_not_resolve() -> None:
    with start_guarded() as guarded:
        uri = guarded.uri("admin", "wrong").split("?")[0]
        port = int(uri.rpartition(":")[2].rstrip("/"))
        config = guarded.admin.admin.command("replSetGetConfig")["config"]
        config["members"][0]["host"] = f"{NAME}:{port}"
        guarded.admin.admin.command("replSetReconfig", config | {"version": config["version"] + 1}, force=True)
        gateway = open_gateway(uri)
        try:
            with pytest.raises(ConnectError, match="does not accept this user name and password"):
                await gateway.command("buildInfo")
        finally:
            await gateway.close()


@pytest.mark.terminal
def test_a_tunnel_that_opens_later(open_on: Open) -> None:
    with ReplicaSet(1) as servers:
        rename(servers)
        row = bump(servers, 0)
        port = free_port()
        terminal = open_on(f"mongodb://{HOST}:{port}/?{QUICK}", UNRESOLVED.format(name=NAME))
        terminal.wait("No server listens at that address.")
        with Proxy(servers.members[0].port, port) as tunnel:
            terminal.wait(lambda text: shown(row)(text) and " alone" in text)
            tunnel.reset()
            with servers.client(0) as client:
                client.faults.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})
            terminal.wait(lambda text: re.search(r"orders +2 ", text))
