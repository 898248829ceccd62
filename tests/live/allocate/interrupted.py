"""A program that takes ids while a timer interrupts it; prints one JSON document.

Usage: interrupted.py raise|reenter SECONDS LEAST MOST [URI]. Every LEAST to MOST seconds SIGALRM arrives. With
``raise`` its handler raises, as Celery's soft time limit and Ctrl-C do; with ``reenter`` it takes an id itself. The
source is a counter on URI, or one in memory that answers after a millisecond.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from typing import Any

from tallyglass.allocate import AllocationTimeout, Cached, Stats


class Interrupted(Exception):
    """What the handler raises."""


class Memory:
    """A counter in memory."""

    def __init__(self) -> None:
        self.at = 0

    def take_up_to(self, n: int) -> range:
        time.sleep(0.001)
        self.at += n
        return range(self.at - n, self.at)

    def stats(self) -> Stats:
        return Stats()


def source(uri: str | None) -> Any:
    if uri is None:
        return Memory()
    from pymongo import MongoClient

    from tallyglass.allocate import Counter

    counter = Counter(MongoClient(uri).interrupted.counters, "ids")
    counter.create()
    return counter


def main(mode: str, seconds: float, least: float, most: float, uri: str | None = None) -> None:
    cached = Cached(source(uri), step=20, patience=3)
    taken: list[int] = []
    interrupts = wedges = 0
    over = False

    def handler(*_: object) -> None:
        nonlocal interrupts
        if over:  # another thread may receive the last signal late
            return
        interrupts += 1
        if mode == "raise":
            raise Interrupted
        taken.append(cached.next())
        rearm()

    def rearm() -> None:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(least, most))

    signal.signal(signal.SIGALRM, handler)
    end = time.monotonic() + seconds
    while not over:
        try:
            rearm()
            while time.monotonic() < end:
                taken.append(cached.next())
            over = True
        except Interrupted:
            over = time.monotonic() >= end
        except AllocationTimeout:
            wedges += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    taken.append(cached.next())
    print(
        json.dumps(
            {
                "ids": len(taken),
                "duplicates": len(taken) - len(set(taken)),
                "interrupts": interrupts,
                "wedges": wedges,
                "waiters": cached.stats().waiters,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], *(float(word) for word in sys.argv[2:5]), *sys.argv[5:6])
