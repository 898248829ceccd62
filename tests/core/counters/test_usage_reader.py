"""Reading the oplog for how numbers are used: the result depends on the oplog, not on how fast it is read."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest
from bson import Int64, Timestamp

from tallyglass.counters.follow.usage_search import UsageSearch
from tallyglass.counters.recognise import usage_reader
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.usage import Evidence, Update, findings
from tallyglass.counters.recognise.usage_reader import UsageReader, _inserts
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.errors import PrivilegeError, RefusedError, ServerError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry.entry import read_entry

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
    ``inserts`` how many inserts were read, ``seconds`` how long each request for them was."""

    def __init__(
        self, oplog: Iterable[dict[str, Any]], damaged: bytes = b"", *, slow: bool = False, size: int = 0
    ) -> None:
        self._oplog = list(oplog)
        self._damaged = damaged
        self._slow = slow
        self._size = size or len(self._oplog)
        self.longest = self.inserts = 0
        self.limits: list[int] = []
        self.seconds: list[int] = []

    async def estimate(self, ns: Namespace) -> int:
        return self._size

    async def find_raw(self, ns: Namespace, query: dict[str, Any], *, limit: int, **_: object) -> AsyncIterator[bytes]:
        self.limits.append(limit)
        low, high, kinds = query["ts"]["$gte"], query["ts"]["$lt"], query["op"]["$in"]
        self.seconds += [high.time - low.time] * ("i" in kinds)
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


@pytest.mark.parametrize(
    ("entries", "since", "seconds"),
    [
        (0, 0, 1_000_000_000),
        (1, 0, 1_000_000_000),
        (100_000, 0, 10_000),
        (1_000_000, 0, 1_000),
        (2_000_000, 5_000, 500),
        (300_000_000, 9_966, 3),
        (3_000_000_000, 9_985, 1),
    ],
)
def test_of_a_large_oplog_the_end_is_read_in_small_parts(entries: int, since: int, seconds: int) -> None:
    assert usage_reader._reach(0, 10_000, entries) == (since, seconds)
    assert usage_reader._reach(500, 10_500, entries) == (since + 500, seconds)


async def test_a_period_that_is_full_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_reader, "MOST_IN_PERIOD", 15)
    gateway = OplogGateway([update(START + n, 500 + n) for n in range(60)], size=70_000_000)
    await found_by(UsageReader(cast("Gateway", gateway), Timestamp(START, 0), Timestamp(START + 59, 0)))
    assert 0 not in gateway.limits
    assert gateway.limits[:4] == [15, 14, 13, 12]


async def test_of_a_counter_among_those_of_many_tenants_enough_is_read() -> None:
    """Of 230 updates in an hour 20 are looked at, and of these few are of the counter."""
    oplog = []
    for n in range(230):
        at, (tenant, round_) = START + 15 * n, divmod(n, 4)
        if n % 8 == 0:
            oplog += [update(at, 5_000 + n // 8), insert(at, 5_000 + n // 8, 2)]
        else:
            oplog.append(update(at, 90 * tenant + round_) | {"o2": {"_id": f"tenant {tenant}"}})
    reader = UsageReader(cast("Gateway", OplogGateway(oplog)), Timestamp(START, 0), Timestamp(START + 3_600, 0))
    finding, _ = await found_by(reader)
    assert [document for document, _ in finding.by_document] == ["orders"], finding.evidence


def test_few_long_periods_are_read_for_ids_that_are_used_later() -> None:
    evidence = Evidence()
    for number in range(4):
        at = START + 1_000 * number
        updates = [Update((at + 100 * n, 1, 0), 0.0, 0, 2_000 + n, text=False, returned=False) for n in range(10)]
        evidence.updates[Namespace("shop", f"n{number}"), "n"] = {"a": updates}
    unused = evidence.updates.keys()
    ends = [(start[0] - START, end - start[0]) for start, end in usage_reader._late_probes(evidence, unused)]
    assert ends == [(at, 60) for at in (900, 0, 400, 1_900, 1_000, 1_400, 2_900, 2_000)]
    assert usage_reader._late_probes(evidence, ()) == []


async def test_ids_that_are_used_later_are_looked_for_where_none_was_found_at_once() -> None:
    oplog = [update(START + 3 * n, 5_000 + n) for n in range(60)]
    oplog += [insert(START + 3 * n + 20, 5_000 + n, 2) for n in range(60)]
    oplog.sort(key=lambda entry: entry["ts"])
    direct = [entry for n in range(90) for entry in (update(START + n, 5_000 + n), insert(START + n, 5_000 + n, 2))]
    late, at_once = OplogGateway(oplog), OplogGateway(direct)
    finding, _ = await found_by(UsageReader(cast("Gateway", late), Timestamp(START, 0), Timestamp(START + 220, 0)))
    assert (finding.grade, finding.semantics, finding.evidence) == (
        Grade.CERTAIN,
        # Each is used after the next one was issued, which does not make it the next id.
        Semantics.LAST,
        "23 of 23 values of value found in shop.orders._id, 20.0 s later; step 1.",
    )
    await found_by(reader_of(at_once))
    assert late.seconds == [4] * 20 + [46, 60, 60, 3, 3]
    assert max(at_once.seconds) == 4


@pytest.mark.parametrize("follows", [True, False])
async def test_what_was_inserted_before_an_update_is_read(follows: bool) -> None:
    """The orders up to which a projection has read, or the numbers of orders from their counter."""
    oplog = []
    for n in range(12):
        at, order = START + 20 * n, insert(START + 20 * n, 5_000 + n, 2)
        viewed = insert(at + 1, 5_000 + n, 2) | {"ns": "shop.views"}
        oplog += [order, update(at, 5_000 + n, 3), viewed] if follows else [update(at, 5_000 + n), order, viewed]
    reader = UsageReader(cast("Gateway", OplogGateway(oplog)), Timestamp(START, 0), Timestamp(START + 300, 0))
    finding, _ = await found_by(reader)
    assert finding.grade is (Grade.POSSIBLE if follows else Grade.CERTAIN), finding.evidence


def test_the_ids_of_a_jump_are_looked_for_until_the_next_one() -> None:
    seconds, values = (0, 10, 20, 30, 40, 200, 210), (5, 6, 8, 7, 107, 207, 307)
    updates = [
        Update((second, 1, 0), float(second), 0, value, False, False)
        for second, value in zip(seconds, values, strict=True)
    ]
    ends = usage_reader._ends_of_use({"orders": updates})
    assert {at[0]: end for at, end in ends.items()} == {0: 4, 10: 14, 20: 32, 30: 34, 40: 100, 200: 212, 210: 214}


@pytest.mark.parametrize(
    ("estimate", "expires", "said", "partial"),
    [
        (200_000, False, None, None),
        (200_000, True, "", None),
        (200_001, False, "it has more than 200,000 documents: too many to follow.", True),
        (RefusedError("It took too long.", code=50), False, "it cannot be followed: It took too long.", False),
        (PrivilegeError("It may not be counted."), False, "it cannot be followed: It may not be counted.", True),
    ],
)
async def test_numbers_that_are_used_as_ids_are_followed_or_it_is_said_why_not(
    estimate: int | ServerError, expires: bool, said: str | None, partial: bool | None
) -> None:
    ns, followed, asked = Namespace("shop", "sequences"), list[Namespace](), list[Namespace]()

    class Server:
        async def estimate(self, ns: Namespace) -> int:
            asked.append(ns)
            if isinstance(estimate, ServerError):
                raise estimate
            return estimate

    async def has_ttl(_: Namespace) -> bool:
        return expires

    async def oplog_window() -> None:
        return None

    discovery = SimpleNamespace(seen={ns}, places=followed, follow=followed.append, expires=has_ttl)
    search = UsageSearch(*map(cast("Any", lambda one: one), (Server(), discovery, SimpleNamespace())))
    search._past = cast("Any", SimpleNamespace(oplog_window=oplog_window))
    search.findings[ns] = {"value": UsageFinding(ns, "value", Grade.LIKELY)}
    for times in (1, 1, 2):
        await search.advance(0.0, ())
        assert (followed, len(asked)) == ([ns], 1) if said is None else ([], times)
        troubles = [(one.ns, one.title, one.partial) for one in search.troubles()]
        title = f"Numbers in it are used as ids, but {said}"
        assert troubles == ([(str(ns), title, partial)] if said else [])
        # At the next search it is asked again: what stood against it may be over.
        search._began = None if times == 1 and len(asked) == 1 and search._began == 0.0 else 0.0


def test_only_inserts_of_applications_use_ids() -> None:
    group = [
        {"op": "i", "ns": "shop.orders", "o": {"_id": 7}},
        {"op": "u", "ns": "shop.orders", "o": {"$v": 2, "diff": {}}, "o2": {"_id": 7}},
        {"op": "i", "ns": "config.image_collection", "o": {"_id": 8}},
        {"op": "i", "ns": "adminish.rows", "o": {"_id": 9}},
    ]
    raw = bson.encode({"op": "c", "ns": "admin.$cmd", "o": {"applyOps": group}, "ts": Timestamp(5, 2), "t": Int64(1)})
    found = [(moment, wall, str(ns), document["_id"]) for moment, wall, ns, document in _inserts(read_entry(raw))]
    assert found == [((5, 2, 0), 5.0, "shop.orders", 7), ((5, 2, 3), 5.0, "adminish.rows", 9)]
