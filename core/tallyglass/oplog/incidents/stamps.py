"""When entries were written and by which session: read from the fixed places that servers since 5.0 use, otherwise
parsed."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence

from tallyglass.moment import Ts
from tallyglass.oplog.decode.envelope import SESSION_OP, SESSION_TAIL, TAIL
from tallyglass.oplog.decode.head import read_head, session_and_user

_WALL, _TS, _TXN = b"\x09wall\0", b"\x11ts\0", b"\x12txnNumber\0"

# From "ts" to the end of "wall": the value of v, which ends in zeros, comes before that name.
_TAIL_SIZE, _TAIL_WORDS = 48, 6
_V_AND_WALL = b"\0\0" + _WALL
_IS_LITTLE = sys.byteorder == "little"
_quad = struct.Struct("<Q").unpack_from
_long = struct.Struct("<q").unpack_from
_int = struct.Struct("<i").unpack_from


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
    if ends[0] >= before and _IS_LITTLE:
        after = before - _TAIL_SIZE
        tails = b"".join([batch[end - before : end - after] for end in ends])
        words, shifted = array("q", tails), array("Q", tails[4:-4])
        # Each second name of those words is "wall", and "ts" follows the upper half of the wall before it.
        names, more = words[4::_TAIL_WORDS].tobytes(), shifted[5::_TAIL_WORDS].tobytes()
        same = more == (tails[_TAIL_SIZE - 4 : _TAIL_SIZE] + _TS) * (len(ends) - 1)
        if same and tails.startswith(_TS) and names == _V_AND_WALL * len(ends):
            return shifted[::_TAIL_WORDS].tolist(), words[5::_TAIL_WORDS].tolist()
    stamp = session_stamp if session else plain_stamp
    stamps = [stamp(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    return [ts for ts, _, _ in stamps], [wall for _, wall, _ in stamps]


def read_sessions(
    batch: bytes, starts: Sequence[int], ends: Sequence[int], *, usual: bool
) -> tuple[Sequence[bytes], Sequence[int]]:
    """Session and transaction number of many entries of sessions. Raises Malformed.

    ``usual`` says that all begin with an lsid of the size that servers write, ``txnNumber`` and ``op``.
    """
    if usual and _IS_LITTLE:
        last = SESSION_OP
        words = array("q", b"".join([batch[start + last - 16 : start + last] for start in starts]))
        if words[::2].tobytes() == _TXN[-8:] * len(starts):
            return [batch[start + 23 : start + 39] for start in starts], words[1::2].tolist()
    heads = [read_head(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    return [session_and_user(head)[0] for head in heads], [-1 if head.txn is None else head.txn for head in heads]


def _parsed(batch: bytes, start: int, end: int) -> Stamp:
    head = read_head(batch[start:end])
    wall = head.wall_millis if head.wall_millis is not None else head.ts.t * 1_000
    return as_number(head.ts), wall, -1 if head.txn is None else head.txn
