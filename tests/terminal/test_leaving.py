"""The dashboard exits promptly while a server or a name server hangs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pseudo_terminal import is_connected
from tallyglass.demo.server import HOST, ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal]

Open = Callable[..., Any]

EXIT_SECONDS = 30.0
"""A limit for the exit. ``python -m bench leaving`` measures how long it takes."""

EXITS: dict[str, tuple[Callable[[Any], None], int]] = {
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

FAILS_WHILE_EXITING = """
from tallyglass_tui.restore.page import RestorePage
def start(page):
    page.app.exit()
    page.query_one("#nothing")
RestorePage.start = start
"""


def test_exits_while_the_server_hangs(open_terminal: Open) -> None:
    with ReplicaSet(1) as servers:
        opened = {cause: open_terminal(servers.uri) for cause in EXITS}
        for terminal in opened.values():
            terminal.wait(is_connected)
            terminal.press("3")
            terminal.wait("following")
        for terminal in opened.values():
            terminal.press("4")
            terminal.wait("Incidents")
        servers.freeze(0)
        try:
            for cause, terminal in opened.items():
                EXITS[cause][0](terminal)
            for cause, terminal in opened.items():
                assert terminal.wait_for_exit(EXIT_SECONDS) == EXITS[cause][1], cause
                assert cause == "closed" or terminal.wait_restored(), cause
        finally:
            servers.thaw(0)


def test_exits_while_the_name_server_hangs(replica_set: ReplicaSet, open_terminal: Open, tmp_path: Path) -> None:
    flag = tmp_path / "hangs"
    flag.touch()
    setup = HANGING.format(name=NAME, flag=str(flag), address=HOST)
    uri = replica_set.direct_uri().replace(HOST, NAME) + "&serverSelectionTimeoutMS=1000"
    try:
        screen, check = open_terminal(uri, setup=setup), open_terminal("check", "--timeout=2", uri, setup=setup)
        screen.wait("The server does not answer")
        screen.press("q")
        assert screen.wait_for_exit(EXIT_SECONDS) == 0
        assert screen.wait_restored()
        assert check.wait_for_exit(EXIT_SECONDS) == 3
        assert b"UNKNOWN" in check.raw
    finally:
        flag.unlink()


def test_ignores_errors_of_a_page_during_exit(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, setup=FAILS_WHILE_EXITING)
    terminal.wait(is_connected)
    terminal.press("4")
    assert terminal.wait_for_exit(EXIT_SECONDS) == 0
    assert terminal.wait_restored()
    assert b"defect" not in terminal.raw
