"""Slices of an oplog that were saved one after the other: whether they join, and what they hold together.

Two slices join only if the later one begins with an entry that the earlier one also holds: between two entries that
merely follow each other there may have been a third. The slices of wal-g do not repeat that entry; there the name has
to say that the later one continues right after it, and to be true of what both hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.saved_oplog.slice_file import SliceFile, read_slice
from tallyglass.restore.saved_oplog.slice_names import is_slice, span
from tallyglass.restore.timeline.identity import is_same_entry
from tallyglass.text import clean

_BEFORE_SECONDS = 3_600
"""How far before the start slices are read: those entries are compared with the backup."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A gap: no slice holds the entries between two entries, both exclusive."""

    after: Ts
    until: Ts

    def __str__(self) -> str:
        return f"between {self.after} and {self.until}"


@dataclass(frozen=True, slots=True)
class Part:
    """What one slice adds: its entries after ``after``."""

    file: SliceFile
    after: Ts


@dataclass(frozen=True, slots=True)
class SavedOplog:
    """Slices that join, oldest first. ``hole`` is the gap after them, if there are later slices.

    ``differs`` says which two slices do not belong to one oplog; empty if all do. ``problems`` are about incomplete
    files.
    """

    parts: tuple[Part, ...]
    hole: Hole | None = None
    differs: str = ""
    problems: tuple[str, ...] = ()

    @property
    def first(self) -> Ts:
        """The ``ts`` of the oldest entry."""
        return self.parts[0].file.first

    @property
    def last(self) -> Ts:
        """The ``ts`` of the newest entry."""
        return self.parts[-1].file.last

    @property
    def last_entry(self) -> bytes:
        """The newest entry, raw."""
        return self.parts[-1].file.last_entry

    def entry(self, ts: Ts) -> bytes:
        """The raw entry with this ``ts``; empty if there is none."""
        for part in self.parts:
            if part.after < ts <= part.file.last and (found := part.file.entry(ts)):
                return found
        return b""

    def blocks(self, low: Ts, high: Ts, *, backward: bool = False) -> Iterator[tuple[bytes, Ts, Ts, bool]]:
        """Batches that hold all entries from ``low`` to ``high``, each with its bounds and whether all of its entries
        lie within them. Reads files: call it in a thread."""
        for part in reversed(self.parts) if backward else self.parts:
            least = max(low, part.after.next)
            if max(least, part.file.first) > min(high, part.file.last):
                continue
            for block, inside in part.file.read(least, high, backward=backward):
                yield block, least, high, inside


def read_saved(paths: Iterable[Path], start: Ts | None = None) -> SavedOplog:
    """Read the slices in files and folders, and choose the newest slices that join and reach back to ``start``.

    Visits every entry once: run it in a thread. Raises InputError if there is no slice, or one cannot be read.
    """
    runs = read_runs(paths, start)
    if runs[-1].differs:
        return runs[-1]
    return runs[max((at for at, run in enumerate(runs) if start is None or run.first <= start), default=0)]


def read_runs(paths: Iterable[Path], start: Ts | None = None) -> tuple[SavedOplog, ...]:
    """Read the slices in files and folders, those that end long before ``start`` left out: one row for each run of
    slices that join, oldest first. If two do not belong to one oplog, the rows end with the first of them.

    Visits every entry once: run it in a thread. Raises InputError if there is no slice, or one cannot be read.
    """
    paths = tuple(paths)
    files = dict.fromkeys(path for path in _files(paths) if not _is_old(path, start))
    read = [one for path in files if (one := read_slice(path)) is not None]
    found = [one for one in read if one.blocks]
    problems = tuple(f"{clean(str(one.path))}: {one.problem}" for one in read if one.problem)
    if not found:
        shown = ", ".join(clean(str(path)) for path in paths)
        advice = "Name a mongodump of local.oplog.rs, or a folder of save-oplog."
        raise InputError(f"There is no saved oplog in {shown}.", f"{problems[0]}." if problems else advice)
    runs, differs = _joined(sorted(found, key=lambda one: (one.first, -one.last.t, -one.last.i)))
    holes = [*(Hole(run[-1].file.last, later[0].file.first) for run, later in pairwise(runs)), None]
    whole = [SavedOplog(tuple(run), hole, problems=problems) for run, hole in zip(runs, holes, strict=True)]
    return (*whole[:-1], replace(whole[-1], differs=differs))


def _joined(files: Iterable[SliceFile]) -> tuple[list[list[Part]], str]:
    """The runs of slices that join, of slices in order of time, as far as they belong to one oplog; and why the next
    one does not."""
    runs: list[list[Part]] = []
    differs = ""
    for file in files:
        if not runs or (file.first > runs[-1][-1].file.last and file.after != runs[-1][-1].file.last):
            runs.append([Part(file, ZERO)])
        elif (differs := _differs(runs[-1], file)) and file.last > runs[-1][-1].file.last:
            break
        elif file.last > runs[-1][-1].file.last:
            runs[-1].append(Part(file, runs[-1][-1].file.last))
        differs = ""
    return runs, differs


def _differs(run: list[Part], later: SliceFile) -> str:
    """Why a slice that begins within a run, or right after it, does not join it."""
    newest = run[-1].file
    if later.first > newest.last:
        terms = read_entry(newest.last_entry).term or 0, read_entry(later.first_entry).term or 0
        names = f"{clean(newest.path.name)} and {clean(later.path.name)}"
        return f"the term goes back from {terms[0]} to {terms[1]} between {names}" if terms[1] < terms[0] else ""
    held = SavedOplog(tuple(run)).entry(later.first)
    if held and is_same_entry(read_entry(held), read_entry(later.first_entry)):
        return ""
    earlier = next(part.file for part in run if later.first <= part.file.last)
    names = f"{clean(earlier.path.name)} and {clean(later.path.name)}"
    return f"{names} do not hold the same entry at {later.first}"


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            # A slice folder, a mongodump folder and the storage of PBM hold them at different depths.
            yield from sorted(one for one in path.rglob("*") if is_slice(one) and one.is_file())
        elif path.is_file():
            yield path
        else:
            raise InputError(f"There is no saved oplog at {clean(str(path))}.", "Name a file or a folder of slices.")


def _is_old(path: Path, start: Ts | None) -> bool:
    """Whether the name of a slice says that it ends long before ``start``."""
    named = span(path)
    return named is not None and start is not None and named.end.t < start.t - _BEFORE_SECONDS
