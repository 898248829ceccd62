"""What a person types at a real terminal: Ctrl-Z, a paste without brackets, the mouse, own keys, ASCII only."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pseudo_terminal import Terminal, dashboard, environment, is_connected
from tallyglass.demo.server import ReplicaSet
from tallyglass.text import shell_join

pytestmark = [pytest.mark.live, pytest.mark.terminal]

Open = Callable[..., Any]


@pytest.mark.needs("bash")
def test_ctrl_z_suspends_and_fg_comes_back_clean(replica_set: ReplicaSet, tmp_path: Path) -> None:
    env = environment(tmp_path, PS1="shell> ", HISTFILE="/dev/null")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env, frames=True) as terminal:
        terminal.wait("shell>")
        terminal.press(shell_join(dashboard(replica_set.uri)) + "\r")
        terminal.wait(is_connected)
        for _ in range(2):
            terminal.press("\x1a")
            terminal.wait("Stopped")
            raw = bytes(terminal.raw)
            assert raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h"), "the main screen is back"
            terminal.press("stty -a | grep -wo -e icanon -e echo | xargs\r")
            terminal.wait("icanon echo")
            terminal.press("clear; fg\r")
            terminal.wait(is_connected)
            terminal.press("3")
            terminal.wait("following")
            assert "icanon" not in terminal.text
        before = len(terminal.raw)
        terminal.press("q")
        terminal.wait_raw(lambda raw: b"shell> " in raw, since=before)
        terminal.press("exit\r")
        assert terminal.wait_for_exit() == 0


def test_a_binary_paste_without_brackets_is_one_paste(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri, setup="import tallyglass_tui.terminal.driver as d; d._PASTE_REST = 60")
    terminal.wait(is_connected)
    pasted = random.Random(1).randbytes(60_000).replace(b"\x1b[200~", b"")
    terminal.press(":")
    terminal.wait("What runs out first, and when")
    for start in range(0, len(pasted), 4096):
        terminal.press(pasted[start : start + 4096])
    terminal.wait("No matches")
    terminal.press(b"late\x1bpiece")
    terminal.wait(lambda text: "piece" in text and "No matches" in text)
    terminal.press("\x1b[27u")
    terminal.wait(lambda text: "No matches" not in text)
    terminal.press("3")
    terminal.wait("following")


def test_the_mouse_is_used_only_if_asked_for(replica_set: ReplicaSet, open_terminal: Open) -> None:
    terminal = open_terminal(replica_set.uri)
    terminal.wait(is_connected)
    assert b"\x1b[?1000h" not in terminal.raw
    with_mouse = open_terminal(replica_set.uri, "--mouse")
    with_mouse.wait(is_connected)
    assert b"\x1b[?1006h" in with_mouse.raw
    column = with_mouse.lines[0].index("Oplog") + 1
    with_mouse.press(f"\x1b[<0;{column};1M\x1b[<0;{column};1m")
    with_mouse.wait("following")
    with_mouse.press("q")
    assert with_mouse.wait_for_exit() == 0
    assert with_mouse.wait_restored()


@pytest.mark.parametrize("environ", [{"LANG": "C"}, {"TALLYGLASS_ASCII": "1"}], ids=["LANG=C", "TALLYGLASS_ASCII=1"])
def test_only_ascii_is_sent(replica_set: ReplicaSet, open_terminal: Open, environ: dict[str, str]) -> None:
    terminal = open_terminal(replica_set.uri, environ=environ)
    terminal.wait(is_connected)
    for key, shown in (("?", "Where to look"), ("\x1b[27u", is_connected), (":", "What runs out first, and when")):
        terminal.press(key)
        terminal.wait(shown)
    terminal.press("\x1b[27u34")
    terminal.wait("point")
    assert bytes(terminal.raw).isascii()


def test_own_keys(replica_set: ReplicaSet, open_terminal: Open, tmp_path: Path) -> None:
    keys = tmp_path / ".config/tallyglass/keys.toml"
    keys.parent.mkdir(parents=True)
    keys.write_text('[keys]\n"app.pause" = "f5"\n')
    terminal = open_terminal(replica_set.uri)
    terminal.wait(is_connected)
    terminal.press("\x1b[15~")
    terminal.wait("PAUSED")
    terminal.press("q")
    assert terminal.wait_for_exit() == 0
    keys.write_text('[keys]\n"app.paws" = "f5"\n')
    refused = open_terminal(replica_set.uri)
    refused.wait_for_exit()
    assert "there is no key 'app.paws'" in " ".join(refused.lines)
