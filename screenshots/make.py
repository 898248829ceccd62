"""Make screenshots of every screen at 80x24 and 120x40. :mod:`screenshots.film` makes the film.

Usage: ``python -m screenshots.make [FOLDER]``. They show the real app on the running demo, so numbers and times differ
between runs.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError
from textual import events

from screenshots.camera import Camera, on_demo
from tallyglass.demo.accidents import all_accidents
from tallyglass.demo.session import Demo
from tallyglass.demo.streams import all_streams
from tallyglass.demo.workload import PERSON, Schedule

TOOLS = Path(__file__).resolve().parent.parent / ".tools" / "bin"
"""Where ``make tools`` installs what a plan runs."""
SIZES = ((80, 24), (120, 40))
SCHEDULE = Schedule(first=6, between=18, repair_after=8)
HISTORY_SECONDS = 75
"""How long the workload runs first. Trends need a minute, and the list of incidents needs some of them."""


async def counters(camera: Camera) -> None:
    """Show the table, one counter with its forecast, and a pool."""
    await camera.press("1", until="ends in about")
    await camera.pilot.pause(12)
    while "More counters may be found" in camera.text():  # still the first look, on a busy machine
        await camera.pilot.pause(1)
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
    await camera.press("enter", until="first id")
    camera.shoot("objectids")


async def oplog(camera: Camera) -> None:
    """Show the tail, one entry, the incidents, who made one, one that still goes on, and the most active namespaces."""
    await camera.press("3", until="following")
    await camera.pilot.pause(4)
    camera.shoot("oplog")
    await camera.press("enter", until="--oplogLimit")
    camera.shoot("oplog-entry")
    await camera.press("escape", "i", until="deleteMany on shop.orders")
    await camera.press(until="nightly")
    camera.shoot("oplog-incidents")
    await camera.press("slash", *"deleteMany", "space", *"on", "space", *"shop.orders", "enter", until=" match")
    await camera.press("enter", until=PERSON)
    camera.shoot("oplog-author")
    await camera.press("escape", "escape", until="what happened")
    async with AsyncMongoClient[dict[str, object]](camera.uri, appName=PERSON) as person:
        slow = asyncio.ensure_future(_delete_slowly(person))
        await camera.press(until="RUNNING")
        camera.shoot("oplog-running")
        with suppress(PyMongoError):  # an accident of the demo may drop its collection meanwhile
            await slow
    await camera.press("escape", "a", until="plant.readings")
    camera.shoot("oplog-activity")
    await camera.press("escape")


async def restore(camera: Camera) -> None:
    """Show the guided restore, from the list of incidents to the commands."""
    await camera.press("4", until="deleteMany on shop.orders")
    await camera.pilot.pause(3)  # until it is known from what each could come back
    camera.shoot("restore-incidents")
    await camera.pick("deleteMany on shop.orders")
    await camera.press("enter", until=" can come back")
    camera.shoot("restore-checks")
    await camera.press("tab", until="merge")
    camera.shoot("restore-loss")
    await camera.press("tab", "tab", *["j"] * 5, until=">  6 ")
    camera.shoot("restore-commands")


async def profiles(camera: Camera) -> None:
    """Show two deployments side by side, one of which does not answer."""
    await camera.press("5", until="cannot be read")
    await camera.press(until="used, ends (80%)")
    camera.shoot("profiles")


async def help_screen(camera: Camera) -> None:
    """Show the help of a page."""
    await camera.press("1", until="ids left until")
    await camera.press("question_mark", until="Where to look")
    camera.shoot("help")
    await camera.press("escape")


async def _delete_slowly(person: AsyncMongoClient[dict[str, object]]) -> None:
    *_, slow = all_accidents(person, all_streams(random.Random(1)), random.Random(1))
    await slow.happen()


SCENES: tuple[Callable[[Camera], Awaitable[None]], ...] = (counters, object_ids, oplog, restore, profiles, help_screen)


async def shoot_all(demo: Demo, folder: Path, size: tuple[int, int]) -> None:
    """Make all screenshots at one size."""
    async with on_demo(demo, folder, size) as camera:
        for scene in SCENES:
            await scene(camera)


def main() -> None:
    """Run the demo and make all screenshots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    # The emitted commands contain a folder in the home directory, which would reveal the user's name.
    os.environ["HOME"] = "/home/dba"
    os.environ["PATH"] = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    os.environ["TZ"] = "Europe/Vienna"
    time.tzset()
    for size in SIZES:  # each on a demo of its own: an accident that happened before may be a routine
        with Demo(schedule=SCHEDULE, seed=7) as demo:
            print(f"letting the workload run for {HISTORY_SECONDS} s ...", file=sys.stderr)
            time.sleep(HISTORY_SECONDS)
            asyncio.run(shoot_all(demo, folder, size))
    print(*sorted(path.name for path in folder.glob("*.svg")), sep="\n")


if __name__ == "__main__":
    main()
