"""How counters are watched: apart from the watch itself, so that a program knows them before it imports that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_state_path

from tallyglass.counters.follow.garbage import NO_GARBAGE_POLICY, GarbagePolicy

if TYPE_CHECKING:
    from tallyglass.counters.recognise.config import CountersConfig


def default_history_path() -> Path:
    """The default file for samples, in the state folder of the user."""
    return user_state_path("tallyglass", appauthor=False) / "counters.sqlite"


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How counters are watched. ``history_path`` is the file that keeps samples across runs; None keeps none.

    ``search_seconds`` limits the search for collections and the reading of the oplog in one :func:`look`. After
    ``look_seconds`` it reads no further collection; the snapshot has a trouble for those left out.

    ``oplog_history`` lets the past be read from the oplog. ``garbage`` is the policy for the garbage collector
    of this process while many counters are followed.
    """

    refresh_seconds: float = 1.0
    config: CountersConfig | None = None
    history_path: Path | None = None
    oplog_history: bool = True
    search_seconds: float = 15.0
    look_seconds: float = math.inf
    garbage: GarbagePolicy = NO_GARBAGE_POLICY


USUAL = WatchSettings()
