"""What a screen gets of the oplog: frozen rows, with every text already safe to show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tallyglass.evidence.facts import RunningOperation
from tallyglass.moment import Ts, iso

BUCKETS = "system.buckets."
"""What the collections begin with in which time-series collections keep their measurements, many in a document."""


class RowKind(StrEnum):
    """What a row of the tail stands for."""

    ENTRY = "entry"
    GAP = "gap"
    ROLLBACK = "rollback"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class OplogRow:
    """One line of the tail: an entry, or a gap, a rollback or a note in its place.

    ``op`` is i, u, d, c, n or the server's own letter. ``what`` is one line for a person ("insert", "drop orders",
    "transaction of 40"). ``id`` is the document's ``_id`` as text. ``majority`` is None where unknown.
    ``raw`` is the entry's own BSON, for :func:`tallyglass.oplog.entry.row.detail`; empty for other kinds.
    ``shard`` names the shard that it is from, where several are read as one.
    """

    kind: RowKind
    ts: Ts
    term: int | None
    wall: datetime | None
    op: str
    ns: str
    what: str
    id: str = ""
    size: int = 0
    documents: int = 1
    destructive: bool = False
    majority: bool | None = None
    raw: bytes = b""
    shard: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceRate:
    """Operations a second on one namespace: inserts, updates, deletes and commands over the span named."""

    ns: str
    inserts: float
    updates: float
    deletes: float
    commands: float


@dataclass(frozen=True, slots=True)
class OplogWindow:
    """First and last timestamp, bytes used and allowed, and growth in bytes an hour; None where unreadable.

    ``bytes_per_hour`` is over the whole window, ``recent_bytes_per_hour`` over the last minutes. ``kept_hours`` is
    how long the server keeps entries whatever the size, None where that is not set. ``lacking`` names the privilege
    without which the sizes are not read.
    """

    first: Ts | None
    last: Ts | None
    used_bytes: int | None = None
    max_bytes: int | None = None
    bytes_per_hour: float | None = None
    lacking: str = ""
    recent_bytes_per_hour: float | None = None
    kept_hours: float | None = None

    @property
    def forecast_hours(self) -> float | None:
        """How far back the oplog will reach if it goes on to fill as it did of late; None where unknown."""
        if not self.max_bytes or not self.recent_bytes_per_hour:
            return None
        return max(self.max_bytes / self.recent_bytes_per_hour, self.kept_hours or 0.0)

    @property
    def is_full(self) -> bool:
        """Whether old entries make way for new ones already."""
        return bool(self.used_bytes and self.max_bytes and self.used_bytes >= 0.95 * self.max_bytes)

    @property
    def reach_hours(self) -> float | None:
        """How long what is written now will stay, at worst: the window there is once it is full, or the forecast."""
        known = [hours for hours in (self.hours if self.is_full else None, self.forecast_hours) if hours is not None]
        return min(known, default=None)

    def hours_left(self, start: Ts) -> float | None:
        """Hours until the entry at ``start`` is overwritten, at the growth of the whole window or that of late,
        whichever is faster; None where unknown."""
        if not self.used_bytes or not self.max_bytes or not self.bytes_per_hour or not self.first or not self.last:
            return None
        before = (start.t - self.first.t) / 3600 * self.bytes_per_hour
        room = max(self.max_bytes - self.used_bytes, 0) + before
        kept = (self.kept_hours or 0.0) - (self.last.t - start.t) / 3600
        return max(room / max(self.bytes_per_hour, self.recent_bytes_per_hour or 0.0), kept)

    @property
    def hours(self) -> float | None:
        """The span between first and last entry."""
        if self.first is None or self.last is None:
            return None
        return (self.last.t - self.first.t) / 3600


@dataclass(frozen=True, slots=True)
class OplogUpdate:
    """What arrived since the last update of a tail.

    ``rows`` are those that matched, oldest first, bounded; ``dropped`` counts matched rows left out of it.
    ``seen`` and ``matched`` count since the tail began. ``connected_to`` names the member that is read.
    ``trouble`` is empty while entries flow, else one sentence, with ``since``.

    ``majority`` is the newest ``ts`` that a majority of the members holds: a row after it may still be rolled back.
    ``rates`` are over the last minute of the oplog, ``rates_5m`` over five, ``rates_all`` over all of it that was read
    since the tail began. ``partial`` means that the server left out what
    the filter does not want: then ``seen`` and the rates count only what it sent. ``behind_seconds`` is how far the
    newest entry seen lies behind the newest one that the member knows of; None where unknown. ``gaps`` and
    ``rollbacks`` count since the tail began. ``answered_seconds``
    is how long ago the server last answered, with or without entries. ``older_unread`` means that the look back ended
    at its limit of rows or time: older entries may match too.
    """

    at: datetime
    rows: tuple[OplogRow, ...]
    seen: int
    matched: int
    dropped: int
    last: Ts | None
    window: OplogWindow | None = None
    rates: tuple[NamespaceRate, ...] = ()
    per_second: float = 0.0
    connected_to: str = ""
    trouble: str = ""
    since: datetime | None = None
    majority: Ts | None = None
    rates_5m: tuple[NamespaceRate, ...] = ()
    rates_all: tuple[NamespaceRate, ...] = ()
    partial: bool = False
    behind_seconds: float | None = None
    gaps: int = 0
    rollbacks: int = 0
    answered_seconds: float = 0.0
    older_unread: bool = False


ROUTINE = frozenset({"ttl", "capped", "migration", "job", "trickle", "return"})
"""Kinds of incidents that are the server's own work, or what an application usually does."""


NO_USER_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of nothing: what every session carries on a server without access control."""


class Harm(StrEnum):
    """How much an incident can hurt: data removed, data changed, or definitions changed."""

    LOSS = "loss"
    CHANGE = "change"
    DEFINITION = "definition"


class Certainty(StrEnum):
    """How sure it is who wrote the entries of an incident.

    ``exact``: a key of the entry is in the evidence (its session, or its timestamp). ``unique``: only one client's
    statements fit in namespace, kind, time and count. ``ambiguous``: several fit, or one fits a part. ``none``: none.
    """

    EXACT = "exact"
    UNIQUE = "unique"
    AMBIGUOUS = "ambiguous"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An account with its application that wrote an incident, or may have; empty where unknown, safe to show.

    ``clients`` are its addresses. ``documents`` is how many of the incident's it changed, None if that is not known.
    ``statement`` is one of its ``statements``, with its filter. ``began`` and ``ended`` are of all of them.
    """

    user: str = ""
    application: str = ""
    clients: tuple[str, ...] = ()
    driver: str = ""
    connection: str = ""
    documents: int | None = None
    statement: str = ""
    statements: int = 0
    plan: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    beside: tuple[str, ...] = ()
    """What else its connection wrote within ten minutes, a line for each kind of statement on a namespace."""
    server: bool = False
    """Whether the server itself wrote it, for no client: the passes of a TTL index."""

    @property
    def chain(self) -> str:
        """The account, its application, address and driver in one sentence without an end."""
        if self.server:
            return ", ".join(filter(None, ["the server itself", self.statement or self.application]))
        account = f"the account {self.user}" if self.user else "an account that is not known"
        words = [f"application {self.application}" if self.application else "", ", ".join(self.clients), self.driver]
        return ", ".join(filter(None, [account, *words, "" if self.clients else self.connection]))

    @property
    def name(self) -> str:
        """The account and its application in a few words; the account first, since an application's name is a claim."""
        words = ["the server" if self.server else self.user.removesuffix("@admin"), self.application]
        return ", ".join(filter(None, words)) or self.connection or "unknown"


@dataclass(frozen=True, slots=True)
class Authorship:
    """Who wrote the entries of an incident, as far as the server's own records show.

    At the grades exact and unique ``candidates`` are those that wrote it, the one with most documents first; at
    ambiguous those that may have. ``source`` names the record, ``reason`` is one sentence: why this grade.
    """

    grade: Certainty
    candidates: tuple[Candidate, ...] = ()
    source: str = ""
    reason: str = ""

    @property
    def who(self) -> Candidate | None:
        """The one that wrote it; None if that is not known, or if there are several."""
        return self.candidates[0] if self.is_known and len(self.candidates) == 1 else None

    @property
    def is_known(self) -> bool:
        """Whether the candidates are those that wrote it, beyond doubt."""
        return self.grade in (Certainty.EXACT, Certainty.UNIQUE) and bool(self.candidates)

    @property
    def by(self) -> str:
        """Those that wrote it in a few words: connections without an account by their application. How many may have
        where that is not known; empty without any."""
        count = len(self.candidates)
        if not self.is_known:
            return f"{count} possible" if count else ""
        first = self.candidates[0].name
        if count == 1:
            return first
        same = all(one.name == first for one in self.candidates)
        return f"{first}, {count} connections" if same else f"{first} and {count - 1} more"


@dataclass(frozen=True, slots=True)
class StatementPart:
    """A stretch of an incident that may be a statement of its own: its first and last entry, and its documents."""

    first: Ts
    last: Ts
    documents: int | None


@dataclass(frozen=True, slots=True)
class Incident:
    """What a person did, or what is routine: a run of entries with a first and a last timestamp.

    ``number`` is its place in the list that it came from, from 1, oldest first. ``kind`` is a short word: drop,
    dropDatabase, deleteMany, updateMany, deletes, updates, batch, fan_out, slow_loop, out, rename, collMod,
    createIndexes, dropIndexes, truncateRange, transaction, users, setFCV, sharding; routine are ttl, capped, migration,
    job and trickle. ``title`` is one line ("deleteMany on shop.orders"). ``ops`` counts entries. ``documents`` is None
    where unknown; with ``documents_exact`` false some of them are the application's own. ``point`` is where to return
    to, None for its first entry. ``open`` means still going on.

    ``reason`` says why it is routine, ``op`` is "d" or "u" for writes. ``session`` is the id of the one session in hex,
    ``sessions`` how many took part; ``user_hash`` the SHA-256 of ``user@db`` that it carries, ``user`` the user of that
    hash where it is known. A statement without a session carries neither. ``confidence`` is high or low.
    ``shards`` are those that it happened on, in a list that was merged from several. ``txn`` is the number of a
    transaction in its session. ``parts`` are the statements that it may be, oldest first, where the entries do not show
    whether it is one; otherwise empty. ``evidence`` is None until the server's records were compared with it.
    """

    number: int
    kind: str
    title: str
    ns: str
    harm: Harm
    first: Ts
    last: Ts
    first_wall: datetime | None
    last_wall: datetime | None
    ops: int
    documents: int | None
    samples: tuple[str, ...] = ()
    point: Ts | None = None
    open: bool = False
    note: str = ""
    reason: str = ""
    op: str = ""
    sessions: int = 0
    session: str = ""
    user: str = ""
    user_hash: str = ""
    confidence: str = "high"
    documents_exact: bool = True
    shards: tuple[str, ...] = ()
    txn: int | None = None
    evidence: Authorship | None = None
    parts: tuple[StatementPart, ...] = ()

    @property
    def time_series(self) -> str:
        """The time-series collection whose buckets ``documents`` counts; empty for any other collection. How many
        measurements were in them is not in the oplog."""
        return time_series_of(self.ns)

    @property
    def readings(self) -> tuple[tuple[StatementPart, ...], ...]:
        """What it may be: one statement, or several; oldest first."""
        whole = StatementPart(self.limit, self.last, self.documents)
        return ((whole,), self.parts) if self.parts else ((whole,),)

    @property
    def reading(self) -> str:
        """Whether it is one statement or several, with the point of each, in one sentence; empty if it is one."""
        if not self.parts:
            return ""
        most = {2: "two"}.get(len(self.parts), str(len(self.parts)))
        points = ", ".join(
            str(one.first) + ("" if one.documents is None else f" ({one.documents:,})") for one in self.parts
        )
        return f"One or {most} statements: one from {self.limit}, or {most} from {points}."

    @property
    def limit(self) -> Ts:
        """The exclusive limit that undoes it."""
        return self.point or self.first

    @property
    def began(self) -> datetime:
        """When it began by the server's clock; by the cluster's where its entry does not say."""
        return self.first_wall or self.first.time

    @property
    def ended(self) -> datetime:
        """When its last entry so far was written, by the same clock."""
        return self.last_wall or self.last.time

    @property
    def walls(self) -> tuple[int, int]:
        """When it began and ended, in milliseconds since 1970."""
        return round(self.began.timestamp() * 1_000), round(self.ended.timestamp() * 1_000)

    @property
    def by(self) -> str:
        """Who wrote it in a few words, where that is known beyond doubt; else how many are possible; empty if
        nobody is known."""
        return self.evidence.by if self.evidence is not None and self.evidence.candidates else self.user

    @property
    def who(self) -> str:
        """What is known of who did it, in one sentence."""
        if self.evidence is not None and self.evidence.who is not None:
            return f"It was written by {self.evidence.who.chain}."
        if self.user:
            return f"Its session belongs to {self.user}."
        if self.user_hash == NO_USER_HASH:
            return "User unknown: the server runs without access control."
        if self.user_hash:
            return f"User unknown: none of those that may be listed has the hash {self.user_hash[:12]}…."
        if self.sessions:
            return "Users unknown: each of its sessions carries one, and an opened entry shows it."
        if self.op:
            return "User unknown: a statement without a session leaves none. The server's log may name its connection."
        return "User unknown: this entry names none. The server's log may name its connection."

    @property
    def described(self) -> str:
        """What happened, when, and who wrote it if that is known."""
        who = self.evidence.who if self.evidence is not None else None
        return f"{self.title}, {iso(self.first.time)}" + (f", written by {who.chain}" if who else "")

    @property
    def routine(self) -> bool:
        """Whether this is the server's own work or what is usual there, not what a person did."""
        return bool(self.reason) or self.kind in ROUTINE


@dataclass(frozen=True, slots=True)
class Recurring:
    """The commands that one row of routine, ``row``, consists of.

    ``runs`` are those that are known one by one, oldest first; ``folded`` is the row of ``times`` more that are not.
    """

    row: Incident
    runs: tuple[Incident, ...]
    folded: Incident | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class IncidentScan:
    """Progress of a scan of the past: incidents so far, worst first; how far back it has come.

    ``unread`` names the shards that cannot be read: their incidents are missing. ``running`` are the deletes, updates,
    drops and index builds that run now and have done so for more than a second. ``ns`` is the one collection that it is
    limited to. ``recurring`` are the commands of its routine, until the server's records were compared with it.
    """

    incidents: tuple[Incident, ...]
    scanned: int
    reached: Ts | None
    done: bool
    trouble: str = ""
    unread: tuple[str, ...] = ()
    running: tuple[RunningOperation, ...] = ()
    ns: str = ""
    recurring: tuple[Recurring, ...] = ()

    @property
    def routine(self) -> int:
        """How many of the incidents are routine."""
        return sum(one.routine for one in self.incidents)


def time_series_of(ns: str) -> str:
    """The time-series collection whose buckets a namespace holds; empty for any other namespace."""
    db, _, name = ns.partition(".")
    return f"{db}.{name.removeprefix(BUCKETS)}" if name.startswith(BUCKETS) else ""
