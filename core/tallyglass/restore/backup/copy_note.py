"""What a tool noted beside the data files that it copied: of which set they are, and up to which entry they reach.

``restoreInfo.txt`` is written by Ops Manager and Cloud Manager, ``pbm.rsmeta.SET.json`` by PBM for external backups. A
note is a claim: the oplog in the copy decides whether it is true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePath

from tallyglass.moment import Ts, checked_ts
from tallyglass.text import clean

PATTERNS = ("restoreInfo.txt", "pbm.rsmeta.*.json")
"""Names of notes, at the top of the data files."""
LARGEST = 2**20
"""Bytes of the largest note that is read."""

_LINE = re.compile(r"^\W*([^:=\n]+?)[^\S\n]*[:=][^\S\n]*(.*?)[^\S\n]*$", re.MULTILINE)
_POSITION = re.compile(r"\b(\d{9,10})\s*[,:]\s*(?:Ordinal:?\s*)?(\d{1,10})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CopyNote:
    """One note, safe to show. ``end`` is the newest entry in the copy, ``reaches`` one that the copy must reach; None
    where the note does not say so. ``key`` names the master key that the files are encrypted with. ``problem`` says why
    the note cannot be read; empty if it can."""

    name: str
    set_name: str = ""
    version: str = ""
    end: Ts | None = None
    reaches: Ts | None = None
    key: str = ""
    problem: str = ""

    def contradicts(self, end: Ts) -> str:
        """Why the note is not of a copy whose oplog ends at ``end``; empty if it may be."""
        if self.end is not None and self.end != end:
            return f"its oplog ends at {end}; by {self.name} at {self.end}"
        if self.reaches is not None and end < self.reaches:
            return f"its oplog ends at {end}; by {self.name} it reaches {self.reaches}"
        return ""


def is_note(name: str) -> bool:
    """Whether a file is called like a note."""
    return any(fnmatch(PurePath(name).name, pattern) for pattern in PATTERNS)


def read_notes(files: Iterable[tuple[str, bytes]]) -> CopyNote | None:
    """The note among some files, given with their names; None if there is none."""
    notes = [_of_pbm(name, raw) if name.endswith(".json") else _of_ops_manager(name, raw) for name, raw in files]
    if len(notes) > 1:
        return CopyNote(notes[0].name, problem=f"{notes[0].name} and {notes[1].name} lie beside each other")
    return notes[0] if notes else None


def _of_ops_manager(name: str, raw: bytes) -> CopyNote:
    """Lines of a name and a value; names are compared without case, since their spelling changed with versions."""
    lines = {key.casefold(): clean(value, 80) for key, value in _LINE.findall(raw.decode("utf-8", "replace"))}

    def value_of(words: str) -> str:
        return next((value for key, value in lines.items() if words in key), "")

    shown = clean(name, 80)
    found = _POSITION.search(value_of("last oplog"))
    try:
        end = checked_ts(int(found[1]), int(found[2])) if found else None
    except ValueError:
        end = None
    if end is None:
        return CopyNote(shown, problem=f"{shown} does not say which entry of the oplog was the last")
    return CopyNote(shown, value_of("replica set"), value_of("db version"), end, key=value_of("master key"))


def _of_pbm(name: str, raw: bytes) -> CopyNote:
    shown = clean(name, 80)
    try:
        content = json.loads(raw)
        set_name, first = str(content["name"]), content["first_write_ts"]
        reaches = checked_ts(first["T"], first["I"])
    except (ValueError, KeyError, TypeError) as error:
        return CopyNote(shown, problem=f"{shown} cannot be read: {clean(str(error), 60)}")
    if name != f"pbm.rsmeta.{set_name}.json":
        return CopyNote(shown, problem=f"{shown} is that of the set {clean(set_name, 80)}")
    return CopyNote(shown, clean(set_name, 80), reaches=reaches)
