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
from tallyglass.restore.raw import entries
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.oplog import SCAN_MS

_BATCH = 4_000
"""Entries of one batch. More cost no less, and each is held several times by the driver."""

_YIELD_EVERY, _PARSED = 1_000, 8
"""Entries that are read in one go, some milliseconds; one that is parsed counts as so many."""

_MOST_FORMS = 50_000
"""Beginnings of writes that are remembered; all are forgotten when there are more."""

_int_at = struct.Struct("<i").unpack_from
_document = struct.Struct("<iB4s").unpack_from
_position = struct.Struct("<4sQ3sq").unpack_from
_OP, _NS = b"\x02op\0\x02\0\0\0", b"\0\x02ns\0"
_UI, _O, _O2, _ID = b"\x05ui\0\x10\0\0\0\x04", b"\x03o\0", b"\x03o2\0", b"_id\0"
_TS, _TERM, _STATEMENT = b"\x11ts\0", b"\x12t\0", b"\x10stmtId\0"
_SESSION, _TXN = b"\x03lsid\0\x48\0\0\0", b"\x12txnNumber\0"
# An lsid with a user's digest, and txnNumber.
_SESSION_SIZE = 97
# From op to the length of ns, and to its text; from the end of ns over the UUID to the length of o.
_NS_LENGTH, _NS_TEXT, _UI_AND_O = 14, 18, 28
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
    """Hands the entries of batches to a sink.

    The bytes of a write from ``op`` to the name of ``o`` are the same for all of its kind on one collection: known
    bytes need no parsing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._forms: dict[bytes, tuple[str, str, bytes]] = {}
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
        write, forms, pause = self._sink.write, self._forms, _YIELD_EVERY
        last_start = last_end = start = 0
        limit = len(batch)
        while start < limit:
            pause -= 1
            if pause <= 0:
                pause = _YIELD_EVERY
                yield
            if start + 5 > limit:
                raise walk.Malformed("a batch ends within an entry")
            size = _int_at(batch, start)[0]
            end = start + size
            if size < 5 or end > limit:
                raise walk.Malformed("a batch ends within an entry")
            self.entries += 1
            at = start + 4
            if batch[at : at + 10] == _SESSION and batch[at + 78 : at + 89] == _TXN:
                at += _SESSION_SIZE
            try:
                o = at + _NS_TEXT + _int_at(batch, at + _NS_LENGTH)[0] + _UI_AND_O
                form = forms.get(batch[at:o])
                if form is None:
                    form = self._learn(batch, at, o, end)
                if form is not None:
                    op, ns, ui = form
                    length, kind, id_name = _document(batch, o)
                    value = o + 9
                    after = o + length
                    if batch[after : after + 4] == _O2:
                        length, o2_kind, o2_name = _document(batch, after + 4)
                        if op == "u":
                            kind, id_name, value = o2_kind, o2_name, after + 13
                        after += 4 + length
                    if batch[after : after + 8] == _STATEMENT:
                        after += 12
                    ts_name, place, term_name, term = _position(batch, after)
                    if kind == walk.STRING:
                        stop = value + 4 + _int_at(batch, value)[0]
                    elif kind in _SIZES:
                        stop = value + _SIZES[kind]
                    else:
                        stop = walk.value_end(batch, kind, value, end)
                    if (
                        id_name == _ID and ts_name == _TS and term_name == _TERM and o < after < end
                        and value <= stop < end
                    ):  # fmt: skip
                        key = _KINDS[kind] + batch[value:stop]
                        if write(op, ns, ui, key, place, term, size, batch, o):
                            last_start, last_end, start = start, end, end
                            continue
            except struct.error:
                pass
            self.parsed += 1
            pause -= _PARSED - 1
            entry = entries.read(batch[start:end])
            if entry.op != "n":
                last_start, last_end = start, end
            self._sink.feed(entry)
            start = end
        if last_end:
            self._last = batch[last_start:last_end]

    def _learn(self, batch: bytes, at: int, o: int, end: int) -> tuple[str, str, bytes] | None:
        """Operation, namespace and UUID of a write with these first bytes; None where it begins in another way."""
        ns, ui = at + _NS_TEXT, o - _UI_AND_O
        op = batch[at + 8 : at + 9]
        usual = ns < ui <= end and batch.startswith(_OP, at) and op in (b"i", b"u", b"d")
        if not (usual and batch.startswith(_NS, at + 9) and batch.find(0, ns, ui) == ui - 1):
            return None
        if not batch.startswith(_UI, ui) or not batch.startswith(_O, o - 3):
            return None
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        form = op.decode(), batch[ns : ui - 1].decode("utf-8", "replace"), batch[ui + 9 : ui + 25]
        self._forms[batch[at:o]] = form
        return form


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
