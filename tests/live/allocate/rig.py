"""The fault rig: allocating processes on three members behind proxies, faults one after another, then the audit.

Every id that any process got is on disk; the audit finds each one that was handed out twice, and compares what the
counters moved with what arrived and what was reported as burned.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from array import array
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rig_worker
from proxy import Proxy

from tallyglass.allocate import ARTICLE, Counter, Pool, PoolLayout
from tallyglass.demo.server import ReplicaSet, free_port

LAYOUT = PoolLayout(documents=64, span=1_000_000)
# What a killed process may take with it from one space: a cache's two ranges and the one under way, what each of its
# four or five threads and tasks had in hand, and the ranges they were asking for.
LOST_WITH_A_PROCESS = 3 * rig_worker.STEP + 5 * rig_worker.CHUNK + 2 * rig_worker.MOST


@dataclass
class Audit:
    """What came out, for each id space."""

    ids: int = 0
    duplicates: int = 0
    lost: int = 0
    reported: int = 0
    faults: Tally[str] = field(default_factory=Tally)
    kills: int = 0

    @property
    def bound(self) -> int:
        """The most that may be lost: what was reported, and what killed processes had in memory, in two spaces."""
        return self.reported + self.kills * 2 * LOST_WITH_A_PROCESS

    def __str__(self) -> str:
        faults = ", ".join(f"{n} {name}" for name, n in sorted(self.faults.items()))
        return (
            f"{self.ids:,} ids, {self.duplicates} duplicates, {self.lost:,} lost "
            f"(reported as burned {self.reported:,}, bound {self.bound:,}); faults: {faults}"
        )


class Rig:
    """Servers, proxies and worker processes. A context manager."""

    def __init__(self, folder: Path, processes: int, *, seed: int = 0) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.faults: Tally[str] = Tally()
        self.kills = 0
        ports = [free_port() for _ in range(3)]
        self.proxies = [Proxy(port, free_port()) for port in ports]
        self.servers = ReplicaSet(3, ports=ports, advertised=[proxy.port for proxy in self.proxies], election_ms=1000)
        with self.servers.client(w="majority") as client:
            Counter(client[rig_worker.DB].counters, rig_worker.KEY, layout=ARTICLE).create()
            Pool(client[rig_worker.DB].pool, layout=LAYOUT).create()
        self.workers: list[subprocess.Popen[bytes]] = []
        for _ in range(processes):
            self.start_worker()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()
        for proxy in self.proxies:
            proxy.close()
        self.servers.stop()

    def start_worker(self) -> None:
        argv = [sys.executable, rig_worker.__file__, self.servers.uri, str(self.folder)]
        self.workers.append(subprocess.Popen(argv, stdin=subprocess.PIPE))

    def ids(self) -> int:
        """Ids written down so far."""
        return sum(path.stat().st_size for path in self._books()) // 8

    def await_ids(self, more: int, seconds: float = 120) -> None:
        """Wait until the processes have written down so many more ids."""
        goal, deadline = self.ids() + more, time.monotonic() + seconds
        while self.ids() < goal:
            assert time.monotonic() < deadline, "no id arrives any more"
            assert all(worker.poll() is None for worker in self.workers), "a worker ended"
            time.sleep(0.02)

    def fault(self, name: str) -> None:
        """One fault, and its end."""
        self.faults[name] += 1
        getattr(self, name)()

    def sigkill(self) -> None:
        self._replaced(self.servers.kill, self.servers.restart)

    def sigstop(self) -> None:
        self._replaced(self.servers.freeze, self.servers.thaw)

    def partition(self) -> None:
        """Nobody reaches the primary any more, while it still reaches the others."""
        self._replaced(lambda index: self.proxies[index].cut(), lambda index: self.proxies[index].heal())

    def partition_with(self, client_side: Callable[[int], Any]) -> None:
        """The same, for clients that stay on the side of the old primary: ``client_side`` is called with its index."""

        def strike(index: int) -> None:
            self.proxies[index].cut()
            client_side(index)

        def mend(index: int) -> None:
            # What was held back never arrives: the others went on without it.
            self.proxies[index].reset()
            self.proxies[index].heal()

        self._replaced(strike, mend)

    def reset(self) -> None:
        """All connections to the primary break."""
        self.proxies[self.servers.await_primary()].reset()

    def step_down(self) -> None:
        self.servers.await_primary()
        self.servers.step_down(3)

    def kill_worker(self) -> None:
        worker = self.workers.pop(self.random.randrange(len(self.workers)))
        worker.kill()
        worker.communicate()
        self.kills += 1
        self.start_worker()

    def _replaced(self, strike: Callable[[int], Any], mend: Callable[[int], Any]) -> None:
        primary = self.servers.await_primary()
        strike(primary)
        deadline = time.monotonic() + 60
        try:
            while self.servers.primary() in (primary, None):
                assert time.monotonic() < deadline, "no other primary"
        finally:
            mend(primary)

    def finish(self) -> Audit:
        """Let the processes end, and audit."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
        codes = [worker.wait(180) for worker in self.workers]
        assert codes == [0] * len(codes), codes
        audit = Audit(faults=self.faults, kills=self.kills)
        self.servers.await_primary()
        with self.servers.client() as client:
            stored = client[rig_worker.DB].counters.find_one()["COUNT"]  # type: ignore[index]
            pool = {row["_id"]: row["COUNT"] for row in client[rig_worker.DB].pool.find()}
        taken = stored + sum(pool[LAYOUT.key(n)] - LAYOUT.start(n) for n in range(LAYOUT.documents))
        for space, size in (("counter", stored), ("pool", LAYOUT.documents * LAYOUT.span)):
            self._count(space, size, audit)
        for path in self.folder.glob("burned.*"):
            audit.reported += sum(int(line.split()[1]) for line in path.read_text().splitlines())
        audit.lost = taken - audit.ids
        return audit

    def _count(self, space: str, size: int, audit: Audit) -> None:
        seen = bytearray(size)
        for path in self.folder.glob(f"{space}.*"):
            ids = array("q")
            data = path.read_bytes()
            ids.frombytes(data[: len(data) // 8 * 8])
            audit.ids += len(ids)
            for one in ids:
                if one >= len(seen):
                    seen.extend(bytes(one + 1 - len(seen)))
                audit.duplicates += seen[one]
                seen[one] = 1

    def _books(self) -> list[Path]:
        return [*self.folder.glob("counter.*"), *self.folder.glob("pool.*")]
