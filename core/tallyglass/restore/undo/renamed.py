"""Collections that were renamed since the point: a rename takes documents from a name, and removes none."""

from __future__ import annotations

from itertools import chain

from bson.binary import UUID_SUBTYPE, Binary

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.read.entries import WRITES, read_all, read_effects, stamp
from tallyglass.text import clean_name

_ADVICE = "That is not worked out. Plan with --only to get its documents under another name."


async def refuse_renamed(gateway: Gateway, ns: str, entry: Entry) -> None:
    """Raise ReadError if a command renamed the collection ``ns``, and it is live under another name. Raises the errors
    of the gateway."""
    if entry.command != "renameCollection":
        return
    for one in await gateway.list_collections(ns.partition(".")[0]):
        if one.uuid and one.uuid == entry.ui and str(one.ns) != ns:
            raise ReadError(
                f"{clean_name(ns)} was renamed to {clean_name(str(one.ns))} since, with its documents.", _ADVICE
            )


async def renamed_back(gateway: Gateway, ns: str, entry: Entry, limit: Ts) -> Ts | None:
    """When a collection was renamed away since the point that a command gives its name back, with its documents; None
    for any other command. Raises ReadError where it was written to under the other name, or another one under its own:
    that is not in the history."""
    if entry.command != "renameCollection" or entry.o.get("to") != ns:
        return None
    ui, db = Binary(entry.ui, UUID_SUBTYPE), ns.partition(".")[0]
    # Of an oplog, a saved one too, ``ts``, ``ns`` and ``ui`` can be asked; the rest is compared here.
    commands = {"ts": {"$gte": stamp(limit), "$lt": stamp(entry.ts)}, "ns": f"{db}.$cmd", "ui": ui}
    away = None
    async for one in read_all(gateway, commands):
        if one.command == "renameCollection" and one.o["renameCollection"] == ns and one.ui == entry.ui:
            away = one.ts
    if away is None:
        return None
    meanwhile = {"$gte": stamp(away.next), "$lt": stamp(entry.ts)}
    about = {"ts": meanwhile, "$or": [{"ui": ui}, {"ns": {"$in": [ns, "admin.$cmd"]}}]}
    async for _, parts in read_effects(gateway, about):
        for one in chain.from_iterable(map(operations_of, parts)):
            if one.op in WRITES and (one.ui == entry.ui or one.ns == ns):
                raise ReadError(
                    f"{clean_name(ns)} was renamed and renamed back, and one of them was written to meanwhile.", _ADVICE
                )
    return away
