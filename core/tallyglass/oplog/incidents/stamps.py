"""When entries were written and by which session: read from the fixed places that servers since 5.0 use, otherwise
parsed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tallyglass.moment import Ts
from tallyglass.oplog.decode.envelope import SESSION_TAIL, TAIL
from tallyglass.oplog.decode.head import read_head, session_and_user

_WALL, _TS, _TXN = b"\x09wall\0", b"\x11ts\0", b"\x12txnNumber\0"

_LSID_SIZE = 72
_quad = struct.Struct("<Q").unpack_from
_long = struct.Struct("<q").unpack_from
_int = struct.Struct("<i").unpack_from
_tail = struct.Struct("<4sQ22x6sq").unpack_from
# The size of lsid, its id, and txnNumber, from the beginning of an entry that begins with lsid.
_session_head = struct.Struct("<10xi9x16s43x11sq").unpack_from


Stamp = tuple[int, int, int]
"""When an entry was written: its ``ts`` as one number, the wall in milliseconds, and its transaction number or -1."""


def as_number(ts: Ts) -> int:
    """A timestamp as one number with the same order."""
    return ts.t << 32 | ts.i


def as_ts(number: int) -> Ts:
    """The timestamp of such a number."""
    return Ts(number >> 32, number & 0xFFFF_FFFF)


def plain_stamp(batch: bytes, start: int, end: int) -> Stamp:
    """The stamp of an entry without a session. Raises Malformed."""
    wall = end - 15
    if batch[wall : wall + 6] == _WALL and batch[wall - 34 : wall - 30] == _TS:
        return _quad(batch, wall - 30)[0], _long(batch, wall + 6)[0], -1
    return _parsed(batch, start, end)


def session_stamp(batch: bytes, start: int, end: int) -> Stamp:
    """The stamp of an entry of a session. Raises Malformed."""
    wall = end - 55
    if wall > start and batch[wall : wall + 6] == _WALL and batch[wall - 34 : wall - 30] == _TS:
        number = start + 10 + _int(batch, start + 10)[0]
        if batch[number : number + 11] == _TXN:
            return _quad(batch, wall - 30)[0], _long(batch, wall + 6)[0], _long(batch, number + 11)[0]
    return _parsed(batch, start, end)


def is_flagged(batch: bytes, end: int, flag: bytes) -> bool:
    """Whether this element comes right before ``ts`` in an entry without a session, as servers since 5.0 write it."""
    ts = end - TAIL
    return batch[ts : ts + 4] == _TS and batch[end - 15 : end - 9] == _WALL and batch[ts - len(flag) : ts] == flag


def session_in(batch: bytes, start: int) -> bytes:
    """The 16 bytes of ``lsid.id`` in an entry that begins with ``lsid``."""
    return batch[start + 23 : start + 39]


def read_times(
    batch: bytes, starts: Sequence[int], ends: Sequence[int], *, session: bool
) -> tuple[Sequence[int], Sequence[int]]:
    """``ts`` and wall of many entries, all of sessions or all without. Raises Malformed."""
    before = SESSION_TAIL if session else TAIL
    if ends[0] >= before:
        marks, ts, more, walls = zip(*[_tail(batch, end - before) for end in ends], strict=True)
        if set(marks) == {_TS} and set(more) == {_WALL}:
            return ts, walls
    stamp = session_stamp if session else plain_stamp
    stamps = [stamp(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    return [ts for ts, _, _ in stamps], [wall for _, wall, _ in stamps]


def read_sessions(batch: bytes, starts: Sequence[int], ends: Sequence[int]) -> tuple[Sequence[bytes], Sequence[int]]:
    """Session and transaction number of many entries of sessions. Raises Malformed."""
    if starts[-1] + 101 <= len(batch):
        sizes, sessions, marks, numbers = zip(*[_session_head(batch, start) for start in starts], strict=True)
        if set(sizes) == {_LSID_SIZE} and set(marks) == {_TXN}:
            return sessions, numbers
    heads = [read_head(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    return [session_and_user(head)[0] for head in heads], [-1 if head.txn is None else head.txn for head in heads]


def _parsed(batch: bytes, start: int, end: int) -> Stamp:
    head = read_head(batch[start:end])
    wall = head.wall_millis if head.wall_millis is not None else head.ts.t * 1_000
    return as_number(head.ts), wall, -1 if head.txn is None else head.txn
