"""How counters are watched: apart from the watch itself, so that a program knows them before it imports that."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_state_path

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

    ``oplog_history`` lets the past be read from the oplog. ``building`` makes the context in which tens of thousands of
    objects are built, while other tasks run: a program that owns the interpreter may hold its garbage collector there,
    which would traverse all of them repeatedly. By default the collector is left as it is.
    """

    refresh_seconds: float = 1.0
    config: CountersConfig | None = None
    history_path: Path | None = None
    oplog_history: bool = True
    search_seconds: float = 15.0
    look_seconds: float = math.inf
    building: Callable[[], AbstractContextManager[object]] = nullcontext


USUAL = WatchSettings()
