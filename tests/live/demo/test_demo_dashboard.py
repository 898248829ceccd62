"""The dashboard on the demo: from the list of incidents to the commands, with the real planner."""

from __future__ import annotations

import re

import pytest
from pymongo import MongoClient
from textual.pilot import Pilot

from idle import shown
from tallyglass.connection.target import Target
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds, open_target

pytestmark = pytest.mark.live


async def until(pilot: Pilot[None], pattern: str) -> str:
    """Wait until the screen says it."""
    for _ in range(1200):
        if re.search(pattern, shown(pilot.app)):
            return shown(pilot.app)
        await pilot.pause(0.05)
    raise AssertionError(f"{pattern!r} never came to the screen:\n{shown(pilot.app)}")


async def test_the_first_accident_can_be_undone_with_the_commands_shown() -> None:
    with Demo(schedule=Schedule(first=0.5), seed=2) as demo:
        target = Target.parse(demo.uri)
        feeds = Feeds(lambda: open_target(target))
        try:
            app = Dashboard(Context(target, demo.backup), feeds, PAGES, environ={"COLORTERM": "truecolor"})
            async with app.run_test(size=(120, 40)) as pilot:
                await pilot.press("4")
                await until(pilot, r"ago +deleteMany on shop\.orders")  # while it goes on, the plan would be blocked
                for _ in range(10):
                    if any(line.startswith(">") and "shop.orders" in line for line in shown(pilot.app).splitlines()):
                        break
                    await pilot.press("up")
                await pilot.press("enter")
                await until(pilot, " can come back")
                await pilot.press("f")
                await until(pilot, "onto 127.0.0.1")
                await until(pilot, " can come back")
                for _ in range(3):
                    await pilot.press("tab")
                await until(pilot, "Restore and replay in one run")
                for _ in range(20):
                    await pilot.press("Y")
                    if "--oplogLimit" in (copied := app.clipboard):
                        break
                    await pilot.press("down")
        finally:
            feeds.close()
        with MongoClient(demo.uri) as client:
            first = client.local["oplog.rs"].find_one({"op": "d", "ns": "shop.orders", "lsid": None})
        assert first is not None
        assert f"--oplogLimit={first['ts'].time}:{first['ts'].inc}" in copied
        assert "mongorestore --config=spare.yml --drop" in copied
