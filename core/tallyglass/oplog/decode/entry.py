"""One oplog entry: raw BSON until someone looks at it. Any input is accepted; damaged bytes are reported as such."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Document
from tallyglass.oplog.decode import describe, diff, extended_json, render, walk
from tallyglass.oplog.decode.head import ALL_SECRETS, NESTING_LIMIT, Head, command_of, inner_heads, read_head
from tallyglass.oplog.decode.walk import Element, Malformed
from tallyglass.oplog.snapshot import OplogRow, RowKind
from tallyglass.text import clean

_NOTHING: frozenset[str] = frozenset()


def row(raw: bytes, majority: Ts | None = None) -> OplogRow:
    """The entry as one line of the tail. ``majority`` is the majority point, where it is known."""
    try:
        head = read_head(raw)
    except Malformed as error:
        return unreadable(raw, ZERO, str(error))
    try:
        described = describe.describe(head)
        found = head.document_id if head.op in "iud" else None
        shown_id = render.id_text(raw, found) if found else ""
    except Malformed as error:
        return unreadable(raw, head.ts, str(error))
    return OplogRow(
        RowKind.ENTRY, head.ts, head.term, head.wall, clean(head.op, 8), described.ns, described.what, id=shown_id,
        size=len(raw), documents=described.documents, destructive=described.destructive,
        majority=None if majority is None else head.ts <= majority, raw=raw,
    )  # fmt: skip


def unreadable(raw: bytes, ts: Ts, why: str) -> OplogRow:
    """A row for bytes that are not an entry."""
    return OplogRow(RowKind.ENTRY, ts, None, None, "?", "", f"not readable: {clean(why, 80)}", size=len(raw), raw=raw)


def detail(raw: bytes) -> str:
    """The whole entry as readable extended JSON over several lines, an update's changes first; safe, bounded."""
    hidden: frozenset[bytes] = frozenset()
    lines = []
    try:
        head = read_head(raw)
        hidden = _hidden(head)
        found = diff.changes(head) if head.op == "u" else None
        lines = [] if found is None else [f"// {line}" for line in _change_lines(head, found)]
    except Malformed:
        pass
    return "\n".join([*lines, render.block(raw, hidden=hidden)])


def _hidden(head: Head) -> frozenset[bytes]:
    """What this entry holds that must not be shown: in an applyOps, the secrets of any collection."""
    return ALL_SECRETS if head.op == "c" and head.ns == "admin.$cmd" else head.secrets


def _change_lines(head: Head, found: Iterator[diff.Change]) -> Iterator[str]:
    for count, change in enumerate(found):
        if count == 200:
            yield "…"
            return
        yield diff.change_text(head, change)


def to_json(raw: bytes, *, kind: str = "", shard: str = "", relaxed: bool = False) -> str:
    """The whole entry as one line of extended JSON (v2), for saving and for other programs.

    Canonical unless ``relaxed``; with ``kind`` and ``shard`` those fields come first. An object with ``$broken`` in hex
    where it is not BSON. Every character outside ASCII is escaped, so the line is safe on a terminal as well; users'
    credentials and signing keys are left out.
    """
    named = {name: value for name, value in (("kind", kind), ("shard", shard)) if value}
    first = json.dumps(named)[1:-1]
    write = extended_json.relaxed if relaxed else extended_json.canonical
    try:
        hidden = _NOTHING
        if b"credentials\0" in raw or b"admin.system.keys\0" in raw:
            hidden = frozenset(name.decode() for name in _hidden(read_head(raw)))
        return write(raw, hidden, first)
    except (Malformed, ValueError, TypeError):
        return f'{{{first}{", " if first else ""}"$broken": "{raw.hex()}"}}'


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, unfolded from its entry. ``ns`` is as stored, not safe to show.

    ``ts`` is the entry's: an operation of a transaction takes effect with the transaction's last entry.
    ``o`` and ``o2`` are decoded each time they are asked for, and empty where they are missing or broken.
    """

    ts: Ts
    op: str
    ns: str
    ui: uuid.UUID | None = None
    raw: bytes = field(default=b"", repr=False)
    o_at: Element | None = field(default=None, repr=False)
    o2_at: Element | None = field(default=None, repr=False)

    @property
    def o(self) -> Document:
        """The document, the change, the key of a delete, or the command."""
        return _decoded(self.raw, self.o_at)

    @property
    def o2(self) -> Document:
        """What an update matched, or what the server recorded with a command."""
        return _decoded(self.raw, self.o2_at)


def _decoded(raw: bytes, element: Element | None) -> Document:
    if element is None or element.type != walk.DOCUMENT:
        return {}
    try:
        return walk.decode(raw, element.start, element.end)
    except Malformed:
        return {}


def operations(raw: bytes) -> Iterator[Operation]:
    """The operations of an entry: itself, or what its applyOps holds, to any depth that a server writes.

    Nothing for an entry that is not readable; what follows the broken place in an applyOps is left out.
    """
    try:
        yield from _unfolded(read_head(raw), 0)
    except Malformed:
        return


def _unfolded(head: Head, depth: int) -> Iterator[Operation]:
    first = command_of(head) if head.op == "c" else None
    if first is not None and first.name == b"applyOps" and depth < NESTING_LIMIT:
        for inner in inner_heads(head):
            yield from _unfolded(inner, depth + 1)
        return
    ui = uuid.UUID(bytes=head.ui) if len(head.ui) == 16 else None
    yield Operation(head.ts, head.op, head.ns, ui, head.raw, head.o, head.o2)
