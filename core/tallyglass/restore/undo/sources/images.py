"""Which pre-images an undo needs: the image of the first operation since the point, for each damaged document.

That image is the document as it was at the point. The server keeps an image under the UUID of the collection, the
``ts`` of the entry that logged the operation, and the place in that entry's ``applyOps``; so the oplog names each
image exactly, also those of transactions.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bson import Binary, Int64, MaxKey, Timestamp
from bson.binary import UUID_SUBTYPE
from bson.raw_bson import RawBSONDocument

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway, Namespace, closing
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import WRITES, entries_about, read_effects, stamp
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import Attribution
from tallyglass.restore.undo.temporary import temporary_tables

PRE_IMAGES = Namespace("config", "system.preimages")

_AT_ONCE = 5_000
"""How many images one query asks for."""

_SCAN_MS = 600_000
"""Time limit of a query for images: ten minutes, as the server may have to read all that it keeps."""

_SILENT_SECONDS = 60.0
"""A set with a majority writes an entry at least every ten seconds, so the stream advances."""

_LAST = frozenset({"drop", "rename", "dropDatabase", "invalidate"})
"""Events that end the change stream of a collection."""


class ImageKey(NamedTuple):
    """Where the server keeps an image: the collection's UUID, the entry that logged the operation, and its place in
    the entry's ``applyOps``, 0 for an operation with its own entry."""

    collection: bytes
    ts: Ts
    place: int


@dataclass(frozen=True, slots=True)
class Image:
    """The image of one document: its ``_id`` as a type byte and the value's bytes, and the document as BSON, None if
    the server does not hold it."""

    id: bytes
    key: ImageKey
    document: bytes | None


@dataclass(slots=True)
class ImageSelection:
    """The images to read for one collection, kept in a temporary file that :meth:`close` removes.

    ``by_accident`` and ``by_others`` count the operations since the point. Each row says where the first operation on a
    document was logged (``t``, ``i``, ``place``) and when it took effect (``at_t``, ``at_i``).
    """

    ns: str
    rows: sqlite3.Connection
    by_accident: int = 0
    by_others: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    """All operations since the point by their letter: i, u or d."""
    streamed: bool = False
    """Whether the images came through a change stream, because the user may not read them directly."""

    def close(self) -> None:
        """Remove the temporary file."""
        self.rows.close()

    @property
    def count(self) -> int:
        """The number of images needed. A document inserted after the point needs none."""
        found: int = self.rows.execute(f"SELECT COUNT(*) {_NEEDED}").fetchone()[0]
        return found

    @property
    def again(self) -> int:
        """How many of these documents others inserted again, after an operation that may be the accident's."""
        found: int = self.rows.execute(f"SELECT COUNT(*) {_NEEDED} AND again").fetchone()[0]
        return found

    def note_missing(self, id_: bytes) -> None:
        """Note that the server does not hold the image of this document."""
        self.rows.execute("INSERT OR IGNORE INTO missing VALUES (?)", (id_,))

    def missing(self) -> Iterator[bytes]:
        """The ids of documents without an image, as far as they were recorded."""
        for (id_,) in self.rows.execute("SELECT id FROM missing ORDER BY id"):
            yield id_

    def needed(self) -> Iterator[list[tuple[bytes, ImageKey]]]:
        """The ids and keys, in the order of the keys, in groups of one query each."""
        cursor = self.rows.execute(f"SELECT id, ui, t, i, place {_NEEDED} ORDER BY ui, t, i, place")
        group: list[tuple[bytes, ImageKey]] = []
        for id_, ui, t, i, place in cursor:
            key = ImageKey(ui, Ts(t, i), place)
            if group and (len(group) == _AT_ONCE or group[0][1].collection != ui):
                yield group
                group = []
            group.append((id_, key))
        if group:
            yield group


_NEEDED = "FROM first WHERE hit AND op != 'i'"

_STORE = (
    "INSERT INTO first (id, ui, t, i, place, op, at_t, at_i, hit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET hit = hit OR excluded.hit,"
    " again = again OR (hit AND excluded.op = 'i' AND NOT excluded.hit)"
)
"""Keeps what is known of the first operation on a document, and notes whether any of them is the accident's, and
whether others inserted it after that."""


async def select(source: Gateway, accident: Accident, ns: str, limit: Ts) -> ImageSelection:
    """Read the oplog from ``limit`` on. Raises the errors of the gateway."""
    rows = temporary_tables()
    selection = ImageSelection(ns, rows)
    try:
        for statement in (
            "CREATE TABLE first (id BLOB PRIMARY KEY, ui BLOB, t INTEGER, i INTEGER, place INTEGER, op TEXT,"
            " at_t INTEGER, at_i INTEGER, hit INTEGER DEFAULT 0, again INTEGER DEFAULT 0,"
            " given INTEGER DEFAULT 0) WITHOUT ROWID",
            "CREATE TABLE missing (id BLOB PRIMARY KEY) WITHOUT ROWID",
            "BEGIN",
        ):
            rows.execute(statement)
        attribution = Attribution(accident)
        async for operation, logged, place, whole in located_operations(source, ns, limit):
            selection.operations[operation.op] += 1
            hit = _may_be_the_accident(attribution, operation, whole)
            selection.by_accident += hit
            selection.by_others += not hit
            rows.execute(_STORE, (operation.id_key, operation.ui, *logged, place, operation.op, *whole.ts, hit))
        rows.execute("COMMIT")
    except BaseException:
        selection.close()
        raise
    return selection


def _may_be_the_accident(attribution: Attribution, operation: Entry, whole: Entry) -> bool:
    """Which updates belong to the accident is decided later, by the fields they change; until then all candidates
    count."""
    if operation.op == "u" and attribution.may_own_update(whole):
        return attribution.spans(whole.ts)
    return attribution.owns(operation, whole)


async def located_operations(source: Gateway, ns: str, start: Ts) -> AsyncIterator[tuple[Entry, Ts, int, Entry]]:
    """The writes to one collection in the order in which they take effect: each with the ``ts`` of the entry that
    logged it, its place there, and the entry with which it takes effect."""
    async for whole, parts in read_effects(source, entries_about(ns, start)):
        if whole.op in WRITES:
            if whole.ns == ns:
                yield whole, whole.ts, 0, whole
            continue
        for part in parts:
            for place, operation in enumerate(part.inner() if part.command == "applyOps" else (part,)):
                if operation.ns == ns and operation.op in WRITES:
                    yield operation, part.ts, place, whole


async def read_images(source: Gateway, selection: ImageSelection) -> AsyncIterator[Image]:
    """Yield each image that is needed; through a change stream if this user may not read ``config.system.preimages``.

    Raises the errors of the gateway, and PrivilegeError if neither is allowed.
    """
    try:
        async for image in _read_directly(source, selection):
            yield image
        return
    except PrivilegeError as error:
        if not isinstance(source, MongoGateway):
            raise
        denied = error
    selection.streamed = True
    try:
        async for image in _read_stream(source, selection):
            yield image
    except PrivilegeError:
        raise denied from None


async def _read_stream(source: MongoGateway, selection: ImageSelection) -> AsyncIterator[Image]:
    """The images from change events. An event names its document and the time it took effect; if several events on one
    document share that time, the first has the image that is needed."""
    rows = selection.rows
    begin = rows.execute(f"SELECT at_t, at_i {_NEEDED} ORDER BY at_t, at_i LIMIT 1").fetchone()
    if begin is not None:
        end = Ts(*rows.execute(f"SELECT at_t, at_i {_NEEDED} ORDER BY at_t DESC, at_i DESC LIMIT 1").fetchone())
        reached, since, left = ZERO, time.monotonic(), selection.count
        async with closing(source.changes(Namespace.parse(selection.ns), stamp(Ts(*begin)))) as batches:
            async for events, token in batches:
                for event in events:
                    image = _image_of(event, rows)
                    if image is not None:
                        left -= 1
                        yield image
                position = _position(token)
                if not left or position > end or any(event["operationType"] in _LAST for event in events):
                    break
                if position > reached:
                    reached, since = position, time.monotonic()
                elif time.monotonic() - since > _SILENT_SECONDS:
                    raise ReadError(f"The change stream has not gone beyond {reached}, and {end} is needed.")
    for id_, ui, t, i, place in rows.execute(f"SELECT id, ui, t, i, place {_NEEDED} AND NOT given"):
        yield Image(id_, ImageKey(ui, Ts(t, i), place), None)


def _image_of(event: RawBSONDocument, rows: sqlite3.Connection) -> Image | None:
    """The image in an event, if it is needed; null means that the server no longer holds it."""
    if event["operationType"] not in ("update", "replace", "delete"):
        return None
    at, id_ = event["clusterTime"], id_key(bytes(event["documentKey"].raw))
    query = f"SELECT ui, t, i, place {_NEEDED} AND id = ? AND at_t = ? AND at_i = ? AND NOT given"
    found = rows.execute(query, (id_, at.time, at.inc)).fetchone()
    if found is None:
        return None
    rows.execute("UPDATE first SET given = 1 WHERE id = ?", (id_,))
    before = event.get("fullDocumentBeforeChange")
    return Image(id_, ImageKey(found[0], Ts(found[1], found[2]), found[3]), bytes(before.raw) if before else None)


def _position(token: str) -> Ts:
    """How far a change stream has read: a resume token begins with a type byte and the eight bytes of a timestamp."""
    return Ts(int(token[2:10], 16), int(token[10:18], 16)) if token.startswith("82") else ZERO


async def _read_directly(source: Gateway, selection: ImageSelection) -> AsyncIterator[Image]:
    """The images, read from the server's own collection of pre-images.

    The range of keys limits what the server scans; with a list of keys alone it would scan all images.
    """
    for group in selection.needed():
        first, last = group[0][1], group[-1][1]
        collection = Binary(first.collection, UUID_SUBTYPE)
        stamps = [Timestamp(t, i) for t, i in dict.fromkeys((key.ts.t, key.ts.i) for _, key in group)]
        query = {
            "_id": {
                "$gte": {"nsUUID": collection, "ts": stamp(first.ts)},
                "$lte": {"nsUUID": collection, "ts": stamp(last.ts), "applyOpsIndex": MaxKey()},
            },
            "_id.ts": {"$in": stamps},
        }
        wanted = {key: id_ for id_, key in group}
        async for raw in unpacked(source.find_raw(PRE_IMAGES, query, sort=[("_id", 1)], time_ms=_SCAN_MS)):
            key, document = read_stored(raw)
            id_ = wanted.pop(key, None)
            if id_ is not None:
                yield Image(id_, key, document)
        for key, id_ in wanted.items():
            yield Image(id_, key, None)


async def images_between(gateway: Gateway, first: ImageKey, last: ImageKey) -> AsyncIterator[tuple[ImageKey, bytes]]:
    """The images of one collection from one key to another, both inclusive. Raises the errors of the gateway, and
    PrivilegeError if this user may not read them."""
    bounds = {"$gte": _id_of(first), "$lte": _id_of(last)}
    async for raw in unpacked(gateway.find_raw(PRE_IMAGES, {"_id": bounds})):
        yield read_stored(raw)


def _id_of(key: ImageKey) -> dict[str, object]:
    return {
        "nsUUID": Binary(key.collection, UUID_SUBTYPE),
        "ts": stamp(key.ts),
        "applyOpsIndex": Int64(key.place),
    }


def read_stored(raw: bytes) -> tuple[ImageKey, bytes]:
    """The key and the image in a document of ``config.system.preimages``. Raises Malformed."""
    fields = dict(walk.values(raw))
    (_, identity), (_, document) = fields[b"_id"], fields[b"preImage"]
    key = {one.name: one for one in walk.elements(identity)}
    where, place = key[b"nsUUID"], walk.whole_number(identity, key[b"applyOpsIndex"]) or 0
    return ImageKey(identity[where.start + 5 : where.end], walk.timestamp(identity, key[b"ts"].start), place), document
