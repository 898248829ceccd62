"""Samples kept across runs, in one SQLite file that may be deleted at any time.

Bounded: a sample of a counter every five minutes at most, one an hour after two days, one in six hours after two
weeks, and never more than :data:`MOST_ROWS` in all, the newest. What is out of date is not loaded, but stays in the
file: the clock may be wrong. It holds only names and numbers of counters.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bson import json_util
from bson.errors import BSONError

from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.numbers import Number
from tallyglass.counters.recognise.discovery import Content, LookedAt
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.snapshot import NumericType
from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean, clean_name
from tallyglass.typed_json import Misfit, built, plain

SAVE_SECONDS = 300.0
"""The minimum interval between samples of one counter: 12 of them make the hour that is the unit of a daily cycle."""

MOST_ROWS = 500_000
"""Four months of 390 counters, 1,290 samples each. A row takes 124 bytes, which limits the file to 62 MB."""

_LOADED = 120 * DAY
"""As long as a series in memory."""

_THINNED = ((2 * DAY, HOUR), (14 * DAY, 6 * HOUR))
"""From which age on samples are how far apart: hours show the cycle of a day for two weeks, then quarters of a day."""

_OLDER_AT_ONCE = 2
"""Hours by which samples grow older between two thinnings at most: a clock that jumped ahead may be set right again."""

_KEYS_IN_QUERY = 500
"""Half of the parameters that SQLite allows in one statement before 3.32 (999)."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sample (
    deployment TEXT NOT NULL, counter TEXT NOT NULL, at REAL NOT NULL, number TEXT NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (deployment, counter, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS looked (
    deployment TEXT NOT NULL, ns TEXT NOT NULL, content TEXT NOT NULL, at REAL NOT NULL, query TEXT NOT NULL,
    PRIMARY KEY (deployment, ns)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS known (
    deployment TEXT NOT NULL, counter TEXT NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (deployment, counter)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS finding (
    deployment TEXT NOT NULL, ns TEXT NOT NULL, path TEXT NOT NULL, at REAL NOT NULL, facts TEXT NOT NULL,
    PRIMARY KEY (deployment, ns, path)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class KnownCounter:
    """A counter that was recognised once. ``document`` is the raw ``_id``; ``many``: the row stands for several.

    ``at`` is when it was recognised, ``gone_at`` when it was found to be gone (seconds since 1970).
    ``configured``: a rule of the configuration named it, and nothing else. ``targets`` are the collections with whose
    ids it was compared.
    """

    key: str
    ns: Namespace
    id: str
    path: str
    document: Any
    many: bool
    at: float
    gone_at: float | None = None
    configured: bool = False
    targets: tuple[Namespace, ...] = ()

    @property
    def ns_text(self) -> str:
        """The namespace, safe to show."""
        return clean_name(str(self.ns))


class SampleStore:
    """The file of samples, opened on first use. Blocking: call it in a thread; threads take turns.

    ``load`` and ``save`` raise InputError for a file that cannot be used, and after :meth:`close`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def load(self, deployment: str, counters: Iterable[str], now: float) -> dict[str, list[PastValue]]:
        """The samples of some counters by their keys, oldest first: those of the four months until ``now``."""
        query = (
            "SELECT counter, at, number, kind FROM sample"
            " WHERE deployment = ? AND at BETWEEN ? AND ? AND counter IN ({}) ORDER BY counter, at"
        )
        found: dict[str, list[PastValue]] = {}
        wanted = list(counters)
        with self._open() as connection:
            for start in range(0, len(wanted), _KEYS_IN_QUERY):
                keys = wanted[start : start + _KEYS_IN_QUERY]
                rows = connection.execute(
                    query.format(", ".join("?" * len(keys))), (deployment, now - _LOADED, now, *keys)
                )
                for counter, *facts in rows:
                    past = _past(*facts)
                    if past is not None:
                        found.setdefault(counter, []).append(past)
        return found

    def save(self, deployment: str, rows: Iterable[tuple[str, PastValue]], now: float) -> None:
        """Add samples, and thin old ones."""
        values = [(deployment, key, past.at, str(past.number), past.kind.value) for key, past in rows]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?, ?)", values)
            hour = int(now // HOUR)
            (thinned,) = connection.execute("PRAGMA user_version").fetchone()
            if thinned:
                hour = min(hour, thinned + _OLDER_AT_ONCE)
            if thinned != hour:
                _thin(connection, hour * HOUR)
                connection.execute(f"PRAGMA user_version = {hour}")

    def load_looked(self, deployment: str) -> dict[Namespace, LookedAt]:
        """The results of sampling collections in earlier runs."""
        query = "SELECT ns, content, at, query FROM looked WHERE deployment = ?"
        found: dict[Namespace, LookedAt] = {}
        for ns, content, at, pairs in self._rows(query, deployment):
            with contextlib.suppress(ValueError, TypeError):
                pairs = tuple((str(key), str(value)) for key, value in json.loads(pairs))
                found[Namespace.parse(ns)] = LookedAt(Content(content), float(at), pairs)
        return found

    def save_looked(self, deployment: str, looked: Mapping[Namespace, LookedAt]) -> None:
        """Save the results of sampling collections."""
        rows = [(deployment, str(ns), one.content.value, one.at, json.dumps(one.query)) for ns, one in looked.items()]
        self._write("INSERT OR REPLACE INTO looked VALUES (?, ?, ?, ?, ?)", rows)

    def load_findings(self, deployment: str) -> list[UsageFinding]:
        """The usage findings of earlier runs."""
        found: list[UsageFinding] = []
        for (facts,) in self._rows("SELECT facts FROM finding WHERE deployment = ?", deployment):
            with contextlib.suppress(Misfit, ValueError, TypeError, KeyError):
                found.append(_finding(facts))
        return found

    def save_findings(self, deployment: str, findings: Iterable[UsageFinding], now: float) -> None:
        """Save what was found out about the use of numbers."""
        rows = [(deployment, str(one.ns), one.path, now, _facts(one)) for one in findings]
        self._write("INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?, ?)", rows)

    def load_known(self, deployment: str) -> list[KnownCounter]:
        """The counters that were recognised in earlier runs."""
        found: list[KnownCounter] = []
        for key, facts in self._rows("SELECT counter, facts FROM known WHERE deployment = ?", deployment):
            with contextlib.suppress(ValueError, TypeError, KeyError, BSONError):
                found.append(_known(key, _from_json(facts)))
        return found

    def save_known(self, deployment: str, changed: Mapping[str, KnownCounter | None]) -> None:
        """Save these counters, and forget those that are None."""
        rows = [(deployment, key, _known_facts(one)) for key, one in changed.items() if one is not None]
        self._write("INSERT OR REPLACE INTO known VALUES (?, ?, ?)", rows)
        forgotten = [(deployment, key) for key, one in changed.items() if one is None]
        self._write("DELETE FROM known WHERE deployment = ? AND counter = ?", forgotten)

    def _rows(self, query: str, deployment: str) -> list[tuple[Any, ...]]:
        with self._open() as connection:
            return connection.execute(query, (deployment,)).fetchall()

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._open() as connection, connection:
            connection.executemany(statement, rows)

    def close(self) -> None:
        """Close the file permanently."""
        with self._lock:
            self._closed = True
            if self._connection:
                self._connection.close()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None and not self._closed:
                    self._connection = _connect(self._path)
                if self._connection is None:
                    raise sqlite3.ProgrammingError("it is closed")
                yield self._connection
            except (OSError, sqlite3.Error) as error:
                raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> InputError:
        reason, advice = str(error), "Delete it"
        if isinstance(error, OSError):
            reason, advice = error.strerror or reason, "Check its folder"
        return InputError(
            f"The history file {clean(str(self._path))} cannot be used: {clean(reason)}.",
            f"{advice}, or run with --no-history.",
        )


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a file with the schema; leaves nothing open on failure."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created here first: SQLite would make it readable for everyone.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=2.0, check_same_thread=False)
    try:
        with connection:
            connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _thin(connection: sqlite3.Connection, now: float) -> None:
    for age, apart in _THINNED:
        connection.execute(
            # By a search for a later one in the key: NOT IN would compare all rows with each other.
            "DELETE FROM sample AS one WHERE at < :cut AND EXISTS ("
            "SELECT 1 FROM sample WHERE deployment = one.deployment AND counter = one.counter AND at > one.at"
            " AND at < min(:cut, (CAST(one.at / :apart AS INTEGER) + 1) * :apart))",
            {"cut": now - age, "apart": apart},
        )
    (count,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    if count > MOST_ROWS:
        connection.execute(
            "DELETE FROM sample WHERE at <= (SELECT at FROM sample ORDER BY at LIMIT 1 OFFSET ?)",
            (count - MOST_ROWS - 1,),
        )


def _facts(finding: UsageFinding) -> str:
    own, equal = (tuple((_as_json(name), of) for name, of in one) for one in (finding.by_document, finding.equal))
    return json.dumps(plain(replace(finding, by_document=own, equal=equal)))


def _finding(facts: str) -> UsageFinding:
    found: UsageFinding = built(UsageFinding, json.loads(facts), "finding")
    own, equal = (tuple((_from_json(str(name)), of) for name, of in one) for one in (found.by_document, found.equal))
    return replace(found, evidence=clean(found.evidence), by_document=own, equal=equal)


def _as_json(value: object) -> str:
    """A BSON value as text, with its type."""
    return json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)


def _from_json(text: str) -> Any:
    return json_util.loads(text, json_options=json_util.CANONICAL_JSON_OPTIONS)


def _known_facts(one: KnownCounter) -> str:
    facts = {"ns": str(one.ns), "id": one.id, "path": one.path, "document": one.document, "many": one.many}
    facts |= {"at": one.at, "gone_at": one.gone_at, "configured": one.configured}
    return _as_json({**facts, "targets": [str(ns) for ns in one.targets]})


def _known(key: str, facts: Mapping[str, Any]) -> KnownCounter:
    gone_at = facts["gone_at"]
    return KnownCounter(
        key,
        Namespace.parse(facts["ns"]),
        clean(str(facts["id"])),
        str(facts["path"]),
        facts["document"],
        bool(facts["many"]),
        float(facts["at"]),
        None if gone_at is None else float(gone_at),
        bool(facts.get("configured")),
        tuple(Namespace.parse(ns) for ns in facts.get("targets", ())),
    )


def _past(at: Any, number: Any, kind: Any) -> PastValue | None:
    try:
        return PastValue(float(at), _number(number), NumericType(kind))
    except (TypeError, ValueError):
        return None


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)
