"""Measure how long an undo takes to return documents from pre-images, and from a backup and the oplog without a spare.

Both run the emitted folder with the real tools, beside a writer that inserts documents and changes some of the damaged
ones. One accident deletes all documents, the other updates them. What a plain ``insert_many`` of the same documents
takes with the same writer, acknowledged by a majority, is the measure of each. Prints the seconds of each step, the
seconds of processor and the memory of each program, which say more than the time on a machine that does other work too,
a table and one line of JSON. Needs the database tools and mongosh.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bson import Timestamp
from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet

SIZES = (20_000, 100_000)
LIMITS = {"images": 20.0, "backup": 60.0}
"""Seconds for 100,000 documents."""

ACCIDENTS = ("delete", "update")
_AT_ONCE = 10_000
_THEIRS = 1_000_000_000
"""The first ``_id`` of what the writer inserts."""


def rows_of(count: int) -> Iterator[list[dict[str, Any]]]:
    """The documents that are damaged, in the batches in which they are inserted."""
    for first in range(0, count, _AT_ONCE):
        yield [
            {"_id": n, "v": n, "own": {"a": n, "b": "text"}, "n": 0, "name": "x" * 100}
            for n in range(first, min(first + _AT_ONCE, count))
        ]


class Writer:
    """Inserts documents, and increments as many of the damaged ones, until it is left."""

    def __init__(self, source: ReplicaSet, count: int) -> None:
        self._source, self._count, self._stop = source, count, threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        with self._source.client(w=1) as client:
            while not self._stop.wait(0.005):
                client.shop.orders.insert_one({"_id": _THEIRS + self.written, "v": "theirs"})
                client.shop.orders.update_one({"_id": (self.written * 7) % self._count}, {"$inc": {"n": 1}})
                self.written += 1


@contextmanager
def damaged(
    folder: Path, programs: Programs, accident: str, way: str, count: int
) -> Iterator[tuple[ReplicaSet, list[str], Writer]]:
    """A set on which an accident hit as many documents: the server, the options of the plan, and the writer."""
    with ReplicaSet(1, cache_gb=1.0) as source, source.client() as client:
        client.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": way == "images"})
        for rows in rows_of(count):
            client.shop.orders.insert_many(rows, ordered=False)
        options = ["--from=pre-images", f"--count={count}"]
        if way == "backup":
            programs.run("mongodump", f"--uri={source.uri}", "--oplog", f"--out={folder / 'backup'}")
            options.append(f"--backup={folder / 'backup'}")
        with Writer(source, count) as writer:
            since = client.admin.command("hello")["lastWrite"]["majorityOpTime"]["ts"]
            if accident == "delete":
                client.shop.orders.delete_many({"_id": {"$lt": _THEIRS}})
                op, statement = "d", "deleteMany({_id: {$lt: 1000000000}})"
            else:
                client.shop.orders.update_many({"_id": {"$lt": _THEIRS}}, {"$set": {"v": "BAD", "own.a": "BAD"}})
                op, statement = "u", 'updateMany({_id: {$lt: 1000000000}}, {$set: {v: "BAD", "own.a": "BAD"}})'
            first = first_of(client, op, since)
            yield source, [*options, f"--incident={first}", f"--statement={statement}"], writer


def first_of(client: MongoClient[Any], op: str, since: Timestamp) -> str:
    """The ``ts`` of the first entry of the accident."""
    mark = {"o._id": 0} if op == "d" else {"o.diff.u.v": "BAD"}
    row = client.local["oplog.rs"].find_one({"ts": {"$gt": since}, "ns": "shop.orders", "op": op} | mark)
    assert row is not None
    return f"{row['ts'].time}:{row['ts'].inc}"


_MEASURED = ("tallyglass", "mongodump", "mongorestore", "mongosh")
_WRAPPER = """#!{python} -IS
import json, os, sys
pid = os.fork()
if not pid:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
_, status, used = os.wait4(pid, 0)
with open({log!r}, "a") as log:
    words = [{name!r}, *(word for word in sys.argv[1:3] if {name!r} == "tallyglass")]
    print(json.dumps([" ".join(words), used.ru_utime + used.ru_stime, used.ru_maxrss // 1024]), file=log)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(slots=True)
class Cost:
    """What the runs of one program took: their number, seconds of processor, and the peak memory in MB of one."""

    runs: int = 0
    cpu: float = 0.0
    megabytes: int = 0

    def add(self, cpu: float, megabytes: int) -> None:
        """Count one run."""
        self.runs, self.cpu, self.megabytes = self.runs + 1, self.cpu + cpu, max(self.megabytes, megabytes)


@dataclass(slots=True)
class Programs:
    """The tools and Tallyglass, behind wrappers in ``folder`` that note what each run takes."""

    folder: Path
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        path = environment()["PATH"]
        self.folder.mkdir()
        self._log.touch()
        for name in _MEASURED:
            program = self.folder / name
            real = shutil.which(name, path=path)
            program.write_text(_WRAPPER.format(python=sys.executable, real=real, log=str(self._log), name=name))
            program.chmod(0o700)
        self.env = {**environment(), "PATH": f"{self.folder}:{path}"}

    @property
    def _log(self) -> Path:
        return self.folder / "costs.jsonl"

    def run(self, *argv: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a program, which must end with one of the codes; what it printed on stderr."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            sys.exit(f"{argv}\n{done.stdout}\n{done.stderr}")
        return done.stderr

    def costs(self) -> dict[str, Cost]:
        """What was noted since the last call, by program; a program counts what those that it started took too."""
        found: dict[str, Cost] = defaultdict(Cost)
        for line in self._log.read_text().splitlines():
            name, *cost = json.loads(line)
            found[name].add(*cost)
        self._log.write_text("")
        return found


def environment() -> Mapping[str, str]:
    """With the tools on the path."""
    tools = Path(__file__).resolve().parents[1] / ".tools" / "bin"
    return os.environ | {"PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


def processor_of(source: ReplicaSet) -> float:
    """The seconds of processor that the servers took so far, also for the writer; 0 where the system does not say."""
    ticks = 0
    for member in source.members:
        if member.process is not None and (stat := Path(f"/proc/{member.process.pid}/stat")).exists():
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(accident: str, way: str, count: int) -> dict[str, Any]:
    """Damage and return as many documents once."""
    with tempfile.TemporaryDirectory() as place:
        programs = Programs(Path(place) / "bin")
        with damaged(Path(place), programs, accident, way, count) as (source, options, writer):
            began = time.monotonic()
            with source.client() as client:
                for rows in rows_of(count):
                    client.shop.beside.insert_many(rows, ordered=False)
            insert = time.monotonic() - began
            programs.costs()
            began, folder = time.monotonic(), f"{place}/plan"
            programs.run("tallyglass", "restore", "plan", source.uri, *options, f"--out={folder}", codes=(0, 1))
            planned, planning = time.monotonic() - began, programs.costs()["tallyglass restore plan"]
            used = processor_of(source)
            printed = programs.run("tallyglass", "restore", "run", folder, "--yes", codes=(0, 3))
            back, used = time.monotonic() - began - planned, processor_of(source) - used
            costs = programs.costs()
    total = costs.pop("tallyglass restore run")
    costs["the runner"] = Cost(1, total.cpu - sum(one.cpu for one in costs.values()))
    steps = re.findall(r"^  \[\d+/\d+\] .*, .*$", printed, re.MULTILINE)
    print(*steps, *re.findall(r"^shop\.orders .*$", printed, re.MULTILINE), sep="\n")
    for name, one in costs.items():
        print(f"  {one.runs} x {name}: {one.cpu:.1f} s processor, {one.megabytes} MB")
    load = os.getloadavg()[0]
    cost = {"insert": insert, "plan": planned, "planning": planning.cpu, "plan_mb": planning.megabytes, "back": back}
    cost |= {"cpu": total.cpu, "mb": total.megabytes, "server": used, "load": load, "written": writer.written}
    return {"accident": accident, "way": way, "count": count} | cost


def main(arguments: list[str]) -> None:
    """Measure and print; words choose accidents and ways, numbers the sizes."""
    if shutil.which("mongorestore", path=environment()["PATH"]) is None:
        print("mongorestore is not on PATH: nothing was measured.")
        return
    sizes = tuple(int(one) for one in arguments if one.isdigit()) or SIZES
    accidents = [one for one in ACCIDENTS if one in arguments] or ACCIDENTS
    ways = [one for one in LIMITS if one in arguments] or LIMITS
    results = []
    for count in sizes:
        for accident in accidents:
            for way in ways:
                row = measure(accident, way, count)
                results.append(row)
                ratio, share = row["back"] / row["insert"], row["back"] / (LIMITS[way] * count / 100_000)
                cost = f"{row['back']:7.1f} s, {share:5.0%} of the limit, {ratio:5.1f} x insert_many"
                cost += f", {row['cpu']:.1f} s processor and {row['server']:.1f} s of the server, {row['mb']} MB"
                plan = f"plan {row['plan']:.1f} s, {row['planning']:.1f} s processor, {row['plan_mb']} MB"
                print(f"{count:>9,} {accident} from {way:<6} {cost}; {plan}; load {row['load']:.0f}", flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
