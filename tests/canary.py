"""Where a password could end up, and whether a part of it did: everything that leaves the process or stays behind."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from access_control import LEAKS, PASSWORD

_COPIED = re.compile(rb"\x1b\]52;[^;]*;([A-Za-z0-9+/=]*)")


def of_the_process(process: int) -> dict[str, bytes]:
    """What every user of the machine, or a crash collector, reads about a process that runs, and about its children."""
    places = {}
    for pid in (process, *_children(process)):
        folder = Path(f"/proc/{pid}")
        places |= {f"{pid} {name}": (folder / name).read_bytes() for name in ("cmdline", "environ", "comm")}
    return places


def left_behind(terminal: Any, home: Path) -> dict[str, bytes]:
    """What the terminal received, what of it goes into the clipboard, and every file under the home folder."""
    raw = bytes(terminal.raw)
    copied = {
        f"clipboard {number}": base64.b64decode(found[1] + b"==") for number, found in enumerate(_COPIED.finditer(raw))
    }
    files = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {"screen": raw} | copied | files


def leaks(places: dict[str, bytes]) -> list[str]:
    """The names of the places that hold a part of the password, in any form that it is likely to take."""
    forms = tuple(form.encode() for form in (*LEAKS, PASSWORD, LEAKS[0].encode().hex(), *_base64(LEAKS[0])))
    return [place for place, data in places.items() if any(form in data for form in forms)]


def _base64(text: str) -> Iterator[str]:
    """What base64 makes of ``text`` wherever it stands within a longer one, without the digits that others share."""
    for before in range(3):
        digits = base64.b64encode(b"\0" * before + text.encode()).decode()
        yield digits[(0, 2, 3)[before] : len(digits) - digits.count("=") - 1]


def _children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
