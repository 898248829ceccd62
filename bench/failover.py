"""How long do callers wait when the primary fails? Each class of the allocator at a steady pace, in one process.

A replica set of three members. A call that takes longer than 50 ms loses the time beyond that. The table has the
seconds lost for each fault and class, and the calls that ended in an error. All classes run at the same time, so that
they see the same election.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import (
    AllocationError,
    Cached,
    Counter,
    Counters,
    GaplessInsert,
    MaxPlusOne,
    NumberSpace,
    Pool,
    PoolLayout,
    ProxiedInsert,
    RandomIds,
    ensure_unique,
)
from tallyglass.demo.server import ReplicaSet

Take = Callable[[], object]
USUAL = 0.05
"""Seconds that a call may take."""
WARM_UP, FROZEN = 30.0, 14.0


@dataclass
class Caller:
    """One class: so many calls a second, and what they lost since it was set to 0."""

    name: str
    rate: float
    take: Take
    lost: float = 0.0
    errors: int = 0

    def run(self, stop: threading.Event) -> None:
        """Call until told to stop. A call that is late is not made up for."""
        while not stop.wait(1 / self.rate):
            began = time.monotonic()
            try:
                self.take()
            except AllocationError:
                self.errors += 1
            self.lost += max(0.0, time.monotonic() - began - USUAL)


def callers(db: Any) -> list[Caller]:
    """Every class, with its documents and indexes."""

    def counter(key: str) -> Counter:
        made = Counter(db.counters, key)
        made.create()
        return made

    pool = Pool(db.pool, layout=PoolLayout(documents=50))
    pool.create()
    gapless = GaplessInsert(db.gapless_counters, db.gapless)
    gapless.create()
    for name in ("random", "max_plus_one"):
        ensure_unique(db[name], "number")
    random_ids = RandomIds(db.random, "number", NumberSpace.digits(12))
    max_plus_one = MaxPlusOne(db.max_plus_one, "number")
    proxied, numbers = ProxiedInsert(db.proxies, db.proxied, "number"), Cached(counter("proxied"))
    return [
        Caller("Cached", 500, Cached(counter("cached")).next),
        Caller("Cached, step 200", 500, Cached(counter("step"), step=200).next),
        Caller("Cached over Pool", 500, Cached(pool).next),
        Caller("Counter", 20, counter("single").next),
        Caller("Counter.take(100)", 20, partial(counter("take").take, 100)),
        Caller("Counters", 20, Counters(db.scopes).of("acme", "order", period="2026").next),
        Caller("Pool", 20, pool.next),
        Caller("RandomIds", 20, lambda: random_ids.insert({})),
        Caller("MaxPlusOne", 20, lambda: max_plus_one.insert({})),
        Caller("ProxiedInsert", 20, lambda: proxied.insert({"number": numbers.next()})),
        Caller("GaplessInsert", 20, lambda: gapless.insert({})),
    ]


def killed(servers: ReplicaSet) -> None:
    """The primary's process is killed, and started again when there is another one."""
    primary = servers.await_primary()
    servers.kill(primary)
    _await_other(servers, primary)
    servers.restart(primary)


def stepped_down(servers: ReplicaSet) -> None:
    """The primary hands over in good order."""
    primary = servers.await_primary()
    servers.step_down(10)
    _await_other(servers, primary)


def frozen(servers: ReplicaSet) -> None:
    """The primary's process stands still for 14 seconds and keeps its connections."""
    primary = servers.await_primary()
    servers.freeze(primary)
    try:
        time.sleep(FROZEN)
    finally:
        servers.thaw(primary)


FAULTS = {"killed": killed, "step-down": stepped_down, "frozen for 14 s": frozen}


def _await_other(servers: ReplicaSet, before: int) -> None:
    while servers.primary() in (before, None):
        time.sleep(0.05)


def main(argv: Sequence[str] | None = None) -> None:
    """Strike with one fault after another; print the table, then one JSON document."""
    argparse.ArgumentParser(prog="bench.failover", description=__doc__).parse_args(argv)
    table: dict[str, dict[str, tuple[float, int]]] = {}
    with ReplicaSet(3) as servers, MongoClient[dict[str, Any]](servers.uri) as client:
        found, stop = callers(client.bench), threading.Event()
        threads = [threading.Thread(target=caller.run, args=(stop,)) for caller in found]
        for thread in threads:
            thread.start()
        try:
            for name, strike in FAULTS.items():
                time.sleep(WARM_UP)
                for caller in found:
                    caller.lost, caller.errors = 0.0, 0
                strike(servers)
                time.sleep(WARM_UP / 3)
                table[name] = {caller.name: (round(caller.lost, 1), caller.errors) for caller in found}
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    print(f"{'seconds lost (errors)':24}" + "".join(f"{name:>20}" for name in FAULTS))
    for caller in found:
        cells = [table[name][caller.name] for name in FAULTS]
        print(f"{caller.name:24}" + "".join(f"{f'{lost} ({errors})':>20}" for lost, errors in cells))
    print(json.dumps(table))


if __name__ == "__main__":
    main()
