"""The ids in memory: a queue of ranges that any number of threads consume without a lock. Pure.

A range is kept as a chain of pieces, each a range iterator. CPython's global lock makes one step of such an iterator
atomic, and so is each link from one piece to the next: an id is taken in a single step that neither another thread nor
a signal handler can split. An exception from a signal handler can only strike between that step and the return to the
caller: this one id is lost, and nothing else.

On a free-threaded build, where two threads may get the same element from one iterator, pieces are queues instead.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter, length_hint
from typing import Final

FREE_THREADED: Final = not getattr(sys, "_is_gil_enabled", lambda: True)()
_PIECES: Final = 64
"""The pieces of a large range: a thread that is delayed can undo the progress of others within one of them only."""
_SMALL_PIECE: Final = 8
"""Ids of a piece of a small range: a piece costs as much as several ids."""


class SharedIds:
    """An iterator over ids that several threads may step at once on a build without a global lock."""

    __slots__ = ("_ids",)

    def __init__(self, ids: range) -> None:
        self._ids = deque(ids)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        try:
            return self._ids.popleft()
        except IndexError:
            raise StopIteration from None

    def __length_hint__(self) -> int:
        return len(self._ids)


class _Piece:
    __slots__ = ("before", "following", "ids", "size")

    def __init__(self, ids: range, before: int) -> None:
        self.ids: Iterator[int] = SharedIds(ids) if FREE_THREADED else iter(ids)
        self.size = len(ids)
        self.before = before
        self.following: _Piece | None = None

    def drop(self) -> int:
        """Discard what is left; returns how many ids that were, without those that other threads take meanwhile."""
        if isinstance(self.ids, SharedIds):
            steps = itertools.count()
            deque(zip(self.ids, steps, strict=False), maxlen=0)
            return next(steps)
        # Moves the iterator to its end, however long it is. Both calls are one step of C code, which leaves other
        # threads no moment between them.
        to_end = attrgetter("__setstate__")(self.ids)
        return next(zip(map(length_hint, (self.ids,)), map(to_end, (self.size,)), strict=False))[0]


class Buffer:
    """Ids in memory. Any thread may take ids; one thread at a time may :meth:`add`.

    ``added`` counts all ids ever added, ``dropped`` the discarded ones. ``fast`` is the iterator of
    the piece that is being consumed: a shortcut for the hot path, which may become empty at any moment.
    """

    def __init__(self) -> None:
        self._piece = self._last = _Piece(range(0), 0)
        self._returned: deque[int] = deque()
        self.fast = self._piece.ids
        self.added = 0
        self.dropped = 0

    def take(self) -> int | None:
        """One id, or None if empty. Ids given back are issued first."""
        if self._returned:
            try:
                return self._returned.popleft()
            except IndexError:
                pass
        while True:
            piece = self._piece
            for value in piece.ids:
                self.fast = piece.ids
                return value
            if piece.following is None:
                return None
            # This may undo the progress of another thread: then it points to used-up pieces that lead to the same end.
            self._piece = piece.following

    def take_up_to(self, n: int) -> list[int]:
        """At most ``n`` ids from the piece that is being consumed: fast, and perhaps none."""
        return list(itertools.islice(self._piece.ids, n))

    def add(self, ids: range) -> None:
        """Append a range. A single assignment makes it visible to callers."""
        size = max(1, math.ceil(len(ids) / _PIECES), min(_SMALL_PIECE, math.ceil(len(ids) / 16)))
        first = last = None
        for at in range(0, len(ids), size):
            piece = _Piece(ids[at : at + size], self.added + at)
            if last is None:
                first = piece
            else:
                last.following = piece
            last = piece
        if last is not None:
            self.added += len(ids)
            previous, self._last = self._last, last
            previous.following = first

    def give_back(self, ids: Iterable[int]) -> None:
        """Return ids that no caller received; they are issued next."""
        self._returned.extend(ids)

    def ahead(self) -> int:
        """The estimated number of ids left: exact at the start of a piece, not updated while ids are taken from it."""
        return self.added - self._piece.before

    def held(self) -> int:
        """How many ids are in memory."""
        return sum(length_hint(piece.ids) for piece in self._chain()) + len(self._returned)

    def drop(self) -> int:
        """Discard all ids; returns how many there were."""
        dropped = sum(piece.drop() for piece in self._chain())
        while self._returned:
            self._returned.popleft()
            dropped += 1
        self.dropped += dropped
        return dropped

    def _chain(self) -> Iterator[_Piece]:
        piece: _Piece | None = self._piece
        while piece is not None:
            yield piece
            piece = piece.following
