"""Walk the entries of the oplog once: plain writes of one document as a few values, everything else as entries.

Nearly all entries are inserts, updates and deletes. What a proof needs of them stands where servers since 5.0 write it:
collection, ``_id``, ``ts`` and term are sliced out of the batch. An entry of any other form is parsed.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Document, Gateway
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.envelope import Walker
from tallyglass.restore.raw import entries
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.oplog import SCAN_MS

_BATCH = 10_000
"""Entries of one batch: some megabytes."""

_YIELD_EVERY, _PARSED = 1_000, 8
"""Entries that are read in one go, some milliseconds; one that is parsed counts as so many."""

_PLAIN, _OTHER, _NOOP = 1, 2, 4
_TAGS = {"i": _PLAIN, "u": _PLAIN, "d": _PLAIN, "n": _NOOP}

_int_at = struct.Struct("<i").unpack_from
# From the UUID to the first element of o: names of ui, o and that element, in between the UUID, length and type.
_collection_and_o = struct.Struct("<9s16s3siB4s").unpack_from
_document = struct.Struct("<iB4s").unpack_from
_position = struct.Struct("<4sQ3sq").unpack_from
_UI, _O, _O2, _ID = b"\x05ui\0\x10\0\0\0\x04", b"\x03o\0", b"\x03o2\0", b"_id\0"
_TS, _TERM, _STATEMENT = b"\x11ts\0", b"\x12t\0", b"\x10stmtId\0"
_SESSION_HEAD, _LSID_SIZE = 25, 10
_NS_LENGTH, _NS_TEXT = 14, 18
_KINDS = [bytes((kind,)) for kind in range(256)]
_SIZES = {walk.OBJECT_ID: 12, walk.INT32: 4, walk.INT64: 8, walk.DOUBLE: 8, walk.DATE: 8}


class Sink(Protocol):
    """Takes the entries in order."""

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """Take an insert, update or delete of the document ``key``; ``place`` is its ``ts`` as one number, ``size`` the
        bytes of the entry, and its ``o`` begins in ``batch`` at ``o``. False where the whole entry is needed: it is fed
        next."""
        ...

    def feed(self, entry: Entry) -> None:
        """Take any other entry."""
        ...


class BatchWalker:
    """Hands the entries of batches to a sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._walker = Walker(lambda op, ns, session: _TAGS.get(op, _OTHER))
        self._last = b""
        self.entries = 0
        """Entries so far, and those among them that were parsed."""
        self.parsed = 0

    @property
    def last(self) -> Entry | None:
        """The newest entry that is no no-op."""
        return entries.read(self._last) if self._last else None

    def walk(self, batch: bytes) -> Iterator[None]:
        """Take a batch, with a pause now and then. Raises Malformed."""
        write, feed, pause = self._sink.write, self._sink.feed, _YIELD_EVERY
        last = (0, 0)
        heads = self._walker.heads(batch)
        self.entries += len(heads)
        for start, at, end, (op, ns, in_session, tag) in heads:
            pause -= 1
            if pause <= 0:
                pause = _YIELD_EVERY
                yield
            if tag == _PLAIN:
                last = (start, end)
                try:
                    ui_name, ui, o_name, length, kind, id_name = _collection_and_o(batch, at)
                    value = at + 37
                    o = at + 28
                    after = o + length
                    if batch[after : after + 4] == _O2:
                        length, o2_kind, o2_name = _document(batch, after + 4)
                        if op == "u":
                            kind, id_name, value = o2_kind, o2_name, after + 13
                        after += 4 + length
                    if in_session and batch[after : after + 8] == _STATEMENT:
                        after += 12
                    ts_name, place, term_name, term = _position(batch, after)
                    if (
                        ui_name == _UI and o_name == _O and id_name == _ID and ts_name == _TS and term_name == _TERM
                        and after < end and at
                    ):  # fmt: skip
                        size = _SIZES.get(kind)
                        stop = walk.value_end(batch, kind, value, end) if size is None else value + size
                        key = _KINDS[kind] + batch[value:stop]
                        if write(op, ns, ui, key, place, term, end - start, batch, o):
                            continue
                except struct.error:
                    pass
            elif tag == _OTHER:
                last = (start, end)
            self.parsed += 1
            pause -= _PARSED - 1
            feed(entries.read(batch[start:end]))
        if last[1]:
            self._last = batch[last[0] : last[1]]


async def walk_oplog(
    gateway: Gateway,
    query: Document,
    sink: Sink,
    progress: Callable[[int, Ts], None] | None = None,
    *,
    newest: int = 0,
) -> BatchWalker:
    """Hand the entries that a query finds to ``sink``, or the ``newest`` of them, newest first. ``progress`` gets their
    number and the newest ``ts``, batch by batch.

    The event loop runs in between: otherwise the driver's heartbeats would be late, and the server taken for lost.
    """
    walker = BatchWalker(sink)
    batches: AsyncIterator[bytes] = gateway.find_raw(
        OPLOG, query, sort=[("$natural", -1)] if newest else (), limit=newest, batch_size=_BATCH, time_ms=SCAN_MS
    )
    async for batch in batches:
        for _ in walker.walk(batch):
            await asyncio.sleep(0)
        if progress is not None and walker.last is not None:
            progress(walker.entries, walker.last.ts)
    return walker
