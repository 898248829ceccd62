"""Search for the password in everything that a process exposes or leaves behind."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from access_control import LEAKS, PASSWORD

_COPIED = re.compile(rb"\x1b\]52;[^;]*;([A-Za-z0-9+/=]*)")


def process_data(process: int) -> dict[str, bytes]:
    """Return what other users and crash collectors can read about a running process and its children."""
    places = {}
    for pid in (process, *_children(process)):
        folder = Path(f"/proc/{pid}")
        places |= {f"{pid} {name}": (folder / name).read_bytes() for name in ("cmdline", "environ", "comm")}
    return places


def recorded_data(terminal: Any, home: Path) -> dict[str, bytes]:
    """Return the bytes sent to the terminal, the clipboard texts in them, and every file under the home folder."""
    raw = bytes(terminal.raw)
    copied = {
        f"clipboard {number}": base64.b64decode(found[1] + b"==") for number, found in enumerate(_COPIED.finditer(raw))
    }
    files = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {"screen": raw} | copied | files


def leaks(places: dict[str, bytes]) -> list[str]:
    """Return the names of the places that hold part of the password, in any likely encoding."""
    forms = tuple(form.encode() for form in (*LEAKS, PASSWORD, LEAKS[0].encode().hex(), *_base64(LEAKS[0])))
    return [place for place, data in places.items() if any(form in data for form in forms)]


def _base64(text: str) -> Iterator[str]:
    """Yield the base64 digits of ``text`` for each offset in a longer text, without digits shared with neighbours."""
    for before in range(3):
        digits = base64.b64encode(b"\0" * before + text.encode()).decode()
        yield digits[(0, 2, 3)[before] : len(digits) - digits.count("=") - 1]


def _children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
