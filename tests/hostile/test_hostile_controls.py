"""What the tests of the screens would find if a guard were missing: at clipboard, banner, palette and filter."""

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

PASTED_AS_IT_IS = "import tallyglass_tui.terminal.driver as driver\ndriver.without_controls = lambda event: event"
SPOOF = "\x1b[200~x\u202e\x9b31m[/]\x1b[201~"
OF_THE_DATA = {"pwned"}
"""What escape sequences among the data would put into the clipboard by themselves."""


@contextmanager
def opened(
    uri: str, home: Path, setup: str, *, size: tuple[int, int] = (80, 24), cwd: Path | None = None
) -> Iterator[Terminal]:
    terminal = Terminal(dashboard(uri, setup=setup), environment(home), emulated=False, size=size, cwd=cwd)
    try:
        yield terminal
    finally:
        terminal.close()


def sees(terminal: Terminal, text: str) -> None:
    terminal.wait_raw(lambda raw: text.encode() in raw)


def offends(terminal: Terminal, keys: str) -> None:
    """Press the keys; then more is sent than what the dashboard draws with."""
    before = len(offences(bytes(terminal.raw)))
    terminal.press(keys)
    terminal.wait_raw(lambda raw: len(offences(raw)) > before)


def test_what_is_copied_and_where_it_is_saved(hostile: Hostile, tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    with opened(hostile.uri, tmp_path, UNGUARDED, size=(300, 24), cwd=folder) as terminal:
        sees(terminal, ">999y")
        terminal.press("y")
        terminal.wait_raw(
            lambda raw: any(control_bytes(text.encode()) for text in clipboards(raw) if text not in OF_THE_DATA)
        )
        terminal.press("3")
        sees(terminal, "dropDatabase")
        terminal.press("ks")
        sees(terminal, "\x1b]0;folder\x07")


def test_the_banner(hostile: Hostile, tmp_path: Path) -> None:
    with opened(hostile.other_set, tmp_path, UNGUARDED, size=(300, 24)) as terminal:
        sees(terminal, "another replica set")
        terminal.wait_raw(lambda raw: offences(raw))


def test_what_is_pasted(hostile: Hostile, tmp_path: Path) -> None:
    with opened(hostile.uri, tmp_path, PASTED_AS_IT_IS) as terminal:
        sees(terminal, ">999y")
        terminal.press("/")
        sees(terminal, "!word for not")
        assert not offences(bytes(terminal.raw))
        offends(terminal, SPOOF)
        terminal.press(ESC)
        terminal.press(":")
        sees(terminal, "what runs out first")
        offends(terminal, SPOOF)
