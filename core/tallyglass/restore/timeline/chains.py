"""Whether a transaction is complete, which namespaces the replay file leaves out, and problems of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the window that the replay cannot apply, or that must be reported. ``kind`` is the id of its
    check."""

    kind: str
    text: str
    ts: Ts


def is_complete(parts: Sequence[Entry]) -> bool:
    """Whether these are all entries of a transaction: each links to the one before it, down to the first."""
    if parts[0].previous is not None:
        return False
    return all(b.previous == a.ts for a, b in pairwise(parts))


@lru_cache(1_000)
def is_left_out(ns: str) -> bool:
    """Whether the query of the oplog dump excludes this namespace: users, versions, and the server's own records."""
    db, _, name = ns.partition(".")
    return db == "config" or (db == "admin" and name != "$cmd")
