"""The fault rig: allocating processes on three members behind proxies, faults one after another, then the audit.

Every id that any process got is on disk. The audit finds ids that were issued twice, compares the progress of the
counters with the ids that arrived or were reported as burned, and compares inserted documents with the ids that their
inserts returned. It also says how long callers of each class waited under each fault.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from array import array
from bisect import bisect
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rig_worker
from proxy import Proxy

from tallyglass.allocate import (
    ARTICLE,
    Counter,
    GaplessInsert,
    Pool,
    PoolLayout,
    ensure_unique,
)
from tallyglass.demo.server import ReplicaSet, free_port

LAYOUT = PoolLayout(documents=64, span=1_000_000)
# What a killed process may take with it from one space: a cache's two ranges and the one under way, what each of its
# four or five threads and tasks had in hand, and the ranges they were asking for.
LOST_WITH_A_PROCESS = 3 * rig_worker.STEP + 5 * rig_worker.CHUNK + 2 * rig_worker.MOST


@dataclass
class Audit:
    """The result of a run. ``ids`` and ``lost`` are of the counters, ``inserted`` of the classes that insert documents.

    ``missing`` ids were returned by an insert whose document is not there; ``gaps`` are missing gapless numbers.
    ``waits`` has, for a class and each fault that struck it, the seconds of its longest call.
    """

    ids: int = 0
    inserted: int = 0
    missing: int = 0
    gaps: int = 0
    duplicates: int = 0
    lost: int = 0
    reported: int = 0
    faults: Tally[str] = field(default_factory=Tally)
    kills: int = 0
    waits: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @property
    def bound(self) -> int:
        """The most that may be lost: the reported ids, and those that killed processes had in memory in each space."""
        return self.reported + self.kills * len(rig_worker.RANGES) * LOST_WITH_A_PROCESS

    def __str__(self) -> str:
        faults = ", ".join(f"{n} {name}" for name, n in sorted(self.faults.items()))
        return (
            f"{self.ids:,} ids and {self.inserted:,} inserts, {self.duplicates} duplicates, {self.lost:,} lost "
            f"(reported as burned {self.reported:,}, bound {self.bound:,}), {self.missing} missing documents, "
            f"{self.gaps} gaps; faults: {faults}"
        )

    def waiting(self) -> str:
        """A Markdown table: the longest call of each class under a fault, in seconds, as median (maximum)."""

        def cell(of_class: dict[str, list[float]], fault: str) -> str:
            longest = sorted(of_class.get(fault, []))
            whole = [0.0] * (self.faults[fault] - len(longest)) + longest
            return f"{statistics.median(whole):.1f} ({whole[-1]:.1f})"

        names = sorted(self.faults)
        lines = [f"| class | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for name, of_class in sorted(self.waits.items()):
            lines.append(f"| {name} | {' | '.join(cell(of_class, fault) for fault in names)} |")
        return "\n".join(lines)


class Rig:
    """Servers, proxies and worker processes. A context manager."""

    def __init__(self, folder: Path, processes: int, *, inserting: int = 0, seed: int = 0) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.faults: Tally[str] = Tally()
        self.struck: list[tuple[float, str]] = []
        self.kills = 0
        ports = [free_port() for _ in range(3)]
        self.proxies = [Proxy(port, free_port()) for port in ports]
        self.servers = ReplicaSet(3, ports=ports, advertised=[proxy.port for proxy in self.proxies], election_ms=1000)
        with self.servers.client(w="majority") as client:
            Counter(client[rig_worker.DB].counters, rig_worker.KEY, layout=ARTICLE).create()
            Pool(client[rig_worker.DB].pool, layout=LAYOUT).create()
            self._prepare_inserts(client[rig_worker.DB])
        self.workers: list[tuple[str, subprocess.Popen[bytes]]] = []
        for kind in ["ranges"] * processes + ["inserts"] * inserting:
            self.start_worker(kind)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        for _, worker in self.workers:
            worker.kill()
            worker.communicate()
        for proxy in self.proxies:
            proxy.close()
        self.servers.stop()

    def start_worker(self, kind: str) -> None:
        argv = [sys.executable, rig_worker.__file__, self.servers.uri, str(self.folder), kind]
        self.workers.append((kind, subprocess.Popen(argv, stdin=subprocess.PIPE)))

    def ids(self) -> int:
        """Ids recorded so far."""
        return sum(path.stat().st_size for path in self._books(*rig_worker.RANGES)) // 8

    def inserted(self) -> int:
        """Inserts recorded so far, by the class with the fewest."""
        return min(
            sum(path.stat().st_size for path in self._books(space)) // rig_worker.width(space)
            for space in (*rig_worker.INSERTS, *rig_worker.KEYS)
        )

    def await_ids(self, more: int, seconds: float = 120) -> None:
        """Wait until the processes have recorded so many more ids."""
        goal, deadline = self.ids() + more, time.monotonic() + seconds
        while self.ids() < goal:
            assert time.monotonic() < deadline, "no id arrives any more"
            assert all(worker.poll() is None for _, worker in self.workers), "a worker ended"
            time.sleep(0.02)

    def fault(self, name: str) -> None:
        """One fault, and its end."""
        self.faults[name] += 1
        self.struck.append((time.monotonic(), name))
        getattr(self, name)()

    def sigkill(self) -> None:
        self._replaced(self.servers.kill, self.servers.restart)

    def sigstop(self) -> None:
        self._replaced(self.servers.freeze, self.servers.thaw)

    def partition(self) -> None:
        """Cut the clients off from the primary, while it still reaches the others."""
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
        kind, worker = self.workers.pop(self.random.randrange(len(self.workers)))
        worker.kill()
        worker.communicate()
        self.kills += 1
        self.start_worker(kind)

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
        for _, worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
        codes = [worker.wait(180) for _, worker in self.workers]
        assert codes == [0] * len(codes), codes
        audit = Audit(faults=self.faults, kills=self.kills)
        self.servers.await_primary()
        with self.servers.client(uuidRepresentation="standard") as client:
            db = client[rig_worker.DB]
            stored = db.counters.find_one({"_id": rig_worker.KEY})["COUNT"]  # type: ignore[index]
            pool = {row["_id"]: row["COUNT"] for row in db.pool.find()}
            scopes = list(db.scopes.find())
            for space in rig_worker.INSERTS:
                self._compare(space, [row["number"] for row in db[space].find({}, {"number": 1})], audit)
            for space in rig_worker.KEYS:
                self._compare(space, [rig_worker.number(row["_id"]) for row in db[space].find()], audit)
        scoped = sum(row["periods"][rig_worker.PERIOD] for row in scopes)
        taken = stored + scoped + sum(pool[LAYOUT.key(n)] - LAYOUT.start(n) for n in range(LAYOUT.documents))
        for space, size in (("counter", stored), ("pool", LAYOUT.documents * LAYOUT.span), ("scoped", scoped + 1)):
            self._count(space, size, audit)
        for path in self.folder.glob("burned.*"):
            audit.reported += sum(int(line.split()[1]) for line in path.read_text().splitlines())
        audit.lost = taken - audit.ids
        audit.waits = self._waits()
        return audit

    def _waits(self) -> dict[str, dict[str, list[float]]]:
        """The longest call of each class under each fault. A call belongs to the last fault before its last moment
        as a usual call: it may have been under way when the fault struck."""
        began = [at for at, _ in self.struck]
        longest: dict[tuple[str, int], float] = defaultdict(float)
        for path in self._books("waits"):
            for line in path.read_text().splitlines():
                name, start, end = line.split()
                fault = bisect(began, float(start) + rig_worker.USUAL) - 1
                if fault >= 0:
                    longest[name, fault] = max(longest[name, fault], float(end) - float(start))
        waits: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (name, fault), seconds in longest.items():
            waits[name][self.struck[fault][1]].append(seconds)
        return waits

    def _count(self, space: str, size: int, audit: Audit) -> None:
        seen = bytearray(size)
        for ids in self._recorded(space):
            audit.ids += len(ids)
            for one in ids:
                if one >= len(seen):
                    seen.extend(bytes(one + 1 - len(seen)))
                audit.duplicates += seen[one]
                seen[one] = 1

    def _compare(self, space: str, stored: list[int], audit: Audit) -> None:
        """The ids that inserts returned, with the documents that are there: more of them where replies were lost."""
        returned = [one for ids in self._recorded(space) for one in ids]
        audit.inserted += len(stored)
        audit.duplicates += len(stored) - len(set(stored)) + len(returned) - len(set(returned))
        audit.missing += len(set(returned) - set(stored))
        if space == "gapless":
            audit.gaps = max(stored, default=0) - len(set(stored))

    def _recorded(self, space: str) -> Iterator[Sequence[int]]:
        width = rig_worker.width(space)
        for path in self._books(space):
            data = path.read_bytes()
            whole = data[: len(data) // width * width]
            if space in rig_worker.KEYS:
                yield [int.from_bytes(whole[at : at + width]) for at in range(0, len(whole), width)]
            else:
                yield array("q", whole)

    def _books(self, *spaces: str) -> list[Path]:
        return [path for space in spaces for path in self.folder.glob(f"{space}.*")]

    def _prepare_inserts(self, db: Any) -> None:
        GaplessInsert(db.gapless_counters, db.gapless).create()
        Counter(db.counters, "proxied").create()
        for space in ("random", "max_plus_one"):
            ensure_unique(db[space], "number")
