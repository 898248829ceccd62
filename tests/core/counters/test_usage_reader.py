"""Reading the oplog for how numbers are used: the result depends on the oplog, not on how fast it is read."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import bson
from bson import Timestamp

from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.usage import findings
from tallyglass.counters.recognise.usage_reader import UsageReader
from tallyglass.counters.snapshot import Grade
from tallyglass.errors import RefusedError
from tallyglass.mongo.gateway import Gateway, Namespace

START = 1_795_000_000
RANGE, IDS_A_SECOND, SECONDS = 100, 16, 90


def update(second: int, value: int, number: int = 1) -> dict[str, Any]:
    return {
        "op": "u",
        "ns": "shop.sequences",
        "o": {"$v": 2, "diff": {"u": {"value": value}}},
        "o2": {"_id": "orders"},
        "ts": Timestamp(second, number),
    }


def insert(second: int, value: int, number: int) -> dict[str, Any]:
    return {"op": "i", "ns": "shop.orders", "o": {"_id": value}, "o2": {"_id": value}, "ts": Timestamp(second, number)}


def ranges() -> list[dict[str, Any]]:
    """A counter that hands out ranges of 100, and the documents in which their ids are used, 16 a second."""
    found: list[dict[str, Any]] = []
    for n in range(IDS_A_SECOND * SECONDS):
        second, number = START + n // IDS_A_SECOND, 2 * (n % IDS_A_SECOND) + 1
        if n % RANGE == 0:
            found.append(update(second, n + RANGE, number))
        found.append(insert(second, n + 1, number + 1))
    return found


class OplogGateway:
    """An oplog in memory, of ``size`` entries with those that no query matches. ``damaged`` entries precede the others;
    ``slow`` cuts off what reads inserts. ``longest`` is the longest request for updates, in seconds of oplog, and
    ``inserts`` how many inserts were read."""

    def __init__(
        self, oplog: Iterable[dict[str, Any]], damaged: bytes = b"", *, slow: bool = False, size: int = 0
    ) -> None:
        self._oplog = list(oplog)
        self._damaged = damaged
        self._slow = slow
        self._size = size or len(self._oplog)
        self.longest = self.inserts = 0

    async def estimate(self, ns: Namespace) -> int:
        return self._size

    async def find_raw(self, ns: Namespace, query: dict[str, Any], *, limit: int, **_: object) -> AsyncIterator[bytes]:
        low, high, kinds = query["ts"]["$gte"], query["ts"]["$lt"], query["op"]["$in"]
        self.longest = max(self.longest, high.time - low.time if "u" in kinds else 0)
        self.inserts += sum(entry["op"] == "i" and low <= entry["ts"] < high for entry in self._oplog) * ("i" in kinds)
        found = [entry for entry in self._oplog if low <= entry["ts"] < high and entry["op"] in kinds]
        yield (self._damaged if "u" in kinds else b"") + b"".join(map(bson.encode, found[:limit]))
        if self._slow and "i" in kinds:
            raise RefusedError("It took too long.", code=50)


def reader_of(gateway: OplogGateway) -> UsageReader:
    return UsageReader(cast("Gateway", gateway), Timestamp(START, 0), Timestamp(START + SECONDS, 0))


async def found_by(reader: UsageReader, deadline: float = math.inf) -> tuple[UsageFinding, int]:
    """What was found about the one number, and in how many pieces the oplog was read."""
    pieces = 1
    while not await reader.advance(deadline):
        pieces += 1
    (finding,) = findings(await reader.evidence())
    return finding, pieces


async def test_an_entry_that_cannot_be_decoded_is_left_out() -> None:
    damaged = bson.encode(update(START, 2)).replace(b"\x03diff\x00", b"\x7ddiff\x00")
    reader = reader_of(OplogGateway([update(START, 1), update(START, 3, 2)], damaged))
    assert await reader.advance(math.inf)
    values = (await reader.evidence()).updates[Namespace("shop", "sequences"), "value"].values()
    assert [one.value for updates in values for one in updates] == [1, 3]


async def test_a_replaced_document_shows_its_numbers_but_not_its_id() -> None:
    replaced = {"o": {"_id": 7, "value": 500, "last": {"n": 3}}, "o2": {"_id": 7}}
    reader = reader_of(OplogGateway([update(START, 1) | replaced]))
    assert await reader.advance(math.inf)
    found = (await reader.evidence()).updates
    values = {path: [one.value for rows in by_key.values() for one in rows] for (_, path), by_key in found.items()}
    assert values == {"value": [500], "last.n": [3]}


async def test_ranges_are_followed_until_they_are_used_however_slowly_they_are_read() -> None:
    gateway = OplogGateway(ranges())
    at_once, _ = await found_by(reader_of(gateway))
    assert (at_once.grade, at_once.step) == (Grade.CERTAIN, RANGE)
    slowly, pieces = await found_by(reader_of(gateway), -math.inf)
    assert (slowly, pieces > 3) == (at_once, True)


async def test_what_the_server_cut_off_is_not_taken_for_unused() -> None:
    oplog = [entry for n in range(30) for entry in (update(START + n, 500 + n), insert(START + n, 7 * n, 2))]
    reader = reader_of(OplogGateway(oplog, slow=True))
    finding, _ = await found_by(reader)
    assert (finding.grade, reader.cut > 0) == (Grade.POSSIBLE, True)


async def test_one_request_examines_a_bounded_number_of_entries() -> None:
    sparse, dense = OplogGateway(ranges()), OplogGateway(ranges(), size=900_000)
    found = [await found_by(reader_of(gateway)) for gateway in (sparse, dense)]
    assert found[0] == found[1]
    assert sparse.longest == 60
    assert dense.longest == 10


async def test_ids_that_may_be_inserted_after_the_last_entry_are_not_taken_for_unused() -> None:
    # Each id is used a second later; the last one, which was issued in the last second, is not used yet.
    oplog = [update(START + 3 * n, 500 + n) for n in range(31)]
    oplog += [insert(START + 3 * n + 1, 500 + n, 2) for n in range(30)]
    finding, _ = await found_by(reader_of(OplogGateway(sorted(oplog, key=lambda entry: entry["ts"]))))
    matched, _, issued = finding.evidence.split()[:3]
    assert (finding.grade, matched) == (Grade.CERTAIN, issued), finding.evidence


async def test_an_insert_is_read_once_though_it_follows_several_updates() -> None:
    oplog = [entry for n in range(SECONDS) for entry in (update(START + n, 500 + n), insert(START + n, 500 + n, 2))]
    gateway = OplogGateway(oplog)
    finding, _ = await found_by(reader_of(gateway))
    assert finding.grade is Grade.CERTAIN
    assert gateway.inserts <= SECONDS


async def test_a_part_of_the_oplog_shows_no_fall_that_is_none() -> None:
    oplog = [entry for n in range(SECONDS) for entry in (update(START + n, 500 + n), insert(START + n, 500 + n, 2))]
    reader, grades = reader_of(OplogGateway(oplog)), []
    while not await reader.advance(-math.inf):
        grades += [finding.grade for finding in findings(await reader.evidence())]
    assert len(grades) > 3
    assert Grade.UNLIKELY not in grades
