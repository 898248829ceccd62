"""Read what the server itself knows while it still knows it: its newest log lines, connections and sessions.

Each member's log is asked for separately: after a failover the one that was primary then has the lines. Sources that
may not be read are named with the privilege that they need, and the others are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import RunningOperation, Source, client_of, session_of
from tallyglass.evidence.log_lines import LogReader, lines_in_memory, lines_of
from tallyglass.evidence.profile import DATABASES_LIMIT, OPERATIONS, PROFILE, read_profile
from tallyglass.evidence.running import running_of
from tallyglass.evidence.store import EvidenceFolder
from tallyglass.mongo.codec import whole_number
from tallyglass.mongo.gateway import Document, Gateway, Namespace, closing
from tallyglass.text import clean_name

ROWS_LIMIT = 20_000
"""The most connections, and the most sessions, that are read at once."""

COMMANDS_A_SECOND = 0.8
"""Commands that reading evidence may cost: with a tail and the driver's own of a set of seven, less than two a second
(tests/core/evidence/test_load.py)."""

LONGEST_WAIT = 15.0
"""Seconds for which a burst of commands may delay the log: at 60 lines a second the server keeps that much of it."""

LINES_A_POLL = 300
"""New log lines for which the pause between two polls is chosen: the server keeps 1,024, and they come in bursts."""

LEAST_PAUSE, MOST_PAUSE = 2.0, 30.0
"""Seconds between two polls of one member's log."""

PROFILE_PAUSE = 10.0
"""Seconds between two reads of the profile of one database, for each database that has one."""

SEARCH_PAUSE = 600.0
"""Seconds between two searches for databases with a profile, each at most :data:`DATABASES_LIMIT` commands."""

_OVERLAP = timedelta(seconds=5)
"""Statements reach the profile somewhat out of order: so much of it is read again."""

_SERVERS_OWN = {"local", "config"}

STATE_PAUSE = 30.0
"""Seconds between two readings of connections and sessions."""

ROUTER = "router"
"""The name under which a router's log is read; a member's has a port."""

COMMAND_MILLIS = 5_000
"""How long the line of a delete waits for that of its command, which waits for other members of the set."""

RUNNING_PAUSE = 5.0
"""Seconds between two readings of what runs now."""

_NEEDS = {
    Source.LOG: "The log is not read: that needs getLog on the cluster (clusterMonitor).",
    Source.OPERATIONS: "Connections are not read: that needs inprog on the cluster (clusterMonitor).",
    Source.PROFILE: "The profile is not read: that needs find on system.profile (clusterMonitor).",
    Source.SESSIONS: "Sessions are not read: that needs listSessions on the cluster (clusterMonitor).",
}


@dataclass(slots=True)
class _Ring:
    """Where the reading of one member's log stands."""

    reader: LogReader
    written: int = 0
    last: str = ""
    read_at: float = 0.0
    """When it was last read, in seconds of the event loop's clock; 0 if never."""
    due: float = 0.0


@dataclass(slots=True)
class _Profile:
    """Where the reading of one database's profile stands: the newest time, and the documents that may come again."""

    last: datetime | None = None
    seen: dict[str, datetime] = field(default_factory=dict)


@dataclass(slots=True)
class Observer:
    """Reads the evidence of one deployment into a book.

    ``routers`` are the mongos of a sharded cluster, whose log names the clients that a shard does not know.
    """

    gateway: Gateway
    book: Book = field(default_factory=Book)
    router: Gateway | None = None
    last_lines: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The last lines that were read of each member from files, so that each is read once; under "" of any."""
    folder: EvidenceFolder | None = None
    """Where lines of the log are kept, or were."""
    running: tuple[RunningOperation, ...] = ()
    _rings: dict[str, _Ring] = field(default_factory=dict)
    _free_at: float = 0.0
    """When the commands that were sent are within :data:`COMMANDS_A_SECOND`."""
    _profiles: dict[str, _Profile] = field(default_factory=dict)
    _profiles_at: float = 0.0
    _searched_at: float = 0.0
    _state_at: float = 0.0
    _running_at: float = 0.0

    async def read(self, *, urgent: bool = False) -> None:
        """Read what is new: connections and sessions now and then; of the logs the one that is due first, and those
        that were never read; with ``urgent`` all.

        Raises nothing: a source that cannot be read is in ``book.refused`` or is tried again next time.
        """
        now = _now()
        if not self._state_at or now - self._state_at >= STATE_PAUSE:
            self._state_at = self._running_at = now
            await self._try(Source.OPERATIONS, self._operations(self.gateway))
            await self._try(Source.SESSIONS, self._sessions())
            if self.router is not None:
                await self._try(Source.OPERATIONS, self._operations(self.router))
        for name in self._logs() if urgent else self._due(now):
            await self._try(Source.LOG, self._log(name))
        await self._try(Source.PROFILE, self._read_profiles())

    def is_due(self, *, urgent: bool = False) -> bool:
        """Whether :meth:`read` should be called now: a log is due, or all are wanted, and few commands were sent."""
        now = _now()
        return now >= self._free_at and (urgent or bool(self._due(now)))

    def spend(self, commands: int = 1) -> None:
        """Count commands that were sent: the next log is read when they are within :data:`COMMANDS_A_SECOND`."""
        now = _now()
        self._free_at = min(max(self._free_at, now) + commands / COMMANDS_A_SECOND, now + LONGEST_WAIT)

    def _logs(self) -> list[str]:
        """The logs that can be read: none of a set whose members are all unknown for a moment, or each would be read
        once more under another name."""
        return [*self.gateway.members(), *([ROUTER] if self.router is not None else [])]

    def _due(self, now: float) -> list[str]:
        """The logs that were never read; if there are none, the one that has been due longest."""
        names = self._logs()
        new = [name for name in names if name not in self._rings]
        due = sorted((self._rings[name].due, name) for name in names if name not in new)
        return new or [name for at, name in due[:1] if at <= now]

    async def read_running(self) -> tuple[RunningOperation, ...]:
        """The deletes, updates, drops and index builds that run now, as of a few seconds ago at most."""
        now = _now()
        if not self._running_at or now - self._running_at >= RUNNING_PAUSE:
            self._running_at = now
            self.running = ()
            await self._try(Source.OPERATIONS, self._running())
        return self.running

    async def _running(self) -> None:
        self.spend()
        self.running = running_of(await self.gateway.inspect("$currentOp", {"allUsers": True}, limit=ROWS_LIMIT))

    async def _try(self, source: Source, reading: Awaitable[None]) -> None:
        try:
            await reading
        except PrivilegeError:
            self.book.refused[source] = _NEEDS[source]
        except (ReadError, ConnectError):
            pass
        else:
            self.book.refused.pop(source, None)

    async def _log(self, name: str) -> None:
        """Read the new lines of a member's log, or of the router's."""
        self.spend()
        asked = _now()
        ring = self._rings.setdefault(name, _Ring(LogReader(self.book, name)))
        ring.due = asked + MOST_PAUSE
        if name == ROUTER and self.router is not None:
            answer = await self.router.command("getLog", "global")
        else:
            answer = await self.gateway.command("getLog", "global", member=name)
        lines, written = lines_in_memory(answer), whole_number(answer.get("totalLinesWritten")) or 0
        kept = self.last_lines.get(self.folder.name_of(name), {}) if self.folder is not None else {}
        read = kept or self.last_lines.get("", {})
        if not ring.last and (same := read.get(_last_of(lines, read))):
            self.book.is_same_member(same, name)
        new = _after(lines, ring.last or _last_of(lines, read))
        if len(new) == len(lines) and ring.written:
            # The last line that was read is no longer there: the server counts how many are lost.
            self.book.tally.missed += max(written - ring.written - len(lines), 0)
            ring.reader.interrupt()
        ring.reader.feed(new)
        if self.folder is not None:
            # The log file that was read may be gone when the folder is read.
            self.folder.write(name, _after(lines, ring.last or _last_of(lines, kept)))
        ring.reader.flush(COMMAND_MILLIS)
        ring.written, ring.last = written, lines[-1] if lines else ring.last
        pause = LINES_A_POLL * (asked - ring.read_at) / max(len(new), 1) if ring.read_at else LEAST_PAUSE
        ring.read_at, ring.due = asked, asked + min(max(pause, LEAST_PAUSE), MOST_PAUSE)

    async def _read_profiles(self) -> None:
        """Read what is new in each profile, and now and then look where there is one."""
        now = _now()
        if not self._searched_at or now - self._searched_at >= SEARCH_PAUSE:
            self._searched_at = now
            self.spend()
            names = [name for name in await self.gateway.list_databases() if name not in _SERVERS_OWN]
            wanted = dict.fromkeys([*self._profiles, *names[:DATABASES_LIMIT]])
        elif now - self._profiles_at >= PROFILE_PAUSE * len(self._profiles):
            wanted = dict.fromkeys(self._profiles)
        else:
            return
        self._profiles_at = now
        for name in wanted:
            await self._profile(name)

    async def _profile(self, db: str) -> None:
        self.spend()
        known = self._profiles.get(db) or _Profile()
        query: dict[str, object] = {"op": {"$in": list(OPERATIONS)}}
        if known.last is not None:
            query["ts"] = {"$gte": known.last - _OVERLAP}
        new = []
        async with closing(self.gateway.find(Namespace(db, PROFILE), query, limit=ROWS_LIMIT)) as rows:
            async for row in rows:
                at, key = row.get("ts"), repr(row)
                if isinstance(at, datetime) and key not in known.seen:
                    known.seen[key] = at
                    known.last = max(known.last or at, at)
                    new.append(row)
        if known.last is not None:
            self._profiles[db] = known
            since = known.last - _OVERLAP
            known.seen = {key: at for key, at in known.seen.items() if at >= since}
        read_profile(self.book, new)

    def _member_of(self, row: Document) -> str:
        """The member of a row of ``$currentOp``, which names its host perhaps otherwise than clients do; empty where
        that can be several."""
        address = str(row.get("host", "")).lower()
        host, _, port = address.rpartition(":")
        members = [one for one in self.gateway.members() if one.endswith(f":{port}")]
        alike = [one for one in members if one.rpartition(":")[0].partition(".")[0] == host.partition(".")[0]]
        for found in ([one for one in members if one == address], alike, members):
            if len(found) == 1:
                return found[0]
        return ""

    async def _operations(self, gateway: Gateway) -> None:
        self.spend()
        options = {"allUsers": True, "idleConnections": True}
        # Without this a router answers with the connections of the shards.
        options |= {"localOps": True} if gateway is self.router else {}
        rows = await gateway.inspect("$currentOp", options, limit=ROWS_LIMIT)
        if gateway is self.gateway:
            self.running = running_of(rows)
        for row in rows:
            client = client_of(row)
            if client is not None:
                known = self.book.by_address(client.connection, client.address)
                member = ROUTER if gateway is self.router else self._member_of(row)
                if self.folder is not None and known != client and member:
                    self.folder.write(member, lines_of(client))
                self.book.is_connected(client)
                self.book.add_command(session_of(row)[0], None, client)

    async def _sessions(self) -> None:
        self.spend()
        rows = await self.gateway.inspect("$listLocalSessions", {"allUsers": True}, limit=ROWS_LIMIT)
        for row in rows:
            key, user = row.get("_id"), row.get("user")
            if isinstance(key, Mapping) and isinstance(key.get("uid"), bytes) and isinstance(user, str) and user:
                self.book.users[bytes(key["uid"])] = clean_name(user, 120)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _last_of(lines: Sequence[str], known: Iterable[str]) -> str:
    """The one of these lines that is known, the last of a file; empty if none is."""
    return next((one for one in known if one in lines), "")


def _after(lines: list[str], last: str) -> list[str]:
    """The lines after ``last``; all of them if it is not there."""
    if last:
        for at in range(len(lines) - 1, -1, -1):
            if lines[at] == last:
                return lines[at + 1 :]
    return lines
