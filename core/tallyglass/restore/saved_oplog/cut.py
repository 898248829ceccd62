"""Write the part of a saved oplog that a replay needs to one file, in the form that mongodump writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tallyglass.errors import InputError
from tallyglass.moment import Ts, checked_ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.timeline.chains import is_left_out
from tallyglass.text import clean


def cut(query: Path, paths: Iterable[Path], out: Path) -> int:
    """Write to ``out`` the entries that ``query``, the plan's oplog query, finds in the slices. Returns their number.

    Slow: run it in a thread. Raises InputError if the slices do not hold all of it, or a file cannot be read or
    written.
    """
    start, limit, without = _read_query(query)
    saved = read_saved(paths, start)
    if saved.differs:
        raise InputError(f"The saved slices are not of one oplog: {saved.differs}.")
    if saved.first > start or saved.last < limit:
        held = saved.hole or f"before {saved.first}" if saved.first > start else saved.hole or f"after {saved.last}"
        raise InputError(f"The saved slices do not hold all of {start} to {limit}: nothing is there {held}.")
    count = 0
    try:
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for block, low, high, _ in saved.blocks(start, limit):
                for begin, end in walk.split(block):
                    head = read_entry(block, begin, end)
                    if low <= head.ts <= high and head.ts not in without and not is_left_out(head.ns):
                        file.write(block[begin:end])
                        count += 1
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{clean(str(out))} cannot be written: {error.strerror}.") from None
    return count


def _read_query(path: Path) -> tuple[Ts, Ts, frozenset[Ts]]:
    try:
        bounds = json.loads(path.read_text(encoding="utf-8"))["ts"]
        without = frozenset(_stamp(one) for one in bounds.get("$nin", ()))
        return _stamp(bounds["$gte"]), _stamp(bounds["$lte"]), without
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{clean(str(path))} is not the query of a plan.", "Run it in the plan's folder.") from None


def _stamp(value: Any) -> Ts:
    return checked_ts(value["$timestamp"]["t"], value["$timestamp"]["i"])
