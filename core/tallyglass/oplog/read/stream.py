"""The oplog as a stream that resumes exactly: entries, and every place where they are not continuous.

A driver ends a tailable cursor without an error when its place was lost, and a cursor opened again with
``$gte`` skips the hole in silence. So each cursor begins at the last entry that was seen, and its first entry
must be that one. Otherwise the oplog has rolled past it (a gap), or it was rolled back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson import Timestamp

from tallyglass.errors import ConnectError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import GET_MORE_SECONDS, OPLOG, RAW_BATCH, Document, Gateway, closing
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import is_no_op, last_start, position
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.read.entries import end_of_oplog, op_time

ANSWER_SECONDS = 12.0
"""A cursor without an answer for this long is given up."""

SILENT_SECONDS = 30.0
"""A cursor without an entry for this long is opened again; a primary writes a no-op every 10 s."""

AWAIT_SECONDS = 1.0
"""How long a server waits for entries before it answers that there are none."""

SELDOM_SECONDS = 2.0
"""How long it waits, and the least time between two requests, for a reader that shows no entries. Less than the four
seconds after which the link examines a client that does not answer."""

_BACKOFF_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Pauses between attempts to open a cursor: short enough for a failover of some seconds."""

_KEPT_BYTES, _TRAIL = 24_000_000, 4_096
"""Bytes of entries, and ends of batches before them, that are kept to count and find what was rolled back."""


@dataclass(frozen=True, slots=True)
class EntryPosition:
    """One entry's place in history: two entries with the same ``ts`` and another term are not the same."""

    ts: Ts
    term: int | None = None


def op_position(value: Any) -> EntryPosition | None:
    """The place of an optime document such as ``{ts, t}``; None where it is not one."""
    ts = op_time(value)
    if ts is None:
        return None
    term = value.get("t")
    # The entry that initiates a set has no term, and its optime says -1.
    return EntryPosition(ts, int(term) if isinstance(term, int) and term >= 0 else None)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A batch of entries, whole and in order; empty where the server answered that there is nothing new."""

    batch: bytes


@dataclass(frozen=True, slots=True)
class Opened:
    """A cursor is open on this member."""

    member: str


@dataclass(frozen=True, slots=True)
class Gap:
    """The oplog has rolled past the place read up to: what lies between ``after`` and ``first`` is missing. With
    ``requested`` nothing was read yet, and ``after`` is the time that was asked for."""

    after: Ts
    first: Ts
    requested: bool = False


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Entries after ``common`` up to ``last`` no longer exist. ``count`` is how many, without no-ops; None where they
    were too many to keep.

    ``common`` is None where no entry that was seen is left.
    """

    common: Ts | None
    first: Ts
    last: Ts
    count: int | None


@dataclass(frozen=True, slots=True)
class Interruption:
    """Entries do not flow, and why. Another attempt is on its way."""

    text: str
    since: datetime


Event = Arrived | Opened | Gap | RolledBack | Interruption


class OplogStream:
    """Follows the oplog of one deployment for one reader.

    ``start`` is the first ``ts`` wanted; ``anchor`` an entry that is known already, which then must come first and
    is not yielded. ``match`` leaves entries out on the server. :meth:`commit` sets how far the majority has
    come, so that entries that can no longer be rolled back need not be kept. With ``seldom`` the server is asked every
    :data:`SELDOM_SECONDS` instead of as soon as entries come, unless there are more than one answer holds.
    ``kept_bytes`` of entries that may be rolled back are kept at most. ``wants`` says which of those that were are
    counted: a server may send more than ``match``.
    """

    def __init__(
        self,
        gateway: Gateway,
        start: Ts,
        match: Document | None = None,
        *,
        anchor: EntryPosition | None = None,
        prefer_secondary: bool = True,
        seldom: bool = False,
        kept_bytes: int = _KEPT_BYTES,
        wants: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        self._gateway = gateway
        self._wants = wants
        self._match = dict(match or {})
        self._start = start
        self._prefer_secondary = prefer_secondary
        self._pace = (SELDOM_SECONDS, SELDOM_SECONDS) if seldom else (AWAIT_SECONDS, GET_MORE_SECONDS)
        self._anchor = anchor
        self._trail: deque[EntryPosition] = deque([anchor] if anchor else (), maxlen=_TRAIL)
        self._kept: deque[tuple[EntryPosition, bytes]] = deque()
        self.kept_bytes = 0
        """Bytes of the entries that may still be rolled back, as far as :meth:`commit` knows."""
        self._most_kept = kept_bytes
        self._lost_kept = False
        self.member = ""
        """The member that carries the cursor, or carried the last one."""
        self._trouble_since: datetime | None = None

    def commit(self, majority: EntryPosition) -> bool:
        """Forget the entries up to ``majority``, the newest that a majority has: they cannot be rolled back.

        False, and nothing is forgotten, where that is of a later term than the last entry seen: the primary of that
        term may not have all that was seen.
        """
        seen = self._anchor.term if self._anchor else None
        if majority.term is not None and seen is not None and majority.term > seen:
            return False
        while self._kept and self._kept[0][0].ts <= majority.ts:
            _, batch = self._kept.popleft()
            self.kept_bytes -= len(batch)
        if not self._kept:
            self._lost_kept = False
        return True

    async def read_ends(self) -> tuple[Ts | None, Ts | None]:
        """The newest entry of the member that is read, and the newest that a majority has, up to which entries are
        forgotten; None where it does not say, or where it is not known to follow what was seen. Errors: those of the
        gateway."""
        last_write = (await self._gateway.command("hello", member=self.member)).get("lastWrite", {})
        newest, majority = op_time(last_write.get("opTime")), op_position(last_write.get("majorityOpTime"))
        return newest, majority.ts if majority is not None and self.commit(majority) else None

    async def events(self) -> AsyncIterator[Event]:
        """Everything, in order, for ever. Raises PrivilegeError; every other trouble is an event."""
        failures = 0
        while True:
            try:
                async with closing(self._one_cursor(unfiltered=failures > 1)) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, Arrived):
                            failures = 0
            except (ReadError, ConnectError) as error:
                yield self._trouble(error.title if not error.advice else f"{error.title} {error.advice}")
            except Malformed as error:
                yield self._trouble(f"The server sent what is not BSON: {error}.")
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)])
            failures += 1

    def _trouble(self, text: str) -> Interruption:
        if self._trouble_since is None:
            self._trouble_since = datetime.now(UTC)
        return Interruption(text, self._trouble_since)

    async def _one_cursor(self, *, unfiltered: bool) -> AsyncIterator[Event]:
        """One cursor until it ends, for whatever reason.

        With ``unfiltered`` the server sends everything: one that looks for what is rare may take too long to answer.
        """
        self.member = ""
        checked = self._anchor is None
        now = asyncio.get_running_loop().time
        last_entry = now()
        reported = False
        async with closing(self._open(unfiltered)) as batches:
            while now() - last_entry < SILENT_SECONDS:
                batch = await self._next(batches)
                if batch is None:
                    return
                if self.member and not reported:
                    reported, self._trouble_since = True, None
                    yield Opened(self.member)
                if not batch:
                    yield Arrived(b"")
                    continue
                last_entry = now()
                if not checked:
                    checked = True
                    first_end = walk.document_end(batch)
                    broken = await self._continuity(batch, first_end)
                    if broken is not None:
                        yield broken
                    if isinstance(broken, RolledBack):
                        return
                    if broken is None:
                        batch = batch[first_end:]
                        if not batch:
                            continue
                self._note(batch)
                yield Arrived(batch)

    async def _next(self, batches: AsyncIterator[bytes]) -> bytes | None:
        """The next batch; None where the cursor has ended. Raises ReadError where the server stays silent."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await anext(batches, None)
        except TimeoutError:
            where = f"{self.member} does not answer" if self.member else "No server answers"
            raise ReadError(f"{where} since {ANSWER_SECONDS:.0f} s.") from None

    def _open(self, unfiltered: bool) -> AsyncIterator[bytes]:
        begin = Timestamp(*(self._anchor.ts if self._anchor else self._start))
        query: dict[str, Any] = {"ts": {"$gte": begin}}
        if self._match and not unfiltered:
            query["$or"] = [self._match, {"op": "n"}, {"ts": begin}]
        await_seconds, least_seconds = self._pace
        return self._gateway.tail_raw(
            OPLOG, query, batch_size=RAW_BATCH, await_ms=int(await_seconds * 1_000), least_seconds=least_seconds,
            prefer_secondary=self._prefer_secondary, on_open=self._on_open,
        )  # fmt: skip

    def _on_open(self, member: str) -> None:
        self.member = member

    def _note(self, batch: bytes) -> None:
        start = last_start(batch)
        ts, term = position(batch, start, len(batch))
        place = EntryPosition(ts, term)
        self._anchor = place
        self._trail.append(place)
        self._kept.append((place, batch))
        self.kept_bytes += len(batch)
        while self.kept_bytes > self._most_kept and len(self._kept) > 1:
            _, old = self._kept.popleft()
            self.kept_bytes -= len(old)
            self._lost_kept = True

    async def _continuity(self, batch: bytes, first_end: int) -> Gap | RolledBack | None:
        """Compare the first entry of a new cursor with the last one of the cursor before."""
        assert self._anchor is not None
        first = EntryPosition(*position(batch, 0, first_end))
        if first == self._anchor:
            return None
        oldest = await end_of_oplog(self._gateway, 1, member=self.member)
        if oldest is not None and oldest > self._anchor.ts:
            # With a filter the first entry is only the next match: the hole ends where the oplog begins.
            gap = Gap(self._anchor.ts, min(oldest, first.ts))
            self._trail.clear()
            self._forget_kept()
            return gap
        return await self._rolled_back()

    async def _rolled_back(self) -> RolledBack:
        """Find the newest entry seen that still exists, and go on after it."""
        assert self._anchor is not None
        last = self._anchor.ts
        kept = [(batch, *ends) for _, batch in self._kept for ends in walk.split(batch)]
        exact = [EntryPosition(*position(*place)) for place in kept]
        older = [place for place in self._trail if not exact or place.ts < exact[0].ts]
        places = older + exact
        common = await self._newest_existing(places)
        removed = places[common + 1 :] or [self._anchor]
        found = places[common] if common >= 0 else None
        known = common >= len(older) - 1 and not (self._lost_kept and common < len(older))
        if found is not None:
            self._anchor = found
        else:
            self._start, self._anchor = removed[0].ts, None
        self._trail = deque(places[: common + 1], maxlen=_TRAIL)
        self._forget_kept()
        left_out = {
            place
            for place, (batch, start, end) in zip(exact, kept, strict=True)
            if is_no_op(batch, start, end) or not self._wants(batch[start:end])
        }
        count = len([place for place in removed if place not in left_out])
        return RolledBack(found.ts if found else None, removed[0].ts, last, count if known else None)

    async def _newest_existing(self, places: list[EntryPosition]) -> int:
        """The index of the newest place that is still in the oplog, by halving: after it none is. -1 for none."""
        low, high = -1, len(places) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if await self._exists(places[middle]):
                low = middle
            else:
                high = middle - 1
        return low

    async def _exists(self, place: EntryPosition) -> bool:
        found = await self._gateway.find_one(
            OPLOG, {"ts": Timestamp(*place.ts)}, projection={"ts": 1, "t": 1}, member=self.member
        )
        return found is not None and (place.term is None or found.get("t") == place.term)

    def _forget_kept(self) -> None:
        self._kept.clear()
        self.kept_bytes = 0
        self._lost_kept = False
