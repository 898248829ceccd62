"""``tallyglass demo`` on an 80x24 terminal: it starts its own server and removes everything however it exits."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pseudo_terminal import Terminal, dashboard, environment

pytestmark = [pytest.mark.live, pytest.mark.terminal]


@dataclass(frozen=True)
class RunningDemo:
    """A demo on a terminal and the folder of its temporary files."""

    terminal: Terminal
    temporary: Path


@contextmanager
def running_demo() -> Iterator[RunningDemo]:
    """Start a demo. The path of its folder is short enough for a Unix socket below it."""
    folder = Path(tempfile.mkdtemp(prefix="tg-", dir="/tmp"))
    home = folder.with_name(f"{folder.name}-home")
    home.mkdir()
    terminal = Terminal(dashboard("demo"), environment(home, TMPDIR=str(folder)))
    try:
        yield RunningDemo(terminal, folder)
    finally:
        terminal.close()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def demo() -> Iterator[RunningDemo]:
    with running_demo() as running:
        yield running


@pytest.mark.parametrize(
    ("end", "status"),
    [("q", 0), ("term", 143), ("hang up", 129)],
)
def test_starts_its_own_server_and_leaves_nothing_behind(demo: RunningDemo, end: str, status: int) -> None:
    terminal, temporary = demo.terminal, demo.temporary
    terminal.wait("crm.IDs people")
    assert list(temporary.glob("tallyglass-*/backup/shop/orders.bson"))
    match end:
        case "q":
            terminal.press("4")
            terminal.wait("deleteMany on shop.orders")
            terminal.press("q")
        case "term":
            terminal.process.send_signal(signal.SIGTERM)
        case _:
            terminal.hang_up()
    assert terminal.wait_for_exit() == status
    if status == 0:
        assert terminal.wait_restored()
    assert_empty(temporary)


def assert_empty(folder: Path) -> None:
    """Wait until a folder is empty. The guard of the server may exit a moment after the demo."""
    deadline = time.monotonic() + 60
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(folder.iterdir())


def test_ctrl_c_during_startup_leaves_nothing_behind(demo: RunningDemo) -> None:
    demo.terminal.wait(lambda _: list(demo.temporary.glob("tallyglass-*/0/data/*")))
    demo.terminal.press("\x03")
    demo.terminal.wait_for_exit()
    assert_empty(demo.temporary)
