"""Documents by ``_id``, which is compared exactly, whatever its type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import islice

from bson.raw_bson import RawBSONDocument

from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import build
from tallyglass.restore.undo.sources.image_files import ImageFiles

DocumentSource = Gateway | ImageFiles
"""What an undo reads the documents from as they were at the point: a spare, or saved pre-images."""

AT_ONCE = 1_000
"""Documents that are asked for in one query: a round trip for each would take longer than the reading."""


async def each_document(
    gateway: DocumentSource, ns: str, keys: Iterable[bytes]
) -> AsyncIterator[tuple[bytes, bytes | None]]:
    """Each of some ids, a type byte and the value's bytes, with its document; None where there is none."""
    rest = iter(keys)
    while some := dict.fromkeys(islice(rest, AT_ONCE)):
        found = await documents_by_id(gateway, ns, list(some))
        for key in some:
            yield key, found.get(key)


async def documents_by_id(gateway: DocumentSource, ns: str, keys: list[bytes]) -> dict[bytes, bytes]:
    """The documents with these ids, and those that the server takes for one of them."""
    if not keys:
        return {}
    if isinstance(gateway, ImageFiles):
        return await gateway.by_id(ns, keys)
    items = {b"%d" % at: (key[0], key[1:]) for at, key in enumerate(keys)}
    inner = build({b"$in": (walk.ARRAY, build(items))})
    query = RawBSONDocument(build({b"_id": (walk.DOCUMENT, inner)}))
    found: dict[bytes, bytes] = {}
    async for batch in gateway.find_raw(Namespace.parse(ns), query):
        found |= {walk.value_key(batch, b"_id", at, end): batch[at:end] for at, end in walk.split(batch)}
    return found
