"""A number that stands on several screens and in answers of commands is the same: the list in docs/dashboard.md."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.builders.backdate import hours_ago, write_past
from textual.pilot import Pilot

import database_tools
from idle import shown
from tallyglass.connection.target import Target
from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds, open_target

pytestmark = [pytest.mark.live, pytest.mark.tools]

LEFT = 1_000
HOURS = 30.42
"""Rounded to tenths and to whole hours it stays the same while the test runs."""
NO_LIMITS = ("--warn-used=1", "--crit-used=1", "--warn-days=0", "--crit-days=0", "--oplog-hours-warn=0")


@dataclass(frozen=True, slots=True)
class Scene:
    uri: str
    folder: Path
    backup: Path

    async def run(self, *words: str) -> str:
        """What a command prints. A warning is no failure."""
        result = await asyncio.to_thread(CliRunner().invoke, main, [*words, self.uri])
        assert result.exit_code in (0, 1), result.output
        return result.stdout

    async def exported(self) -> str:
        """What ``export`` serves once it has read the counters."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["export", self.uri, f"--listen=127.0.0.1:{port}", "--seconds=8", "--every=1"]
        serving, text = asyncio.create_task(asyncio.to_thread(CliRunner().invoke, main, words)), ""
        while "sequence_last_value{" not in text and not serving.done():
            with contextlib.suppress(OSError):
                text = await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/metrics")
        assert (await serving).exit_code == 0
        return text


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        body: bytes = answer.read()
        return body.decode()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A few counters, a backup, a deleteMany, and an oplog of more than a day."""
    folder, path = tmp_path_factory.mktemp("numbers"), database_tools.search_path()
    if not path:
        pytest.fail("the MongoDB Database Tools and mongosh are required and not here: run make tools")
    with ReplicaSet(1) as servers, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path, prepend=":")
        write_past(servers, [{"at": hours_ago(HOURS), "op": "n", "ns": "", "o": {"msg": "begin"}}])
        with servers.client() as client:
            shop = client.shop
            shop.counters.insert_many([{"_id": "orders", "seq": 40}, {"_id": "invoices", "seq": 700}])
            shop.counters.insert_one({"_id": "vouchers", "seq": 5_000, "MAX_VALUE": 5_030 + LEFT})
            for _ in range(30):
                shop.counters.update_many({}, {"$inc": {"seq": 1}})
            shop.orders.insert_many([{"_id": n, "status": "new" if n % 3 else "old"} for n in range(600)])
            backup = folder / "backup"
            tool = ["mongodump", f"--uri={servers.uri}", f"--out={backup}", "--oplog"]
            subprocess.run(tool, check=True, capture_output=True)
            shop.orders.delete_many({"status": "old"})
            shop.orders.insert_many([{"_id": 1_000 + n} for n in range(3)])
        yield Scene(servers.uri, folder, backup)


async def until(pilot: Pilot[None], pattern: str) -> re.Match[str]:
    """Wait until the screen has it."""
    for _ in range(1200):
        if found := re.search(pattern, shown(pilot.app), re.MULTILINE):
            return found
        await pilot.pause(0.05)
    raise AssertionError(f"{pattern!r} never came to the screen:\n{shown(pilot.app)}")


@pytest.fixture
async def pilot(scene: Scene) -> AsyncIterator[Pilot[None]]:
    target = Target.parse(scene.uri)
    feeds = Feeds(lambda: open_target(target))
    try:
        here = Context(target, scene.backup, "here")

        def open_profile(name: str, *, ask: bool = True) -> Context:
            return here

        app = Dashboard(
            here, feeds, PAGES, environ={"COLORTERM": "truecolor"}, profiles=("here",), open_profile=open_profile
        )
        async with app.run_test(size=(80, 24)) as running:
            yield running
    finally:
        feeds.close()


def number(text: str, pattern: str) -> float:
    """The one number that a pattern finds."""
    found = set(re.findall(pattern, text, re.MULTILINE))
    assert len(found) == 1, (pattern, found, text)
    return float(found.pop().replace(",", ""))


async def test_a_counter_is_the_same_everywhere(scene: Scene, pilot: Pilot[None]) -> None:
    await until(pilot, r"^.. shop\.\S+ vouchers ")
    await until(pilot, r"\A(?:.*\n){2}.*\d+ (?:urgent|warning)")  # only a later look has its past
    page = shown(pilot.app)
    listed = json.loads(await scene.run("counters", "--json"))
    table = await scene.run("counters")
    check = await scene.run("check", *NO_LIMITS)
    await scene.run("counters", f"--report={scene.folder / 'counters.md'}")
    report = (scene.folder / "counters.md").read_text()
    served = await scene.exported()
    of_vouchers = r'\{[^}]*sequence="vouchers"\} (\S+)$'
    rows = re.findall(r"^tallyglass_sequence_last_value\{", served, re.MULTILINE)
    assert {
        "page 1": number(page, r"(\d+) counters"),
        "counters --json": len(listed),
        "counters": len(table.splitlines()) - 1,
        "check": number(check, r"(\d+) counters"),
        "perfdata": check.count("=") - check.count("oplog_hours="),
        "export": len(rows),
        "report": number(report, r"of (\d+) counters"),
    } == dict.fromkeys(("page 1", "counters --json", "counters", "check", "perfdata", "export", "report"), 3)
    raised = sum(map(int, re.findall(r"(\d+) (?:urgent|warning)", page.splitlines()[2])))
    assert (raised, number(report, r"\*\*(\d+) of ")) == (1, 1)
    assert re.search(rf"^\| shop\.counters vouchers \| 5,030 \| {LEFT:,} to MAX", report, re.MULTILINE)
    (vouchers,) = [one for one in listed if one["id"] == "vouchers"]
    assert (vouchers["value"], vouchers["ceiling"] - vouchers["value"]) == (5_030, LEFT)
    assert number(page, r"vouchers +([\d,]+) max") == LEFT
    assert number(table, r"vouchers +([\d,]+)") == 5_030
    assert number(served, f"last_value{of_vouchers}") == 5_030
    assert number(served, f"remaining{of_vouchers}") == LEFT
    assert number(served, f"used_ratio{of_vouchers}") == vouchers["used"]
    assert number(check, r"vouchers'=([\d.]+)%") == pytest.approx(vouchers["used"] * 100, abs=1e-4)
    shares = [number(table, r"vouchers .*? ([\d.]+)%")]
    await pilot.press("slash", *"vouchers", "enter", "enter")
    await until(pilot, r"^ runs out ")
    detail = shown(pilot.app)
    assert (number(detail, r"^ value +([\d,]+)"), number(detail, r"([\d,]+) ids left")) == (5_030, LEFT)
    shares.append(number(detail, r"^ used .*? ([\d.]+)%"))
    assert shares == [round(vouchers["used"] * 100, 1)] * 2


async def test_an_incident_is_the_same_everywhere(scene: Scene, pilot: Pilot[None]) -> None:
    listed = json.loads(await scene.run("incidents", "--json"))
    (lost,) = [one for one in listed if one["kind"] == "deleteMany"]
    count, point = sum(not one["routine"] for one in listed), lost["point"]
    row = r"deleteMany on shop\.orders +([\d,~]+)"
    await pilot.press("3", "i")
    await until(pilot, row)
    page = shown(pilot.app)
    words = re.findall(r"(\d+) (?:loss|mass change|not sure)", page.splitlines()[1])
    assert (sum(map(int, words)), number(page, row)) == (count, lost["documents"])
    await pilot.press("enter")
    await until(pilot, "oplogLimit")
    opened = shown(pilot.app)
    assert (number(opened, r"(\d+) documents in "), f"--oplogLimit={point}" in opened) == (200, True)
    await pilot.press("4")
    await until(pilot, row)
    page = shown(pilot.app)
    assert (number(page, r"Incidents (\d+)"), number(page, row)) == (count, 200)
    await pilot.press("enter")
    head = (await until(pilot, r"(?s)^ YES +([\d,]+) documents of shop\.orders.*just before (\d+:\d+)")).groups()
    assert head == ("200", point)
    await pilot.press("tab")
    await until(pilot, r"comes back: merged")
    loss = shown(pilot.app)
    assert (number(loss, r"([\d,]+) inserts, "), number(loss, r"([\d,]+) later")) == (3, 3)
    on_page = number((await until(pilot, r"Commands (\d+)")).group(), r"(\d+)")

    report = scene.folder / "report.md"
    await scene.run("incidents", "report", str(lost["number"]), f"--out={report}")
    text = report.read_text()
    assert (number(text, r"^\| documents \| ([\d,]+)"), f"just before {point} |" in text) == (200, True)
    for way in ("pre-images", "backup"):
        folder = scene.folder / f"plan-{way}"
        asked = (f"--backup={scene.backup}", f"--incident={lost['number']}", f"--from={way}", f"--out={folder}")
        await scene.run("restore", "plan", *asked)
        made, readme = json.loads((folder / "plan.json").read_text()), (folder / "README.md").read_text()
        assert (made["limit"], made["accident"]["first"]) == (point, point)
        assert f"Point: just before {point} " in readme
        assert [row["documents"] for row in made["undone"]] == [200]
        assert number(readme, r"on (\d+) documents, ") == 200
        steps = (folder / "steps.txt").read_text()
        if way == "pre-images":  # as the page has it: the backup has the documents, and no spare is needed
            assert "(backup, no spare)" in readme
            assert {float(total) for total in re.findall(r"^\[\d+/(\d+)\]", steps, re.MULTILINE)} == {on_page}
        limits = re.findall(r"--oplogLimit=(\S+)", steps)
        assert set(limits) == ({point} if way == "backup" else set())


async def test_the_oplog_reaches_equally_far_everywhere(scene: Scene, pilot: Pilot[None]) -> None:
    async def hours() -> float:
        return float(json.loads(await scene.run("doctor", "--json"))["oplog"]["hours"])

    before = await hours()
    tenths = [
        number(await scene.run("doctor"), r"^oplog .*?, ([\d.]+) h"),
        number(await scene.run("check", *NO_LIMITS), r"oplog reaches ([\d.]+) h back"),
    ]
    await pilot.press("3")
    on_page = float((await until(pilot, r"^ (\d+) h back to")).group(1))
    after = await hours()  # the server goes on to write entries
    assert 30.4 <= round(before, 1) < 31.4
    assert all(round(before, 1) <= one <= round(after, 1) for one in tenths), (before, tenths, after)
    assert round(before) <= on_page <= round(after)


async def test_the_profiles_repeat_what_the_other_pages_say(scene: Scene, pilot: Pilot[None]) -> None:
    await until(pilot, r"^.. shop\.\S+ vouchers ")
    await pilot.press("slash", *"vouchers", "enter", "enter")
    await until(pilot, r"^ runs out ")
    used = number(shown(pilot.app), r"^ used .*? ([\d.]+)%")
    await pilot.press("5")
    told = await until(
        pilot, r"^ counter +first of (\d+): shop\.counters vouchers, ([\d.]+)% used, ends \(80%\): too early$"
    )
    assert told.groups() == ("3", f"{used}")
    assert float((await until(pilot, r"^ oplog +reaches (\d+) h back")).group(1)) == round(HOURS)
