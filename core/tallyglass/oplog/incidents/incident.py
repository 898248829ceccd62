"""The incidents of the past, newest first, and new ones."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tallyglass.deployment.cluster import require_oplog
from tallyglass.deployment.privileges import CLUSTER, allows
from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Document, Gateway, Namespace, closing
from tallyglass.oplog.entry.batch import last_ts
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.read.entries import end_of_oplog
from tallyglass.oplog.read.past import backward, safe_end
from tallyglass.oplog.read.stream import (
    Arrived,
    EntryPosition,
    Event,
    Gap,
    Interruption,
    Opened,
    OplogStream,
    RolledBack,
)
from tallyglass.oplog.snapshot import IncidentScan
from tallyglass.text import clean, clean_name

__all__ = ["MATCH", "Grouper", "scan", "watch"]

MATCH: dict[str, Any] = {
    "$or": [
        {"op": {"$in": ["c", "d", "u"]}},
        {"ns": {"$in": ["admin.system.users", "admin.system.roles", "admin.system.version"]}},
        {"op": "n", "o2": {"$exists": True}, "lsid": {"$exists": False}},
    ]
}
"""What a server must send so that a :class:`Grouper` misses nothing."""

PROGRESS_SECONDS = 0.5
"""How often a scan shows what it has found: often enough to be seen to go on."""

KEPT_BYTES = 500_000
"""How many bytes of entries that could be rolled back are kept before the majority point is read."""

_ASKED_LIMIT = 2_000
"""The most collections that the server is asked about, a command each."""

_TRIES = 5
"""How often a collection is asked about where the answer fails."""

_SECOND = 1.0
"""How often new incidents are looked for, and how soon a lost server is tried again."""


async def scan(
    gateway: Gateway, since: Ts | None = None, *, until: Ts | None = None, ns: str = ""
) -> AsyncIterator[IncidentScan]:
    """Read the past backwards from its end to ``since``, or to its beginning. Stop iterating to stop it.

    Yields the incidents found so far about twice a second, worst first; the last result has ``done`` set. Incidents are
    numbered by time from the oldest one found, so numbers are final only then. Raises the errors of the gateway, and
    DeploymentError without an oplog.

    ``ns`` limits it to one collection and the commands of its database, as services demand that do not open the oplog
    as a whole. These incidents have the number 0: those of the whole oplog are not known.
    """
    looking = _IncidentReader(gateway, ns)
    await looking.check()
    async with closing(looking.past(since, until)) as looks:
        async for found in looks:
            yield found


async def watch(gateway: Gateway, since: Ts | None = None, *, patient: bool = False) -> AsyncIterator[IncidentScan]:
    """Like :func:`scan`, then follows new entries without end: an incident that continues stays one incident.

    After ``done`` it yields whenever something has changed, every two seconds at most. If reading was interrupted
    (``trouble`` says so) entries may be missing; after a rollback the past is scanned again. Raises the errors of
    :func:`scan` at the start, later or if ``patient`` only those that stay: DeploymentError and PrivilegeError.
    """
    begun = patient
    while True:
        looking = _IncidentReader(gateway)
        try:
            await looking.check()
            async with closing(looking.past(since, None)) as looks:
                async for found in looks:
                    yield found
            begun = True
            async with closing(looking.future()) as looks:
                async for found in looks:
                    yield found
        except (ReadError, ConnectError) as error:
            if not begun:
                raise
            yield IncidentScan((), 0, None, done=False, trouble=str(error))
            await asyncio.sleep(_SECOND)


class _IncidentReader:
    """Reads the incidents of a deployment: back through the past, then new ones as they arrive."""

    def __init__(self, gateway: Gateway, ns: str = "") -> None:
        self._gateway = gateway
        self._ns = ns
        self._among = _only(ns) if ns else None
        self._match = {**self._among, "op": {"$in": ["c", "d", "u"]}} if self._among else MATCH
        self._grouper = Grouper()
        self._definitions = _Definitions(gateway)
        self._end = EntryPosition(ZERO)
        self._goal = ZERO
        self._trouble = ""
        self._lost = ""
        self._link = ""
        self._cost = 0.0

    async def check(self) -> None:
        await require_oplog(self._gateway)
        self._grouper.learn_users(await _users(self._gateway))
        self._grouper.known.ttl_millis = await _ttl_millis(self._gateway)

    async def past(self, since: Ts | None, until: Ts | None) -> AsyncIterator[IncidentScan]:
        self._end = await safe_end(self._gateway, self._among)
        end = self._end.ts
        self._grouper.note_newest(end if until is None else min(end, until), None)
        self._goal = max(since or ZERO, await end_of_oplog(self._gateway, 1, self._among) or ZERO)
        stop = end.next if until is None or until > end else until
        shown, reached = time.monotonic(), stop
        async with closing(backward(self._gateway, self._goal, stop, self._match, self._among)) as slices:
            async for batches, reached in slices:
                for batch in batches:
                    self._grouper.feed_batch(batch)
                self._grouper.note_oldest(reached)
                # Building the list over many namespaces takes time: limit it to a tenth of the scan's time.
                if time.monotonic() - shown >= max(PROGRESS_SECONDS, 10 * self._cost):
                    yield await self._known(reached, done=False)
                    shown = time.monotonic()
        if reached > self._goal:
            self._lost = f"Entries from {self._goal} to {reached} were overwritten before they were read."
            self._goal = reached
        self._grouper.note_oldest(self._goal)
        yield await self._known(self._goal, done=True)

    async def future(self) -> AsyncIterator[IncidentScan]:
        """New entries after the past; ends if that past was rolled back."""
        stream = OplogStream(self._gateway, self._end.ts, MATCH, anchor=self._end, seldom=True)
        asked, shown = time.monotonic(), await self._known(self._goal, done=True)
        async with closing(stream.events()) as events:
            async for event in events:
                if isinstance(event, RolledBack):
                    return
                had = self._link
                self._take(event)
                wait = max(_SECOND, 10 * self._cost)
                if time.monotonic() - asked < wait and bool(had) == bool(self._link):
                    continue
                asked, known = time.monotonic(), await self._known(self._goal, done=True)
                await self._forget_settled(stream)
                if (known.incidents, known.trouble) != (shown.incidents, shown.trouble):
                    shown = known
                    yield known

    async def _forget_settled(self, stream: OplogStream) -> None:
        """Release entries that are now majority-committed. Only if there are many: it costs a command."""
        if stream.kept_bytes > KEPT_BYTES:
            with suppress(ConnectError, PrivilegeError, ReadError):
                stream.commit(await safe_end(self._gateway))

    def _take(self, event: Event) -> None:
        match event:
            case Gap(after, first):
                self._trouble = f"Entries between {after} and {first} were not seen."
            case Interruption(text):
                self._link = text
            case Opened():
                self._link = ""
            case Arrived(batch) if batch:
                self._grouper.feed_batch(batch)
                self._grouper.note_newest(last_ts(batch), None)

    async def _known(self, reached: Ts, *, done: bool) -> IncidentScan:
        grouper = self._grouper
        await self._definitions.learn(grouper)
        began = time.monotonic()
        incidents = grouper.incidents()
        if self._ns:
            known = (clean_name(self._ns), clean_name(self._ns.partition(".")[0]))
            incidents = tuple(replace(one, number=0) for one in incidents if one.ns in known)
        self._cost = time.monotonic() - began
        left_out = f"{grouper.left_out:,} lesser incidents are left out." if grouper.left_out else ""
        damaged = f"{grouper.damaged:,} entries or more are damaged and were left out." if grouper.damaged else ""
        trouble = " ".join(
            filter(None, (self._link, self._trouble, self._lost, damaged, left_out, self._definitions.refused))
        )
        recurring = grouper.recurring if done and not self._ns else ()
        return IncidentScan(incidents, grouper.fed, reached, done, trouble, ns=self._ns, recurring=recurring)


def _only(ns: str) -> dict[str, Any]:
    """The entries that may be about one collection. Atlas serves no query but one on ``ns`` that is anchored."""
    names = (ns, f"{ns.partition('.')[0]}.$cmd", "admin.$cmd")
    return {"ns": {"$regex": f"^(?:{'|'.join(map(re.escape, names))})$"}}


async def _users(gateway: Gateway) -> list[str]:
    """The users that may be listed, as ``user@db``: only the current one without viewUser, none without access
    control."""
    info = (await gateway.command("connectionStatus", showPrivileges=True)).get("authInfo", {})
    found = info.get("authenticatedUsers", ())
    if found and allows(info.get("authenticatedUserPrivileges", ()), CLUSTER, "viewUser"):
        with suppress(PrivilegeError, ReadError):
            found = (await gateway.command("usersInfo", {"forAllDBs": True})).get("users", ())
    return [f"{one.get('user')}@{one.get('db')}" for one in found]


async def _ttl_millis(gateway: Gateway) -> int:
    """How often the server looks for what has expired; 0 where that may not be read."""
    try:
        found = (await gateway.command("getParameter", ttlMonitorSleepSecs=1)).get("ttlMonitorSleepSecs")
    except (PrivilegeError, ReadError):
        return 0
    return round(found * 1_000) if isinstance(found, int | float) and found > 0 else 0


class _Definitions:
    """Asks the server which collections with mass deletes have a TTL index or are capped, each until it answers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._options: dict[str, dict[Namespace, Document | None]] = {}
        self.refused = ""
        """The names of those that may not be read; they stay unknown."""

    async def learn(self, grouper: Grouper) -> None:
        """Add what is defined today to what is known."""
        known = grouper.known
        for name in sorted(grouper.deleted_from() - self._asked)[: _ASKED_LIMIT - len(self._asked)]:
            self._asked.add(name)
            ns = Namespace.parse(name)
            try:
                expires = any("expireAfterSeconds" in index for index in await self._gateway.list_indexes(ns))
                if ns.db not in self._options:
                    rows = await self._gateway.list_collections(ns.db)
                    self._options[ns.db] = {row.ns: row.options for row in rows}
            except PrivilegeError:
                what = "whether its documents expire by themselves"
                self.refused = f"Not known without listIndexes on {clean(name)}: {what}."
                continue
            except (ConnectError, ReadError):
                self._failures[name] += 1
                if self._failures[name] < _TRIES:
                    self._asked.discard(name)
                continue
            listed = self._options[ns.db]
            options = listed.get(Namespace(ns.db, ns.collection.removeprefix("system.buckets.")), listed.get(ns, {}))
            if options is None:
                self.refused = f"Not known without listCollections on {clean(ns.db)}: whether {clean(name)} is capped."
            elif options.get("capped"):
                known.capped.add(name)
            if expires or (options and options.get("expireAfterSeconds") is not None):
                known.ttl.add(name)
            if name in known.ttl and not known.ttl_millis:
                self.refused = (
                    "Not known without getParameter on the cluster: how often the server removes what expired."
                )
