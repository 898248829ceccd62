"""UUIDs of version 1, 4 and 7, as BSON binary of subtype 4; and how to read the older subtype 3.

Use version 7 for new keys: they ascend with time, so that an index grows at its end. Use version 4 if the id
must not reveal its time. 16 bytes each; no database needed.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from enum import IntEnum
from typing import Final

from bson.binary import OLD_UUID_SUBTYPE, Binary, UuidRepresentation

from tallyglass.allocate.engine import forking
from tallyglass.allocate.engine.forking import Uncopyable, register_for_fork

_TAIL_BITS, _COUNT_BITS = 62, 12
"""The random bits and those of the count (rand_b and rand_a of RFC 9562, 5.7)."""
_GREGORIAN: Final = 0x01B21DD213814000
"""The tenths of a microsecond from 15 October 1582, where version 1 begins to count, to 1970."""
_NO_NETWORK_CARD: Final = 1 << 40
"""The bit of a node that is not an address of a network card (RFC 9562, 6.10)."""


class _Ascending(Uncopyable):
    """UUIDs by a clock whose times never repeat within a process, also when it stands still or goes back."""

    def __init__(self) -> None:
        self.reset_after_fork()
        register_for_fork(self)

    def reset_after_fork(self) -> None:
        """Create a new lock and clock in the child of a fork."""
        self._lock = threading.RLock()
        self._last = 0

    def _later(self, now: int) -> int:
        """``now``, or the number after the last one if that is greater."""
        with self._lock:
            # A function call here would let a signal handler run this between the read and the write.
            self._last = head = now if now > self._last else self._last + 1
        return head


class Uuid7(_Ascending):
    """UUIDs of version 7 (RFC 9562): milliseconds, a 12-bit count, 62 random bits.

    Strictly increasing within a process, also when the clock stands still or goes back; between processes they
    are ordered by the millisecond only. Thread-safe; the child of a fork draws new random bits.
    """

    def next(self) -> uuid.UUID:
        """The next UUID, of a later time than all before it in this process."""
        began = forking.process
        # Milliseconds and count are one number: when the count runs over, it borrows from the next millisecond.
        head = self._later(time.time_ns() // 1_000_000 << _COUNT_BITS)
        high, low = head >> _COUNT_BITS, head & ((1 << _COUNT_BITS) - 1)
        made = uuid.UUID(int=high << 80 | 0x7 << 76 | low << 64 | 0b10 << _TAIL_BITS | _random_tail())
        return made if forking.process is began else self.next()


class Uuid1(_Ascending):
    """UUIDs of version 1 (RFC 9562): tenths of a microsecond, then clock sequence and node, which each process draws
    at random: with the address of the machine, two processes would repeat each other's within a tick of the clock.

    Thread-safe; the child of a fork draws its own.
    """

    def reset_after_fork(self) -> None:
        """Create a new lock, clock, clock sequence and node in the child of a fork."""
        super().reset_after_fork()
        self._own = _random_tail() | _NO_NETWORK_CARD

    def next(self) -> uuid.UUID:
        """The next UUID, of a later time than all before it in this process."""
        began = forking.process
        ticks = self._later(time.time_ns() // 100 + _GREGORIAN)
        low, middle, high = ticks & 0xFFFF_FFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0xFFF
        made = uuid.UUID(int=low << 96 | middle << 80 | 0x1 << 76 | high << 64 | 0b10 << _TAIL_BITS | self._own)
        return made if forking.process is began else self.next()


def _random_tail() -> int:
    return int.from_bytes(os.urandom(8), "big") & ((1 << _TAIL_BITS) - 1)


def _four() -> uuid.UUID:
    began, made = forking.process, uuid.uuid4()
    return made if forking.process is began else _four()


class Version(IntEnum):
    """The versions of UUID that can be generated."""

    V1 = 1
    V4 = 4
    V7 = 7


_MAKERS = {Version.V1: Uuid1().next, Version.V4: _four, Version.V7: Uuid7().next}


def new_uuid(version: Version = Version.V7) -> uuid.UUID:
    """A new UUID of ``version``. Raises ValueError for one that cannot be generated."""
    make = _MAKERS.get(version) or _MAKERS[Version(version)]
    return make()


def new_binary(version: Version = Version.V7) -> Binary:
    """A new UUID as BSON binary of subtype 4: store this, whatever ``uuidRepresentation`` the client has."""
    return to_binary(new_uuid(version))


def to_binary(value: uuid.UUID) -> Binary:
    """A UUID as BSON binary of subtype 4."""
    return Binary.from_uuid(value, UuidRepresentation.STANDARD)


_LEGACY: Final = {
    "python": UuidRepresentation.PYTHON_LEGACY,
    "java": UuidRepresentation.JAVA_LEGACY,
    "csharp": UuidRepresentation.CSHARP_LEGACY,
}


def read_uuid(value: Binary, *, written_by: str = "") -> uuid.UUID:
    """The UUID in a BSON binary.

    Subtype 4 is unambiguous. Subtype 3 holds the bytes in an order that depends on the driver that wrote it:
    ``written_by`` must then be ``python``, ``java`` or ``csharp``. Raises ValueError otherwise.
    """
    if value.subtype != OLD_UUID_SUBTYPE:
        return value.as_uuid(UuidRepresentation.STANDARD)
    if written_by not in _LEGACY:
        raise ValueError("subtype 3 needs written_by: python, java or csharp, the driver that wrote it")
    return value.as_uuid(_LEGACY[written_by])
