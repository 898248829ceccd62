"""Several oplogs as one: the entries of all shards in order of cluster time.

A shard that is quiet holds the others back only for a moment; one that is lost is named and does not stop them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import position
from tallyglass.oplog.read.export import ExportItem
from tallyglass.oplog.read.fan_in import FanIn

HOLD_SECONDS = 2.0
"""How long the entries of one shard wait for those of a silent one."""

_QUEUED = 4
"""Items of a shard that wait to be merged, each up to 16 MB of entries."""


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One entry, with the shard whose oplog it comes from."""

    shard: str
    ts: Ts
    raw: bytes


@dataclass(frozen=True, slots=True)
class ShardEvent:
    """Anything else that a shard's stream yields."""

    shard: str
    item: ExportItem


@dataclass(frozen=True, slots=True)
class ShardLost:
    """This shard is no longer read, and why; the others continue."""

    shard: str
    reason: str


MergedItem = tuple[ShardEntry, ...] | ShardEvent | ShardLost


@dataclass(slots=True)
class _Source:
    """One shard's stream, with what has come and was not handed out yet."""

    name: str
    waiting: deque[ShardEntry] = field(default_factory=deque)
    ended: bool = False
    heard: float = field(default_factory=time.monotonic)

    @property
    def silent(self) -> bool:
        """Whether its next entry is not known."""
        return not self.ended and not self.waiting


async def merge(
    sources: Mapping[str, AsyncIterator[ExportItem]], *, hold: float | None = HOLD_SECONDS
) -> AsyncIterator[MergedItem]:
    """Merge the streams of :func:`~tallyglass.oplog.read.export.follow_entries` or ``read_entries`` by cluster time.

    ``hold`` is how many seconds to wait for a silent shard, None for as long as it takes: for streams that end. Ends
    when all streams have ended. An entry of a shard that was silent for longer comes late, after newer ones of others.
    """
    shards = [_Source(name) for name in sources]
    async with FanIn(sources, _QUEUED) as arrivals:
        while not all(shard.ended and not shard.waiting for shard in shards):
            for found in [found for shard in shards for found in _drained(shard, arrivals)]:
                yield found
            ready = _ready(shards, hold)
            if ready:
                yield ready
            elif any(shard.silent for shard in shards):
                await arrivals.wait(_patience(shards, hold))


def _drained(shard: _Source, arrivals: FanIn[ExportItem]) -> list[MergedItem]:
    """Take items of a shard until an entry waits; items that are not entries are passed on at once."""
    found: list[MergedItem] = []
    if shard.waiting or shard.ended:
        return found
    for item in arrivals.arrived(shard.name):
        shard.heard = time.monotonic()
        if not isinstance(item, tuple):
            found.append(ShardEvent(shard.name, item))
        elif item:
            shard.waiting.extend(ShardEntry(shard.name, position(raw, 0, len(raw))[0], raw) for raw in item)
            return found
    shard.ended = shard.name in arrivals.ended
    if error := arrivals.errors.get(shard.name):
        found.append(ShardLost(shard.name, str(error)))
    return found


def _ready(shards: list[_Source], hold: float | None) -> tuple[ShardEntry, ...]:
    """The entries that no entry of another shard can precede any more, in order."""
    filled = [shard for shard in shards if shard.waiting]
    if not filled:
        return ()
    now = time.monotonic()
    if any(shard.silent and (hold is None or now - shard.heard < hold) for shard in shards):
        return ()
    # A shard with more to come may go on right after its last entry here.
    limit = min(shard.waiting[-1].ts for shard in filled)
    taken: list[ShardEntry] = []
    for shard in filled:
        while shard.waiting and shard.waiting[0].ts <= limit:
            taken.append(shard.waiting.popleft())
    taken.sort(key=lambda entry: (entry.ts, entry.shard))
    return tuple(taken)


def _patience(shards: list[_Source], hold: float | None) -> float | None:
    """How long to wait for an answer before the others continue without it; None without limit."""
    if hold is None or not any(shard.waiting for shard in shards):
        return None
    now = time.monotonic()
    return max(0.01, max(hold - (now - shard.heard) for shard in shards if shard.silent))
