"""Do the first reads of each job, to see whether the server serves them: a privilege alone does not tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tallyglass.errors import TallyglassError
from tallyglass.mongo.gateway import OPLOG, Gateway, closing

_OWN_DATABASES = frozenset({"admin", "local", "config"})


async def why_unread(gateway: Gateway, job: str, databases: Sequence[str]) -> str:
    """Why the reads of a job (its id) fail, in one sentence; empty if they succeed."""
    try:
        await _READS[job](gateway, databases)
    except TallyglassError as error:
        return str(error)
    return ""


async def _read_counters(gateway: Gateway, databases: Sequence[str]) -> None:
    """The first collection with data: listing collections alone does not read them."""
    for db in databases or await gateway.list_databases():
        for info in await gateway.list_collections(db) if db not in _OWN_DATABASES else ():
            if info.kind == "collection" and not info.ns.collection.startswith("system."):
                await gateway.find_one(info.ns, {})
                return


async def _read_oplog(gateway: Gateway, _: Sequence[str] = ()) -> None:
    """The commit point, the newest entry, and the batch after it: some services serve single finds but no tail."""
    if "majorityOpTime" not in (await gateway.command("hello")).get("lastWrite", {}):
        raise TallyglassError("This member does not say which entries a majority of the set has.")
    newest = await gateway.find_one(OPLOG, {}, sort=[("$natural", -1)])
    if newest is None:
        raise TallyglassError("The oplog is empty, or does not exist.")
    async with closing(gateway.tail_raw(OPLOG, {"ts": {"$gte": newest["ts"]}}, batch_size=2, await_ms=1)) as batches:
        await anext(batches, None)
        await anext(batches, None)  # the first needs no getMore


async def _read_members(gateway: Gateway, _: Sequence[str]) -> None:
    await gateway.command("replSetGetStatus")


_READS: dict[str, Callable[[Gateway, Sequence[str]], Awaitable[None]]] = {
    "counters": _read_counters,
    "oplog": _read_oplog,
    "incidents": _read_oplog,
    "restore": _read_oplog,
    "members": _read_members,
}
