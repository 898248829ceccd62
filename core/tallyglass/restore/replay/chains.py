"""The entries of one transaction, which namespaces the replay file leaves out, and problems of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.restore.raw.entries import Entry


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the window that the replay cannot apply, or that must be reported. ``kind`` is the id of its
    check."""

    kind: str
    text: str
    ts: Ts


@dataclass(slots=True)
class Chain:
    """The entries of one transaction so far."""

    entries: list[Entry] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether each entry links to the one before it, down to the first."""
        if self.entries[0].previous is not None:
            return False
        return all(b.previous == a.ts for a, b in zip(self.entries, self.entries[1:], strict=False))


def is_left_out(ns: str) -> bool:
    """Whether the query of the oplog dump excludes this namespace: users, versions, and the server's own records."""
    db, _, name = ns.partition(".")
    return db == "config" or (db == "admin" and name != "$cmd")
