"""The documents that the server may have removed by a change of a definition: no plan for that change has them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import operations, reaches_back
from tallyglass.restore.undo.documents import AT_ONCE, with_documents
from tallyglass.restore.undo.expiry import lets_go
from tallyglass.restore.undo.outcome_rows import Damaged, id_json
from tallyglass.text import clean_name

_GONE = (
    "It was deleted without a session since, as the server removes what expired or has no room. This plan has no "
    "deletes: plan for the incident of theirs."
)
LISTED = 10_000
"""Documents that are listed, some 4 MB; of more, which may be all of a large collection, only the number is kept."""

_UNKNOWN = "The oplog no longer holds the point: whether the server removed documents since is unknown."


async def let_go(source: Gateway, ns: str, limit: Ts, most: int = LISTED) -> AsyncIterator[Damaged]:
    """The documents of a collection that may have been removed by the command at the point, and are not there now: at
    ``most`` so many, and the number of the others. Raises the errors of the gateway."""
    if not await reaches_back(source, limit):
        yield Damaged(clean_name(ns), "", _UNKNOWN)
        return
    listed, more = set[bytes](), 0
    async for keys in _deleted(source, ns, limit):
        async for key, document, _ in with_documents(source, ns, keys.items()):
            if document is not None or key in listed:
                continue
            if len(listed) == most:
                more += 1
                continue
            listed.add(key)
            yield Damaged(clean_name(ns), id_json(key), _GONE, left_alone=True)
    if more:
        yield Damaged(clean_name(ns), "", f"At most {more:,} more documents were deleted in this way.", left_alone=True)


async def _deleted(source: Gateway, ns: str, limit: Ts) -> AsyncIterator[dict[bytes, None]]:
    """The ids of what was deleted without a session since, some at once; none if the command at the point lets the
    server remove nothing."""
    some = dict[bytes, None]()
    changed = False
    async for entry, whole in operations(source, ns, limit):
        if whole.ts == limit:
            changed |= entry.target == ns and lets_go(entry)
        elif not changed:
            return
        elif entry.op == "d" and not whole.linked:
            some[entry.id_key] = None
            if len(some) == AT_ONCE:
                yield some
                some = {}
    yield some
