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
from collections.abc import Iterable
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
    """The file of samples. Blocking: call it in a thread. Safe to use from several threads, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Made by hand first: SQLite would let everyone read it.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._base = sqlite3.connect(path, timeout=2.0, check_same_thread=False)
            with self._base:
                self._base.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def load(self, deployment: str) -> dict[str, list[Past]]:
        """All samples of a deployment by counter key, oldest first. Raises InputError for a file that is not usable."""
        query = "SELECT counter, at, number, kind FROM sample WHERE deployment = ? ORDER BY counter, at"
        found: dict[str, list[Past]] = {}
        with self._lock:
            try:
                for counter, at, number, kind in self._base.execute(query, (deployment,)):
                    with contextlib.suppress(ValueError):
                        found.setdefault(counter, []).append(Past(float(at), _number(number), NumericType(kind)))
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return found

    def save(self, deployment: str, rows: Iterable[tuple[str, Past]], now: float) -> None:
        """Add samples, and thin old ones. Raises InputError for a file that is not usable."""
        values = [(deployment, key, past.at, str(past.number), past.kind.value) for key, past in rows]
        with self._lock:
            try:
                with self._base:
                    self._base.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?, ?)", values)
                    hour = int(now // HOUR)
                    (thinned,) = self._base.execute("PRAGMA user_version").fetchone()
                    if thinned != hour:
                        self._thin(now)
                        self._base.execute(f"PRAGMA user_version = {hour}")
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def _thin(self, now: float) -> None:
        self._base.execute("DELETE FROM sample WHERE at < ?", (now - _KEPT,))
        for age, apart in _THINNED:
            self._base.execute(
                "DELETE FROM sample WHERE at < :cut AND (deployment, counter, at) NOT IN ("
                "SELECT deployment, counter, max(at) FROM sample WHERE at < :cut"
                " GROUP BY deployment, counter, CAST(at / :apart AS INTEGER))",
                {"cut": now - age, "apart": apart},
            )
        (count,) = self._base.execute("SELECT count(*) FROM sample").fetchone()
        if count > MOST_ROWS:
            self._base.execute(
                "DELETE FROM sample WHERE at <= (SELECT at FROM sample ORDER BY at LIMIT 1 OFFSET ?)",
                (count - MOST_ROWS - 1,),
            )

    def _unusable(self, error: Exception) -> InputError:
        return InputError(
            f"The history file {clean(str(self._path))} cannot be used: {clean(str(error))}.",
            "Delete it, or run with --no-history.",
        )


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)
