"""The evidence that was read so far, in bounded memory: connections, statements, sessions, definitions.

A source adds facts, the join asks for those that could explain an incident. Nothing here touches a server or a disk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from tallyglass.evidence.facts import INTERNAL_USER, Client, Definition, Source, Statement

STATEMENT_LIMIT = 20_000
"""Statements that are kept, about 0.7 kB each; the oldest are dropped first."""

SESSION_LIMIT = 20_000
"""Sessions, commands and users that are kept, each; those that were not named longest are dropped first."""

DOUBT_MILLIS = 60_000
"""How long a clock that was once wrong is doubted: clocks are set right slowly."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(OrderedDict[Key, Value]):
    """A dictionary in the order of writing, which drops the entry that was written longest ago when it is full."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)


@dataclass(slots=True)
class LineTally:
    """What became of the lines of a log: those that could not be used are counted, never guessed.

    ``cut`` lines are no whole JSON, or the server cut their statement; ``redacted`` ones hide the statement;
    ``foreign`` ones have another form (before 4.4, or no log of mongod). ``missed`` lines were overwritten before they
    were read. ``apart`` are deletes and updates in files that are not known to be of these servers.
    """

    lines: int = 0
    cut: int = 0
    redacted: int = 0
    foreign: int = 0
    missed: int = 0
    apart: int = 0

    def unused(self) -> str:
        """The lines that may name somebody and do not, as a sentence; empty if there are none."""
        counts = {
            "overwritten before they were read": self.missed,
            "cut": self.cut,
            "without their values": self.redacted,
            "of another form": self.foreign,
            "in files that share none with the memory of this server": self.apart,
        }
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return f"Lines of the log: {told}." if told else ""


@dataclass(slots=True)
class Coverage:
    """From when to when a log was read without a gap, in milliseconds since 1970; both 0 if it was not."""

    first: int = 0
    last: int = 0


_end = attrgetter("ended")
_at = attrgetter("at")


class Timelines(Generic[Key]):
    """Statements by some key, each key's in the order in which they ended."""

    def __init__(self) -> None:
        self._of: dict[Key, list[Statement]] = {}
        self._longest: dict[Key, int] = {}

    def add(self, key: Key, statement: Statement) -> None:
        """Add a statement, most often the newest."""
        insort(self._of.setdefault(key, []), statement, key=_end)
        self._longest[key] = max(self._longest.get(key, 0), statement.ended - statement.began)

    def discard(self, key: Key, statement: Statement) -> None:
        """Remove this very statement."""
        all_of = self._of[key]
        at = bisect_left(all_of, statement.ended, key=_end)
        while all_of[at] is not statement:
            at += 1
        del all_of[at]
        if not all_of:
            del self._of[key], self._longest[key]

    def between(self, key: Key, first: int, last: int) -> list[Statement]:
        """Those that ran at some time between two moments, in milliseconds, in the order in which they ended."""
        all_of = self._of.get(key, [])
        start = bisect_left(all_of, first, key=_end)
        end = bisect_left(all_of, last + self._longest.get(key, 0) + 1, lo=start, key=_end)
        return [one for one in all_of[start:end] if one.began <= last]


@dataclass(slots=True)
class Book:
    """All evidence of one replica set. ``refused`` says of each source that may not be read why; safe to show.

    At most ``limit`` statements are kept.
    """

    tally: LineTally = field(default_factory=LineTally)
    coverage: dict[str, list[Coverage]] = field(default_factory=dict)
    refused: dict[Source, str] = field(default_factory=dict)
    users: Recent[bytes, str] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    sessions: Recent[bytes, Client] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    version: int = 0
    limit: int = STATEMENT_LIMIT
    heard: Callable[[Statement], bool] | None = None
    """Called with every delete and update that the log names, also with those that changed nothing; returns whether it
    is to be kept."""
    forgotten: int = 0
    """Statements that ended before this moment were dropped for lack of room; milliseconds since 1970."""
    _doubted: Recent[int, bool] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    _clients: Recent[tuple[str, str], Client] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    _open: Recent[tuple[str, str], Client] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    _commands: Recent[tuple[bytes, int], Client] = field(default_factory=lambda: Recent(SESSION_LIMIT))
    _order: deque[Statement] = field(default_factory=deque)
    _by_ns: Timelines[tuple[str, str]] = field(default_factory=Timelines)
    _by_session: Timelines[bytes] = field(default_factory=Timelines)
    _by_client: Timelines[tuple[str, str]] = field(default_factory=Timelines)
    _definitions: list[Definition] = field(default_factory=list)
    """In the order of their lines' times."""

    def client(self, member: str, connection: str) -> Client:
        """What is known of a connection of a member now."""
        return self._clients.get((member, connection)) or Client(connection=connection)

    def connected(self, member: str, client: Client) -> None:
        """Note who uses a connection from now on."""
        self._clients[member, client.connection] = client
        self.version += 1

    def is_connected(self, client: Client) -> None:
        """Note who uses an open connection, however long ago its login was."""
        self._open[client.connection, client.address] = client

    def by_address(self, connection: str, address: str) -> Client | None:
        """Who uses, or used, the connection of this number from this address; None if unknown."""
        return self._open.get((connection, address))

    def restarted(self, member: str) -> None:
        """Forget a member's connections: their numbers begin again."""
        for key, client in list(self._clients.items()):
            if key[0] == member:
                self._clients[key] = Client(connection=client.connection)

    def is_same_member(self, name: str, member: str) -> None:
        """Note that the connections that are known by one name are those of this member."""
        for (known, connection), client in list(self._clients.items()):
            if known == name:
                self._clients[member, connection] = client

    def add_statement(self, statement: Statement) -> None:
        """Add a delete or update."""
        self._order.append(statement)
        self._by_ns.add((statement.ns, statement.op), statement)
        self._by_session.add(statement.session, statement)
        self._by_client.add(_connection(statement.client), statement)
        self.version += 1
        if len(self._order) > self.limit:
            oldest = self._order.popleft()
            self.forgotten = max(self.forgotten, oldest.ended)
            self._by_ns.discard((oldest.ns, oldest.op), oldest)
            self._by_session.discard(oldest.session, oldest)
            self._by_client.discard(_connection(oldest.client), oldest)

    def add_command(self, session: bytes, txn: int | None, client: Client) -> None:
        """Add a command: the entries of its session and transaction number are its own. Nothing without a session."""
        if not session or (client.user == INTERNAL_USER and self.sessions.get(session)):
            return
        self.sessions[session] = client
        if txn is not None:
            self._commands[session, txn] = client
        self.version += 1

    def add_definition(self, definition: Definition) -> None:
        """Add a change of definitions."""
        insort(self._definitions, definition, key=_at)
        del self._definitions[:-SESSION_LIMIT]
        self.version += 1

    def statements(self, ns: str, op: str, first: int, last: int) -> list[Statement]:
        """The deletes or updates of a namespace that ran at some time between two moments, in milliseconds."""
        return self._by_ns.between((ns, op), first, last)

    def statements_of(self, session: bytes, ns: str, first: int, last: int) -> list[Statement]:
        """The deletes and updates of one session on a namespace between two moments."""
        return [one for one in self._by_session.between(session, first, last) if one.ns == ns]

    def beside(self, client: Client, first: int, last: int) -> list[Statement]:
        """Everything that one connection wrote between two moments, oldest first."""
        return self._by_client.between(_connection(client), first, last)

    def sender(self, session: bytes, txn: int) -> Client | None:
        """Who sent the command with this session and transaction number, the last time if it was tried again."""
        return self._commands.get((session, txn))

    def definitions(self, names: frozenset[str], first: int, last: int) -> list[Definition]:
        """The changes of definitions by these commands that were logged between two moments, oldest first."""
        start = bisect_left(self._definitions, first, key=_at)
        end = bisect_right(self._definitions, last, lo=start, key=_at)
        return [one for one in self._definitions[start:end] if one.name in names]

    def doubt_clock(self, at: int) -> None:
        """Note that about this moment, in milliseconds, a log's clock was ahead of that of the entries."""
        self._doubted[at // DOUBT_MILLIS] = True

    def is_clock_doubted(self, first: int, last: int) -> bool:
        """Whether a log's clock was ahead between two moments, or shortly before or after them."""
        return any(self._doubted.get(one) for one in range(first // DOUBT_MILLIS - 1, last // DOUBT_MILLIS + 2))

    def covers(self, first: int, last: int) -> bool:
        """Whether some log was read without a gap from one moment to another."""
        return self.forgotten < first and self.covering(first, last) is not None

    def covering(self, first: int, last: int) -> Coverage | None:
        """The longest time about two moments of which some log was read without a gap; None if there is none."""
        found = (
            one for intervals in self.coverage.values() for one in intervals if one.first <= first and last <= one.last
        )
        return max(found, key=lambda one: one.last - one.first, default=None)


def _connection(client: Client) -> tuple[str, str]:
    return client.connection, client.address
