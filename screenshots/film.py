"""The film of the README: an accident, the plan that undoes it, and the documents that are back.

Usage: ``python -m screenshots.film [FOLDER]``. Everything in it happens: a demo loses its shipped orders, and the
emitted script brings them back. It needs the database tools and mongosh (``make tools``). These may be older than the
script accepts: it is planned again for those.
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

from screenshots.camera import Camera, on_demo
from screenshots.svg import Frame, animate, tidy
from tallyglass.demo.find_mongod import find_mongod
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule

SIZE = (80, 24)
HISTORY_SECONDS = 30
_NEVER = 1e9
_LOST = {"status": "shipped"}
_RED = "del shop.orders"
_GREEN = "ins shop.orders"
_MOST_FRAMES = 5
_TOOLS = Path(__file__).resolve().parent.parent / ".tools" / "bin"


class Film:
    """The frames so far, and the camera that they are from."""

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        self.frames: list[Frame] = []

    def shot(self, seconds: float, key: str, caption: str) -> None:
        """Add the screen as it is."""
        self.frames.append(Frame(self.camera.svg(), seconds, key, caption))

    async def scene(self, seconds: float, key: str, caption: str, *keys: str, until: str = "") -> None:
        """Press keys, wait for a text, and add the screen."""
        await self.camera.press(*keys, until=until)
        self.shot(seconds, key, caption)

    async def burst(self, event: asyncio.Task[object], rows: str, caption: str) -> None:
        """Add the screens on which many rows with this text race past while an event takes its course."""
        before, taken, settled = "", 0, 0
        while taken < _MOST_FRAMES and settled < 20:
            await self.camera.pilot.pause(0.15)
            text = self.camera.text()
            if text.count(rows) >= 3 and text != before:
                self.shot(0.7, "", caption)
                before, taken = text, taken + 1
            settled += event.done()
        await event


async def act(film: Film, backup: Path, home: Path) -> None:
    """The whole story."""
    camera = film.camera
    async with AsyncMongoClient[dict[str, object]](camera.uri) as client:
        orders = client.shop.orders
        await camera.press("1", until="vouchers")
        await camera.pilot.pause(12)
        film.shot(4.0, "1", "When does each counter run out?")
        await camera.press("3", until="following")
        await camera.pilot.pause(4)
        film.shot(2.0, "3", "The oplog, live")
        before = await orders.count_documents({})
        lost = await orders.count_documents(_LOST)
        deleting = asyncio.create_task(orders.delete_many(_LOST))
        await film.burst(deleting, _RED, f"A cleanup without its date filter deletes {lost} orders")
        caption = "What was that? One incident, not hundreds of rows"
        await film.scene(4.0, "i", caption, "i", until="deleteMany on shop.orders")
        await camera.pick("deleteMany on shop.orders")
        await camera.press("r", until=" can come back")
        film.shot(4.0, "r", "A plan, ready: backup and oplog are proven to reach the moment before")
        await camera.press("tab", "tab", "tab", until="secure")
        found = re.search(r"Commands (\d+)", camera.text())
        lines = found[1] if found else "some"
        caption = f"The way back: {lines} short lines, which Tallyglass shows and never runs"
        film.shot(2.0, "Tab", caption)
        for _ in range(3):
            await film.scene(1.0, "j", caption, "j", "j")
        await film.scene(2.0, "y", "Copied, also over SSH", "y", until="Copied")
        await camera.press("w", until="Folder for the plan")
        await camera.press("enter", until="Written")
        point = re.search(r"just before (\d+:\d+)", camera.text())
        assert point, "the page shows its point"
        await camera.press("escape", "3", until="what happened")
        await camera.press("escape", until="following")
        restoring = asyncio.create_task(asyncio.to_thread(run, camera.uri, backup, point[1], home / "plan"))
        await film.burst(restoring, _GREEN, "Somebody runs them")
        shell, code = restoring.result()
        film.frames.insert(-_MOST_FRAMES, Frame(terminal(shell), 4.0, "", "In a shell: each step is checked"))
        if code:
            raise SystemExit(f"restore.sh ended with {code}:\n{shell}")
        back = await orders.count_documents(_LOST)
        now = await orders.count_documents({})
        film.shot(4.0, "", f"{lost} orders are back, and what was written meanwhile is kept")
        print(
            f"orders: {before} before, {lost} deleted; {back} shipped ones and {now} in all afterwards", file=sys.stderr
        )
        if back < lost:
            raise SystemExit("not all of them came back")


def run(uri: str, backup: Path, limit: str, folder: Path) -> tuple[str, int]:
    """Plan again for the tools that are here, and run the script as a person would; its output and exit code."""
    path = os.pathsep.join(
        map(str, [_TOOLS, Path(sys.executable).parent, os.environ["PATH"], Path(find_mongod(None)).parent])
    )
    version = subprocess.run([_TOOLS / "mongorestore", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", version)
    needed = f"toolset.NEEDED = {found[1]}, {found[2]}" if found else ""
    code = f"from tallyglass.restore.tools import toolset; {needed}; from tallyglass_tui.cli.entry import main; main()"
    words = ["restore", "plan", uri, f"--backup={backup}", f"--before={limit}", f"--out={folder}"]
    subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
    command = ["bash", "restore.sh", "--yes"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
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


async def make(demo: Demo, folder: Path) -> None:
    """Play the story, and save the film."""
    async with on_demo(demo, folder, SIZE) as camera:
        film = Film(camera)
        await act(film, demo.backup, Path(os.environ["HOME"]))
    (folder / "restore-film.svg").write_text(animate(film.frames), encoding="utf-8")
    print(f"restore-film.svg: {sum(frame.seconds for frame in film.frames):.0f} s", file=sys.stderr)


def main() -> None:
    """Run the demo and make the film."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    os.environ["TZ"] = "Europe/Vienna"
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="home-") as home, Demo(schedule=Schedule(first=_NEVER), seed=7) as demo:
        os.environ["HOME"] = home
        time.sleep(HISTORY_SECONDS)
        asyncio.run(make(demo, folder))


if __name__ == "__main__":
    main()
