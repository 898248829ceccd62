"""Documents by ``_id``, which is compared exactly, whatever its type, and those that an accident touched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from bson.raw_bson import RawBSONDocument

from tallyglass.counters.recognise.identity import id_text
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.oplog.entry.changes import build
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.undo.history import History, HistoryStep
from tallyglass.restore.undo.sources.image_files import ImageFiles

DocumentSource = Gateway | ImageFiles
"""What an undo reads the documents from as they were at the point: a spare, or saved pre-images."""

_Item = TypeVar("_Item")

AT_ONCE = 1_000
"""Documents that are asked for in one query: a round trip for each would take longer than the reading."""

HELD_BYTES = 64 * 1024 * 1024
"""Bytes of documents that are held at once, and again as many of those that they are compared with."""

_QUERY_BYTES = 8 * 1024 * 1024
"""Bytes of ids in one query, beside which there is room for their names: a server takes 16 MB."""


async def with_documents(
    gateway: DocumentSource, ns: str, items: Iterable[tuple[bytes, _Item]]
) -> AsyncIterator[tuple[bytes, bytes | None, _Item]]:
    """Each of some ids, a type byte and the value's bytes, with its document, None where there is none, and what else
    comes with the id. Holds no more documents than one batch of the server: each may have 16 MB."""
    rest = iter(items)
    while some := dict(islice(rest, AT_ONCE)):
        async for key, document in _found_by_id(gateway, ns, list(some)):
            if key in some:
                yield key, document, some.pop(key)
        for key, item in some.items():
            yield key, None, item


async def documents_by_id(gateway: DocumentSource, ns: str, keys: list[bytes]) -> dict[bytes, bytes]:
    """The documents with these ids, and those that the server takes for one of them."""
    return {key: document async for key, document in _found_by_id(gateway, ns, keys)}


async def _found_by_id(gateway: DocumentSource, ns: str, keys: list[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
    if isinstance(gateway, ImageFiles):
        async for found in gateway.by_id(ns, keys):
            yield found
        return
    for some in groups(keys, len, _QUERY_BYTES):
        items = {b"%d" % at: (key[0], key[1:]) for at, key in enumerate(some)}
        inner = build({b"$in": (walk.ARRAY, build(items))})
        query = RawBSONDocument(build({b"_id": (walk.DOCUMENT, inner)}))
        async for batch in gateway.find_raw(Namespace.parse(ns), query):
            for at, end in walk.split(batch):
                yield walk.value_key(batch, b"_id", at, end), batch[at:end]


async def taken_id(gateway: Gateway, ns: str, key: bytes) -> str:
    """Which document has an ``_id`` that the server takes for this one, in words: a number of another type, or a text
    that the collation of the collection takes for the same. Empty where there is none."""
    found = next(iter(await documents_by_id(gateway, ns, [key])), None)
    if found is None or found == key:
        return ""
    holder = id_text(decode(build({b"_id": (found[0], found[1:])}))["_id"])
    return f"The live document {holder} has an _id that counts as this one."


def groups(items: Iterable[_Item], size_of: Callable[[_Item], int], most: int) -> Iterator[list[_Item]]:
    """Items in groups of at most :data:`AT_ONCE` and ``most`` bytes; one that is larger is a group of its own."""
    some, size = list[_Item](), 0
    for item in items:
        bytes_ = size_of(item)
        if some and (len(some) == AT_ONCE or size + bytes_ > most):
            yield some
            some, size = [], 0
        some.append(item)
        size += bytes_
    if some:
        yield some


async def touched_documents(
    spare: DocumentSource, history: History, hit: Iterator[tuple[bytes, list[HistoryStep]]]
) -> AsyncIterator[tuple[bytes, bytes | None, list[HistoryStep]]]:
    """The documents that an operation of the accident is about, or may be: the ``_id`` of each as a type byte and the
    value's bytes, its copy at the point, and the operations on it. ``hit`` are all of these, or those that are still
    open.

    After a removal these are all documents of the copy, and all that were written since. Raises the errors of the
    gateway.
    """
    if history.removed:
        assert not isinstance(spare, ImageFiles)  # pre-images undo no removal
        rest = set(history.touched())
        async for raw in unpacked(spare.find_raw(Namespace.parse(history.ns), {}, time_ms=3_600_000)):
            key = id_key(raw)
            rest.discard(key)
            yield key, raw, history.of(key)
        for key in rest:
            yield key, None, history.of(key)
        return
    async for one in with_documents(spare, history.ns, hit):
        yield one
