"""What to rehearse, and a drill in progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tallyglass.connection.secret import Secret
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.drill.report import Report


@dataclass(frozen=True, slots=True)
class DrillRequest:
    """What to rehearse. ``backup`` may be a folder of backups; ``to`` is the point; None means the newest point that
    can be proven, or with ``seed`` a random one. ``oplog`` is a saved oplog that is read before the live one.
    ``work_root`` holds the spare's data while the drill runs, ``mongod`` is the server binary, ``tallyglass`` the
    command line that calls this program. ``rate`` is in bytes a second, ``deadline`` in seconds. ``started`` is a time
    of :func:`time.monotonic`: from then on a real plan would take the same time to begin."""

    backup: Path
    source_uri: str
    work_root: Path
    mongod: Path | None
    tallyglass: tuple[str, ...]
    password: Secret | None = None
    to: Ts | None = None
    seed: int | None = None
    oplog: Path | None = None
    backup_start: Ts | None = None
    rate: float | None = None
    deadline: float = 4 * 3600
    started: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class DrillRun:
    """A drill in progress. What it has found goes into the report, however the drill ends."""

    gateway: Gateway
    request: DrillRequest
    tell: Callable[[str], None]
    known: Report
    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def counted(run: DrillRun, phase: str) -> Iterator[None]:
    """Add what this takes to the time of a phase."""
    begun = time.monotonic()
    try:
        yield
    finally:
        run.seconds[phase] = run.seconds.get(phase, 0.0) + time.monotonic() - begun
