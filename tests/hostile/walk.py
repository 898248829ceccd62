"""Seen every page of the dashboard with hostile data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pseudo_terminal import Terminal

ENTER, ESC, PAGE, TAB = "\r", "\x1b[27u", "\x1b[6~", "\t"
PASTED = "\x1b[200~{}\x1b[201~"
HEX_ID = "6923a1f0c0ffee0123456789"
FOLDER = "w\x1b]0;folder\x07\u202e[@click=app.quit]x"
"""A hostile name for the folder in which the dashboard starts and to which it saves."""
UNGUARDED = """
import sys
import tallyglass.text
import tallyglass_tui.this_program
tallyglass.text._visible = lambda value: value
tallyglass_tui.this_program.this_program = lambda: (sys.executable, *sys.orig_argv[1:3])
"""
"""Python code that removes the guard before the dashboard starts, and from the process that makes its plans."""
SPOOF = "or\u200bde\u202ers \x07\x9b31m \u2028[/x]"
"""Text as in a copied log line, without ESC, which the terminal's own paste filter handles."""


class Stop(NamedTuple):
    """A view: its name, the keys that lead to it, and a text that it shows once it has data."""

    name: str
    keys: tuple[str, ...]
    shows: str
    data: bool = True


STOPS = (
    Stop("counters", (), ">999y"),
    Stop("counters, next rows", (PAGE, PAGE, PAGE), ">999y"),
    Stop("counter", (ENTER,), "ceiling "),
    Stop("pool", (ESC, "/a pool", ENTER, ENTER), "used (1 of 4)"),
    Stop("counters again", (ESC, ESC), ">999y"),
    Stop("counters, filter", ("/",), "!word excludes", data=False),
    Stop("counters, pasted filter", (PASTED.format(SPOOF), ENTER), " with '"),
    Stop("objectids", ("2",), "Paste any text", data=False),
    Stop("objectids, pasted", (PASTED.format(f"{SPOOF}\n{HEX_ID} {SPOOF}\n"),), HEX_ID, data=False),
    Stop("objectids, moment", ("m",), "now-1d .. now", data=False),
    Stop("objectids, no moment", (PASTED.format(SPOOF), ENTER), "is not a time", data=False),
    Stop("oplog", (ESC, "3"), "dropDatabase"),
    Stop("incidents", ("i",), "deleteMany"),
    Stop("incident", (ENTER,), "The point to return to is just before it"),
    Stop("rates", (ESC, ESC, "a"), "everything.$cmd"),
    Stop("entries", (ESC, "&ns:everything.*", ENTER), "500 matched"),
    Stop("entry", ("g", ENTER), "--oplogLimit="),
    Stop("oplog again", (ESC, ESC, ESC), "dropDatabase"),
    Stop("oplog, filter", ("&",), "destructive text /regex/", data=False),
    Stop("oplog, pasted filter", (PASTED.format(SPOOF), ENTER), "Nothing that matches"),
    Stop("restore", ("4",), "dropDatabase"),
    Stop("checks", ("j" * 10, ENTER), "warn  "),
    Stop("loss", (TAB,), "comes back"),
    Stop("reissue", (TAB,), "No counter would", data=False),
    Stop("commands", (TAB,), "Save the oplog first", data=False),
    Stop("commands, next rows", ("j" * 11,), "Load it into the live set"),
    Stop("backup", ("b",), "Esc"),
)


@dataclass
class Seen:
    """The lines and cells of the screen at a stop, and where its part of the output starts and ends."""

    lines: list[str]
    cells: list[list[str]]
    start: int
    end: int


def walk(terminal: Terminal, reached: Callable[[Stop, int], None]) -> dict[str, Seen]:
    """Seen every stop. ``reached`` waits until the stop is shown."""
    seen = {}
    for stop in STOPS:
        start = len(terminal.raw)
        for key in stop.keys:
            terminal.press(key)
        reached(stop, start)
        seen[stop.name] = Seen(terminal.lines, terminal.cells, start, len(terminal.raw))
    return seen
