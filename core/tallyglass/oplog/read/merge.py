"""Several oplogs as one: the entries of all shards in order of cluster time.

A shard that is quiet holds the others back only for a moment; one that is lost is named and does not stop them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import closing
from tallyglass.oplog.entry.batch import position
from tallyglass.oplog.read.export import Entries, ExportItem

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
    queue: asyncio.Queue[ExportItem | TallyglassError | None]
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
    shards, word = [_Source(name, asyncio.Queue(_QUEUED)) for name in sources], asyncio.Event()
    tasks = [asyncio.ensure_future(_pump(sources[shard.name], shard.queue, word)) for shard in shards]
    try:
        while not all(shard.ended and not shard.waiting for shard in shards):
            word.clear()
            for found in [found for shard in shards for found in _drained(shard)]:
                yield found
            ready = _ready(shards, hold)
            if ready:
                yield ready
            elif any(shard.silent for shard in shards):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_patience(shards, hold)):
                        await word.wait()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _pump(
    items: AsyncIterator[ExportItem], queue: asyncio.Queue[ExportItem | TallyglassError | None], word: asyncio.Event
) -> None:
    """Pass items on, no faster than they are taken."""
    last: TallyglassError | None = None
    try:
        async with closing(items) as held:
            async for item in held:
                await queue.put(item)
                word.set()
    except TallyglassError as error:
        last = error
    await queue.put(last)
    word.set()


def _drained(shard: _Source) -> list[MergedItem]:
    """Take items of a shard until an entry waits; items that are not entries are passed on at once."""
    found: list[MergedItem] = []
    while not shard.waiting and not shard.queue.empty():
        item = shard.queue.get_nowait()
        shard.heard = time.monotonic()
        if item is None:
            shard.ended = True
        elif isinstance(item, TallyglassError):
            shard.ended = True
            found.append(ShardLost(shard.name, str(item)))
        elif isinstance(item, Entries):
            shard.waiting.extend(ShardEntry(shard.name, position(raw, 0, len(raw))[0], raw) for raw in item.raws)
        else:
            found.append(ShardEvent(shard.name, item))
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
