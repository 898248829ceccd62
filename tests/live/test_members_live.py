"""Members as they are: hidden, delayed, recovering; a standalone; a server that is too old; nobody logged in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from lost_screen import QUICK, Open
from proxy import Proxy

from access_control import GuardedSet
from server_version import major
from tallyglass.demo.server import HOST, ReplicaSet, Standalone, free_port
from tallyglass.deployment import members
from tallyglass.deployment.cluster import look_at
from tallyglass.mongo.client import open_gateway
from tallyglass_tui.cli.main import main
from tallyglass_tui.shell.status_line import member_letters

pytestmark = pytest.mark.live

DELAY = 3_600


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture(scope="module")
def uneven_set() -> Iterator[ReplicaSet]:
    """A primary, a hidden member, and a delayed one whose data end before the counter moved."""
    with ReplicaSet(3) as servers:
        with servers.client() as client:
            client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1})
            client.shop.counters.insert_one({"_id": "orders", "seq": 5})
            delay = "secondaryDelaySecs" if major() >= (5, 0) else "slaveDelay"
            for number, changes in ((1, {}), (2, {delay: DELAY})):
                config = client.admin.command("replSetGetConfig")["config"]
                config["members"][number] |= {"priority": 0, "hidden": True} | changes
                client.admin.command("replSetReconfig", config | {"version": config["version"] + 1})
            client.shop.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})
        yield servers


async def test_a_configured_delay_is_not_lag(uneven_set: ReplicaSet) -> None:
    gateway = open_gateway(uneven_set.uri)
    try:
        found = await look_at(gateway)
    finally:
        await gateway.close()
    assert [(one.delay_seconds, one.hidden) for one in found.members] == [(0, False), (0, True), (DELAY, True)]
    assert found.members[2].lag_seconds == 0.0
    assert member_letters(found.members) == "P*HL"
    assert found.old_data == ""


def test_the_age_of_a_delayed_members_data_is_said(uneven_set: ReplicaSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "OLD_SECONDS", 0.0)
    for command in ("counters", "check", "doctor"):
        (line,) = run(command, uneven_set.direct_uri(2)).stderr.splitlines()
        assert line.startswith("tallyglass: The data are ")
        assert line.endswith(f" s old: they come from {uneven_set.members[2].address}, which is delayed by 3,600 s.")
        assert run(command, uneven_set.direct_uri(0)).stderr == ""


def test_a_recovering_member_is_the_reason(uneven_set: ReplicaSet) -> None:
    with uneven_set.client(1) as client:
        client.admin.command("replSetMaintenance", True)
        try:
            found = run("counters", uneven_set.direct_uri(1))
            doctor = run("doctor", uneven_set.direct_uri(1))
        finally:
            client.admin.command("replSetMaintenance", False)
    assert (found.exit_code, doctor.exit_code) == (3, 1)
    assert "This member serves no reads: it is starting, recovering or rolling back." in found.stderr
    assert "counters   no      This member serves no reads" in doctor.stdout


def test_nobody_is_logged_in(guarded_set: GuardedSet) -> None:
    found = run("counters", guarded_set.uri("").replace("@", ""))
    assert "This server requires a login." in found.stderr
    assert found.exit_code == 3


def test_a_standalone_is_no_member(standalone: Standalone) -> None:
    found = run("doctor", f"{standalone.uri}?replicaSet=rs0")
    address = standalone.members[0].address
    assert found.stderr == (
        f"tallyglass: {address} is a standalone, not a member of the replica set in the connection string. "
        "Correct or remove replicaSet in the connection string.\n"
    )
    assert found.exit_code == 3


@pytest.mark.terminal
def test_the_pages_of_a_standalone_wait_for_nothing(standalone: Standalone, open_on: Open) -> None:
    with standalone.client(0) as client:
        client.uneven.counters.insert_one({"_id": "tickets", "seq": 5})
        try:
            terminal = open_on(standalone.uri)
            terminal.wait("tickets")
            terminal.press("\r")
            terminal.wait("A graph needs two samples")
            terminal.press("3")
            text = terminal.wait("no oplog here: nothing to follow")
            assert "following\n" not in text
            assert "not read yet" not in text
            terminal.press("4")
            terminal.wait("none: a restore to a moment needs an oplog")
        finally:
            client.drop_database("uneven")


def test_a_server_that_is_too_old_is_named() -> None:
    with Standalone() as servers, Proxy(servers.members[0].port, free_port()) as proxy, servers.client(0) as client:
        versions = (client.admin.command("hello")["maxWireVersion"], 7)
        new, old = (b"maxWireVersion\x00" + version.to_bytes(4, "little") for version in versions)
        proxy.rewritten = [(new, old)]
        found = run("doctor", f"mongodb://{HOST}:{proxy.port}/?{QUICK}&directConnection=true")
    assert found.exit_code == 3
    assert found.stderr.startswith("tallyglass: MongoDB 4.0 is too old: MongoDB 4.")
