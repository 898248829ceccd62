"""Conditions on a bastion host: nohup and lost connections, rapid resizing, other character sets, SIGSTOP."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from pseudo_terminal import is_connected
from tallyglass.demo.server import ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal]

Open = Callable[..., Any]
IGNORED = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"


@pytest.mark.parametrize("controlling", [True, False])
def test_exits_with_its_terminal_when_started_with_hangups_ignored(
    replica_set: ReplicaSet, open_terminal: Open, controlling: bool
) -> None:
    terminal = open_terminal(replica_set.uri, setup=IGNORED, controlling=controlling)
    terminal.wait(is_connected)
    terminal.hang_up()
    assert terminal.wait_for_exit() == 128 + signal.SIGHUP


def test_survives_rapid_resizing(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait(is_connected)
    for turn in range(200):
        terminal.resize(20 + turn * 7 % 180, 3 + turn * 5 % 60)
    terminal.resize(80, 24)
    terminal.press("3")
    text = terminal.wait(lambda text: "following" in text and "q  Quit" in text)
    assert len(text.splitlines()) == 24


def test_handles_keys_typed_while_stopped(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait(is_connected)
    terminal.process.send_signal(signal.SIGSTOP)
    terminal.press("3")
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait("following")


@pytest.mark.parametrize(
    "environ",
    [{"LC_ALL": "de_DE.ISO-8859-1"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["latin1", "no-utf8"],
)
def test_runs_in_other_character_sets(replica_set: ReplicaSet, open_terminal: Open, environ: dict[str, str]) -> None:
    terminal = open_terminal(replica_set.uri, environ=environ)
    terminal.wait(is_connected)
    terminal.press("3")
    terminal.wait("following")
    if "ISO" in environ["LC_ALL"]:
        assert bytes(terminal.raw).isascii()
    terminal.press("q")
    assert terminal.wait_for_exit() == 0
