"""The documents that the server may have removed by a change of a definition: no plan for that change has them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import edge, operations
from tallyglass.restore.undo.documents import with_documents
from tallyglass.restore.undo.expiry import lets_go
from tallyglass.restore.undo.outcome_rows import Damaged, id_json
from tallyglass.text import clean_name

_GONE = (
    "It was deleted without a session since, as the server removes what expired or has no room. This plan has no "
    "deletes: plan for the incident of theirs."
)
_UNKNOWN = "The oplog no longer holds the point: whether the server removed documents since is unknown."


async def let_go(source: Gateway, ns: str, limit: Ts) -> AsyncIterator[Damaged]:
    """The documents of a collection that may have been removed by the command at the point, and are not there now.
    Raises the errors of the gateway."""
    oldest = await edge(source, 1)
    if oldest is None or oldest.ts > limit:
        yield Damaged(clean_name(ns), "", _UNKNOWN)
        return
    gone = dict[bytes, None]()
    changed = False
    async for entry, whole in operations(source, ns, limit):
        if whole.ts == limit:
            changed |= entry.target == ns and lets_go(entry)
        elif not changed:
            return
        elif entry.op == "d" and not whole.linked:
            gone[entry.id_key] = None
    async for key, document, _ in with_documents(source, ns, gone.items()):
        if document is None:
            yield Damaged(clean_name(ns), id_json(key), _GONE, left_alone=True)
