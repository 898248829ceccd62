"""Make screenshots of every screen at 80x24 and 120x40, and an animation of the guided restore.

Usage: ``python -m screenshots.make [FOLDER]``. They show the real app on the running demo, so numbers and times differ
between runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pymongo import MongoClient
from textual import events
from textual.pilot import Pilot

from screenshots.svg import animate, tidy
from tallyglass.connection.target import Target
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule
from tallyglass.mongo.client import open_gateway
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds

SIZES = ((80, 24), (120, 40))
SCHEDULE = Schedule(first=6, between=18, repair_after=8)
HISTORY_SECONDS = 75
"""How long the workload runs first. Trends need a minute, and the list of incidents needs some of them."""
_TIMEOUT_SECONDS = 60.0


class Camera:
    """A running dashboard and the folder for its screenshots."""

    def __init__(self, app: Dashboard, pilot: Pilot[None], folder: Path, uri: str) -> None:
        self.app = app
        self.pilot = pilot
        self.folder = folder
        self.uri = uri
        self.size = f"{app.size.width}x{app.size.height}"

    async def press(self, *keys: str, until: str = "") -> None:
        """Press keys, and wait until the screen contains ``until``."""
        await self.pilot.press(*keys)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while until not in self.text():
            if time.monotonic() > deadline:
                raise SystemExit(f"{until!r} never appeared on the screen:\n{self.text()}")
            await self.pilot.pause(0.1)
        await self.pilot.pause(0.4)

    def text(self) -> str:
        """Return the text of the screen."""
        return "\n".join(self.app.lines)

    def svg(self) -> str:
        """Return the screen as SVG."""
        return tidy(self.app.export_screenshot(title="tallyglass", simplify=True))

    def shoot(self, name: str) -> None:
        """Save a screenshot."""
        (self.folder / f"{name}-{self.size}.svg").write_text(self.svg(), encoding="utf-8")


async def counters(camera: Camera) -> None:
    """Show the table, one counter with its forecast, and a pool."""
    await camera.press("1", until="vouchers")
    await camera.pilot.pause(12)
    camera.shoot("counters")
    for name, found in (("counter", "people"), ("pool", "identifierPool")):
        await camera.press("slash", *found, "enter", until="1 with")
        await camera.press("enter", until="ceiling")
        await camera.pilot.pause(2)
        camera.shoot(name)
        await camera.press("escape", "escape", until="crm.IDs")


async def object_ids(camera: Camera) -> None:
    """Paste ids from the shop."""
    with MongoClient[dict[str, object]](camera.uri) as client:
        orders = [str(row["_id"]) for row in client.shop.orders.find({}, {"_id": 1}).sort("_id", -1)]
    await camera.press("2", until="Paste any text")
    camera.pilot.app.post_message(events.Paste("\n".join(orders[:2] + orders[2 :: len(orders) // 6])))
    await camera.press(until="ObjectIds over")
    camera.shoot("objectids")


async def oplog(camera: Camera) -> None:
    """Show the tail, one entry, the incidents, and the most active namespaces."""
    await camera.press("3", until="following")
    await camera.pilot.pause(4)
    camera.shoot("oplog")
    await camera.press("enter", until="--oplogLimit")
    camera.shoot("oplog-entry")
    await camera.press("escape", "i", until="deleteMany on shop.orders")
    camera.shoot("oplog-incidents")
    await camera.press("escape", "a", until="plant.readings")
    camera.shoot("oplog-activity")
    await camera.press("escape")


async def restore(camera: Camera) -> None:
    """Show the guided restore, from the list of incidents to the commands."""
    await camera.press("4", until="deleteMany on shop.orders")
    camera.shoot("restore-incidents")
    await _pick_mass_delete(camera)
    camera.shoot("restore-checks")
    await camera.press("tab", until="merge")
    camera.shoot("restore-loss")
    await camera.press("tab", "tab", *["j"] * 5, until=">  6 restore")
    camera.shoot("restore-commands")


async def help_screen(camera: Camera) -> None:
    """Show the help of a page."""
    await camera.press("1", until="vouchers")
    await camera.press("question_mark", until="Where to look")
    camera.shoot("help")
    await camera.press("escape")


async def animation(camera: Camera) -> None:
    """Animate the guided restore."""
    frames: list[tuple[str, float]] = []

    async def scene(seconds: float, *keys: str, until: str = "") -> None:
        await camera.press(*keys, until=until)
        frames.append((camera.svg(), seconds))

    await scene(2.5, "4", until="deleteMany on shop.orders")
    await _pick_mass_delete(camera)
    await scene(4.0, until="ready")
    await scene(3.5, "tab", until="merge")
    await scene(1.5, "tab", "tab", until="secure")
    for _ in range(5):
        await scene(1.5, "j")
    await scene(2.0, "y", until="Copied")
    (camera.folder / "restore-film.svg").write_text(animate(frames), encoding="utf-8")


async def _pick_mass_delete(camera: Camera) -> None:
    """Put the cursor on the first mass delete and plan for it."""
    for _ in range(20):
        here = next((line for line in camera.text().splitlines() if line.startswith("> ")), "")
        if "deleteMany on shop.orders" in here:
            break
        await camera.press("j")
    await camera.press("enter", until="leaves the oplog")


SCENES: tuple[Callable[[Camera], Awaitable[None]], ...] = (counters, object_ids, oplog, restore, help_screen)


async def shoot_all(demo: Demo, folder: Path) -> None:
    """Make all screenshots at all sizes, then the animation."""
    for size in SIZES:
        await _with_camera(demo, folder, size, SCENES)
    await _with_camera(demo, folder, SIZES[0], (animation,))


async def _with_camera(
    demo: Demo, folder: Path, size: tuple[int, int], scenes: tuple[Callable[[Camera], Awaitable[None]], ...]
) -> None:
    target = Target.parse(demo.uri)
    feeds = Feeds(lambda: open_gateway(target))
    app = Dashboard(Context(target, demo.backup, "demo"), feeds, PAGES, environ={"COLORTERM": "truecolor"})
    try:
        async with app.run_test(size=size) as pilot:
            for scene in scenes:
                await scene(Camera(app, pilot, folder, demo.uri))
    finally:
        feeds.close()


def main() -> None:
    """Run the demo and make all screenshots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    # The emitted commands contain a folder in the home directory, which would reveal the user's name.
    os.environ["HOME"] = "/home/dba"
    os.environ["TZ"] = "Europe/Vienna"
    time.tzset()
    with Demo(schedule=SCHEDULE, seed=7) as demo:
        print(f"letting the workload run for {HISTORY_SECONDS} s ...", file=sys.stderr)
        time.sleep(HISTORY_SECONDS)
        asyncio.run(shoot_all(demo, folder))
    print(*sorted(path.name for path in folder.glob("*.svg")), sep="\n")


if __name__ == "__main__":
    main()
