"""Rows that are not entries: one line for each place where the oplog is not continuous."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.read.past import Incomplete
from tallyglass.oplog.read.stream import Gap, RolledBack
from tallyglass.oplog.snapshot import OplogRow, RowKind
from tallyglass.text import plural, whole_duration


def gap(event: Gap) -> OplogRow:
    """How much is missing, or that the oplog begins after what was asked for; its ``ts`` is the first entry left."""
    missing = whole_duration(max(event.first.t - event.after.t, 0))
    if event.requested:
        return _row(RowKind.NOTE, event.first, f"the oplog begins {missing} after the requested time")
    what = f"gap: the oplog has rolled past {event.after}; up to {missing} are missing before {event.first}"
    return _row(RowKind.GAP, event.first, what)


def rolled_back(event: RolledBack) -> OplogRow:
    """``ROLLBACK: 26 entries rolled back``; its ``ts`` is the last one that exists, or the first one removed."""
    many = "an unknown number of entries" if event.count is None else plural(event.count, "entry", "entries")
    after = f"after {event.common}" if event.common else f"from {event.first}"
    what = f"rollback: {many} {after} up to {event.last} no longer exist{'s' * (event.count == 1)}"
    row = _row(RowKind.ROLLBACK, event.common or event.first, what)
    return row if event.count is None else replace(row, documents=event.count)


def search_cut_short(found: Incomplete) -> OplogRow:
    """Older entries may exist."""
    return _row(RowKind.NOTE, ZERO, found.what)


def _row(kind: RowKind, ts: Ts, what: str) -> OplogRow:
    return OplogRow(kind, ts, None, None, "", "", what, documents=0)
