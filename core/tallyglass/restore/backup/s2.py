"""Decode S2 and Snappy streams: chunks with a CRC-32C each, of blocks that are compressed for themselves.

S2 is the default compression of PBM. It extends Snappy by blocks of up to 4 MiB and by copies
that repeat the last offset, so that a decoder of Snappy fails on it; there is no package for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from tallyglass.restore.backup.crc64 import reflected_table

try:
    from google_crc32c import value as _crc32c
except ImportError:
    _crc32c = None

_IDENTIFIERS = {b"sNaPpY": False, b"S2sTwO": True}
"""By the name of a stream: whether copies may repeat the last offset."""
_COMPRESSED, _PLAIN, _IDENTIFIER, _FIRST_SKIPPABLE = 0x00, 0x01, 0xFF, 0x80
"""Kinds of chunks; an unknown one from the last of these on may be passed over."""
_LARGEST_BLOCK = 4 * 2**20
"""Bytes of the largest block that the format allows, unpacked."""
_TO_SIGN = 0xA282EAD8
"""Added to a rotated CRC, so that the checksum of data which holds checksums is no weak one."""


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The decoded blocks of a stream. Raises ValueError where it is damaged, and EOFError where it is cut off."""
    repeats: bool | None = None
    while head := file.read(4):
        size = int.from_bytes(head[1:], "little")
        body = file.read(size)
        if len(head) < 4 or len(body) < size:
            raise EOFError("the compressed data is cut off")
        kind = head[0]
        if kind == _IDENTIFIER:
            repeats = _IDENTIFIERS.get(body)
        elif repeats is None:
            raise ValueError("it is neither an S2 nor a Snappy stream")
        elif kind in (_COMPRESSED, _PLAIN):
            plain = decode_block(body[4:], repeats=repeats) if kind == _COMPRESSED else body[4:]
            if _signed(plain) != int.from_bytes(body[:4], "little"):
                raise ValueError("the checksum of a block is wrong")
            yield plain
        elif kind < _FIRST_SKIPPABLE:
            raise ValueError("a chunk is of an unknown kind")


def decode_block(data: bytes, *, repeats: bool) -> bytes:
    """One compressed block. ``repeats`` tells whether it may hold S2's repeated offsets. Raises ValueError."""
    try:
        size, at = _size(data)
        if size > _LARGEST_BLOCK:
            raise ValueError("a block is too large")
        found = _decode(data, at, size, repeats)
    except IndexError:
        raise ValueError("a block ends early") from None
    if len(found) != size:
        raise ValueError("a block has another length than it says")
    return found


def _size(data: bytes) -> tuple[int, int]:
    size = shift = at = 0
    while data[at] & 0x80:
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return size | data[at] << shift, at + 1


def _decode(data: bytes, at: int, size: int, repeats: bool) -> bytes:
    found, end, offset = bytearray(), len(data), 0
    while at < end and len(found) <= size:
        tag = data[at]
        kind, length = tag & 3, tag >> 2
        at += 1
        if kind == 0:
            if length >= 60:
                more = length - 59
                length, at = int.from_bytes(data[at : at + more], "little"), at + more
            if at + length + 1 > end:
                raise ValueError("a block ends early")
            found += data[at : at + length + 1]
            at += length + 1
            continue
        if kind == 1:
            given = (tag & 0xE0) << 3 | data[at]
            length, at = length & 7, at + 1
            if given:
                offset = given
            elif not repeats:
                raise ValueError("an offset is 0")
            elif length > 4:
                more = length - 4
                least = (4, 2**8, 2**16)[more - 1]
                length, at = int.from_bytes(data[at : at + more], "little") + least, at + more
            length += 4
        else:
            width = 2 * (kind - 1)
            offset, at, length = int.from_bytes(data[at : at + width], "little"), at + width, length + 1
        _copy(found, offset, length)
    return bytes(found)


def _copy(found: bytearray, offset: int, length: int) -> None:
    """Append ``length`` bytes from ``offset`` bytes back; they may overlap what is appended."""
    start = len(found) - offset
    if start < 0 or offset == 0:
        raise ValueError("an offset points before the block")
    if offset >= length:
        found += found[start : start + length]
    else:
        found += (bytes(found[start:]) * (length // offset + 1))[:length]


def _signed(data: bytes) -> int:
    crc = _crc32c(data) if _crc32c is not None else _slow_crc32c(data)
    return ((crc >> 15 | crc << 17) + _TO_SIGN) & 0xFFFFFFFF


def _slow_crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = _TABLE[(state ^ byte) & 255] ^ state >> 8
    return state ^ 0xFFFFFFFF


_TABLE = reflected_table(0x82F63B78)  # CRC-32C
