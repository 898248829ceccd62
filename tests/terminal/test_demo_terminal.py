"""``tallyglass demo`` on a terminal of 80x24: it opens on its own server, and removes everything however it ends."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.terminal]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for the demo's temporary files, with a path short enough for a Unix socket below it."""
    folder = Path(tempfile.mkdtemp(prefix="tg-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("end", "status"), [("q", 0), ("term", 143), ("hang up", 129)])
def test_it_opens_on_its_own_server_and_leaves_nothing(
    open_terminal: Callable[..., Any], temporary: Path, end: str, status: int
) -> None:
    terminal = open_terminal("demo", environ={"TMPDIR": str(temporary)})
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
    deadline = time.monotonic() + 60
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(temporary.iterdir())


def test_ctrl_c_while_it_starts_leaves_nothing_either(open_terminal: Callable[..., Any], temporary: Path) -> None:
    terminal = open_terminal("demo", environ={"TMPDIR": str(temporary)})
    terminal.wait(lambda _: list(temporary.glob("tallyglass-*/0/data/*")))
    terminal.press("\x03")
    terminal.ended()
    deadline = time.monotonic() + 60
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(temporary.iterdir())
