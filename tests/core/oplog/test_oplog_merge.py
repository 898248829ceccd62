"""Several oplogs as one: in order of cluster time, with back-pressure, and whoever is lost does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.oplog.incidents.across_shards import combine
from tallyglass.oplog.read.export import Entries, ExportItem
from tallyglass.oplog.read.fan_in import FanIn
from tallyglass.oplog.read.merge import MergedItem, ShardEntry, ShardEvent, ShardLost, merge
from tallyglass.oplog.read.stream import Gap
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Harm, Incident


def batch(*seconds: int) -> Entries:
    return tuple(bson.encode({"op": "n", "ns": "", "o": {}, "ts": Timestamp(n, 1), "t": Int64(1)}) for n in seconds)


async def stream(items: Iterable[ExportItem], error: Exception | None = None) -> AsyncIterator[ExportItem]:
    for item in items:
        await asyncio.sleep(0)
        yield item
    if error is not None:
        raise error


def seconds(found: list[MergedItem]) -> list[tuple[str, int]]:
    return [(entry.shard, entry.ts.t) for item in found if isinstance(item, tuple) for entry in item]


async def test_entries_come_in_order_of_cluster_time() -> None:
    sources = {
        "a": stream([batch(1, 4, 9), batch(10), batch(20)]),
        "b": stream([batch(2, 3), batch(5), batch(11, 30)]),
        "c": stream([batch(6), Gap(Ts(6, 1), Ts(25, 1)), batch(25)]),
    }
    found = [item async for item in merge(sources, hold=None)]
    order = seconds(found)
    assert [second for _, second in order] == [1, 2, 3, 4, 5, 6, 9, 10, 11, 20, 25, 30]
    assert dict(order[:1]) == {"a": 1}
    assert [item for item in found if isinstance(item, ShardEvent)] == [ShardEvent("c", Gap(Ts(6, 1), Ts(25, 1)))]


async def test_a_lost_shard_is_named_and_the_others_go_on() -> None:
    sources = {"a": stream([batch(1), batch(5)]), "b": stream([batch(2)], PrivilegeError("Not allowed.", "Ask."))}
    found = [item async for item in merge(sources, hold=None)]
    assert [second for _, second in seconds(found)] == [1, 2, 5]
    (lost,) = [item for item in found if isinstance(item, ShardLost)]
    assert lost.shard == "b"
    assert "Not allowed" in lost.reason


async def test_a_stream_that_breaks_is_not_taken_for_one_that_is_silent() -> None:
    sources = {"a": stream([batch(1)]), "b": stream([batch(2)], ValueError("broken"))}
    async with asyncio.timeout(60):
        with pytest.raises(ValueError, match="broken"):
            _ = [item async for item in merge(sources, hold=None)]


async def test_a_silent_shard_delays_the_others_only_briefly() -> None:
    never = asyncio.Event()

    async def silent() -> AsyncIterator[ExportItem]:
        await never.wait()
        yield batch(1)

    merged = merge({"a": stream([batch(1, 2)]), "b": silent()}, hold=0.05)
    found = await anext(merged)
    assert seconds([found]) == [("a", 1), ("a", 2)]
    await merged.aclose()  # type: ignore[attr-defined]


async def test_a_stream_waits_where_there_is_no_room_for_its_items() -> None:
    async def numbers(count: int, error: Exception | None = None) -> AsyncIterator[int]:
        for n in range(count):
            yield n
        if error is not None:
            raise error

    lost, first = ReadError("lost"), [0, 1, 2]
    for room, taken in ((0, [*range(30)]), (3, first)):
        async with FanIn({"a": numbers(30), "b": numbers(2, lost), "c": numbers(0)}, *[room] * bool(room)) as fan:
            await asyncio.sleep(0.01)
            assert list(fan.arrived("a")) == taken
            assert [*fan.all_arrived()] == [("b", 0), ("b", 1)]
            assert fan.ended == ({"b", "c"} if room else {"a", "b", "c"})
            assert (fan.errors, fan.done) == ({"b": lost}, not room)
            fan.raise_if_none_is_left()
            while not fan.done:
                await fan.wait(0.001)
                taken = [*taken, *fan.arrived("a")]
            assert taken == [*range(30)]
    async with FanIn({"a": numbers(0, lost), "b": numbers(1, ReadError("other"))}) as fan:
        await fan.wait()
        await asyncio.sleep(0.01)
        assert [*fan.arrived("b")] == [0]
        fan.raise_if_none_is_left()
        assert [*fan.arrived("a")] == []
        with pytest.raises(ReadError):
            fan.raise_if_none_is_left()
        assert fan.errors["a"] is lost


async def test_a_reader_that_stops_stops_the_shards() -> None:
    given = 0

    async def endless(start: int) -> AsyncIterator[ExportItem]:
        nonlocal given
        for n in range(10_000):
            given += 1
            yield batch(start + 2 * n)

    merged = merge({"a": endless(0), "b": endless(1)}, hold=None)
    taken = 0
    async for item in merged:
        assert isinstance(item, tuple)
        assert all(isinstance(entry, ShardEntry) for entry in item)
        taken += len(item)
        if taken >= 20:
            break
    for _ in range(50):
        await asyncio.sleep(0)
    assert given < taken + 20
    await merged.aclose()  # type: ignore[attr-defined]


def incident(kind: str, ns: str, first: int, last: int, documents: int, **more: object) -> Incident:
    made = Incident(1, kind, f"{kind} on {ns}", ns, Harm.LOSS, Ts(first, 1), Ts(last, 1), None, None, 3, documents)
    return replace(made, **more)  # type: ignore[arg-type]


def test_one_statement_on_all_shards_is_one_incident() -> None:
    by_shard = {
        "s0": [
            incident("dropDatabase", "shop", 100, 101, 5),
            incident("deletes", "shop.a", 200, 210, 30, session="aa"),
        ],
        "s1": [
            incident("dropDatabase", "shop", 99, 100, 7),
            incident("deletes", "shop.a", 205, 215, 20, session="aa"),
            incident("deletes", "shop.a", 206, 214, 25, session="bb"),
            incident("deleteMany", "shop.b", 300, 301, 4),
        ],
        "s2": [incident("deleteMany", "shop.b", 330, 331, 4)],
    }
    found = combine(by_shard)
    summary = [(one.number, one.kind, one.first.t, one.last.t, one.documents, one.limit.t, one.shards) for one in found]
    assert summary == [
        (1, "dropDatabase", 99, 101, 12, 99, ("s0", "s1")),
        (2, "deletes", 200, 215, 50, 200, ("s0", "s1")),
        (3, "deletes", 206, 214, 25, 206, ("s1",)),
        (4, "deleteMany", 300, 301, 4, 300, ("s1",)),
        (5, "deleteMany", 330, 331, 4, 330, ("s2",)),
    ]


def test_a_transaction_is_one_incident_whatever_each_shard_had_of_it() -> None:
    parts = {
        "s0": [replace(incident("transaction", "bank.a", 100, 101, 60, session="aa"), txn=7, harm=Harm.CHANGE)],
        "s1": [
            replace(incident("transaction", "bank.b", 140, 141, 50, session="aa"), txn=7, harm=Harm.LOSS),
            replace(incident("transaction", "bank.b", 103, 104, 40, session="aa"), txn=8),
        ],
    }
    found = [(one.txn, one.documents, one.harm, one.shards) for one in combine(parts)]
    assert found == [(7, 110, Harm.LOSS, ("s0", "s1")), (8, 40, Harm.LOSS, ("s1",))]


def test_statements_that_follow_each_other_on_two_shards_are_one_or_several() -> None:
    """Three within 13 s, each on one shard, and one that a router sent to both."""
    at_once = {
        "s0": [incident("deleteMany", "shop.b", 300, 304, 4)],
        "s1": [incident("deleteMany", "shop.b", 303, 310, 5)],
    }
    (one,) = combine({name: [replace(row, op="d") for row in rows] for name, rows in at_once.items()})
    assert (one.documents, one.parts, one.reading) == (9, (), "")
    apart = {
        "s0": [incident("deleteMany", "shop.b", 300, 300, 4)],
        "s1": [incident("deleteMany", "shop.b", 306, 306, 5), incident("deleteMany", "shop.b", 313, 313, 6)],
    }
    one, other = combine({name: [replace(row, op="d") for row in rows] for name, rows in apart.items()})
    assert one.reading == "One or two statements: one from 300:1, or two from 300:1 (4), 306:1 (5)."
    assert (other.limit, other.parts) == (Ts(313, 1), ())


ANN, BOB = Candidate("ann@admin", "shell", documents=4), Candidate("bob@admin", "shell", documents=6)
EXACT, UNIQUE, AMBIGUOUS, NONE = Certainty


@pytest.mark.parametrize(
    ("parts", "grade", "by", "documents", "reason"),
    [
        ([(EXACT, ANN), (UNIQUE, ANN)], UNIQUE, "ann, shell", [8], "unique"),
        ([(UNIQUE, ANN), (UNIQUE, replace(ANN, documents=None))], UNIQUE, "ann, shell", [None], "unique"),
        ([(UNIQUE, ANN, BOB), (EXACT, BOB, ANN)], UNIQUE, "ann, shell and 1 more", [8, 12], "unique"),
        ([(EXACT, ANN), (EXACT, BOB)], AMBIGUOUS, "2 possible", [4, 6], "Its parts"),
        ([(EXACT, ANN, BOB), (EXACT, ANN)], AMBIGUOUS, "2 possible", [8, 6], "Its parts"),
        ([(AMBIGUOUS, ANN), (AMBIGUOUS, ANN)], AMBIGUOUS, "1 possible", [8], "ambiguous"),
        ([(EXACT, ANN), (AMBIGUOUS, ANN, BOB)], AMBIGUOUS, "2 possible", [8, 6], "ambiguous"),
        ([(NONE,), (UNIQUE, BOB)], UNIQUE, "bob, shell", [6], "unique"),
    ],
)
def test_who_wrote_an_incident_of_two_shards(
    parts: list[Any], grade: Certainty, by: str, documents: list[int | None], reason: str
) -> None:
    found = [Authorship(first, tuple(candidates), "log", str(first)) for first, *candidates in parts]
    rows = {
        name: [incident("drop", "shop.a", 100, 101, 5, evidence=one)] for name, one in zip("ab", found, strict=True)
    }
    (one,) = combine(rows)
    assert one.evidence is not None
    assert (one.evidence.grade, one.by, [who.documents for who in one.evidence.candidates]) == (grade, by, documents)
    assert one.evidence.reason.startswith(reason)


@pytest.mark.parametrize(
    ("known", "op", "session", "grade"),
    [
        (6, "d", "", AMBIGUOUS),
        (45, "d", "", UNIQUE),
        (6, "d", "05", UNIQUE),
        (6, "", "", UNIQUE),
        (None, "d", "", AMBIGUOUS),
    ],
    ids=["little", "nearly all", "one session", "a command", "nobody knows how much"],
)
@pytest.mark.parametrize("other", [None, Authorship(NONE, reason="No log of the server was read.")])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_writer_on_one_shard_is_not_the_one_on_a_shard_without_a_log(
    known: int | None, op: str, session: str, grade: Certainty, other: Authorship | None, names: str
) -> None:
    found = Authorship(UNIQUE, (replace(BOB, documents=known),), "log", "its own")
    rows = [
        replace(
            incident("deleteMany", "shop.a", 100, 101, 1), op=op, session=session, evidence=one, documents=documents
        )
        for one, documents in ((found, known), (other, 5))
    ]
    (one,) = combine({name: [row] for name, row in zip(names, rows, strict=True)})
    reason = "its own" if grade is UNIQUE else "For its part on another shard nobody is named."
    assert one.evidence == replace(found, grade=grade, reason=reason)
