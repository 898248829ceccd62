"""Lines of the structured log of mongod and mongos (4.4 and later) as facts.

Lines belong together by their connection: what a client says of itself and its login come first, then the deletes and
updates of a command, then the command with its session. Line ids and fields: MongoDB's log messages of 4.4 to 8.0.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tallyglass.evidence.book import Book, Coverage, Recent
from tallyglass.evidence.facts import (
    NAME_CELLS,
    Client,
    Definition,
    Statement,
    application_of,
    session_of,
    timestamp,
    user_of,
    users_definition,
    within,
)
from tallyglass.evidence.statement import is_duration, is_find_and_modify, write_of
from tallyglass.moment import ZERO, Ts
from tallyglass.text import clean, clean_name

# Ids of log lines in MongoDB's source, constant from version to version.
STARTING, ACCEPTED, ENDED, METADATA = 4615611, 22943, 22944, 51800  # ids of a process and its connections
LOGIN, LOGIN_7 = 20250, 5286306  # ids of a login before 7.0 and since
SLOW, TTL = 51803, 5479200  # ids of a slow query and of a TTL pass
DROPPED_TABLE, DROPPED_INDEX, BUILT = 22214, 22206, 20345  # ids of collections and indexes
DROP_DATABASE, RENAMED, COLL_MOD, REGISTERED = 20342, 20319, 5324200, 20438  # ids of other definitions

_ID = re.compile(r'"id":\s*(\d+)')
_ID_WITHIN = 160
"""Characters within which a line names its id."""

_PENDING_LIMIT = 5_000
"""Deletes and updates of one command that wait for its line."""

_BUILDS_LIMIT = 1_000
"""Builds of indexes whose clients are kept until they are done."""

BESIDE_LIMIT = 500
"""Statements of one client that are kept beside those of the incidents: what else it did."""

_SLACK_MILLIS = 5
"""How far the line of a delete may lie outside its command, which reads the clock itself."""

_CLOCK_MILLIS = 1_500
"""How far a log's clock may be ahead of cluster times, which are whole seconds, before it is doubted."""

_WRITING = (
    '"type":"remove"', '"type":"update"', '"txnNumber"', '"delete":', '"update":', '"findAndModify":',
    '"findandmodify":', '"bulkWrite":', '"$merge"', '"$out"', 'User":', 'Role":', 'Roles', 'Privileges',
)  # fmt: skip
"""What the line of a command that writes contains; a line too much does no harm."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its time in milliseconds since 1970, its thread, and its attributes as stored."""

    id: int
    at: int
    thread: str
    attr: dict[str, Any]


class _Parent(NamedTuple):
    """The command of deletes and updates: its session and number, when it began and ended, the cluster time that its
    client knew, whether it has a transaction number, and whether the client's next command of the session has a cluster
    time that is not before that of the writes."""

    session: bytes
    txn: int | None
    began: int
    ended: int
    after: Ts
    keyed: bool
    is_told: bool


class LogReader:
    """Reads the lines of one member's log in order, and adds what they say to a book.

    ``wanted`` limits the deletes and updates of a long log to those for whose namespace, begin and end, in
    milliseconds, it is true; of each client :data:`BESIDE_LIMIT` others are kept. Without ``statements`` only
    connections, sessions and definitions are read.
    """

    def __init__(
        self,
        book: Book,
        member: str,
        wanted: Callable[[str, int, int], bool] | None = None,
        *,
        statements: bool = True,
    ) -> None:
        self._book = book
        self._statements = statements
        self._member = member
        self._wanted = wanted
        self._beside: Counter[tuple[str, str]] = Counter()
        self._pending: dict[str, list[Statement]] = {}
        self._settled: dict[bytes, list[Statement]] = {}
        self._last: dict[str, int] = {}
        self._builds = Recent[str, Client](_BUILDS_LIMIT)
        self._covered = Coverage()
        self._wrote: Recent[bytes, int] = Recent(_PENDING_LIMIT)
        """When each session last began to write something."""

    def feed(self, lines: Iterable[str]) -> None:
        """Read more lines, each a JSON text."""
        tally = self._book.tally
        for text in lines:
            if not text.strip():
                continue
            tally.lines += 1
            if not text.startswith("{"):
                tally.foreign += 1
                continue
            found = _ID.search(text, 0, _ID_WITHIN)
            if found is None:
                tally.foreign += 1
                continue
            read = _READERS.get(int(found[1]))
            if read is None:
                continue
            line = parse_line(text)
            if line is None:
                tally.cut += 1
                continue
            if self._statements:
                self._cover(line.at)
            read(self, line)

    def interrupt(self) -> None:
        """Lines are missing from here on: what was begun is left as it is known, and connections may have changed."""
        self.flush()
        self._covered = Coverage()
        self._last.clear()

    def flush(self, older: int = 0) -> None:
        """Add the deletes and updates whose command was not seen, with ``older`` only those that ended so many
        milliseconds before the newest line: the line of their command may still come."""
        for thread, waiting in list(self._pending.items()):
            if not older or (waiting and waiting[-1].ended < self._covered.last - older):
                self._settle(thread, None)
        for session in list(self._settled):
            self._followed(session, None)

    def _cover(self, at: int) -> None:
        if not self._covered.first:
            self._covered = Coverage(at, at)
            self._book.coverage.setdefault(self._member, []).append(self._covered)
        self._covered.last = max(self._covered.last, at)

    def _client(self, line: Line) -> Client:
        """Who wrote a line, with what the line itself says."""
        known = self._book.client(self._member, line.thread)
        application, address = (
            clean(found, NAME_CELLS) if isinstance(found := line.attr.get(name), str) else ""
            for name in ("appName", "remote")
        )
        if address and known.address != address:
            known = Client(connection=line.thread)
        if address and not known.user:
            known = self._book.by_address(line.thread, address) or known
        complete = replace(known, application=known.application or application, address=known.address or address)
        if complete == known:
            return known
        if line.thread.startswith("conn"):
            self._book.connected(self._member, complete)
        return complete

    # Connections

    def _starting(self, _: Line) -> None:
        self.interrupt()
        self._book.restarted(self._member)

    def _accepted(self, line: Line) -> None:
        number, address = line.attr.get("connectionId"), line.attr.get("remote")
        if isinstance(number, int) and isinstance(address, str):
            self._book.connected(self._member, Client(address=clean(address, NAME_CELLS), connection=f"conn{number}"))

    def _ended(self, line: Line) -> None:
        number = line.attr.get("connectionId")
        self._settle(f"conn{number}", None)
        self._last.pop(f"conn{number}", None)

    def _metadata(self, line: Line) -> None:
        application, driver = application_of(line.attr.get("doc"))
        address = clean(str(line.attr.get("remote", "")), NAME_CELLS)
        self._book.connected(self._member, Client("", application, address, driver, line.thread))

    def _login(self, line: Line) -> None:
        attr = line.attr
        name, db = attr.get("principalName", attr.get("user")), attr.get("authenticationDatabase", attr.get("db"))
        if not isinstance(name, str) or not isinstance(db, str):
            self._book.tally.redacted += 1
            return
        user, hashed = user_of(name, db)
        self._book.users[hashed] = user
        address = clean(str(attr.get("remote", attr.get("client", ""))), NAME_CELLS)
        known = self._book.client(self._member, line.thread)
        if known.address != address:
            known = Client(address=address, connection=line.thread)
        if known.user not in ("", user):
            user = f"{known.user} or {user}"
        self._book.connected(self._member, replace(known, user=user))

    # Statements

    def _slow(self, line: Line) -> None:
        attr = line.attr
        duration = attr.get("durationMillis")
        if not is_duration(duration):
            self._book.tally.cut += 1
            return
        client = self._client(line)
        began, floor = line.at - duration, self._last.get(line.thread, 0)
        self._last[line.thread] = line.at
        if attr.get("type") in ("remove", "update"):
            write = write_of(attr, client, began, line.at, floor, self._book.tally)
            waiting = self._pending.setdefault(line.thread, [])
            if write is not None:
                waiting.append(write)
            if len(waiting) > _PENDING_LIMIT:
                self._settle(line.thread, None)
        elif attr.get("type") == "command":
            self._command(line, client, began, floor)

    def _command(self, line: Line, client: Client, began: int, floor: int) -> None:
        body = line.attr.get("command")
        if not isinstance(body, dict):
            self._book.tally.redacted += 1
            self._settle(line.thread, None)
            return
        session, txn, after = session_of(body)
        parent = _Parent(session, txn, began, line.at, after, "txnNumber" in body, bool(session) and _is_told(body))
        self._check_clock(line, session, began, after)
        self._followed(session, after if after != ZERO else None)
        self._settle(line.thread, parent)
        self._book.add_command(session, txn, client)
        if is_find_and_modify(body):
            write = write_of(line.attr, client, began, line.at, floor, self._book.tally)
            if write is not None:
                self._own(write, parent)
        users = users_definition(body, client, line.at)
        if users and "errCode" not in line.attr:
            self._book.add_definition(users)

    def _check_clock(self, line: Line, session: bytes, began: int, after: Ts) -> None:
        """Doubt the log's clock where a client that was told of its own write names an older cluster time after it."""
        body = line.attr["command"]
        if not session:
            return
        wrote = self._wrote.get(session)
        if wrote and after != ZERO and (after.t + 1) * 1_000 + _CLOCK_MILLIS < wrote:
            self._book.doubt_clock(line.at)
        waiting = self._pending.get(line.thread, ())
        own = any(began - _SLACK_MILLIS <= one.began and one.documents != 0 for one in waiting)
        self._wrote[session] = began if _is_told(body) and (own or line.attr.get("ninserted")) else 0

    def _settle(self, thread: str, parent: _Parent | None) -> None:
        """Add the writes that waited for their command, with its session if it is really theirs."""
        for write in self._pending.pop(thread, ()):
            if parent and parent.began - _SLACK_MILLIS <= write.began and write.ended <= parent.ended:
                self._own(write, parent)
            else:
                self._add(write)
        if len(self._settled) > _PENDING_LIMIT:
            self._followed(next(iter(self._settled)), None)

    def _own(self, write: Statement, parent: _Parent) -> None:
        """Give a write the session of its command. It waits for the next one if its client was told of it."""
        write = replace(write, session=parent.session, txn=parent.txn, in_session=parent.keyed, after=parent.after)
        if parent.is_told:
            self._settled.setdefault(parent.session, []).append(write)
        else:
            self._add(write)

    def _followed(self, session: bytes, before: Ts | None) -> None:
        """Add the writes of a session; its next command was sent with that cluster time."""
        for write in self._settled.pop(session, ()):
            self._add(replace(write, before=before) if before else write)

    def _add(self, write: Statement) -> None:
        if not self._statements:
            self._book.tally.apart += 1
            return
        kept = self._book.heard is not None and self._book.heard(write)
        if write.documents == 0:
            return
        if not kept and self._wanted is not None and not self._wanted(write.ns, write.began, write.ended):
            who = (write.client.user, write.client.application)
            self._beside[who] += 1
            if self._beside[who] > BESIDE_LIMIT:
                return
        self._book.add_statement(write)

    def _ttl(self, line: Line) -> None:
        ns, count, duration = (line.attr.get(name) for name in ("namespace", "numDeleted", "durationMillis"))
        if isinstance(ns, str) and isinstance(count, int) and is_duration(duration) and count:
            index = clean_name(str(line.attr.get("index", "")), 120)
            client = Client(application="TTL", connection=line.thread)
            self._add(
                Statement("d", clean_name(ns, 255), client, line.at - duration, line.at, count,
                      in_session=False, text=f"TTL index {index}")
            )  # fmt: skip

    # Definitions

    def _registered(self, line: Line) -> None:
        self._builds[json.dumps(line.attr.get("buildUUID"))] = self._client(line)

    def _defined(self, line: Line) -> None:
        name, attribute, text = _DEFINITIONS[line.id]
        attr = defaultdict(str, line.attr)
        build = attr["buildUUID"] if line.id == BUILT else None
        client = (self._builds.get(json.dumps(build)) if build else None) or self._client(line)
        # Later releases (5.0.32, 6.0.27) name the time of a drop as one of two kinds, under an empty name.
        dropped = within(attr["dropTime"], "") or attr["dropTime"]
        commit = attr["commitTimestamp"] or dropped or within(attr["mostRecentDropOpTime"], "ts")
        self._define(name, line, str(attr[attribute]), text.format_map(attr), client, timestamp(commit))

    def _coll_mod(self, line: Line) -> None:
        body = line.attr.get("cmdObj")
        name = str(body.get("collMod", "")) if isinstance(body, dict) else ""
        self._define("collMod", line, name, f"collMod {json.dumps(body)[:300]}", self._client(line))

    def _define(self, name: str, line: Line, ns: str, text: str, client: Client, commit: Ts = ZERO) -> None:
        if client.connection.startswith("conn"):
            self._book.add_definition(Definition(name, clean_name(ns, 255), client, line.at, commit, clean(text, 400)))


_DEFINITIONS = {
    DROPPED_TABLE: ("drop", "namespace", "drop {namespace}"),
    DROPPED_INDEX: ("dropIndexes", "namespace", "dropIndexes {index} on {namespace}"),
    BUILT: ("createIndexes", "namespace", "createIndexes {index} on {namespace}"),
    DROP_DATABASE: ("dropDatabase", "db", "dropDatabase {db}"),
    RENAMED: ("rename", "fromName", "rename {fromName} to {toName}"),
}
"""Of a line about a definition: the command, the attribute that it is about, and the command in words."""


def _is_told(body: Mapping[str, Any]) -> bool:
    """Whether the answer to a command has the cluster time of what it wrote: nothing answers a write that is not
    acknowledged, and a transaction writes when it is committed."""
    return within(body, "writeConcern", "w") != 0 and "autocommit" not in body


def lines_in_memory(answer: Mapping[str, Any]) -> list[str]:
    """The newest lines of a server's log, from its answer to ``getLog``, as they stand in its file: in the answer each
    ends with the end of its line (6.0.5), which the file's reader takes away."""
    return [str(one).rstrip("\n") for one in answer.get("log", ())]


def parse_line(text: str) -> Line | None:
    """A line's parts; None for one that is cut or lacks them. What the server says, beside the attributes, of a long
    one that it cut is the attribute ``truncated``."""
    try:
        found = json.loads(text)
        at = datetime.fromisoformat(found["t"]["$date"])
        attr = found.get("attr", {})
        if at.tzinfo is None or not isinstance(attr, dict):
            return None
        if "truncated" in found:
            attr["truncated"] = found["truncated"]
        return Line(int(found["id"]), round(at.timestamp() * 1000), clean(str(found["ctx"]), NAME_CELLS), attr)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def lines_of(client: Client) -> tuple[str, ...]:
    """An open connection as the lines that its login wrote, for a log that begins after it."""
    name, _, db = client.user.rpartition("@")
    doc = {"application": {"name": client.application}, "driver": {"name": client.driver, "version": ""}}
    attrs: list[tuple[int, dict[str, Any]]] = [(METADATA, {"remote": client.address, "doc": doc})]
    if name and " or " not in client.user:
        attrs.append((LOGIN, {"principalName": name, "authenticationDatabase": db, "remote": client.address}))
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return tuple(
        json.dumps({"t": {"$date": at}, "id": id, "ctx": client.connection, "attr": attr}, separators=(",", ":"))
        for id, attr in attrs
    )


def tells(text: str) -> bool:
    """Whether a line is evidence: a connection, a login, a definition, a delete or update, or the command of one."""
    found = _ID.search(text, 0, _ID_WITHIN)
    if found is None or int(found[1]) not in _READERS:
        return False
    return int(found[1]) != SLOW or any(word in text for word in _WRITING)


_READERS: dict[int, Callable[[LogReader, Line], None]] = {
    STARTING: LogReader._starting, ACCEPTED: LogReader._accepted, ENDED: LogReader._ended,
    METADATA: LogReader._metadata, LOGIN: LogReader._login, LOGIN_7: LogReader._login,
    SLOW: LogReader._slow, TTL: LogReader._ttl,
    REGISTERED: LogReader._registered, COLL_MOD: LogReader._coll_mod,
    **dict.fromkeys(_DEFINITIONS, LogReader._defined),
}  # fmt: skip
