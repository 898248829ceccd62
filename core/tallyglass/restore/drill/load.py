"""The load that a drill may put on this machine and on the source: bytes a second, memory, priority."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Document, Gateway, Namespace

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]?)i?B?(?:/s)?\Z")
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}

LEAST_CACHE = 256 * 2**20
"""The smallest cache that mongod accepts."""
_MOST_CACHE = 2**30
"""More is left to what else runs on the machine."""
_BESIDE = 512 * 2**20
"""What the tools, the plan and the server need in addition to the cache."""


def parse_rate(text: str) -> float:
    """Bytes a second from text such as ``20M`` or ``20MB/s``. Raises InputError."""
    found = _RATE.match(text.strip())
    rate = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if rate < 1000:
        raise InputError(f"{text[:40]!r} is not a rate.", "Write bytes a second, such as 20M or 500k.")
    return rate


def available_memory() -> int | None:
    """Bytes that a new process may use without swapping; None if the system does not report it."""
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def cache_for(available: int | None) -> int | None:
    """How large the spare's cache may be, in bytes: a quarter of what is free, 1 GiB at most. None if there is too
    little memory for a drill."""
    if available is None:
        return LEAST_CACHE
    if available < LEAST_CACHE + _BESIDE:
        return None
    return max(LEAST_CACHE, min(_MOST_CACHE, available // 4))


class Budget:
    """An allowance of bytes that grows with time."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._begun = time.monotonic()
        self._spent = 0.0

    def spend(self, size: float) -> float:
        """Spend ``size`` bytes; return the seconds to wait until they are allowed."""
        self._spent += size
        return max(0.0, self._spent / self._rate - (time.monotonic() - self._begun))


class _Paced:
    """A gateway with a limit on the rate of bulk reads."""

    def __init__(self, gateway: Gateway, rate: float) -> None:
        self._gateway = gateway
        self._budget = Budget(rate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    async def find_raw(self, ns: Namespace, query: Document, **how: Any) -> AsyncIterator[bytes]:
        async for batch in self._gateway.find_raw(ns, query, **how):
            await asyncio.sleep(self._budget.spend(len(batch)))
            yield batch


def paced(gateway: Gateway, rate: float | None) -> Gateway:
    """``gateway`` with bulk reads limited to ``rate`` bytes a second; unchanged without a rate."""
    return gateway if rate is None else cast(Gateway, _Paced(gateway, rate))


class ToolPace:
    """Limits the rate of the tools of a run: a process that has read or written more than allowed is paused for a
    while.

    Linux counts the bytes of each process, sockets and files alike.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._checked = time.monotonic()
        self._since: dict[int, float] = {}

    def check(self, pids: Sequence[int]) -> None:
        """Pause those of ``pids`` that are ahead of the rate, and let the others go on."""
        now = time.monotonic()
        for pid in pids:
            moved = _bytes_moved(pid)
            if moved is None:
                continue
            # It was not there at the last check, so it has begun since.
            ahead = moved > self._rate * (now - self._since.setdefault(pid, self._checked))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP if ahead else signal.SIGCONT)
        self._checked = now


def _bytes_moved(pid: int) -> int | None:
    """The bytes that a process has read or written, whichever is more; None if it is not limited or has ended."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        figures = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if name not in ("mongodump", "mongorestore"):
        return None
    return max(int(figures["rchar"]), int(figures["wchar"]))
