"""The dashboard reports lost, slow and refusing servers in a real terminal, and recovers."""

from __future__ import annotations

import re

import pytest
from lost_screen import AGE, QUICK, SINCE, Open, bump, shown
from proxy import Proxy

from access_control import LEAKS, PASSWORD, GuardedSet
from pseudo_terminal import Terminal
from tallyglass.demo.server import ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.terminal]


def await_new_primary(servers: ReplicaSet, but: int) -> int:
    """Wait until a member other than ``but`` is the primary, and return its index."""
    index = servers.await_primary()
    while index == but:
        index = servers.await_primary()
    return index


def assert_follows_new_primary(terminal: Terminal, servers: ReplicaSet, lost: int) -> int:
    """Assert that the dashboard switches to the primary elected after ``lost``, and return the new primary's index."""
    now = await_new_primary(servers, lost)
    terminal.wait(shown(bump(servers, now)))
    terminal.wait(f"primary {servers.members[now].address}")
    return now


def test_follows_a_new_primary_after_step_down_and_kill(three_members: ReplicaSet, open_on: Open) -> None:
    servers = three_members
    terminal = open_on(servers.uri)
    terminal.wait(shown(bump(servers)))
    was = servers.await_primary()
    servers.step_down(30)
    now = assert_follows_new_primary(terminal, servers, was)
    servers.kill(now)
    assert_follows_new_primary(terminal, servers, now)
    terminal.press("3")
    terminal.wait(lambda text: "following" in text and text.count("faults.counters") >= 3 and not SINCE.search(text))


@pytest.mark.soak
def test_follows_a_new_primary_after_a_freeze(three_members: ReplicaSet, open_on: Open) -> None:
    servers = three_members
    terminal = open_on(servers.uri)
    terminal.wait(shown(bump(servers)))
    was = servers.await_primary()
    servers.freeze(was)
    assert_follows_new_primary(terminal, servers, was)
    servers.thaw(was)
    terminal.press("3")
    terminal.wait(lambda text: "following" in text and text.count("faults.counters") >= 2 and not SINCE.search(text))


@pytest.mark.parametrize("fault", ["frozen", pytest.param("cut off", marks=pytest.mark.soak)])
def test_recovers_from_a_silent_server(open_on: Open, fault: str) -> None:
    front, back = free_port(), free_port()
    with Proxy(back, front) as proxy, ReplicaSet(1, ports=[back], advertised=[front]) as servers:
        before = bump(servers)
        terminal = open_on(f"{servers.uri}&{QUICK}")
        terminal.wait(shown(before))
        terminal.press("3")
        terminal.wait("faults.counters")

        lose, regain = {
            "frozen": (lambda: servers.freeze(0), lambda: servers.thaw(0)),
            "cut off": (proxy.cut, proxy.heal),
        }[fault]
        terminal.press("1")
        lose()
        text = terminal.wait(lambda text: SINCE.search(text) and AGE.search(text))
        assert re.search(before, text)
        terminal.press("3")
        terminal.wait(lambda text: SINCE.search(text) and "faults.counters" in text)
        terminal.press("2")
        terminal.wait(lambda text: "Paste any text" in text and SINCE.search(text))
        regain()
        after = bump(servers)
        terminal.press("1")
        terminal.wait(lambda text: shown(after)(text) and not AGE.search(text))


@pytest.mark.soak
def test_reconnects_after_a_restart(open_on: Open) -> None:
    with ReplicaSet(1) as servers:
        before = bump(servers)
        terminal = open_on(servers.uri)
        terminal.wait(shown(before))
        servers.shut_down(0)
        text = terminal.wait(SINCE.search)
        assert re.search(before, text)
        servers.restart(0)
        terminal.wait(shown(bump(servers)))
        terminal.press("3")
        terminal.wait(
            lambda text: "following" in text and not SINCE.search(text) and text.count("faults.counters") >= 2
        )


@pytest.mark.soak
@pytest.mark.parametrize(("delay", "loss"), [(0.7, 0.0), (0.05, 0.3)], ids=["slow", "lossy"])
def test_shows_data_over_a_slow_or_lossy_link(open_on: Open, delay: float, loss: float) -> None:
    front, back = free_port(), free_port()
    with Proxy(back, front) as proxy, ReplicaSet(1, ports=[back], advertised=[front]) as servers:
        before = bump(servers, 0)
        proxy.delay, proxy.loss = delay, loss
        terminal = open_on(servers.uri)
        terminal.wait(lambda text: re.search(before, text))
        after = bump(servers, 0)
        terminal.wait(lambda text: re.search(after, text))
        terminal.press("3")
        terminal.wait("faults.counters")
        terminal.press("2")
        terminal.wait("Paste any text")
        proxy.delay = proxy.loss = 0.0
        last = bump(servers, 0)
        terminal.press("1")
        terminal.wait(lambda text: shown(last)(text) and not AGE.search(text))


def test_reports_a_changed_password_and_a_revoked_role(guarded_set: GuardedSet, open_on: Open) -> None:
    roles = [{"role": "clusterMonitor", "db": "admin"}, {"role": "readAnyDatabase", "db": "admin"}]
    user, admin = guarded_set.create_user(roles), guarded_set.admin
    counters = admin.faults.counters

    def count() -> str:
        counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}}, upsert=True)
        return rf"orders +{counters.find_one({'_id': 'orders'})['seq']} "

    uri = guarded_set.uri(user)
    port = int(re.search(r"127\.0\.0\.1:(\d+)", uri)[1])
    with Proxy(port, free_port()) as proxy:
        through = re.sub(r":\d+/\?replicaSet=\w+", f":{proxy.port}/?directConnection=true", uri)
        terminal = open_on(through)
        terminal.wait(shown(count()))

        admin.admin.command("revokeRolesFromUser", user, roles=[roles[1]])
        row = count()
        text = terminal.wait("may not")
        assert "faults.counters" in text
        terminal.press("3")
        terminal.wait(lambda text: "following" in text and "faults.counters" in text)
        admin.admin.command("grantRolesToUser", user, roles=[roles[1]])
        terminal.press("1")
        terminal.wait(lambda text: re.search(row, text) and "may not" not in text)

        admin.admin.command("updateUser", user, pwd="another")
        proxy.reset()
        terminal.wait("does not accept this user name and password")
        admin.admin.command("updateUser", user, pwd=PASSWORD)
        after = count()
        terminal.wait(lambda text: re.search(after, text) and "does not accept" not in text)
        assert not [leak for leak in (*LEAKS, PASSWORD) if leak.encode() in terminal.raw]
    admin.drop_database("faults")
