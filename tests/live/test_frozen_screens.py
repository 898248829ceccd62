"""While a server is frozen, or the link to it is silent, every screen says how old what it shows is, takes keys, claims
nothing of now, and comes back."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lost_screen import AGE, QUICK, SINCE, Open
from proxy import Proxy

from pseudo_terminal import environment
from tallyglass.demo.server import ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.terminal]

SCREENS = (
    ("1", "shop.counters"),
    ("1\r", "ceiling"),
    ("3", "[0-9]+ seen"),
    ("3i", "deleteMany on shop.orders"),
    ("3i\r", "How sure"),
    ("3a", "over 5 min"),
    ("4", "deleteMany on shop.orders"),
    ("4e", r"(?s)Report of this incident.*Cancel"),
)
"""Keys from page 2, and what the screen then has; a line that is typed takes the keys."""
NOW = re.compile(r"following|still going on|for \d+(?:s|m) |RUNNING")
"""What is said of now."""
READS = "reading how this can be undone"
PLANS = re.compile(rf"{READS}|no plan  No server answers").search
"""What is said of a plan; it gives up after a second, which on a busy machine may be before the help is closed, or
before Esc stops it."""


@pytest.mark.parametrize("fault", ["frozen server", "cut link", "link that accepts and is silent"])
def test_no_screen_takes_the_past_for_now(open_on: Open, fault: str) -> None:
    front, back = free_port(), free_port()
    with Proxy(back, front) as link, ReplicaSet(1, ports=[back], advertised=[front]) as servers:

        def lose() -> None:
            if fault == "frozen server":
                servers.freeze(0)
                return
            link.cut()
            if fault != "cut link":
                link.reset()

        def regain() -> None:
            servers.thaw(0) if fault == "frozen server" else link.heal()

        with servers.client() as client:
            client.shop.counters.insert_one({"_id": "orders", "seq": 90})
            client.shop.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})
            client.shop.orders.insert_many([{"_id": n} for n in range(300)])
            client.shop.orders.delete_many({})
        terminal = open_on(f"{servers.uri}&{QUICK}")
        terminal.wait("shop.counters")

        def each(frozen: bool) -> None:
            for keys, there in SCREENS:
                terminal.press("2")
                terminal.wait("Paste any text")
                for key in keys:
                    terminal.press(key)
                terminal.wait(
                    lambda text, there=there: (
                        re.search(there, text)
                        and bool(SINCE.search(text)) is bool(AGE.search(text.splitlines()[0])) is frozen
                        and not (frozen and NOW.search(text))
                    )
                )
                if there.endswith("Cancel"):
                    terminal.press("\x1b")
                    terminal.wait(lambda text: "Cancel" not in text)

        each(frozen=False)
        lose()
        terminal.wait(SINCE.search)
        each(frozen=True)
        terminal.press("\r")
        terminal.wait(PLANS)
        terminal.press("?")
        terminal.wait("Where to look")
        terminal.press("q")
        terminal.wait(PLANS)
        terminal.press("\x1b")
        terminal.wait(lambda text: READS not in text)
        regain()
        each(frozen=False)
        lose()
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        regain()


def test_a_recording_of_a_frozen_server_ends_without_a_trace(tmp_path: Path) -> None:
    with ReplicaSet(1) as servers:
        words = [sys.executable, "-m", "tallyglass_tui", "record", str(tmp_path / "r"), servers.uri]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)) as recording:
            assert recording.stderr is not None
            first = recording.stderr.readline()
            with servers.client() as client:
                connected = {"$currentOp": {"allUsers": True}}, {"$match": {"op": "getmore", "ns": "local.oplog.rs"}}
                while not list(client.admin.aggregate([*connected])):
                    pass
            servers.freeze(0)
            recording.send_signal(signal.SIGINT)
            said = first + recording.stderr.read()
        servers.thaw(0)
    assert [line for line in said.splitlines() if not line.startswith("tallyglass: ")] == []
    assert recording.returncode in (0, 3)
