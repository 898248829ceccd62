"""One file of saved oplog entries, plain or gzip: where it begins and ends, and its entries from any position."""

from __future__ import annotations

import struct
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tallyglass.errors import InputError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import walk
from tallyglass.restore.backup.bson_file import entry_ts
from tallyglass.restore.backup.compression import (
    BAD_GZIP,
    LARGEST,
    Compression,
    CorruptFile,
    compression_of,
    open_plain,
)
from tallyglass.restore.saved_oplog.slice_names import span
from tallyglass.text import clean

_BLOCK, _CHUNK = 2**22, 2**20
"""Bytes that are read at once of a slice, and of one that is unpacked."""
_IN_MEMORY = 2**24
"""An unpacked slice up to the size of one document is kept in memory, a larger one in a temporary file."""

_int_at = struct.Struct("<i").unpack_from


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole entries of a file: where they begin and end in its plain bytes, and the ``ts`` of the first."""

    start: int
    end: int
    first: Ts


@dataclass(frozen=True, slots=True)
class SliceFile:
    """The whole entries of a file. ``first_entry`` and ``last_entry`` are raw. ``problem`` says why the file is
    incomplete, or is not what its name says; empty if it is complete. ``after`` is the entry that comes right before
    it by its name; None if the name does not say so."""

    path: Path
    blocks: tuple[Block, ...]
    first_entry: bytes
    last_entry: bytes
    problem: str = ""
    after: Ts | None = None

    @property
    def first(self) -> Ts:
        """The ``ts`` of the first entry."""
        return self.blocks[0].first

    @property
    def last(self) -> Ts:
        """The ``ts`` of the last whole entry."""
        return entry_ts(self.last_entry)

    def read(self, low: Ts, high: Ts, *, backward: bool) -> Iterator[tuple[bytes, bool]]:
        """The blocks that hold the entries from ``low`` to ``high``, and whether all of their entries lie there;
        ``backward`` yields the last one first. Raises ReadError where the file holds less than when it was visited."""
        chosen = self._blocks(low, high)
        if not chosen:
            return
        with closing(self._seekable(chosen[-1][0].end) if backward else open_plain(self.path)) as file:
            for block, inside in reversed(chosen) if backward else chosen:
                file.seek(block.start)
                entries = file.read(block.end - block.start)
                if len(entries) < block.end - block.start:
                    raise ReadError(f"{clean(str(self.path))} became shorter while it was read.", "Run this again.")
                yield entries, inside

    def entry(self, ts: Ts) -> bytes:
        """The raw entry with this ``ts``; empty if there is none."""
        for known in (self.first_entry, self.last_entry):
            if entry_ts(known) == ts:
                return known
        for block, _ in self.read(ts, ts, backward=False):
            for start, end in walk.split(block):
                if entry_ts(block[start:end]) == ts:
                    return block[start:end]
        return b""

    def _blocks(self, low: Ts, high: Ts) -> list[tuple[Block, bool]]:
        begin, stop = (bisect_right(self.blocks, ts, key=lambda block: block.first) for ts in (low, high))
        found = []
        for at in range(max(begin - 1, 0), stop):
            # The next block need not be read: its first entry is later than all entries of this one.
            end = self.blocks[at + 1].first if at + 1 < len(self.blocks) else self.last
            found.append((self.blocks[at], low <= self.blocks[at].first and end <= high))
        return found

    def _seekable(self, end: int) -> IO[bytes]:
        """The plain bytes up to ``end``: a compressed file cannot be read backward."""
        if compression_of(self.path) is Compression.NONE:
            return self.path.open("rb")
        plain: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 the caller closes it
        with closing(open_plain(self.path)) as file:
            while chunk := file.read(min(_CHUNK, end - plain.tell())):
                plain.write(chunk)
        return plain


def read_slice(path: Path) -> SliceFile | None:
    """Visit all entries of a file once; None if it is empty. A file that is broken before the end of its first entry
    has no blocks.

    Raises InputError for a file that cannot be read, or that holds no oplog entries and is not called like a slice.
    """
    blocks: list[Block] = []
    first = last = b""
    problem, named = "", span(path)
    try:
        with closing(open_plain(path)) as file:
            for at, block, stop in _whole_blocks(file):
                entry, end = block[: _int_at(block, 0)[0]], block[stop:]
                _check_order(at, last, entry, end)
                blocks.append(Block(at, at + len(block), entry_ts(entry)))
                first, last = first or entry, end
    except _Torn as error:
        problem = str(error)
    except (*BAD_GZIP, CorruptFile) as error:
        problem = f"it cannot be decompressed further ({clean(str(error), 60)})"
    except walk.Malformed:
        if named is None:
            raise InputError(f"{clean(str(path))} holds no oplog.", "Name a mongodump of local.oplog.rs.") from None
        problem = f"it holds no entry after {entry_ts(last)}" if blocks else ""
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror or error}.") from None
    if not blocks:
        problem = problem or ("it holds no entry" if named is not None else "")
        return SliceFile(path, (), b"", b"", problem) if problem else None
    if named is None:
        return SliceFile(path, tuple(blocks), first, last, problem)
    problem = problem or named.contradicts(blocks[0].first, entry_ts(last))
    return SliceFile(path, tuple(blocks), first, last, problem, named.start if named.after and not problem else None)


def _check_order(at: int, last: bytes, entry: bytes, end: bytes) -> None:
    """Raise _Torn if a block, from ``entry`` to ``end``, does not come after the last entry before it."""
    if (entry_ts(last) if last else ZERO) >= entry_ts(entry) or entry_ts(entry) > entry_ts(end):
        raise _Torn(f"its entries are not in order at byte {at}")


class _Torn(Exception):
    """What follows cannot be used: the file ends within an entry, or its entries are not in order."""


def _whole_blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """Where each block begins, its whole entries, and where in it the last one begins. Raises _Torn at the end of what
    is whole."""
    at, rest = 0, b""
    while chunk := file.read(_BLOCK):
        rest += chunk
        start = stop = 0
        limit = len(rest)
        while stop + 4 <= limit and 5 <= (size := _int_at(rest, stop)[0]) <= min(LARGEST, limit - stop):
            start, stop = stop, stop + size
        if stop:
            yield at, rest[:stop], start
            at, rest = at + stop, rest[stop:]
        if len(rest) >= 4 and not 5 <= _int_at(rest, 0)[0] <= LARGEST:
            raise _Torn(f"a length at byte {at} cannot be right")
    if rest:
        raise _Torn("it ends within an entry")
