"""The story of the demo, key by key: an accident, its plan, the run of its folder in another shell, and the documents
are back. Nothing but the demo is on PATH."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

import database_tools
from pseudo_terminal import Terminal, dashboard, environment, say_yes
from tallyglass.restore.model.document import from_json
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.tools.files import read_config

pytestmark = [pytest.mark.live, pytest.mark.terminal, pytest.mark.tools, pytest.mark.since(5, 0)]

_LONG = 300.0
"""A plan, or a step, on a busy machine."""
_LOST = "deleteMany on shop.orders"


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose path is short enough for a Unix socket below it."""
    folder = Path(tempfile.mkdtemp(prefix="tg-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_what_the_demo_lost_comes_back_by_what_is_on_the_screen(home: Path) -> None:
    built = Path(__file__).parents[2] / ".tools" / "bin" / "mongosh"
    path = "/usr/bin:/bin" if built.exists() else f"{database_tools.search_path()}:/usr/bin:/bin"
    env = environment(home, PATH=path, TMPDIR=str(home))
    with Terminal(dashboard("demo"), env) as demo:
        demo.wait("crm.IDs people")
        demo.press("4")
        demo.wait(lambda shown: any(_LOST in line and " ago " in line for line in shown.splitlines()))
        pick(demo, _LOST)
        demo.press("\r")
        assert "can come back" in demo.wait(lambda shown: shown.splitlines()[1].startswith((" YES ", " NO ")), _LONG)
        demo.press("w")
        demo.wait("Folder for the plan")
        demo.press("\r")
        demo.wait("Written.")
        (folder,) = home.glob("tallyglass-*-*-*")
        with Terminal(["bash", str(folder / "restore.sh")], env, size=(120, 40)) as shell:
            say_yes(shell, _LONG)
            assert shell.wait_for_exit() == 0, shell.text
        plan = from_json((folder / "plan.json").read_text())
        assert plan.undo.accident is not None
        with MongoClient[dict[str, Any]](read_config((folder / "source.yml").read_text())[0]) as client:
            assert all_came_back(client, plan.undo.accident)
        demo.press("q")
        assert demo.wait_for_exit() == 0


def pick(terminal: Terminal, text: str) -> None:
    """Put the cursor on the row with this text. From the first key on the rows hold still."""
    while (here := cursor_of(terminal)) != (there := row_of(text, terminal.text)):
        terminal.press("j" if there > here else "k")
        terminal.wait(lambda _, before=here: cursor_of(terminal) != before)


def cursor_of(terminal: Terminal) -> int:
    """The row that is set off below the head of the list."""
    first = row_of("what happened", terminal.text) + 1
    rows = terminal.screen.buffer
    return next((y for y in range(first, terminal.screen.lines) if rows[y][20].bold or rows[y][20].reverse), -1)


def row_of(text: str, shown: str) -> int:
    return next((number for number, line in enumerate(shown.splitlines()) if text in line), -1)


def all_came_back(client: MongoClient[dict[str, Any]], accident: Accident) -> bool:
    """Whether each document that the accident deleted was inserted since; the demo deletes others later."""
    assert accident.last is not None
    first, last = (Timestamp(ts.t, ts.i) for ts in (accident.first, accident.last))
    oplog = client.local["oplog.rs"]
    lost = oplog.find({"ts": {"$gte": first, "$lte": last}, "op": "d", "ns": "shop.orders"})
    ids = {row["o"]["_id"] for row in lost}
    back = oplog.find({"ts": {"$gt": last}, "op": "i", "ns": "shop.orders", "o._id": {"$in": list(ids)}})
    return len(ids) > 100 and {row["o"]["_id"] for row in back} == ids
