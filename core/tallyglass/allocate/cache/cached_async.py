"""Ids served from memory; the next range is fetched ahead of need. For AsyncMongoClient, Motor and tasks.

Everything happens on one event loop, so there is no lock. The fetch is a task of its own: who waits for it may be
cancelled without ending it for the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import islice
from operator import length_hint
from types import TracebackType
from typing import Protocol, Self

from tallyglass.allocate.cache.cached import step_size
from tallyglass.allocate.cache.refill import Refill
from tallyglass.allocate.cache.span import Span
from tallyglass.allocate.cache.step_size import StepSize
from tallyglass.allocate.engine.forking import renew_after_fork
from tallyglass.allocate.engine.loops import HomeLoop
from tallyglass.allocate.engine.meter import EventKind, Hook, Meter, Stats
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationTimeout,
    AllocatorClosed,
    CounterRewound,
)


class AsyncRangeSource(Protocol):
    """Where ranges come from: an AsyncCounter or an AsyncPool."""

    async def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids."""

    def stats(self) -> Stats:
        """What the source did."""


Waiter = asyncio.Future[int]


class AsyncCached:
    """:class:`~tallyglass.allocate.cache.cached.Cached` for an AsyncCounter or AsyncPool. Belongs to one event loop.

    A cancelled waiter loses no id: one that was already handed to it goes to the next caller.
    """

    def __init__(
        self,
        source: AsyncRangeSource,
        *,
        step: int | StepSize = 1000,
        ahead: float = 0.5,
        patience: float = 30.0,
        on_event: Hook | None = None,
    ) -> None:
        self._source = source
        self._step = step
        self._ahead = ahead
        self._patience = patience
        self._meter = Meter(on_event)
        self._stopped: AllocationError | None = None
        self.forget()
        renew_after_fork(self)

    def forget(self) -> None:
        """Begin empty, in the child of a fork: the ids in memory are the parent's."""
        self._home = HomeLoop()
        self._hot: Iterator[int] = iter(())
        self._leased = 0
        self._steps = step_size(self._step)
        self._refill: Refill[Waiter] = Refill(self._steps, self._ahead)
        self._fetching: asyncio.Task[None] | None = None
        self._meter.reset()

    async def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, WrongEventLoop, and the source's errors."""
        if asyncio.get_running_loop() is not self._home.loop:
            self._home.check()
        for value in self._hot:
            return value
        return await self._slow()

    async def take(self, n: int) -> list[int]:
        """``n`` ids, not always consecutive."""
        self._home.check()
        taken: list[int] = []
        try:
            while len(taken) < n:
                taken += islice(self._hot, n - len(taken))
                if len(taken) < n:
                    taken.append(await self._slow())
        except BaseException:
            lost = len(taken)
            self._meter.tell(EventKind.BURNED, lost, note="part of a take that failed", burned=lost, issued=-lost)
            raise
        return taken

    def stats(self) -> Stats:
        """What this allocator and its source did in this process."""
        rest = length_hint(self._hot)
        own, source = self._meter.stats(), self._source.stats()
        return replace(
            source,
            issued=own.issued + self._leased - rest,
            burned=own.burned + source.burned,
            cached=self._refill.held + rest,
            in_flight=int(self._refill.fetching),
            waiters=self._refill.waiting,
            stalls=own.stalls,
            step=self._steps.current(),
        )

    async def close(self) -> int:
        """Hand out nothing any more; how many ids were burned by that, those of a fetch under way included.

        The client stays open. Waits for a fetch that is under way, at most ``patience`` seconds.
        """
        before = self._meter.stats().burned
        closed = self._stopped = AllocatorClosed("This allocator is closed.")
        burned = self._drop()
        self._fail(self._refill.dismiss(), closed)
        if burned:
            self._meter.tell(EventKind.BURNED, burned, note="closed", burned=burned)
        if self._fetching is not None and not self._fetching.done():
            await asyncio.wait([self._fetching], timeout=self._patience)
        return self._meter.stats().burned - before

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield await self.next()

    async def _slow(self) -> int:
        if self._stopped:
            raise self._stopped
        before = self._steps.current()
        span = self._refill.lease()
        waiter: Waiter | None = None
        if span is None:
            waiter = asyncio.get_running_loop().create_future()
            self._refill.wait(waiter)
        else:
            self._hot = iter(span.ids())
            self._leased += len(span)
        size = self._refill.fetch_due(time.monotonic())
        value = next(self._hot) if waiter is None else None
        if size:
            self._start_fetch(size)
            if size != before:
                self._meter.tell(EventKind.STEP, size)
            if value is not None:
                await self._let_it_begin(value)
        if value is not None:
            return value
        assert waiter is not None
        return await self._await(waiter)

    def _start_fetch(self, size: int) -> None:
        # A context of its own: neither a bound session nor a deadline of this caller reaches the shared fetch.
        self._fetching = asyncio.get_running_loop().create_task(self._fetch(size), context=contextvars.Context())

    async def _let_it_begin(self, value: int) -> None:
        """Yield once, so that the request leaves even if the caller goes on without ever awaiting the network."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._take_back(value)
            raise

    async def _await(self, waiter: Waiter) -> int:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                value = await waiter
        except TimeoutError:
            self._leave(waiter)
            raise AllocationTimeout(
                f"No id arrived within {self._patience:g} s.", "The server is slow or away; the fetch goes on."
            ) from None
        except asyncio.CancelledError:
            self._leave(waiter)
            raise
        finally:
            self._meter.tell(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        return value

    def _leave(self, waiter: Waiter) -> None:
        """Someone stops waiting: out of the line, and an id that was handed over already goes back."""
        self._refill.withdraw(waiter)
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None:
            return
        self._take_back(waiter.result())

    def _take_back(self, value: int) -> None:
        self._meter.add(issued=-1)
        if self._stopped is None:
            self._hand_over(self._refill.give_back(Span(value, value + 1)))
        else:
            self._meter.add(burned=1)

    async def _fetch(self, size: int) -> None:
        while size:
            ids: range | None = None
            error: AllocationError = AllocationError("A fetch of ids ended unexpectedly.")
            try:
                ids = await self._source.take_up_to(size)
            except AllocationError as failure:
                error = failure
            finally:
                size = self._deliver(ids, error)

    def _deliver(self, ids: range | None, error: AllocationError) -> int:
        """Give out what a fetch brought; the size of the next fetch where there is still someone waiting, else 0."""
        burned = size = 0
        if ids is None:
            if isinstance(error, CounterRewound):
                self._stopped = error
                burned = self._drop()
            self._fail(self._refill.failed(), error)
        elif self._stopped is not None:
            self._refill.fetching = False
            burned = len(ids)
        else:
            self._hand_over(self._refill.filled(Span(ids.start, ids.stop)))
            size = self._refill.fetch_due(time.monotonic())
        if burned:
            self._meter.tell(EventKind.BURNED, burned, note="no longer handed out", burned=burned)
        return size

    def _fail(self, waiters: list[Waiter], error: AllocationError) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _hand_over(self, served: list[tuple[Waiter, int]]) -> None:
        while served:
            lost = [value for waiter, value in served if waiter.done()]
            for waiter, value in served:
                if not waiter.done():
                    waiter.set_result(value)
                    self._meter.add(issued=1)
            # A waiter cancelled before it could leave the line: its id goes to the next one.
            served = [pair for value in lost for pair in self._refill.give_back(Span(value, value + 1))]

    def _drop(self) -> int:
        hot, self._hot = self._hot, iter(())
        rest = len(list(hot))
        self._leased -= rest
        return rest + self._refill.drop()
