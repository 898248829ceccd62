"""How server versions log the documents that a capped collection removes to make room for new ones."""

from __future__ import annotations

from enum import Enum


class Removals(Enum):
    """How the oplog records them."""

    UNLOGGED = "each member removes its own: how many documents are left cannot be computed"
    REFUSED = "each is an entry that a replay stops at: left out, since the spare removes its own oldest documents"
    REPLAYED = "each is an entry like any other"


def removals(version: tuple[int, int] | None) -> Removals:
    """What a server of this version logs. Tested on 4.4.2, 5.0.4, 6.0.5 and 6.0.27."""
    if version is None or version >= (6, 0):
        return Removals.REPLAYED
    return Removals.REFUSED if version >= (5, 0) else Removals.UNLOGGED
