"""``tallyglass demo`` on a terminal of 80x24: it opens on its own server, and removes everything however it ends."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pseudo_terminal import Terminal, dashboard, environment

pytestmark = [pytest.mark.live, pytest.mark.terminal]


@dataclass(frozen=True)
class Started:
    """A demo on a terminal, and the folder of its temporary files."""

    terminal: Terminal
    temporary: Path


@contextmanager
def started() -> Iterator[Started]:
    """Start one. The path of the folder is short enough for a Unix socket below it."""
    folder = Path(tempfile.mkdtemp(prefix="tg-", dir="/tmp"))
    home = folder.with_name(f"{folder.name}-home")
    terminal = Terminal(dashboard("demo"), environment(home, TMPDIR=str(folder)))
    try:
        yield Started(terminal, folder)
    finally:
        terminal.close()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


ENDS = {"q": 0, "term": 143, "hang up": 129}


@pytest.fixture(scope="module")
def by_end() -> Iterator[dict[str, Started]]:
    """A demo for each way to end it, started side by side."""
    with ExitStack() as stack:
        yield {end: stack.enter_context(started()) for end in ENDS}


@pytest.mark.parametrize(("end", "status"), ENDS.items())
def test_it_opens_on_its_own_server_and_leaves_nothing(by_end: dict[str, Started], end: str, status: int) -> None:
    terminal, temporary = by_end[end].terminal, by_end[end].temporary
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
    assert terminal.ended() == status
    if status == 0:
        assert terminal.restored()
    assert_empty(temporary)


def assert_empty(folder: Path) -> None:
    """Nothing is left: the guard of the server may need a moment after the process."""
    deadline = time.monotonic() + 60
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(folder.iterdir())


def test_ctrl_c_while_it_starts_leaves_nothing_either() -> None:
    with started() as demo:
        demo.terminal.wait(lambda _: list(demo.temporary.glob("tallyglass-*/0/data/*")))
        demo.terminal.press("\x03")
        demo.terminal.ended()
        assert_empty(demo.temporary)
