"""The checksum of mongodump archives and of PBM: CRC-64/ECMA-182, reflected, inverted before and after.

The standard library computes it only inside its decoder of ``.xz`` files. So the bytes are given to that decoder as an
``.xz`` stream of uncompressed chunks, which it verifies some hundred times faster than a loop in Python would.
"""

from __future__ import annotations

import struct
import zlib

try:
    import lzma
except ImportError:  # CPython can be built without it
    lzma = None  # type: ignore[assignment]

_ALL_ONES = 2**64 - 1
"""The state before the first byte, and what the last one is inverted with."""
_CHUNK = 2**16
"""The most bytes of one uncompressed chunk of LZMA2."""


class Checksum:
    """A checksum of bytes that arrive in pieces, computed byte by byte."""

    def __init__(self) -> None:
        self._state = _ALL_ONES

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        state = self._state
        for byte in data:
            state = _TABLE[(state ^ byte) & 255] ^ state >> 8
        self._state = state

    def matches(self, crc: int) -> bool:
        """Whether the checksum of all bytes is ``crc``, signed or not. Nothing can be added after it."""
        return self._state ^ _ALL_ONES == crc & _ALL_ONES


class XzChecksum(Checksum):
    """The checksum as the decoder of ``.xz`` files verifies it."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._written = 0
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        kind = bytes((0, lzma.CHECK_CRC64))
        # The block header: its size in words less one, one filter, LZMA2 (0x21) with one property (the smallest
        # dictionary), padding.
        block = bytes((2, 0, 0x21, 1, 0, 0, 0, 0))
        self._decoder.decompress(b"\xfd7zXZ\0" + kind + _crc32(kind) + block + _crc32(block))

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        self._waiting += data
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def matches(self, crc: int) -> bool:
        """Whether the checksum of all bytes is ``crc``."""
        self._flush()
        end = b"\0" * (1 + -(self._written + 1) % 4)  # the end of LZMA2, and padding to whole words
        try:
            self._decoder.decompress(end + struct.pack("<Q", crc & _ALL_ONES))
        except lzma.LZMAError:
            return False
        return True

    def _flush(self) -> None:
        data = bytes(self._waiting)
        self._waiting.clear()
        for at in range(0, len(data), _CHUNK):
            chunk = data[at : at + _CHUNK]
            self._decoder.decompress(b"\x01" + struct.pack(">H", len(chunk) - 1) + chunk)
            self._written += len(chunk) + 3


def checksum() -> Checksum:
    """A checksum of no bytes, by the fastest way that this Python has."""
    fast = lzma is not None and lzma.is_check_supported(lzma.CHECK_CRC64)
    return XzChecksum() if fast else Checksum()


def _crc32(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


def reflected_table(polynomial: int) -> tuple[int, ...]:
    """What each byte adds to a reflected CRC."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = reflected_table(0xC96C5795D7870F42)  # ECMA-182
