"""What others removed from a collection after it came back whole.

The server logs a delete only where there was a document. So each delete from a collection that was created since the
point, as a return creates one, is of a document that had come back or that others inserted.
"""

from __future__ import annotations

from collections.abc import Collection

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import operations
from tallyglass.restore.undo.expiry import defined_expiry, live_expiry


async def removed_since(source: Gateway, live: CollectionInfo, since: Ts, keys: Collection[bytes]) -> set[bytes]:
    """Those of some ``_id``s, a type byte and the value's bytes, that were deleted from a ``live`` collection. None
    where the server itself may have removed them, by their age or to make room, and none of a collection that was there
    before ``since``, or of a time series. Raises the errors of the gateway."""
    if live.kind != "collection" or live.options is None or {"capped", "expireAfterSeconds"} & live.options.keys():
        return set()
    if await live_expiry(source, str(live.ns)):
        return set()
    created, removed, ns = False, set[bytes](), str(live.ns)
    async for entry, _ in operations(source, ns, since):
        if any(defined_expiry(entry, ns)):
            return set()
        if live.uuid and entry.ui == live.uuid:
            created |= entry.op == "c" and entry.command == "create"
            if entry.op == "d" and entry.id_key in keys:
                removed.add(entry.id_key)
    return removed if created else set()
