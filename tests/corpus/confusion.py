"""How well counters are recognised in the databases of the corpus: a confusion matrix by grade.

``python -m tests.corpus.confusion`` runs it and prints the matrix, and what was taken for something else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.corpus.applications import DEVELOPED_ON, HELD_OUT, HELD_OUT_AGAIN, UNUSUAL, Application, run_application
from tests.corpus.habits import HABITS

from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look
from tallyglass.counters.snapshot import CountersSnapshot, Grade
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway

ROUNDS, PAUSE_SECONDS = 50, 0.3
PARTS = {
    "developed": DEVELOPED_ON,
    "held-out": HELD_OUT,
    "held-out-again": HELD_OUT_AGAIN,
    "unusual": UNUSUAL,
    "habits": HABITS,
}


@dataclass(frozen=True, slots=True)
class Confusion:
    """Found and true numbers as ``database.collection/path``, by grade. ``collections`` is how many there are."""

    found: dict[str, Grade]
    true: frozenset[str]
    collections: int

    @property
    def sure(self) -> frozenset[str]:
        """What may alarm: certain or likely."""
        return frozenset(name for name, grade in self.found.items() if grade in (Grade.CERTAIN, Grade.LIKELY))

    @property
    def precision(self) -> float:
        """The share of what may alarm that is true."""
        return len(self.sure & self.true) / len(self.sure) if self.sure else 1.0

    @property
    def recall(self) -> float:
        """The share of the true ones that may alarm."""
        return len(self.sure & self.true) / len(self.true) if self.true else 1.0

    def matrix(self) -> str:
        """True and other numbers by grade, as a Markdown table."""
        rows = ["| | certain | likely | possible | not listed | precision | recall |", "|---|---|---|---|---|---|---|"]
        for title, names in (("counters", self.true), ("others", frozenset(self.found) - self.true)):
            counts = [sum(self.found.get(name) is grade for name in names) for grade in _LISTED]
            missing = len(names) - sum(counts)
            shares = f"{self.precision:.0%} | {self.recall:.0%}" if title == "counters" else " | "
            rows.append(f"| {title} | {' | '.join(map(str, counts))} | {missing} | {shares} |")
        return "\n".join(rows)


_LISTED = (Grade.CERTAIN, Grade.LIKELY, Grade.POSSIBLE)


def measure(applications: Sequence[Application], rounds: int = ROUNDS, pause: float = PAUSE_SECONDS) -> Confusion:
    """Let the applications live on a server of their own, then look once."""
    stop = threading.Event()
    with ReplicaSet(1) as servers, servers.client() as client:
        with ThreadPoolExecutor(len(applications)) as pool:
            for done in [
                pool.submit(run_application, servers.uri, one, rounds, lambda: stop.wait(pause)) for one in applications
            ]:
                done.result()
        collections = sum(len(client[one.name].list_collection_names()) for one in applications)
        began = time.perf_counter()
        snapshot = asyncio.run(_look(servers.uri))
        print(f"looked in {time.perf_counter() - began:.1f} s")
    return confusion(snapshot, applications, collections)


async def _look(uri: str) -> CountersSnapshot:
    gateway = open_gateway(uri)
    try:
        return await look(gateway, WatchSettings(search_seconds=300))
    finally:
        await gateway.close()


def confusion(snapshot: CountersSnapshot, applications: Iterable[Application], collections: int) -> Confusion:
    """Hold what a look found against the labels."""
    true = frozenset(f"{one.name}.{name}/{path}" for one in applications for name, path in one.counters)
    found: dict[str, Grade] = {}
    for counter in snapshot.counters:
        name = f"{counter.ns}/{counter.field}"
        # The number takes the best grade of any document.
        if name not in found or _LISTED.index(counter.grade) < _LISTED.index(found[name]):
            found[name] = counter.grade
    return Confusion(found, true, collections)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the parts of the corpus and print them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="all where none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(argv)
    facts = {}
    for title in options.part or PARTS:
        applications = PARTS[title]
        result = measure(applications, options.rounds)
        print(f"\n{title}: {len(applications)} applications, {result.collections} collections\n{result.matrix()}")
        for name in sorted(result.true - result.sure):
            print(f"  missed: {name} ({result.found.get(name, 'not listed')})")
        for name in sorted(result.sure - result.true):
            print(f"  false: {name} ({result.found[name]})")
        facts[title] = {"precision": result.precision, "recall": result.recall, "collections": result.collections}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
