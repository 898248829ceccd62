"""Tables of one reader: in memory while they are small, then in a file without a name that ends with the reader."""

from __future__ import annotations

import sqlite3

_CACHE_KB = 32_000
"""What SQLite keeps of the tables in memory. With its own 2 MB, those of 100,000 documents are read from the file and
written to it again and again: a second run of a return took a quarter longer."""


class _Temporary(sqlite3.Connection):
    """A connection that is closed with its reader, also where that failed, and whichever of a cycle ends first: Python
    3.13 warns of one that is not."""

    def __del__(self) -> None:
        self.close()


def temporary_tables() -> sqlite3.Connection:
    """A new connection without tables, for one thread at a time. Its writes need no journal: nobody reads the rest of
    what failed."""
    rows = sqlite3.connect("", isolation_level=None, check_same_thread=False, factory=_Temporary)
    write_fast(rows)
    return rows


def write_fast(rows: sqlite3.Connection) -> None:
    """No journal and no waiting for the disk, for a file that is not used unless it is whole."""
    rows.execute("PRAGMA journal_mode = OFF")
    rows.execute("PRAGMA synchronous = OFF")
    rows.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
