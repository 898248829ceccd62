"""The film of the README: an accident, the plan that undoes it, and the documents that are back.

Usage: ``python -m screenshots.film [FOLDER]``. Everything in it happens: a demo loses its shipped orders, and the
emitted script brings them back. The dashboard is recorded meanwhile, and the film is made from the replay. It needs the
database tools and mongosh (``make tools``). These may be older than the script accepts: it is planned again for those.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pymongo import AsyncMongoClient
from rich.console import Console
from rich.text import Text

from screenshots.camera import Camera, on_demo, on_recording
from screenshots.svg import Frame, animate, tidy
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule
from tallyglass.restore.tools.find_mongod import find_mongod
from tallyglass_tui.recorded import KINDS
from tallyglass_tui.shell.recording import Recorder
from tallyglass_tui.shell.replay import ReplayDashboard

SIZE = (80, 24)
HISTORY_SECONDS = 30
_NEVER = 1e9
_LOST = {"status": "shipped"}
_DELETES = ("ampersand", *"op:d", "enter")
"""Keys that filter the tail."""
_RED = "del shop.orders"
_GREEN = "ins shop.orders"
_MOST_FRAMES = 5
_TOOLS = Path(__file__).resolve().parent.parent / ".tools" / "bin"


class Story:
    """What happened while the recording was made: when, in milliseconds of it, how many orders were lost, and what the
    shell printed."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.at: dict[str, int] = {}
        self.lost = 0
        self.shell = ""

    def mark(self, name: str) -> None:
        """Name the present moment."""
        self.at[name] = round((time.monotonic() - self._began) * 1000)


async def happen(camera: Camera, backup: Path, home: Path, story: Story) -> None:
    """The accident and the restore, on a dashboard that is recorded."""
    async with AsyncMongoClient[dict[str, object]](camera.uri) as client:
        orders = client.shop.orders
        await camera.press("1", until="vouchers")
        await camera.pilot.pause(12)
        story.mark("counters")
        await camera.press("3", until="following")
        await camera.pilot.pause(4)
        story.mark("tail")
        before = await orders.count_documents({})
        await camera.press(*_DELETES, until="op:d")
        story.lost = (await orders.delete_many(_LOST)).deleted_count
        await camera.press(until=_RED)
        await camera.pilot.pause(2)
        story.mark("deleted")
        await camera.press("escape", "i", until="deleteMany on shop.orders")
        await camera.pick("deleteMany on shop.orders")
        await camera.press("r", until=" can come back")
        point = re.search(r"just before (\d+:\d+)", camera.text())
        assert point, "the page shows its point"
        await camera.pilot.pause(2)
        story.mark("planned")
        story.shell, code = await asyncio.to_thread(run, camera.uri, backup, point[1], home / "plan")
        if code:
            raise SystemExit(f"restore.sh ended with {code}:\n{story.shell}")
        await camera.pilot.pause(2)
        story.mark("restored")
        back, now = await orders.count_documents(_LOST), await orders.count_documents({})
        told = f"{before} before, {story.lost} deleted; {back} shipped ones and {now} in all afterwards"
        print(f"orders: {told}", file=sys.stderr)
        if back < story.lost:
            raise SystemExit("not all of them came back")


class Film:
    """The frames so far, and the camera on the replay that they are from."""

    def __init__(self, camera: Camera, story: Story) -> None:
        self.camera = camera
        self.story = story
        self.frames: list[Frame] = []

    def go(self, at: int) -> None:
        """Show a moment of the recording."""
        app = self.camera.app
        assert isinstance(app, ReplayDashboard)
        app.go(at)

    def shot(self, seconds: float, key: str, caption: str) -> None:
        """Add the screen as it is."""
        self.frames.append(Frame(self.camera.svg(), seconds, key, caption))

    async def scene(self, seconds: float, key: str, caption: str, *keys: str, until: str = "") -> None:
        """Press keys, wait for a text, and add the screen."""
        await self.camera.press(*keys, until=until)
        self.shot(seconds, key, caption)

    async def burst(self, first: int, last: int, rows: str, caption: str) -> None:
        """Add the screens between two moments on which many rows with this text race past."""
        app = self.camera.app
        assert isinstance(app, ReplayDashboard)
        taken, before = 0, ""
        for at in (one for one in app.recorded.recording.moments() if first < one <= last):
            self.go(at)
            await self.camera.press()
            text = self.camera.text()
            if text.count(rows) >= 3 and text != before and taken < _MOST_FRAMES:
                self.shot(0.7, "", caption)
                before, taken = text, taken + 1


async def show(film: Film) -> None:
    """The whole story, replayed."""
    camera, story = film.camera, film.story
    at = story.at
    film.go(at["counters"])
    await film.scene(4.0, "1", "When does each counter run out?", "1", until="vouchers")
    film.go(at["tail"])
    await film.scene(2.0, "3", "The oplog, live", "3", until=" seen")
    await camera.press(*_DELETES, until="op:d")
    film.go(at["deleted"])
    caption = f"Only deletes: a cleanup without its date filter removes {story.lost} orders"
    await film.scene(4.0, "& op:d", caption, until=_RED)
    film.go(at["planned"])
    caption = "What was that? One incident, not hundreds of rows"
    await film.scene(4.0, "i", caption, "escape", "i", until="deleteMany on shop.orders")
    await camera.pick("deleteMany on shop.orders")
    caption = "A plan, ready: backup and oplog are proven to reach the moment before"
    await film.scene(4.0, "r", caption, "r", until=" can come back")
    await camera.press("tab", "tab", "tab", until="secure")
    found = re.search(r"Commands (\d+)", camera.text())
    lines = found[1] if found else "some"
    film.shot(2.0, "Tab", f"The way back: {lines} short lines, which Tallyglass shows and never runs")
    for _ in range(3):
        await film.scene(1.0, "j", "The way back, step by step", "j", "j")
    film.frames.append(Frame(terminal(story.shell), 4.0, "", "In a shell: each step is checked"))
    await camera.press("escape", "3", until="what happened")
    await camera.press("escape", until=" seen")
    await film.burst(at["planned"], at["restored"], _GREEN, "Somebody runs them")
    film.go(at["restored"])
    await film.scene(4.0, "", f"{story.lost} orders are back, and what was written meanwhile is kept")


def run(uri: str, backup: Path, point: str, folder: Path) -> tuple[str, int]:
    """Plan the incident at a point again, for the tools that are here, and run the script as a person would; its
    output and exit code."""
    version = subprocess.run([_TOOLS / "mongorestore", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", version)
    needed = f"toolset.NEEDED = {found[1]}, {found[2]}" if found else ""
    code = f"from tallyglass.restore.tools import toolset; {needed}; from tallyglass_tui.cli.entry import main; main()"
    words = ["restore", "plan", uri, f"--backup={backup}", f"--incident={point}", f"--out={folder}"]
    subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
    command = ["bash", "restore.sh", "--yes"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return f"$ {' '.join(command)}\n{done.stdout}{done.stderr}", done.returncode


def terminal(text: str) -> str:
    """The last lines of a shell as SVG."""
    columns, rows = SIZE
    lines = text.splitlines()
    shown = lines[:1] + lines[1:][-(rows - 1) :]
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=columns, height=rows, file=nowhere, force_terminal=True)
        for line in [*shown, *[""] * (rows - len(shown))]:
            console.print(Text(line), no_wrap=True, overflow="ellipsis")
        return tidy(console.export_svg(title="shell"))


async def make(demo: Demo, folder: Path, home: Path) -> None:
    """Record the story, and film its replay."""
    file = home / "film.rec"
    recorder, story = Recorder(file, "demo", KINDS), Story()
    try:
        async with on_demo(demo, folder, SIZE, recorder) as camera:
            await happen(camera, demo.backup, home, story)
    finally:
        recorder.close()
    async with on_recording(file, folder, SIZE) as camera:
        film = Film(camera, story)
        await show(film)
    (folder / "restore-film.svg").write_text(animate(film.frames), encoding="utf-8")
    print(f"restore-film.svg: {sum(frame.seconds for frame in film.frames):.0f} s", file=sys.stderr)


def main() -> None:
    """Run the demo and make the film."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    os.environ["TZ"] = "Europe/Vienna"
    time.tzset()
    os.environ["PATH"] = os.pathsep.join(
        map(str, [_TOOLS, Path(sys.executable).parent, os.environ["PATH"], Path(find_mongod(None)).parent])
    )
    with tempfile.TemporaryDirectory(prefix="home-") as home, Demo(schedule=Schedule(first=_NEVER), seed=7) as demo:
        os.environ["HOME"] = home
        time.sleep(HISTORY_SECONDS)
        asyncio.run(make(demo, folder, Path(home)))


if __name__ == "__main__":
    main()
