"""The documents that an accident touched, with their copies and what was done to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice

from tallyglass.mongo.gateway import Namespace
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.undo.documents import AT_ONCE, DocumentSource, documents_by_id
from tallyglass.restore.undo.history import History, HistoryStep
from tallyglass.restore.undo.sources.image_files import ImageFiles


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
    while some := dict(islice(hit, AT_ONCE)):
        held = await documents_by_id(spare, history.ns, list(some))
        for key, steps in some.items():
            yield key, held.get(key), steps
