"""A backup that is a copy of the data files: it is read from the spare, which must already run on it."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.read.entries import edge
from tallyglass.restore.backup.backup import LEFT_OUT, Anchor, Contents, StoredCollection
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.text import clean_name, shell_quote

LOOKED_AT = 200
"""Newest entries of the copy's own oplog whose documents are looked for."""


def how_to_start(contents: Contents, version: str) -> str:
    """The first steps of an operator: recover the copy to the end of its own oplog, then run it as a spare."""
    path = shell_quote(str(contents.backup.path))
    common = f"mongod --dbpath={path} --port=27117 --bind_ip=127.0.0.1 --setParameter=ttlMonitorEnabled=false"
    return (
        f"On a copy of it, with mongod {version}: run once {common} --setParameter=recoverFromOplogAsStandalone=true "
        f"--setParameter=takeUnstableCheckpointOnShutdown=true, shut it down, run {common}, "
        "and plan with --spare 127.0.0.1:27117."
    )


async def read_running(spare: Gateway, contents: Contents) -> Contents:
    """The copy's collections, and the end of its own oplog as the moment it is from.

    A copy that was not recovered to that end is named among the problems: its newest documents are not there.
    """
    end = await edge(spare, -1)
    if end is None:
        return replace(contents, problems=(*contents.problems, "the copy holds no oplog"))
    missing = await _missing(spare)
    problems = (f"the copy was not recovered to the end of its oplog: {missing} is missing",) if missing else ()
    collections: dict[str, StoredCollection] = {}
    for db in await spare.list_databases():
        if db in LEFT_OUT:
            continue
        for info in await spare.list_collections(db):
            name = info.ns.collection
            if name.startswith("system."):
                continue
            indexes = () if info.kind != "collection" else tuple(dict(row) for row in await spare.list_indexes(info.ns))
            stored = StoredCollection(str(info.ns), info.kind, None, dict(info.options or {}), indexes, info.uuid.hex())
            collections[stored.ns] = stored
    backup = replace(
        contents.backup, start=end.ts, end=end.ts, source="oplog", namespaces=tuple(sorted(collections)), has_oplog=True
    )
    return replace(
        contents,
        backup=backup,
        collections=collections,
        problems=(*contents.problems, *problems),
        anchors=(Anchor(end.ts, entry=end.raw),),
    )


async def _missing(spare: Gateway) -> str:
    """A document of the newest inserts that is missing and was not deleted; empty if there is none."""
    deleted: set[tuple[str, bytes]] = set()
    dropped: set[str] = set()
    async for batch in spare.find_raw(OPLOG, {}, sort=[("$natural", -1)], limit=LOOKED_AT, time_ms=60_000):
        for at, after in walk.split(batch):
            entry = read_entry(batch[at:after])
            if entry.op == "c":
                dropped.add(entry.db)
                continue
            where = (entry.ns, entry.id_key)
            if entry.op == "d":
                deleted.add(where)
            if entry.op != "i" or where in deleted or entry.db in dropped or entry.db in LEFT_OUT:
                continue
            if not await _is_there(spare, entry):
                return f"{clean_name(entry.ns)} {clean_name(str(entry.document_id), 60)}"
    return ""


async def _is_there(spare: Gateway, entry: Entry) -> bool:
    query = {"_id": entry.document_id}
    async for batch in spare.find_raw(Namespace.parse(entry.ns), query, limit=1):
        for at, after in walk.split(batch):
            return id_key(batch[at:after]) == entry.id_key
    return False
