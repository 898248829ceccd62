"""Open, follow, copy and save the largest and deepest documents at 80x24, in a folder with a hostile name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.populate import Hostile
from hostile.samples import BIG, control_bytes, hidden
from hostile.walk import ENTER, ESC, FOLDER
from hostile.wire import clipboards, offences
from pseudo_terminal import Terminal, dashboard, environment

pytestmark = [pytest.mark.live, pytest.mark.terminal]

LARGE = ("big", "deep", "many keys")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the dashboard starts and to which it saves."""
    made = tmp_path_factory.mktemp("work") / FOLDER
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def terminal(hostile: Hostile, folder: Path) -> Iterator[Terminal]:
    """The dashboard on its oplog page."""
    opened = Terminal(dashboard(hostile.uri), environment(folder.parent), frames=True, cwd=folder)
    try:
        opened.wait(">999y")
        opened.press("3")
        opened.wait("dropDatabase")
        yield opened
    finally:
        opened.close()


def assert_intact(terminal: Terminal) -> None:
    """Assert that the layout is intact, keys work, and nothing unsafe was sent."""
    terminal.press("?")
    terminal.wait("Where to look")
    terminal.press(ESC)
    lines = terminal.wait(lambda text: "Where to look" not in text).split("\n")
    assert len(lines) == 24
    assert lines[0].startswith(" 1 Counters 2 ObjectIds 3 Oplog 4 Restore 5 Profiles ")
    assert not [line for line in lines[1:] if "4 Restore" in line]
    assert not offences(bytes(terminal.raw))


def clear_filter(terminal: Terminal) -> None:
    """Return to the unfiltered tail."""
    terminal.press(ESC)
    terminal.wait(lambda text: "dropDatabase" in text and "matched" not in text)


def copy_text(terminal: Terminal) -> str:
    """Press ``y`` and return the text in the clipboard."""
    before = len(clipboards(bytes(terminal.raw)))
    terminal.press("y")
    terminal.wait_raw(lambda raw: len(clipboards(raw)) > before)
    return clipboards(bytes(terminal.raw))[-1]


def is_complete(file: Path) -> bool:
    """Whether the last line of a file is complete."""
    return file.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("name", LARGE)
def test_handles_a_document_of_extreme_size(terminal: Terminal, folder: Path, name: str) -> None:
    terminal.press(f'&ns:everything.values id:"{name}"{ENTER}')
    terminal.wait(lambda text: "1 matched" in text and "everything.values" in text)
    terminal.press("g" + ENTER)
    terminal.wait("--oplogLimit=")
    terminal.press("G")
    terminal.wait(lambda text: "--oplogLimit=" not in text)
    assert_intact(terminal)
    text = copy_text(terminal)
    assert len(text) < 150_000
    assert not control_bytes(text.encode())
    assert not hidden(text)
    terminal.press("w")
    # The message about the previous document may still be visible.
    terminal.wait(lambda text: "Saved 1 entry" in text and [f for f in folder.glob("*.jsonl") if is_complete(f)])
    (file,) = folder.glob("*.jsonl")
    assert json.loads(file.read_text(encoding="ascii"))["o"]["_id"] == name
    file.unlink()
    terminal.press(ESC)
    terminal.wait("1 matched")
    terminal.press("x")
    terminal.wait("1 matched 'ns:everything.values id:" + ("" if " " in name else name))
    assert_intact(terminal)
    clear_filter(terminal)


def test_reports_a_text_too_long_for_the_clipboard(terminal: Terminal) -> None:
    terminal.press(f'&ns:everything.values id:"big"{ENTER}')
    terminal.wait("1 matched")
    before = len(clipboards(bytes(terminal.raw)))
    terminal.press("gy")
    terminal.wait("Too long to copy (")
    assert len(clipboards(bytes(terminal.raw))) == before
    assert len(BIG) > 1_000_000
