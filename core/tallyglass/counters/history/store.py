"""Samples kept across runs, in one SQLite file that may be deleted at any time.

Bounded: a sample of a counter every five minutes at most, one an hour after two days, one in six hours after two
weeks, none after four months, and never more than :data:`MOST_ROWS` in all. Only names and numbers of counters are
in it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from platformdirs import user_state_path

from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.history.oplog_samples import Past
from tallyglass.counters.numbers import Number
from tallyglass.counters.snapshot import NumericType
from tallyglass.errors import InputError
from tallyglass.text import clean

SAVE_SECONDS = 300.0
"""A counter's samples are at least so far apart."""

MOST_ROWS = 500_000
_KEPT = 120 * DAY
_THINNED = ((2 * DAY, HOUR), (14 * DAY, 6 * HOUR))

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sample (
    deployment TEXT NOT NULL, counter TEXT NOT NULL, at REAL NOT NULL, number TEXT NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (deployment, counter, at)
) WITHOUT ROWID
"""


def default_history_path() -> Path:
    """Where samples are kept unless the user says otherwise: in their state folder."""
    return user_state_path("tallyglass", appauthor=False) / "counters.sqlite"


class SampleStore:
    """The file of samples, opened when it is first used. Blocking: call it in a thread; threads take turns.

    ``load`` and ``save`` raise InputError for a file that cannot be used, and after :meth:`close`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def load(self, deployment: str) -> dict[str, list[Past]]:
        """All samples of a deployment by counter key, oldest first."""
        query = "SELECT counter, at, number, kind FROM sample WHERE deployment = ? ORDER BY counter, at"
        found: dict[str, list[Past]] = {}
        with self._open() as connection:
            for counter, at, number, kind in connection.execute(query, (deployment,)):
                with contextlib.suppress(ValueError):
                    found.setdefault(counter, []).append(Past(float(at), _number(number), NumericType(kind)))
        return found

    def save(self, deployment: str, rows: Iterable[tuple[str, Past]], now: float) -> None:
        """Add samples, and thin old ones."""
        values = [(deployment, key, past.at, str(past.number), past.kind.value) for key, past in rows]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?, ?)", values)
            hour = int(now // HOUR)
            (thinned,) = connection.execute("PRAGMA user_version").fetchone()
            if thinned != hour:
                _thin(connection, now)
                connection.execute(f"PRAGMA user_version = {hour}")

    def close(self) -> None:
        """Close the file for good."""
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
        return InputError(
            f"The history file {clean(str(self._path))} cannot be used: {clean(str(error))}.",
            "Delete it, or run with --no-history.",
        )


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a file with the schema; nothing stays open where that fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made by hand first: SQLite would let everyone read it.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=2.0, check_same_thread=False)
    try:
        with connection:
            connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _thin(connection: sqlite3.Connection, now: float) -> None:
    connection.execute("DELETE FROM sample WHERE at < ?", (now - _KEPT,))
    for age, apart in _THINNED:
        connection.execute(
            "DELETE FROM sample WHERE at < :cut AND (deployment, counter, at) NOT IN ("
            "SELECT deployment, counter, max(at) FROM sample WHERE at < :cut"
            " GROUP BY deployment, counter, CAST(at / :apart AS INTEGER))",
            {"cut": now - age, "apart": apart},
        )
    (count,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    if count > MOST_ROWS:
        connection.execute(
            "DELETE FROM sample WHERE at <= (SELECT at FROM sample ORDER BY at LIMIT 1 OFFSET ?)",
            (count - MOST_ROWS - 1,),
        )


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)
