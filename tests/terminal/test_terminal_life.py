"""The life cycle in a terminal: start, quit, signals, lost and stalled terminals, invalid input, sizes, job control."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tallyglass.demo.server import ReplicaSet, Standalone

pytestmark = pytest.mark.terminal

Open = Callable[..., Any]


def test_starts_handles_keys_and_restores_the_terminal(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    text = terminal.wait("tally P*")
    assert "1 Counters" in text.splitlines()[0]
    terminal.press("3")
    terminal.wait("following")
    terminal.press("?")
    terminal.wait("who deleted what")
    terminal.press("q")
    terminal.wait("following")
    terminal.press("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.wait_restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_exits_cleanly_on_signal(replica_set: ReplicaSet, open_terminal: Open, number: signal.Signals) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("tally P*")
    terminal.process.send_signal(number)
    assert terminal.wait_for_exit() == 128 + number
    assert terminal.wait_restored()


@pytest.mark.parametrize("controlling", [True, False], ids=["hangup", "end-of-file-only"])
def test_exits_when_the_terminal_closes(replica_set: ReplicaSet, open_terminal: Open, controlling: bool) -> None:
    terminal = open_terminal(replica_set.uri, controlling=controlling)
    terminal.wait("tally P*")
    terminal.hang_up()
    assert terminal.wait_for_exit() == 128 + signal.SIGHUP


def test_ignores_invalid_utf8_and_old_mouse_reports(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("tally P*")
    terminal.press(b"\xff\xfe\xc3(\xe2\x82")
    terminal.press(b"\x1b[M \xf0\xf1\x1b[M#\xff")
    terminal.press(b"\x80")
    terminal.press("3")
    terminal.wait("following")
    terminal.press("q")
    assert terminal.wait_for_exit() == 0


def test_filter_sent_in_one_write_replaces_the_last_one(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("tally P*")
    terminal.press("3")
    terminal.wait("following")
    terminal.press("&ns:one.*\r")
    terminal.wait("'ns:one.*'")
    terminal.press("&\x15ns:other.*\r")
    terminal.wait("'ns:other.*'")


def test_redraws_after_a_stalled_terminal_resumes(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(200, 50))
    terminal.wait("replica set tally")
    terminal.stall()
    for _ in range(30):
        terminal.press("31")
    terminal.press("3?")
    terminal.resume()
    terminal.wait("Keys on Oplog")
    terminal.press("q")
    text = terminal.wait(lambda text: "following" in text and "q  Quit" in text)
    assert "1 Counters" in text.splitlines()[0]


def test_exits_while_the_terminal_is_stalled(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(200, 50))
    terminal.wait("replica set tally")
    terminal.stall()
    for _ in range(30):
        terminal.press("31")
    terminal.process.terminate()
    assert terminal.wait_for_exit() == 128 + signal.SIGTERM


def test_can_be_suspended_and_continued(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("tally P*")
    terminal.process.send_signal(signal.SIGTSTP)
    os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert terminal.wait_restored()
    terminal.process.send_signal(signal.SIGCONT)
    terminal.press("3")
    terminal.wait("following")


def test_handles_tiny_and_large_sizes(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(40, 10))
    terminal.wait(lambda text: re.search(r"Tallyglass needs at least\s+60x15", text))
    for size in [(5, 2), (200, 50), (1, 1), (120, 40), (80, 24)]:
        terminal.resize(*size)
    text = terminal.wait("tally P*")
    assert len(text.splitlines()) == 24


def test_says_that_a_standalone_has_no_oplog(standalone: Standalone, open_terminal: Open) -> None:
    terminal = open_terminal(standalone.uri)
    terminal.wait("standalone")
    terminal.press("3")
    terminal.wait("A standalone has no oplog.")
    terminal.press("1")
    terminal.wait("counter")


@pytest.mark.parametrize(
    "environ",
    [{"NO_COLOR": "1"}, {"TERM": "linux", "COLORTERM": ""}, {"TERM": "screen"}, {"LANG": "C", "LC_ALL": "C"},
     {"COLORFGBG": "0;15"}, {"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}],
    ids=["no-color", "linux", "screen", "c-locale", "light", "ssh"],
)  # fmt: skip
def test_adapts_to_the_environment(replica_set: ReplicaSet, open_terminal: Open, environ: dict[str, str]) -> None:
    terminal = open_terminal(replica_set.uri, environ=environ)
    text = terminal.wait("tally P*")
    assert ("1 Hz ssh" in text) == ("SSH_CONNECTION" in environ)
    assert "q  Quit" in text
    if "NO_COLOR" in environ:
        assert not re.search(rb"\x1b\[[\d;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]", bytes(terminal.raw))
    if environ.get("TERM") == "linux":
        assert not re.search("[█▏▎▍▌▋▊▉⠀-⣿]", text)
