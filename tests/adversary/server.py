"""A world as the gateway sees it, and what the emitted programs write to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

import bson
from bson import Int64, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from tallyglass.mongo.gateway import CollectionInfo, Namespace

from .statements import Document, Statement, Write, difference_entry, is_number, same
from .world import COLLECTION, NS, World

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)


BESIDE = Statement("beside", 0, (Write("update", ((("$inc", "w", 1),),)),), session=99, step=0)
"""What a client does beside the undo: it counts up a field of its own."""


class MemoryServer:
    """Answers the few reads that an undo sends, from a world or from fixed documents. Where it is ``busy``, a client
    writes to some of the documents just before they are read."""

    def __init__(self, world: World, documents: Mapping[Any, Document] | None = None, *, busy: bool = False) -> None:
        self._world, self._documents, self._busy = world, documents, busy
        self._raw: list[bytes] = []

    async def find_raw(
        self, ns: Namespace, query: Any, *, sort: Iterable[tuple[str, int]] = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        """The documents that a query finds; of a collection, only all of them or those with given ids."""
        await asyncio.sleep(0)
        if str(ns) != "local.oplog.rs":
            for raw in self._collection(str(ns), query):
                yield raw
            return
        found = [place for place, row in enumerate(self._world.oplog) if _finds(query, row)]
        if list(sort) == [("$natural", -1)]:
            found.reverse()
        yield b"".join(self._encoded(place) for place in (found[:limit] if limit else found))

    def _encoded(self, place: int) -> bytes:
        """Each entry is encoded once: it never changes."""
        while len(self._raw) <= place:
            self._raw.append(bson.encode(self._world.oplog[len(self._raw)]))
        return self._raw[place]

    def _collection(self, ns: str, query: Any) -> Iterable[bytes]:
        documents = self._documents if self._documents is not None else self._world.live if ns == NS else {}
        if isinstance(query, RawBSONDocument):
            wanted = set(query["_id"]["$in"])
            if self._busy and ns == NS:
                ids = tuple(id_ for at, id_ in enumerate(documents) if id_ in wanted and at % 2)
                self._world.add([replace(BESIDE, writes=(replace(BESIDE.writes[0], ids=ids),))])
                self._world.run(self._world.now)
            return [bson.encode(row) for id_, row in documents.items() if id_ in wanted]
        return [bson.encode(row) for row in documents.values()]

    async def list_collections(self, _: str) -> list[CollectionInfo]:
        """The one collection."""
        return [CollectionInfo(Namespace.parse(NS), "collection", {}, bytes(COLLECTION))]

    async def list_indexes(self, _: Namespace) -> list[Document]:
        """None but that of ``_id``."""
        return []


def _finds(query: Any, row: Document) -> bool:
    at: Timestamp = row["ts"]
    bounds = query.get("ts", {})
    if isinstance(bounds, Timestamp):
        return at == bounds
    if at < bounds.get("$gte", at) or ("$lt" in bounds and at >= bounds["$lt"]):
        return False
    return "ns" not in query or row["ns"] in query["ns"]["$in"]


def load_repairs(world: World, staging: str, repairs: Iterable[bytes]) -> list[Document]:
    """What mongorestore does with the repairs: a collection of their own."""
    rows = [bson.decode(raw, _CODEC) for raw in repairs]
    db, _, name = staging.partition(".")
    world.log({"op": "c", "ns": f"{db}.$cmd", "o": {"create": name}})
    for row in rows:
        world.log({"op": "i", "ns": staging, "ui": COLLECTION, "o": row, "o2": {"_id": row["_id"]}})
    return rows


def merge_repairs(world: World, staging: str, repairs: Iterable[Document]) -> None:
    """What ``mergeRepairs`` in merge.js does: note that it begins, insert what is missing, and set each field where it
    still has the value that the accident left."""
    begun = {"$v": 2, "diff": {"i": {"b": DatetimeMS(world.now)}}}
    world.log({"op": "u", "ns": staging, "ui": COLLECTION, "o": begun, "o2": {"_id": 0}})
    for row in sorted(repairs, key=lambda one: "f" in one):
        id_, live = row["_id"], world.live.get(row["_id"])
        if "f" not in row:
            if live is None:
                world.log({"op": "i", "ns": NS, "ui": COLLECTION, "o": row["r"], "o2": {"_id": id_}}, id_, row["r"],
                          writes=True)  # fmt: skip
            continue
        if live is None:
            continue
        after = _set_back(live, row)
        if not same(after, live):
            o = difference_entry(live, after)
            world.log({"op": "u", "ns": NS, "ui": COLLECTION, "o": o, "o2": {"_id": id_}}, id_, after, writes=True)


def _set_back(live: Document, row: Document) -> Document:
    if "l" in row and _equal(live, row["l"]):
        return dict(row["r"])
    fixes = {one["k"]: one for one in row["f"]}
    result: Document = {}
    for name, value in live.items():
        fix = fixes.get(name)
        if fix is None or "l" not in fix or not _equal(value, fix["l"]):
            result[name] = value
        elif "r" in fix:
            result[name] = fix["r"]
    for name, fix in fixes.items():
        if "l" not in fix and name not in live:
            result[name] = fix["r"]
    return result


def _equal(one: Any, other: Any, *, typed: bool = True) -> bool:
    """``$eq`` and the same type at the top: numbers within documents and arrays are compared by value."""
    if is_number(one) and is_number(other):
        return bool(one == other) and (not typed or _kind(one) == _kind(other))
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(a[0] == b[0] and _equal(a[1], b[1], typed=False) for a, b in pairs)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(a, b, typed=False) for a, b in zip(one, other, strict=True))
    return same(one, other)


def _kind(value: Any) -> str:
    return "double" if isinstance(value, float) else "long" if isinstance(value, Int64) else "int"
