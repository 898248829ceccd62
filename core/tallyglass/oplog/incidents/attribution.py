"""Who wrote an incident: its entries are compared with what the server's log, profile and sessions say.

A session's entries carry its id, a definition's log line its ``ts``: exact. A statement without a session is known by
namespace, kind, time and count: unique if no other client's statements fit. Everything else names nobody. Measured on
a recording of real applications (``python -m bench evidence``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from bson import Timestamp

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import INTERNAL_USER, Client, Definition, Source, Statement
from tallyglass.evidence.statement import id_key
from tallyglass.moment import ZERO, Ts, from_seconds
from tallyglass.mongo.gateway import OPLOG, Gateway, closing
from tallyglass.oplog.entry.batch import entries
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.assignment import AlikeEntries, Demand, assign
from tallyglass.oplog.incidents.habits import SLACK_MILLIS
from tallyglass.oplog.incidents.recurrence import EPISODE_MILLIS
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Incident
from tallyglass.text import clean_name, unescape_name

MOST = 0.9
"""The share of an incident's documents that one client must have written to be named alone: others may have written
the rest at the same time."""

BESIDE_MILLIS = 600_000
"""How long before and after an incident the other statements of its connection are shown."""

_BESIDE_LIMIT = 20
"""The most lines of what else a connection wrote: a page has room for no more."""

_EXPANSIONS = 4
"""How many times the entries to be read are extended by statements that overlap them: traffic without a pause would
extend them without end."""

_MARGIN_SECONDS = 2
"""How much more is read than asked for: a timestamp has whole seconds, and a log line is up to 1.5 s late."""

_CLIENTS = 5
"""The most addresses of one client that are named: a pool has many of them, all of one program."""

_READ_MS = 60_000
"""How long a server may take to read the entries of one incident, in milliseconds."""

_SOURCES = (Source.LOG, Source.PROFILE, Source.AUDIT)
_NAMES = {
    "drop": {"drop"}, "dropDatabase": {"drop", "dropDatabase"}, "out": {"drop", "rename"},
    "rename": {"drop", "rename"}, "convertToCapped": {"drop", "rename"},
}  # fmt: skip
"""The commands that log lines may name for a kind of incident, where that is not the kind's own name."""

_BY_TS = "Its log line names the timestamp of the entry."
_BY_SESSION = "Its entries carry the session."
_BY_STATEMENT = "No statement of another client fits in namespace, kind, time and number of documents."
_BY_COUNT = "Its statements alone count so many of the documents that were changed in their time."
_BY_NAME = "No other logged command has this name and namespace within a second."
_SEVERAL = "Statements of several clients fit in namespace, kind, time and number of documents."
_CLOCK = "The log's clock is ahead of the cluster's: times do not tell whose statement it was."
_PART = "Not all documents are accounted for: a statement is not logged, or the log is not complete."


def concerning(incidents: Iterable[Incident]) -> Callable[[str, int, int], bool]:
    """Whether what ran on a namespace between two moments, in milliseconds, can concern any of these incidents."""
    by_ns: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in incidents:
        first, last = one.walls
        by_ns[one.ns].append((first - SLACK_MILLIS, last + SLACK_MILLIS))
    ends: dict[str, list[int]] = {}
    for ns, spans in by_ns.items():
        spans.sort()
        merged = [spans[0]]
        for first, last in spans[1:]:
            if first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        by_ns[ns], ends[ns] = merged, [last for _, last in merged]

    def concerns(ns: str, began: int, ended: int) -> bool:
        at = bisect_left(ends.get(ns, ()), began)
        return at < len(ends.get(ns, ())) and by_ns[ns][at][0] <= ended

    return concerns


def needs_entries(incident: Incident) -> bool:
    """Whether its entries must be read again: a session, or the line of a definition, tells who it was by itself."""
    return bool(incident.op) and not incident.session


async def attribute(gateway: Gateway, incident: Incident, book: Book) -> Authorship:
    """Compare one incident with the evidence. Reads its part of the oplog again where that decides.

    Raises the errors of the gateway.
    """
    if needs_entries(incident):
        return await _of_writes(gateway, incident, book)
    if incident.session:
        return _of_session(incident, book)
    return _of_definition(incident, book)


async def _of_writes(gateway: Gateway, incident: Incident, book: Book) -> Authorship:
    """Each source is compared alone, since a statement may be in several: the best grade, the log first."""
    found = Authorship(Certainty.NONE, reason=why_none(incident, book))
    for source in _SOURCES:
        first, last, statements = _window(incident, book, source)
        if not statements and not (incident.sessions and source is Source.LOG):
            continue
        join = EntryJoin(incident, statements, book, source)
        # Timestamps are by the cluster's clock, which can be ahead of the server's own.
        since, until = (one // 1000 + incident.first.t - incident.walls[0] // 1000 for one in (first, last))
        async for raw in entries_between(gateway, incident.ns, incident.op, since, until):
            join.feed(raw)
        told = join.evidence()
        doubted = source is Source.LOG and book.is_clock_doubted(first, last)
        if told.grade is Certainty.UNIQUE and doubted:
            told = replace(told, grade=Certainty.AMBIGUOUS, reason=_CLOCK)
        if found.grade is Certainty.NONE or told.is_known:
            found = told
        if found.is_known:
            break
    return found


def clients_beside_ttl(incident: Incident, book: Book) -> str:
    """What the log says that clients deleted where and while a TTL index did; empty if nothing."""
    by: Counter[tuple[str, str]] = Counter()
    for one in book.statements(incident.ns, "d", *incident.walls):
        if one.source is Source.LOG and not one.client.is_server:
            by[one.client.user, one.client.application] += one.documents or 0
    told = [f"{count:,} by {', '.join(filter(None, who)) or 'a client'}" for who, count in by.most_common(_CLIENTS)]
    return f"the log also has deletes of clients: {'; '.join(told)}" if told else ""


def bearing(incident: Incident, book: Book) -> Hashable:
    """What the evidence has on an incident, as numbers: while they are the same, so is the result."""
    first, last = incident.walls
    if needs_entries(incident):
        users = len(book.users) if incident.sessions else 0
        counts = tuple(len(_window(incident, book, source)[2]) for source in _SOURCES)
        return (counts, users, book.covers(first, last))
    return book.version


# The window of entries that must be read


def _window(incident: Incident, book: Book, source: Source) -> tuple[int, int, list[Statement]]:
    """From when to when entries are read, in milliseconds by the server's clock, so that each statement of a source
    that overlaps the incident finds all of its own; and these statements."""
    first, last = incident.walls
    found: list[Statement] = []
    for _ in range(_EXPANSIONS + 1):
        near = book.statements(incident.ns, incident.op, first, last + SLACK_MILLIS)
        # What is in a session is left out. If that is not known it can only be ambiguous: its own entries may be
        # elsewhere, and those at hand another's.
        found = [one for one in near if one.source is source and one.in_session is not True]
        wider = (min([first, *(one.began for one in found)]), max([last, *(one.ended for one in found)]))
        if wider == (first, last):
            break
        first, last = wider
    return first - SLACK_MILLIS, last, [_behind_router(one, book) for one in found]


def _behind_router(one: Statement, book: Book) -> Statement:
    """A statement that a router sent, with the client that the router's own log names for its session."""
    if one.client.user != INTERNAL_USER or not one.session:
        return one
    client = book.sessions.get(one.session)
    return replace(one, client=client) if client is not None and client.user != INTERNAL_USER else one


async def entries_between(gateway: Gateway, name: str, op: str, first: int, last: int) -> AsyncIterator[bytes]:
    """The deletes or updates of a namespace, as it is shown, between two moments in seconds, and some about them."""
    ns = unescape_name(name)
    query = {
        "ts": {
            "$gte": Timestamp(max(first - _MARGIN_SECONDS, 0), 0),
            "$lt": Timestamp(last + _MARGIN_SECONDS, 0),
        },
        "$or": [{"ns": ns, "op": op}, {"op": "c", "o.applyOps.ns": ns}],
    }
    async with closing(gateway.find_raw(OPLOG, query, time_ms=_READ_MS)) as batches:
        async for batch in batches:
            for raw in entries(batch):
                yield raw


def writes_in(raw: bytes, name: str, op: str) -> Iterator[tuple[Entry, Entry]]:
    """The deletes or updates of a namespace, as it is shown, in an entry, each with the entry; none that a migration
    wrote. Raises Malformed."""
    entry = read_entry(raw)
    for write in operations_of(entry):
        moved = entry.from_migrate or write.from_migrate
        if write.op == op and not moved and clean_name(write.ns, 255) == name:
            yield write, entry


# The join of entries and statements


@dataclass(slots=True)
class _Account:
    """What one client is known to have written, or may have: by the sessions of the entries, or by some statements."""

    client: Client
    documents: int = 0
    clients: dict[Client, None] = field(default_factory=dict)
    statements: dict[int, None] = field(default_factory=dict)


def _who(client: Client) -> Hashable:
    """Clients with the same account and application are one; without an account also the connection counts."""
    return (client.user, client.application) if client.user else (client.application, client.address, client.connection)


def _account_of(accounts: dict[Hashable, _Account], client: Client) -> _Account:
    account = accounts.setdefault(_who(client), _Account(client))
    account.clients[client] = None
    return account


class EntryJoin:
    """Feed it the entries of an incident's window, then read the evidence."""

    def __init__(self, incident: Incident, statements: Sequence[Statement], book: Book, source: Source) -> None:
        self._incident = incident
        self._source = source
        self._book = book
        self._statements = sorted(statements, key=lambda one: one.began)
        self._groups: Counter[AlikeEntries] = Counter()
        self._keyed: Counter[tuple[bytes, int | None, bytes]] = Counter()
        self._near: tuple[int, list[int]] = (-1, [])

    def feed(self, raw: bytes) -> None:
        """Count one entry of the oplog."""
        with suppress(Malformed):
            for write, entry in writes_in(raw, self._incident.ns, self._incident.op):
                self._count(write, entry)

    def _count(self, write: Entry, entry: Entry) -> None:
        inside = self._incident.first <= entry.ts <= self._incident.last
        if entry.txn_number is not None:
            if inside and self._incident.sessions:
                session, user = entry.session_and_user
                self._keyed[session, entry.txn_number, user] += 1
        elif entry.wall_millis is not None:
            self._groups[AlikeEntries(inside and not self._incident.sessions, self._fits(write, entry))] += 1

    def _fits(self, write: Entry, entry: Entry) -> tuple[int, ...]:
        wall = entry.wall_millis or 0
        if self._near[0] != wall:
            self._near = (wall, [n for n, one in enumerate(self._statements) if _is_in_time(one, wall)])
        return tuple(
            n
            for n in self._near[1]
            if _is_between(self._statements[n], entry.ts) and _may_concern(self._statements[n], write)
        )

    def evidence(self) -> Authorship:
        """Who wrote the incident's entries."""
        accounts: dict[Hashable, _Account] = {}
        total = 0
        for (session, txn, user), count in self._keyed.items():
            total += count
            client = _session_client(self._book, session, txn, user)
            if client is not None:
                _account_of(accounts, client).documents += count
        demands = [
            Demand(one.documents, one.keys or 0, _who(one.client) if one.in_session is False else None)
            for one in self._statements
        ]
        shares = assign(self._groups, demands)
        possible: dict[int, int] = defaultdict(int)
        for group, count in self._groups.items():
            if not group.inside:
                continue
            total += count
            share = shares.get(group)
            if share is not None and share.certain:
                for n, number in share.by.items():
                    account = _account_of(accounts, self._statements[n].client)
                    account.documents += number
                    account.statements[n] = None
            for n in share.possible if share else group.fits:
                possible[n] += count
        return self._verdict(accounts, possible, total)

    def _verdict(self, accounts: dict[Hashable, _Account], possible: dict[int, int], total: int) -> Authorship:
        ranked = sorted(accounts.values(), key=lambda one: -one.documents)
        known = sum(one.documents for one in ranked)
        if ranked and total and ranked[0].documents >= MOST * total:
            ranked, known = ranked[:1], total
        if ranked and known >= MOST * total:
            if any(one.statements for one in ranked):
                return self._shown(Certainty.UNIQUE, ranked, _BY_STATEMENT)
            return self._shown(Certainty.EXACT, ranked, _BY_SESSION)
        counted = self._by_count(total)
        if counted is not None:
            return self._shown(Certainty.UNIQUE, [counted], _BY_COUNT)
        for n, count in possible.items():
            statement = self._statements[n]
            account = _account_of(accounts, statement.client)
            account.documents = max(account.documents, min(count, statement.documents or count))
            account.statements[n] = None
        if accounts:
            ranked = sorted(accounts.values(), key=lambda one: -one.documents)
            return self._shown(Certainty.AMBIGUOUS, ranked, _SEVERAL if len(ranked) > 1 else _PART)
        return Authorship(Certainty.NONE, reason=why_none(self._incident, self._book))

    def _by_count(self, total: int) -> _Account | None:
        """A statement that counts nearly as many documents as were changed in all of its time wrote nearly all."""
        for n, one in enumerate(self._statements):
            if one.in_session is not False:
                continue
            within = sum(count for group, count in self._groups.items() if n in group.fits)
            inside = sum(count for group, count in self._groups.items() if group.inside and n in group.fits)
            least = (one.documents or 0) - (within - inside)
            if total and within >= (one.documents or 0) and least >= MOST * total:
                return _Account(one.client, least, {one.client: None}, {n: None})
        return None

    def _shown(self, grade: Certainty, accounts: Iterable[_Account], reason: str) -> Authorship:
        candidates = []
        for one in accounts:
            statements = [self._statements[n] for n in one.statements]
            if not statements and self._incident.op:
                first, last = self._incident.walls
                sessions = {session for session, _, _ in self._keyed}
                statements = [
                    found
                    for session in sessions
                    for found in self._book.statements_of(session, self._incident.ns, first, last)
                    if _who(found.client) == _who(one.client)
                ]
            candidates.append(
                _candidate(self._book, self._incident, one.client, list(one.clients), statements, one.documents)
            )
        return Authorship(grade, tuple(candidates), str(self._source), reason)


def _is_in_time(one: Statement, wall: int) -> bool:
    """Whether a statement may have written an entry of that time."""
    return max(one.floor, one.began - SLACK_MILLIS) <= wall <= one.ended


def _is_between(one: Statement, ts: Ts) -> bool:
    """Whether an entry lies between the cluster times that the client knew before and after the statement."""
    return one.after < ts and (one.before is None or ts <= one.before)


def may_have_written(one: Statement, write: Entry, entry: Entry) -> bool:
    """Whether a statement may have written this operation of an entry, which carries no session."""
    wall = entry.wall_millis
    in_time = wall is not None and _is_in_time(one, wall) and _is_between(one, entry.ts)
    return in_time and entry.txn_number is None and _may_concern(one, write)


def _may_concern(one: Statement, write: Entry) -> bool:
    """Whether the filter's ``_id`` and the update's fields allow this entry; true where they are not known."""
    if one.ids is not None:
        key = id_key(write.document_id)
        if key is not None and key not in one.ids:
            return False
    if one.fields is not None and write.op == "u":
        changed = _changed_fields(write)
        return changed is None or changed <= one.fields
    return True


def _changed_fields(write: Entry) -> set[str] | None:
    """The top-level fields that an update changes; None where it is the whole new document."""
    changes = write.changes()
    if changes is None:
        return None
    return {one.path[0].decode("utf-8", "replace").partition(".")[0] for one in changes if one.path}


# Sessions and definitions


def _session_client(book: Book, session: bytes, txn: int | None, user_hash: bytes) -> Client | None:
    """The client of a session: the connection of this very command, else one that used the session. Its account is what
    the entry itself carries, where the name for that is known."""
    client = (None if txn is None else book.sender(session, txn)) or book.sessions.get(session)
    user = book.users.get(user_hash)
    if user == INTERNAL_USER or (client is not None and client.user == INTERNAL_USER and not user):
        return None
    if client is None:
        return Client(user=user) if user else None
    if user and client.user and client.user not in (user, INTERNAL_USER):
        return Client(user=user)
    return replace(client, user=user or client.user)


def _of_session(incident: Incident, book: Book) -> Authorship:
    session = bytes.fromhex(incident.session)
    client = _session_client(book, session, incident.txn, bytes.fromhex(incident.user_hash))
    if client is None and incident.user:
        client = Client(user=incident.user)
    if client is None:
        return Authorship(Certainty.NONE, reason=why_none(incident, book))
    first, last = incident.walls
    statements = book.statements_of(session, incident.ns, first, last)
    found = _candidate(book, incident, client, [client], statements, incident.documents)
    return Authorship(Certainty.EXACT, (found,), "log" if client.connection else "sessions", _BY_SESSION)


def client_of_command(incident: Incident, book: Book) -> Client | None:
    """Who ran a command or transaction, if one client alone can have; None where only a router is known."""
    if incident.session:
        return _session_client(book, bytes.fromhex(incident.session), incident.txn, bytes.fromhex(incident.user_hash))
    found, _ = _definitions_of(incident, book)
    clients = {_who(one.client): one.client for one in found if one.client.user != INTERNAL_USER}
    return clients.popitem()[1] if len(clients) == 1 else None


def _definitions_of(incident: Incident, book: Book) -> tuple[list[Definition], bool]:
    """The lines that may be of a command, and whether they name its timestamp."""
    names = frozenset(_NAMES.get(incident.kind, {incident.kind}))
    first, last = incident.walls
    near = book.definitions(names, first - EPISODE_MILLIS, last + EPISODE_MILLIS)
    exact = [one for one in near if incident.first <= one.commit <= incident.last]
    return exact or [one for one in near if _names(one, incident)], bool(exact)


def _of_definition(incident: Incident, book: Book) -> Authorship:
    found, exact = _definitions_of(incident, book)
    if not found:
        return Authorship(Certainty.NONE, reason=why_none(incident, book))
    accounts: dict[Hashable, list[Definition]] = defaultdict(list)
    for one in sorted(found, key=lambda one: not one.client.connection):
        known = (key for key, own in accounts.items() if _may_be_same(one.client, own[0].client))
        accounts[next(known, _who(one.client))].append(one)
    candidates = tuple(
        replace(
            _candidate(book, incident, own[0].client, [one.client for one in own], (), None),
            statement=own[-1].text,
            statements=len(own),
        )
        for own in accounts.values()
    )
    if len(candidates) > 1:
        return Authorship(Certainty.AMBIGUOUS, candidates, "log", _SEVERAL)
    return Authorship(Certainty.EXACT if exact else Certainty.UNIQUE, candidates, "log", _BY_TS if exact else _BY_NAME)


def _may_be_same(one: Client, logged: Client) -> bool:
    """Whether a profile or audit log, which names no connection, can mean a client that the log names."""
    unconnected = not one.connection and bool(one.user) and one.user == logged.user
    return unconnected and one.application in ("", logged.application)


def _names(one: Definition, incident: Incident) -> bool:
    """Whether a line without the entry's timestamp can be of this incident, by the names alone."""
    if one.name == "collMod":
        return one.ns == incident.ns.partition(".")[2]
    if one.name == "users":
        return True
    return (one.name == "dropDatabase" or one.commit == ZERO) and one.ns == incident.ns


# What is shown


def _candidate(
    book: Book,
    incident: Incident,
    client: Client,
    clients: Iterable[Client],
    statements: Sequence[Statement],
    documents: int | None,
) -> Candidate:
    addresses = dict.fromkeys(one.address for one in clients if one.address)
    largest = max(statements, key=lambda one: one.documents or 0, default=None)
    first, last = incident.walls
    beside = (
        book.beside(client, first - BESIDE_MILLIS, last + BESIDE_MILLIS)
        if client.connection and not client.is_server
        else []
    )
    own = set(map(id, statements))
    told: dict[tuple[str, str], list[Statement]] = defaultdict(list)
    for one in beside:
        if id(one) not in own:
            told[one.ns, one.text.partition("(")[0]].append(one)
    return Candidate(
        client.user if client.user != INTERNAL_USER else "",
        client.application,
        tuple(addresses)[:_CLIENTS],
        client.driver,
        client.connection,
        documents,
        largest.text if largest else "",
        len(statements),
        largest.plan if largest else "",
        from_seconds(min(one.began for one in statements) / 1000) if statements else None,
        from_seconds(max(one.ended for one in statements) / 1000) if statements else None,
        tuple(_told(*key, found) for key, found in list(told.items())[-_BESIDE_LIMIT:]),
        client.is_server,
    )


def _told(ns: str, verb: str, found: Sequence[Statement]) -> str:
    """Statements of one kind on one namespace in a line."""
    documents = sum(one.documents or 0 for one in found)
    times = f"{len(found):,} times, {found[-1].text}" if len(found) > 1 else found[-1].text
    return f"{from_seconds(found[0].ended // 1000):%H:%M:%S} {ns} {times or verb}: {documents:,} documents"


def why_none(incident: Incident, book: Book) -> str:
    """Why nobody is named, with the lines of the log that could not be used."""
    first, last = incident.walls
    if not book.coverage:
        reason = " ".join(book.refused.values()) or "No log of the server was read."
    elif not book.covers(first, last):
        reason = "No log that was read covers its time."
    elif incident.op and not incident.sessions:
        reason = (
            "No logged statement fits: the server logs those above its slowms; tallyglass doctor says how to keep more."
        )
    else:
        reason = "No line of the log names it."
    return f"{reason} {book.tally.unused()}".rstrip()
