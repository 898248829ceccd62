"""Leaving while nothing answers: a server that hangs, a name server that hangs, and no wait for either."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallyglass.demo.server import HOST, ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal]

Open = Callable[..., Any]

SOON = 30.0
"""Seconds within which it must have ended. How long it takes: ``python -m bench leaving``."""

WAYS: dict[str, tuple[Callable[[Any], None], int]] = {
    "q": (lambda terminal: terminal.press("q"), 0),
    "SIGTERM": (lambda terminal: terminal.process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM),
    "SIGHUP": (lambda terminal: terminal.process.send_signal(signal.SIGHUP), 128 + signal.SIGHUP),
    "closed": (lambda terminal: terminal.hang_up(), 128 + signal.SIGHUP),
}

NAME = "db.internal.test"
HANGING = """
import os, socket, time
plain = socket.getaddrinfo
def resolve(host, *more, **named):
    if host in ({name!r}, {name!r}.encode()):
        while os.path.exists({flag!r}):
            time.sleep(0.1)
        host = {address!r}
    return plain(host, *more, **named)
socket.getaddrinfo = resolve
"""

HALF_MADE = """
from tallyglass_tui.restore.page import RestorePage
def start(page):
    page.app.exit()
    page.query_one("#nothing")
RestorePage.start = start
"""


def test_a_server_that_hangs_holds_nobody_up(open_terminal: Open) -> None:
    with ReplicaSet(1) as servers:
        opened = {way: open_terminal(servers.uri) for way in WAYS}
        for terminal in opened.values():
            terminal.wait("rs tally")
            terminal.press("3")
            terminal.wait("following")
        for terminal in opened.values():
            terminal.press("4")
            terminal.wait("Incidents")
        servers.freeze(0)
        try:
            for way, terminal in opened.items():
                WAYS[way][0](terminal)
            for way, terminal in opened.items():
                assert terminal.ended(SOON) == WAYS[way][1], way
                assert way == "closed" or terminal.restored(), way
        finally:
            servers.thaw(0)


def test_a_name_server_that_hangs_holds_nobody_up(replica_set: ReplicaSet, open_terminal: Open, tmp_path: Path) -> None:
    flag = tmp_path / "hangs"
    flag.touch()
    setup = HANGING.format(name=NAME, flag=str(flag), address=HOST)
    uri = replica_set.direct_uri().replace(HOST, NAME) + "&serverSelectionTimeoutMS=1000"
    try:
        screen, check = open_terminal(uri, setup=setup), open_terminal("check", "--timeout=2", uri, setup=setup)
        screen.wait("The server does not answer")
        screen.press("q")
        assert screen.ended(SOON) == 0
        assert screen.restored()
        assert check.ended(SOON) == 3
        assert b"UNKNOWN" in check.raw
    finally:
        flag.unlink()


def test_what_fails_on_a_page_that_is_taken_down_is_no_defect(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, setup=HALF_MADE)
    terminal.wait("rs tally")
    terminal.press("4")
    assert terminal.ended(SOON) == 0
    assert terminal.restored()
    assert b"defect" not in terminal.raw
