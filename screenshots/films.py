"""Make the films of the command line: undo from pre-images, and a drill.

Usage: ``python -m screenshots.films [FOLDER]``. The commands really run, on a server of their own; times and numbers
differ between runs. Needs the MongoDB Database Tools and mongosh on PATH or in ``.tools/bin``.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from screenshots.svg import Frame, animate, tidy
from tallyglass.demo.server import ReplicaSet

_WIDTH, _HEIGHT = 100, 26
_HOME = "/home/dba"
"""Stands for the folder in which the commands run."""
_ORDERS = 5_000
_ROOT = Path(__file__).parent.parent
# The tools that can be built everywhere are older than those that a plan asks for.
_TALLYGLASS = (
    "from tallyglass.restore.tools import toolset; toolset.NEEDED = (100, 0); "
    "from tallyglass_tui.cli.main import main; main()"
)


class Film:
    """Frames of a terminal in which commands are run one after the other."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._frames: list[Frame] = []

    def run(
        self, caption: str, shown: str, command: Sequence[str], seconds: float, last: int = _HEIGHT - 2, ready: int = 0
    ) -> str:
        """Run ``command``; show the line ``shown``, then the last lines of the output for some seconds.

        ``ready`` is the greatest exit status with which it succeeded."""
        self._shoot([f"$ {shown}"], 1.2, caption)
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, timeout=500, check=False,
        )  # fmt: skip
        if done.returncode > ready:
            raise SystemExit(f"{shown} ended with {done.returncode}:\n{done.stdout}")
        folder = str(self._folder)
        text = done.stdout.replace(folder, _HOME).replace(folder.replace("_", r"\_"), _HOME)  # as in Markdown
        self._shoot([f"$ {shown}", *[line for line in text.splitlines() if line.strip()][-last:]], seconds, caption)
        return done.stdout

    def save(self, path: Path) -> None:
        """Write the film."""
        path.write_text(animate(self._frames), encoding="utf-8")

    def _shoot(self, lines: list[str], seconds: float, caption: str) -> None:
        console = Console(record=True, width=_WIDTH, height=_HEIGHT, file=io.StringIO(), legacy_windows=False)
        rows = [row for line in lines for row in textwrap.wrap(line, _WIDTH, drop_whitespace=False) or [""]]
        for number, row in enumerate((rows + [""] * _HEIGHT)[:_HEIGHT]):
            console.print(Text(row, style="bold green" if number == 0 else "", no_wrap=True))
        self._frames.append(Frame(tidy(console.export_svg(title="tallyglass")), seconds, caption=caption))


def undo(film: Film, program: tuple[str, ...], uri: str) -> None:
    """A mass delete, undone from its pre-images."""
    shell = ("mongosh", "--quiet", uri, "--eval")
    delete = 'db.getSiblingDB("shop").orders.deleteMany({state: "open"})'
    film.run("Somebody deletes all open orders.", f"mongosh --eval '{delete}'", (*shell, delete), 2.5)
    listed = film.run("The oplog tells it as one incident.", "tallyglass incidents", (*program, "incidents"), 3.5)
    found = re.search(r"^\W*(\d+)\b.*shop\.orders", listed, re.MULTILINE)
    if found is None:
        raise SystemExit(f"The delete is not in the list:\n{listed}")
    words = ("restore", "plan", "--incident", found[1], "--from", "pre-images", "--script", "undo.sh")
    caption = "A script to undo it, from the pre-images."
    film.run(caption, f"tallyglass {' '.join(words)}", (*program, *words), 5, last=14, ready=1)
    caption = "It brings back what was deleted, and accounts for every document."
    film.run(caption, "bash undo.sh --yes", ("bash", "undo.sh", "--yes"), 7, last=20)
    count = 'db.getSiblingDB("shop").orders.countDocuments({state: "open"})'
    film.run("The orders are back.", f"mongosh --eval '{count}'", (*shell, count), 3)


def drill(film: Film, program: tuple[str, ...]) -> None:
    """A folder of backups, and the proof that one of them can be restored."""
    caption = "Which backups are there, and how far does each reach?"
    film.run(caption, "tallyglass restore backups backups", (*program, "restore", "backups", "backups"), 4)
    caption = "A drill restores the newest one onto a temporary server."
    words = ("restore", "drill", "--backup", "backups", "--report", "drill.md")
    film.run(caption, f"tallyglass {' '.join(words)}", (*program, *words), 6, ready=1)
    caption = "The report: what was proved, and how long a restore takes."
    film.run(caption, "head -28 drill.md", ("head", "-28", "drill.md"), 8)


def main() -> None:
    """Make both films."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    with ReplicaSet(1, set_name="rs0") as servers, tempfile.TemporaryDirectory() as name, servers.client() as client:
        folder = Path(name)
        path = f"{_ROOT / '.tools' / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {
            "PATH": path, "HOME": name, "XDG_STATE_HOME": f"{name}/.local/state", "TALLYGLASS_URI": servers.uri,
            "COLUMNS": str(_WIDTH), "NO_COLOR": "1",
        }  # fmt: skip
        program = (sys.executable, "-c", _TALLYGLASS)
        shop = client["shop"]
        shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        shop.orders.insert_many([{"_id": n, "state": "open" if n % 5 else "paid"} for n in range(_ORDERS)])
        dump = ["mongodump", "--quiet", f"--uri={servers.uri}", "--oplog"]
        for day in ("monday", "tuesday"):
            subprocess.run(
                [*dump, f"--out=backups/{day}"], cwd=folder, env=environment, check=True, capture_output=True
            )
            shop.orders.insert_one({"state": "paid", "after": day})
        film = Film(folder, environment)
        drill(film, program)
        film.save(target / "drill.svg")
        film = Film(folder, environment)
        undo(film, program, servers.uri)
        film.save(target / "undo.svg")


if __name__ == "__main__":
    main()
