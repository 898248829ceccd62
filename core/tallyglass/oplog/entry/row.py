"""One entry as a row of a list and as a page of text. Any bytes are accepted; damaged ones are reported as such."""

from __future__ import annotations

from itertools import islice

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import describe, json
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.snapshot import OplogRow, RowKind
from tallyglass.text import clean

_CHANGES_SHOWN = 200
"""Changes of one update in its detail; the document after them holds them all."""


def row(raw: bytes, majority: Ts | None = None) -> OplogRow:
    """The entry as one line of the tail. ``majority`` is the majority point, where it is known."""
    try:
        entry = read_entry(raw)
    except Malformed as error:
        return unreadable(raw, ZERO, str(error))
    try:
        described = describe.describe(entry)
        found = entry.id_at if entry.op in "iud" else None
        shown_id = json.id_text(raw, found) if found else ""
    except Malformed as error:
        return unreadable(raw, entry.ts, str(error))
    return OplogRow(
        RowKind.ENTRY, entry.ts, entry.term, entry.wall, clean(entry.op, 8), described.ns, described.what, id=shown_id,
        size=len(raw), documents=described.documents, destructive=described.destructive,
        majority=None if majority is None else entry.ts <= majority, raw=raw,
    )  # fmt: skip


def unreadable(raw: bytes, ts: Ts, why: str) -> OplogRow:
    """A row for bytes that are not an entry."""
    return OplogRow(RowKind.ENTRY, ts, None, None, "?", "", f"not readable: {clean(why, 80)}", size=len(raw), raw=raw)


def detail(raw: bytes) -> str:
    """The whole entry as readable Extended JSON over several lines, an update's changes first; safe, bounded."""
    hidden: frozenset[bytes] = frozenset()
    lines: list[str] = []
    try:
        entry = read_entry(raw)
        hidden = json.hidden_names(entry)
        changes = entry.changes() if entry.op == "u" else None
        for change in islice(changes or (), _CHANGES_SHOWN):
            lines.append(f"// {describe.change_text(entry, change)}")
        if next(iter(changes or ()), None) is not None:
            lines.append("// …")
    except Malformed:
        lines = []
    return "\n".join([*lines, json.block(raw, hidden=hidden)])


def chain_name(raw: bytes) -> str:
    """:attr:`Entry.chain_name` of these bytes; empty where they are not readable."""
    try:
        return read_entry(raw).chain_name
    except Malformed:
        return ""
