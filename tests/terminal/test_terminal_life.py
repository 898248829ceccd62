"""Coming, going and surviving: quit, signals, a lost or stalled terminal, strange input, sizes, job control."""

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


def test_it_opens_answers_keys_and_leaves_the_terminal_as_it_was(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    text = terminal.wait("rs tally 6.0")
    assert "1 Counters" in text.splitlines()[0]
    terminal.press("3")
    terminal.wait("following")
    terminal.press("?")
    terminal.wait("who deleted what")
    terminal.press("q")
    terminal.wait("following")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(replica_set: ReplicaSet, open_terminal: Open, number: signal.Signals) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("rs tally")
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.restored()


@pytest.mark.parametrize("controlling", [True, False], ids=["hangup", "end-of-file-alone"])
def test_a_closed_terminal_ends_it(replica_set: ReplicaSet, open_terminal: Open, controlling: bool) -> None:
    terminal = open_terminal(replica_set.uri, controlling=controlling)
    terminal.wait("rs tally")
    terminal.hang_up()
    assert terminal.ended() == 128 + signal.SIGHUP


def test_input_that_is_no_utf8_and_old_mouse_reports_do_no_harm(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("rs tally")
    terminal.press(b"\xff\xfe\xc3(\xe2\x82")
    terminal.press(b"\x1b[M \xf0\xf1\x1b[M#\xff")
    terminal.press(b"\x80")
    terminal.press("3")
    terminal.wait("following")
    terminal.press("q")
    assert terminal.ended() == 0


def test_a_filter_that_comes_in_one_go_takes_the_place_of_the_last(
    replica_set: ReplicaSet, open_terminal: Open
) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("rs tally")
    terminal.press("3")
    terminal.wait("following")
    terminal.press("/ns:one.*\r")
    terminal.wait("'ns:one.*'")
    terminal.press("/\x15ns:other.*\r")
    terminal.wait("'ns:other.*'")


def test_a_stalled_terminal_is_drawn_anew_when_it_takes_output_again(
    replica_set: ReplicaSet, open_terminal: Open
) -> None:
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


def test_a_stalled_terminal_does_not_keep_it_from_leaving(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(200, 50))
    terminal.wait("replica set tally")
    terminal.stall()
    for _ in range(30):
        terminal.press("31")
    terminal.process.terminate()
    assert terminal.ended() == 128 + signal.SIGTERM


def test_it_can_be_stopped_and_continued(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait("rs tally")
    terminal.process.send_signal(signal.SIGTSTP)
    os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert terminal.restored()
    terminal.process.send_signal(signal.SIGCONT)
    terminal.press("3")
    terminal.wait("following")


def test_sizes(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, size=(40, 10))
    terminal.wait(lambda text: re.search(r"Tallyglass needs at least\s+60x15", text))
    for size in [(5, 2), (200, 50), (1, 1), (120, 40), (80, 24)]:
        terminal.resize(*size)
    text = terminal.wait("rs tally")
    assert len(text.splitlines()) == 24


def test_a_standalone_says_which_panel_that_leaves(standalone: Standalone, open_terminal: Open) -> None:
    terminal = open_terminal(standalone.uri)
    terminal.wait("standalone 6.0")
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
def test_faces(replica_set: ReplicaSet, open_terminal: Open, environ: dict[str, str]) -> None:
    terminal = open_terminal(replica_set.uri, environ=environ)
    text = terminal.wait("rs tally 6.0")
    assert ("1 Hz ssh" in text) == ("SSH_CONNECTION" in environ)
    assert "q  Quit" in text
    if "NO_COLOR" in environ:
        assert not re.search(rb"\x1b\[[\d;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]", bytes(terminal.raw))
    if environ.get("TERM") == "linux":
        assert not re.search("[█▏▎▍▌▋▊▉⠀-⣿]", text)
