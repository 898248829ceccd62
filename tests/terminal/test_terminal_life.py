"""The life cycle in a terminal: start, quit, signals, lost and stalled terminals, invalid input, sizes, job control."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from pseudo_terminal import Terminal, is_connected
from tallyglass.demo.server import ReplicaSet, Standalone

pytestmark = pytest.mark.terminal

Open = Callable[..., Any]

_SUSPEND_WHILE_HELP_IS_DRAWN = """
import os, signal
from tallyglass_tui.terminal.pen import Pen

compress, pending = Pen.compress, [signal.SIGTSTP]

def suspended(pen, text):
    if "Keys on" in text and pending:
        os.kill(os.getpid(), pending.pop())
    return compress(pen, text)

Pen.compress = suspended
"""


@pytest.mark.smoke
def test_starts_handles_keys_and_restores_the_terminal(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    text = terminal.wait(is_connected)
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
    terminal.wait(is_connected)
    terminal.process.send_signal(number)
    assert terminal.wait_for_exit() == 128 + number
    assert terminal.wait_restored()


@pytest.mark.parametrize("controlling", [True, False], ids=["hangup", "end-of-file-only"])
def test_exits_when_the_terminal_closes(replica_set: ReplicaSet, open_terminal: Open, controlling: bool) -> None:
    terminal = open_terminal(replica_set.uri, controlling=controlling)
    terminal.wait(is_connected)
    terminal.hang_up()
    assert terminal.wait_for_exit() == 128 + signal.SIGHUP


def test_ignores_invalid_utf8_and_old_mouse_reports(replica_set: ReplicaSet, open_terminal: Open) -> None:
    # More of a paste may come for longer than this test waits: a key of its own must still work.
    terminal = open_terminal(replica_set.uri, setup="import tallyglass_tui.terminal.driver as d; d._PASTE_REST = 600")
    terminal.wait(is_connected)
    terminal.press(b"\xff\xfe\xc3(\xe2\x82")
    terminal.press(b"\x1b[M \xf0\xf1\x1b[M#\xff")
    terminal.press(b"\x80\xe2\x82")
    _type(terminal, "3", "following")
    terminal.press("q")
    assert terminal.wait_for_exit() == 0


def _type(terminal: Terminal, key: str, seen: str) -> None:
    """Type a key as a person does: again, with a pause before it, until a text is on the screen."""
    for _ in range(20):
        terminal.press(key)
        try:
            terminal.wait(seen, 2.0)
        except AssertionError:
            continue
        return
    terminal.wait(seen, 0.0)


def test_filter_sent_in_one_write_replaces_the_last_one(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait(is_connected)
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


def test_can_be_suspended_in_the_middle_of_a_frame_and_continued(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, setup=_SUSPEND_WHILE_HELP_IS_DRAWN)
    terminal.wait(is_connected)
    terminal.press("?")
    os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert terminal.wait_restored()
    before = len(terminal.raw)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_raw(lambda sent: b"Keys on" in sent and b"Esc closes" in sent, since=before)


def test_handles_tiny_and_large_sizes(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(40, 10))
    terminal.wait(lambda text: re.search(r"Tallyglass needs at least\s+60x15", text))
    for size in [(5, 2), (200, 50), (1, 1), (120, 40), (80, 24)]:
        terminal.resize(*size)
    text = terminal.wait(is_connected)
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
    [
        pytest.param({"NO_COLOR": "1"}, id="no-color"),
        pytest.param({"TERM": "linux", "COLORTERM": ""}, id="linux"),
        pytest.param({"TERM": "screen"}, id="screen"),
        pytest.param({"LANG": "C", "LC_ALL": "C"}, id="c-locale"),
        pytest.param({"COLORFGBG": "0;15"}, id="light"),
        pytest.param({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, id="ssh"),
    ],
)
def test_adapts_to_the_environment(replica_set: ReplicaSet, open_terminal: Open, environ: dict[str, str]) -> None:
    terminal = open_terminal(replica_set.uri, environ=environ)
    text = terminal.wait(lambda text: is_connected(text) and "q  Quit" in text)
    assert ("1 Hz ssh" in text) == ("SSH_CONNECTION" in environ)
    if "NO_COLOR" in environ:
        assert not re.search(rb"\x1b\[[\d;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]", bytes(terminal.raw))
    if environ.get("TERM") == "linux":
        assert not re.search("[█▏▎▍▌▋▊▉⠀-⣿]", text)
