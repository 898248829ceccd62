"""Measure who is named: the evidence of a server's log, joined to the oplog of a recording with known acts.

``python -m bench.evidence DIR`` reads ``oplog.bson.gz``, ``mongod.log.gz`` and ``acts.jsonl`` of a recording, leaves
out the slow query lines below some thresholds, and prints for each how many acts are named at which grade, how many
names are wrong, and the same with the log's clock shifted, where nobody may be named by time.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tallyglass.evidence.book import Book
from tallyglass.evidence.log_lines import LogReader
from tallyglass.moment import Ts, from_seconds, parse_ts
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.incidents.attribution import attribute, concerning
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.snapshot import Authorship, Certainty, Harm, Incident

SLOWMS = (0, 5, 20, 100, 500)
SHIFTS = (5.0, -5.0)
_DURATION = re.compile(r'"durationMillis":(\d+)')
_TIME = re.compile(r'"\$date":"([^"]+)"')
_KINDS = {"renameCollection": "rename", "commitIndexBuild": "createIndexes", "dropUser": "users"}


@dataclass(frozen=True, slots=True)
class Act:
    """What one person did: ``kind`` is d, u or the command; ``users`` are all that took part."""

    name: str
    kind: str
    users: frozenset[str]
    incident: Incident


class Recording:
    """A recorded oplog that answers ``find_raw`` for a range of ``ts``, in place of a server."""

    def __init__(self, folder: Path, *, held: bool = False) -> None:
        raw = gzip.decompress((folder / "oplog.bson.gz").read_bytes())
        self.entries: list[bytes] = []
        self.stamps: list[Ts] = []
        at = 0
        while at < len(raw):
            size = int.from_bytes(raw[at : at + 4], "little")
            self.entries.append(raw[at : at + size])
            self.stamps.append(read_entry(self.entries[-1]).ts)
            at += size
        self.lines = gzip.decompress((folder / "mongod.log.gz").read_bytes()).decode().splitlines()
        acts = [json.loads(line) for line in (folder / "acts.jsonl").read_text().splitlines()]
        self.acts = [row for row in acts if row.get("held") or not held]

    async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
        """The entries of a range of ``ts``."""
        first, last = query["ts"]["$gte"], query["ts"]["$lt"]
        start = bisect_left(self.stamps, Ts(first.time, first.inc))
        end = bisect_left(self.stamps, Ts(last.time, last.inc))
        yield b"".join(self.entries[start:end])

    def wall(self, ts: Ts) -> datetime:
        """The server's clock when it wrote the entry of that timestamp, to the millisecond."""
        millis = read_entry(self.entries[bisect_left(self.stamps, ts)]).wall_millis or 0
        return from_seconds(millis / 1000)

    def told(self) -> Iterator[Act]:
        """The acts that left entries, as incidents with their first and last entry."""
        for row in self.acts:
            if not row["first"]:
                continue
            first, last, op = parse_ts(row["first"]), parse_ts(row["last"]), row["op"]
            kind = "out" if row["name"].startswith("out ") else _KINDS.get(op, op)
            writes = op in ("d", "u")
            yield Act(
                row["name"], kind, frozenset(row["user"].split("+")),
                Incident(
                    0, "deleteMany" if writes else kind, row["name"], row["ns"], Harm.LOSS, first, last,
                    self.wall(first), self.wall(last), row["n"], row["n"], op=op if writes else "",
                    sessions=(row["sessions"] or 0) if (row["sessions"] or 0) * 2 > row["n"] else 0,
                ),
            )  # fmt: skip

    def incidents(self) -> tuple[Incident, ...]:
        """What the grouper finds in the whole recording."""
        grouper = Grouper()
        for start in range(len(self.entries), 0, -2_000):
            grouper.feed_batch(b"".join(self.entries[max(start - 2_000, 0) : start]))
        return grouper.incidents()

    def log(self, slowms: int, shift: float = 0.0) -> Iterator[str]:
        """The log as it would be with that threshold, its clock ``shift`` seconds ahead."""
        for line in self.lines:
            if '"id":51803' in line or '"id":5479200' in line:
                found = _DURATION.search(line, max(len(line) - 60, 0))
                if found is None or int(found[1]) < slowms:
                    continue
            if shift:
                found = _TIME.search(line)
                assert found
                moved = datetime.fromisoformat(found[1]) + timedelta(seconds=shift)
                line = line.replace(found[1], moved.isoformat(timespec="milliseconds"), 1)
            yield line


def judged(act: Act, evidence: Authorship) -> str:
    """The grade, or ``wrong`` if a name at exact or unique is not of somebody who took part."""
    named = {one.user.partition("@")[0] for one in evidence.candidates}
    if evidence.grade in (Certainty.EXACT, Certainty.UNIQUE) and not named <= act.users:
        return "shared" if len(named) > 1 and act.users & named else "wrong"
    return str(evidence.grade)


async def measure(
    recording: Recording, slowms: int, shift: float, *, talk: bool
) -> tuple[Counter[tuple[str, str]], float]:
    """How many acts of each kind got each grade, and the seconds that it took."""
    began = time.monotonic()
    book = Book()
    reader = LogReader(book, "recorded", concerning(act.incident for act in recording.told()))
    reader.feed(recording.log(slowms, shift))
    reader.flush()
    counts: Counter[tuple[str, str]] = Counter()
    for act in recording.told():
        found = await attribute(recording, act.incident, book)  # type: ignore[arg-type]
        verdict = judged(act, found)
        counts[act.kind, verdict] += 1
        if talk and (verdict not in ("exact", "unique")):
            print(
                f"    {act.name}: {verdict}, {[(one.name, one.documents) for one in found.candidates]} {found.reason}"
            )
    return counts, time.monotonic() - began


def main(words: Sequence[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.evidence")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--held", action="store_true", help="Only the acts that were held back.")
    parser.add_argument("--talk", action="store_true", help="Print each act that is not named.")
    given = parser.parse_args(list(words))
    if given.folder is None:
        print("Give the folder of a recording.")
        return
    recording = Recording(given.folder, held=given.held)
    print("slowms  shift   exact unique ambiguous none shared wrong   by kind: exact + unique of all")
    for slowms, shift in [*((slowms, 0.0) for slowms in SLOWMS), *((SLOWMS[0], shift) for shift in SHIFTS)]:
        counts, seconds = asyncio.run(measure(recording, slowms, shift, talk=given.talk))
        by = Counter[str]()
        for (_, verdict), count in counts.items():
            by[verdict] += count
        named, all_of = Counter[str](), Counter[str]()
        for (kind, verdict), count in counts.items():
            all_of[kind] += count
            named[kind] += count if verdict in ("exact", "unique") else 0
        told = ", ".join(f"{kind} {named[kind]}/{all_of[kind]}" for kind in sorted(all_of))
        grades = "  ".join(f"{by[name]:>5}" for name in ("exact", "unique", "ambiguous", "none", "shared", "wrong"))
        print(f"{slowms:>6}  {shift:>5}  {grades}   {told}   ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
