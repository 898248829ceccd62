"""Formatted numbers over any allocator."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Protocol

from tallyglass.allocate.engine import forking
from tallyglass.allocate.engine.forking import Uncopyable
from tallyglass.allocate.format.number_format import NumberFormat


class _Numbers(Protocol):
    # Generated from _AsyncNumbers by packaging/unasync.py.
    def next(self) -> int: ...
    def take(self, n: int) -> Iterable[int]: ...


class _AsyncNumbers(Protocol):
    async def next(self) -> int: ...
    async def take(self, n: int) -> Iterable[int]: ...


class Formatted(Uncopyable):
    """Numbers of ``allocator`` (a Cached, Counter or Pool) in ``number_format``.

    Over the counter of one period pass ``when``, a day of it: dated by the clock, its numbers would repeat those of the
    next period.
    """

    # Generated from AsyncFormatted by packaging/unasync.py.
    def __init__(self, allocator: _Numbers, number_format: NumberFormat) -> None:
        self._allocator = allocator
        self.format = number_format

    def next(self, when: date | None = None) -> str:
        """The next number, dated ``when`` (default: today, UTC)."""
        began = forking.process
        text = self.format.format(self._allocator.next(), when)
        forking.refuse_forked(began)
        return text

    def take(self, n: int, when: date | None = None) -> list[str]:
        """``n`` numbers, all of the same date."""
        began, day = forking.process, when or datetime.now(UTC)
        texts = [self.format.format(number, day) for number in self._allocator.take(n)]
        forking.refuse_forked(began)
        return texts


class AsyncFormatted(Uncopyable):
    """:class:`Formatted` for an AsyncCached, AsyncCounter or AsyncPool."""

    def __init__(self, allocator: _AsyncNumbers, number_format: NumberFormat) -> None:
        self._allocator = allocator
        self.format = number_format

    async def next(self, when: date | None = None) -> str:
        """The next number, dated ``when`` (default: today, UTC)."""
        began = forking.process
        text = self.format.format(await self._allocator.next(), when)
        forking.refuse_forked(began)
        return text

    async def take(self, n: int, when: date | None = None) -> list[str]:
        """``n`` numbers, all of the same date."""
        began, day = forking.process, when or datetime.now(UTC)
        texts = [self.format.format(number, day) for number in await self._allocator.take(n)]
        forking.refuse_forked(began)
        return texts
