"""Whether the oplog is complete from backup to point, where the replay must begin, and how long that stays true."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import earlier_parts, edge, op_time, stamp
from tallyglass.oplog.read.window import window

BACK_OFF_SECONDS = 10
"""mongodump records the newest entry it sees; earlier entries may not be visible yet. So the replay begins earlier."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the replay begins: ``ts`` is that of an entry that exists. ``oldest`` and ``newest`` are the ends of the
    oplog, ``back_off`` is in seconds. ``from_first_entry`` means that the oplog still holds the set's first entry."""

    ts: Ts
    back_off: int
    oldest: Ts
    newest: Ts
    from_first_entry: bool = False


@dataclass(frozen=True, slots=True)
class NoStart:
    """Why the oplog does not reach back to the backup, and its newest entry. ``first_entry`` is the set's first entry,
    if the oplog still holds it: the backup is then older than this set."""

    why: str
    newest: Ts | None = None
    first_entry: Ts | None = None


async def choose_start(gateway: Gateway, known: Ts, back_off: int) -> Start | NoStart:
    """The newest entry at or before ``known`` minus ``back_off`` seconds. It is read, not assumed.

    If the oplog still holds the first entry of the set, that entry is enough for a backup that began after it. An older
    backup is from before the set was initiated: it was a standalone then, or ``local`` was dropped since. No oplog
    holds what happened in between.
    """
    oldest, newest = await edge(gateway, 1), await edge(gateway, -1)
    if oldest is None or newest is None:
        return NoStart("the oplog is empty")
    wanted = Ts(max(known.t - back_off, 0), known.i)
    first = oldest.op == "n" and oldest.o.get("msg") == "initiating set"
    found = await edge(gateway, -1, {"ts": {"$lte": stamp(wanted)}}) if oldest.ts <= wanted else None
    if found is not None:
        return Start(found.ts, back_off, oldest.ts, newest.ts, first)
    if first and known < oldest.ts:
        return NoStart(f"its first entry is {oldest.ts}, and the backup began at {known}", newest.ts, oldest.ts)
    if first:
        return Start(oldest.ts, back_off, oldest.ts, newest.ts, True)
    return NoStart(f"its oldest entry is {oldest.ts}, and {wanted} is needed", newest.ts)


async def overwritten(gateway: Gateway, start: Start) -> str:
    """Check again after everything was read. Returns why the oplog no longer holds the start; empty if it does."""
    oldest = await edge(gateway, 1)
    if oldest is None or oldest.ts > start.ts:
        return f"while it was read its oldest entry became {oldest.ts if oldest else 'unknown'}"
    return ""


async def chain_beginning(gateway: Gateway, link: Ts) -> Ts | None:
    """The first entry of the transaction that ``link`` belongs to; None if the oplog no longer holds it."""
    found = await edge(gateway, 1, {"ts": stamp(link)})
    if found is None:
        return None
    first = next(iter(await earlier_parts(gateway, found)), found)
    return first.ts if first.previous is None else None


async def oldest(gateway: Gateway) -> Ts | None:
    """The first timestamp of the oplog; None if it is empty."""
    entry = await edge(gateway, 1)
    return entry.ts if entry else None


async def majority(gateway: Gateway) -> Ts | None:
    """The newest majority-committed timestamp; None if the server does not report it."""
    hello = await gateway.command("hello")
    return op_time(hello.get("lastWrite", {}).get("majorityOpTime"))


async def hours_left(gateway: Gateway, start: Ts) -> float | None:
    """Hours until the server overwrites ``start``; None if it is not known."""
    try:
        return (await window(gateway, recent=True)).hours_left(start)
    except (PrivilegeError, ReadError):
        return None
