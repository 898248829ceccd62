"""The tests of the screens would fail without the guards at clipboard, banner, palette and filter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostile.populate import Hostile
from hostile.samples import control_bytes
from hostile.walk import ESC, FOLDER, UNGUARDED
from hostile.wire import clipboards, offences
from pseudo_terminal import Terminal, dashboard, environment

pytestmark = [pytest.mark.live, pytest.mark.terminal]

UNGUARDED_PASTE = "import tallyglass_tui.terminal.driver as driver\ndriver.clean_paste = driver.Paste"
SPOOF = "\x1b[200~x\u202e\x9b31m[/]\x1b[201~"
FROM_DATA = {"pwned"}
"""Texts that escape sequences in the data put into the clipboard."""


@contextmanager
def unguarded_dashboard(
    uri: str, home: Path, setup: str, *, size: tuple[int, int] = (80, 24), cwd: Path | None = None
) -> Iterator[Terminal]:
    terminal = Terminal(dashboard(uri, setup=setup), environment(home), emulated=False, size=size, cwd=cwd)
    try:
        yield terminal
    finally:
        terminal.close()


def wait_sent(terminal: Terminal, text: str) -> None:
    terminal.wait_raw(lambda raw: text.encode() in raw)


def assert_offends(terminal: Terminal, keys: str) -> None:
    """Send keys and wait until the dashboard sends something that it must not send."""
    before = len(offences(bytes(terminal.raw)))
    terminal.press(keys)
    terminal.wait_raw(lambda raw: len(offences(raw)) > before)


def test_unguarded_clipboard_and_save_folder_are_unsafe(hostile: Hostile, tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    with unguarded_dashboard(hostile.uri, tmp_path, UNGUARDED, size=(300, 24), cwd=folder) as terminal:
        wait_sent(terminal, ">999y")
        terminal.press("y")
        terminal.wait_raw(
            lambda raw: any(control_bytes(text.encode()) for text in clipboards(raw) if text not in FROM_DATA)
        )
        terminal.press("3")
        wait_sent(terminal, "dropDatabase")
        terminal.press("kw")
        wait_sent(terminal, "\x1b]0;folder\x07")


def test_unguarded_banner_is_unsafe(hostile: Hostile, tmp_path: Path) -> None:
    with unguarded_dashboard(hostile.other_set, tmp_path, UNGUARDED, size=(300, 24)) as terminal:
        wait_sent(terminal, "another replica set")
        terminal.wait_raw(lambda raw: offences(raw))


def test_unguarded_paste_is_unsafe(hostile: Hostile, tmp_path: Path) -> None:
    with unguarded_dashboard(hostile.uri, tmp_path, UNGUARDED_PASTE) as terminal:
        wait_sent(terminal, ">999y")
        terminal.press("/")
        wait_sent(terminal, "!word excludes")
        assert not offences(bytes(terminal.raw))
        assert_offends(terminal, SPOOF)
        terminal.press(ESC)
        terminal.press(":")
        wait_sent(terminal, "What runs out first, and when")
        assert_offends(terminal, SPOOF)
