"""Do the first reads of each job, to see whether the server serves them: a privilege alone does not tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tallyglass.errors import TallyglassError
from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace, closing
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.read.entries import end_of_oplog, stamp
from tallyglass.oplog.read.past import safe_end

_OWN_DATABASES = frozenset({"admin", "local", "config"})


async def why_unread(gateway: Gateway, job: str, databases: Sequence[str]) -> str:
    """Why the reads of a job (its id) fail, in one sentence; empty if they succeed."""
    try:
        await _READS[job](gateway, databases)
    except TallyglassError as error:
        return str(error)
    return ""


async def reads_one_namespace(gateway: Gateway, databases: Sequence[str]) -> bool:
    """Whether the incidents of a single collection can be read, where the oplog as a whole cannot."""
    try:
        ns = await _first_collection(gateway, databases)
        if ns is None:
            return False
        async with closing(scan(gateway, ns=str(ns))) as found:
            return await anext(found, None) is not None
    except TallyglassError:
        return False


async def _first_collection(gateway: Gateway, databases: Sequence[str]) -> Namespace | None:
    for db in databases or await gateway.list_databases():
        for info in await gateway.list_collections(db) if db not in _OWN_DATABASES else ():
            if info.kind == "collection" and not info.ns.collection.startswith("system."):
                return info.ns
    return None


async def _read_counters(gateway: Gateway, databases: Sequence[str]) -> None:
    """The first collection with data: listing collections alone does not read them."""
    ns = await _first_collection(gateway, databases)
    if ns is not None:
        await gateway.find_one(ns, {})


async def _read_oplog(gateway: Gateway, _: Sequence[str] = ()) -> None:
    """Its two ends, and the batch after the newest entry: some services serve single finds but no tail."""
    await end_of_oplog(gateway, 1)
    begin = stamp((await safe_end(gateway)).ts)
    async with closing(gateway.tail_raw(OPLOG, {"ts": {"$gte": begin}}, batch_size=2, await_ms=1)) as batches:
        await anext(batches, None)
        await anext(batches, None)  # the first needs no getMore


async def _read_incidents(gateway: Gateway, _: Sequence[str]) -> None:
    """Those of the newest entry, and the tail. The page on restores begins with them, too."""
    async with closing(scan(gateway, (await safe_end(gateway)).ts)) as found:
        async for _progress in found:
            pass
    await _read_oplog(gateway)


async def _read_members(gateway: Gateway, _: Sequence[str]) -> None:
    await gateway.command("replSetGetStatus")


_READS: dict[str, Callable[[Gateway, Sequence[str]], Awaitable[None]]] = {
    "counters": _read_counters,
    "oplog": _read_oplog,
    "incidents": _read_incidents,
    "restore": _read_incidents,
    "members": _read_members,
}
