"""Which ids were handed out after the point: a counter followed through the oplog, over the limit, to what is live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Namespace
from tallyglass.oplog.entry.batch import BatchWalker
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.backup.archive import MAGIC
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.proof import reissue
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.proof.counter_search import CounterFacts, CounterSearch, SeenNumber
from tallyglass.restore.proof.reissue import _Follower, find_reissues
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.counter_paths import may_be_counter

NS = "s.counters"
START, LIMIT = Ts(100, 1), Ts(200, 1)
TXN = {"lsid": {"id": 1}, "txnNumber": Int64(1)}
ORDERS = {"_id": "orders"}


class Source:
    """A gateway that holds an oplog and the collections that are live."""

    def __init__(self, oplog: list[dict[str, Any]], live: list[dict[str, Any]] | None) -> None:
        self.oplog, self.live = oplog, live

    async def find_raw(self, ns: Namespace, query: dict[str, Any], *, limit: int = 0, **_: Any) -> AsyncIterator[bytes]:
        if ns == OPLOG:
            by_name, by_uuid = query.get("$or", [query, {"ui": {"$in": []}}])
            rows = [
                row
                for row in self.oplog
                if row["ts"] >= query["ts"]["$gte"]
                and (row["ns"] in by_name["ns"]["$in"] or row.get("ui") in by_uuid["ui"]["$in"])
            ]
        elif self.live is None:
            raise ReadError("No.")
        else:
            rows = self.live[: limit or None]
        yield b"".join(bson.encode(row) for row in rows)


def entry(at: Ts, op: str, o: dict[str, Any], ns: str = NS, **more: Any) -> dict[str, Any]:
    return {"ts": Timestamp(*at), "t": Int64(1), "v": 2, "op": op, "ns": ns, "o": o, **more}


def moved(at: Ts, value: int) -> dict[str, Any]:
    """The entry of an increment to ``value``."""
    return entry(at, "u", {"$v": 2, "diff": {"u": {"seq": value}}}, o2=ORDERS)


def group(at: Ts, *inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    kept = ("op", "ns", "o", "o2")
    operations = [{name: row[name] for name in kept if name in row} for row in inner]
    return entry(at, "c", {"applyOps": operations, **more.pop("o", {})}, "admin.$cmd", **more)


async def search(
    tmp_path: Path,
    oplog: list[dict[str, Any]],
    *,
    backup: int | None = 5,
    live: int | None = None,
    reads: Any = ...,
    stored: dict[str, StoredCollection] | None = None,
    **more: Any,
) -> CounterFacts:
    """``backup`` and ``live`` are the value of the counter there, None where it is not there. ``reads`` are all the
    documents that are live, None where they may not be read. ``stored`` are the collections of the backup that exist
    at the point."""
    data = tmp_path / "counters.bson"
    data.write_bytes(b"" if backup is None else bson.encode(ORDERS | {"seq": backup}))
    if stored is None:
        stored = {NS: StoredCollection(NS, "collection", data, {}, ())}
    now = [] if live is None else [ORDERS | {"seq": live}]
    gateway: Any = Source(oplog, now if reads is ... else reads)
    return await find_reissues(gateway, stored, {NS: Changed(updates=1)}, START, LIMIT, **more)


def values(found: CounterFacts) -> list[tuple[Any, Any]]:
    return [(row.restored, row.live) for row in found.rows]


async def test_the_entry_at_the_limit_handed_out_an_id_that_is_lost(tmp_path: Path) -> None:
    before, at_limit = moved(Ts(199, 9), 6), moved(LIMIT, 7)
    assert values(await search(tmp_path, [before, at_limit], live=7)) == [(6, 7)]
    assert values(await search(tmp_path, [before, at_limit])) == [(6, 7)], "also where it is not live any more"
    assert values(await search(tmp_path, [before], live=6)) == [], "all of its ids are there"


async def test_the_window_begins_with_its_first_entry(tmp_path: Path) -> None:
    first = entry(START, "i", ORDERS | {"seq": 3})
    assert values(await search(tmp_path, [first], backup=None, live=8)) == [(3, 8)]


async def test_a_collection_created_after_the_start_is_read_from_the_oplog(tmp_path: Path) -> None:
    made = entry(Ts(150, 1), "i", ORDERS | {"seq": 3})
    found = await search(tmp_path, [made, moved(Ts(250, 1), 9)], backup=None, stored={})
    assert values(found) == [(3, 9)], "dropped or replaced since: nothing of it is live"


async def test_the_greatest_id_counts_wherever_it_stands(tmp_path: Path) -> None:
    up_and_down = [moved(Ts(201, 1), 50), moved(Ts(202, 1), 9)]
    assert values(await search(tmp_path, up_and_down, live=9)) == [(5, 50)]
    assert values(await search(tmp_path, [moved(Ts(201, 1), 9)], live=50)) == [(5, 50)]
    assert values(await search(tmp_path, [moved(Ts(201, 1), 6)], live=6)) == [(5, 6)], "a single id"


def after_the_point(*numbers: int) -> list[dict[str, Any]]:
    return [moved(Ts(201 + n, 1), number) for n, number in enumerate(numbers)]


@pytest.mark.parametrize(
    ("backup", "numbers", "update"),
    [
        (100, (99, 98, 97, 96), '{"$min": {"seq": NumberInt(96)}}'),
        (100, (70, 95), '{"$max": {"seq": NumberInt(100)}}'),
        (100, (101, 102, 40), '{"$max": {"seq": NumberInt(102)}}'),
        (100, (40,), '{"$max": {"seq": NumberInt(100)}}'),
        (100, (99,), ""),
        (100, (99, 98), ""),
        (6, (7, 8, 1, 2, 8, 1, 5), ""),
        (50, (60, 20, 70, 30, 40), ""),
    ],
    ids=["descends", "set back", "rose", "fell far", "a step", "two steps", "cycles", "mixed"],
)
async def test_a_counter_is_moved_only_as_it_was_seen_to_move(
    tmp_path: Path, backup: int, numbers: tuple[int, ...], update: str
) -> None:
    found = await search(tmp_path, after_the_point(*numbers), backup=backup, live=numbers[-1])
    assert [update in row.fix for row in found.rows] == [True] * bool(update)
    by_hand = f"manually after the return (it is {numbers[-1]} now, {backup} at the point)"
    assert [by_hand in text for text in found.unknown] == [True] * (not update)


@pytest.mark.parametrize(("step", "held"), [(5, [24, 25, 26]), (-5, [26, 25, 24])])
@pytest.mark.parametrize("at_point", [True, False])
def test_a_counter_at_its_furthest_number_is_not_behind(step: int, held: list[int], at_point: bool) -> None:
    for value, behind in zip(held, (True, False, False), strict=True):
        one = SeenNumber(NS, "orders", "seq")
        for at in range(6):
            one.move(at, 25 - step * (5 - at))
            one.issue(25 - step * (5 - at))
        one.restored, one.now = (25, value) if at_point else (None, value)
        assert (one.is_behind, one.was_lowered) == (behind, behind)


async def test_a_counter_that_was_not_there_at_the_point_has_no_value_of_it(tmp_path: Path) -> None:
    made = entry(Ts(201, 1), "i", ORDERS | {"seq": 50})
    falls = [moved(Ts(202 + n, 1), number) for n, number in enumerate((60, 20, 70, 30, 40))]
    (text,) = (await search(tmp_path, [made, *falls], backup=None, live=40)).unknown
    assert text.endswith("(it is 40 now, not there at the point)")


async def test_a_descending_counter_that_was_set_back_goes_to_its_smallest_id(tmp_path: Path) -> None:
    found = await search(tmp_path, after_the_point(99, 98, 97, 96), backup=100, live=99)
    assert [(row.restored, row.live) for row in found.rows] == [(100, 96)]
    assert found.fixes[0].lowered


async def test_a_transaction_counts_when_it_is_committed(tmp_path: Path) -> None:
    none = {"ts": Timestamp(0, 0), "t": Int64(-1)}
    begun = group(Ts(150, 1), moved(LIMIT, 8), o={"partialTxn": True}, prevOpTime=none, **TXN)
    link = {"ts": Timestamp(150, 1), "t": Int64(1)}
    ended = group(Ts(201, 1), o={"count": 1}, prevOpTime=link, **TXN)
    assert values(await search(tmp_path, [begun, ended], live=8)) == [(5, 8)]
    aborted = entry(Ts(201, 1), "c", {"abortTransaction": 1}, "admin.$cmd", prevOpTime=link, **TXN)
    assert values(await search(tmp_path, [begun, aborted], live=5)) == []


@pytest.mark.parametrize("whole", [True, False], ids=["drop", "delete"])
async def test_what_was_removed_before_the_point_is_not_restored(tmp_path: Path, whole: bool) -> None:
    def gone(at: Ts) -> dict[str, Any]:
        return entry(at, "c", {"drop": "counters"}, "s.$cmd") if whole else entry(at, "d", ORDERS)

    again = entry(Ts(210, 1), "i", ORDERS | {"seq": 9})
    made = await search(tmp_path, [gone(Ts(150, 1)), again])
    assert values(made) == [(None, 9)]
    assert made.fixes[0].makes
    assert values(await search(tmp_path, [gone(LIMIT), again], live=9)) == [(5, 9)], "it is there at the point"
    assert values(await search(tmp_path, [gone(Ts(150, 1)), again], live=9)) == [], "the one that is live stays"


async def test_a_collection_that_was_renamed_keeps_its_counters(tmp_path: Path) -> None:
    ours, other = Binary(b"o" * 16, 4), Binary(b"x" * 16, 4)
    names = {bytes(ours): NS}
    before = moved(Ts(150, 1), 8) | {"ns": "s.old", "ui": ours}
    after = moved(Ts(250, 1), 50) | {"ns": "s.kept", "ui": ours}
    again = moved(Ts(260, 1), 2) | {"ui": other}
    assert values(await search(tmp_path, [before, after, again], live=2, names=names)) == [(8, 50)]
    dropped = entry(Ts(160, 1), "c", {"drop": "counters"}, "s.$cmd", ui=other)
    replaced = moved(Ts(155, 1), 90) | {"ui": other}
    found = await search(tmp_path, [before, replaced, dropped, after], live=50, names=names)
    assert values(found) == [(8, 50)], "what had the name before the point is not what is there at it"


async def test_a_drop_forgets_its_own_counters_alone(tmp_path: Path) -> None:
    for o, db in (({"drop": "counters"}, "t"), ({"drop": "other"}, "s"), ({"dropDatabase": 1}, "t")):
        elsewhere = entry(Ts(150, 1), "c", o, f"{db}.$cmd")
        assert values(await search(tmp_path, [elsewhere], live=9)) == [(5, 9)]
    database = entry(Ts(150, 1), "c", {"dropDatabase": 1}, "s.$cmd")
    assert values(await search(tmp_path, [database, moved(Ts(210, 1), 9)])) == [(None, 9)]


async def test_values_that_may_not_be_read_now_are_reported(tmp_path: Path) -> None:
    refused = await search(tmp_path, [moved(Ts(201, 1), 9)], reads=None)
    assert (values(refused), refused.unknown) == ([(5, 9)], ("s.counters cannot be read now: No.",))
    none_there = await search(tmp_path, [], backup=None, reads=None)
    assert none_there == CounterFacts(), "it may hold no counters at all"


@pytest.mark.parametrize("source", ["files", "archive", "copy"])
async def test_a_collection_that_is_too_large_to_search_is_named_if_it_has_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(reissue, "MOST_DOCUMENTS", 2)
    counters = [{"_id": name, "seq": 5} for name in ("orders", "users", "pages")]
    data = [{"_id": number, "text": "x"} for number in range(3)]
    file = tmp_path / "held.bson"
    stored = {NS: StoredCollection(NS, "collection", file, {}, ())}

    async def found(backup: list[dict[str, Any]], live: list[dict[str, Any]], **more: Any) -> CounterFacts:
        file.write_bytes(b"".join(map(bson.encode, backup)) if source == "files" else b"")
        rows = [("s.other", bson.encode(counters[0])), *((NS, bson.encode(row)) for row in backup)]
        monkeypatch.setattr(reissue, "archive_documents", lambda _: iter(rows))
        if source == "archive":
            more["archive"] = file
        elif source == "copy":
            more["copy"] = Source([], backup)
        return await search(tmp_path, after_the_point(9), stored=stored, reads=live, **more)

    whole = await found(counters[:2], counters[:2])
    assert [(fix.restored, fix.live, fix.needed, fix.lowered) for fix in whole.fixes] == [(True, True, True, True)]
    assert values(whole) == [(5, 9)]
    named = CounterFacts(
        unknown=(
            "s.counters has more than 2 documents, counters among them, and was not searched: "
            "check after the return that none hands out ids again",
        )
    )
    assert await found(counters, counters[:2]) == named
    assert await found(counters[:2], counters) == named, "of those that are live now some would pass for missing ones"
    assert await found(data, data, inserted={NS}) == named
    assert await found(data, data, inserted=set(), renamed={NS}) == CounterFacts(), "it is data"


async def test_a_damaged_archive_leaves_its_values_unknown(tmp_path: Path) -> None:
    """That it is damaged is found and named where it is read whole."""
    archive = tmp_path / "b.archive"
    archive.write_bytes(MAGIC)
    assert values(await search(tmp_path, after_the_point(9, 12), live=9, archive=archive)) == [(None, 12)]


@pytest.mark.parametrize("ns", ["s.system.js", "s.$cmd", "s", "admin.counters", "config.counters"])
async def test_what_the_server_keeps_for_itself_holds_no_counters(ns: str) -> None:
    gateway: Any = Source([], [ORDERS | {"seq": 9}])
    assert await find_reissues(gateway, {}, {ns: Changed(updates=1)}, START, LIMIT) == CounterFacts()
    assert (await find_reissues(gateway, {}, {NS: Changed(updates=1)}, START, LIMIT)).paths == {NS: ("seq",)}


def test_only_what_may_be_about_a_counter_is_parsed() -> None:
    follower = _Follower(search := CounterSearch(LIMIT), frozenset({NS}))
    walker = BatchWalker(follower)
    uuid, wall = Binary(b"u" * 16, 4), datetime(2026, 11, 20, tzinfo=UTC)

    def usual(second: int, op: str, o: dict[str, Any], ns: str = NS, **o2: Any) -> dict[str, Any]:
        place = {"ts": Timestamp(second, 1), "t": Int64(1), "v": Int64(2), "wall": wall}
        return {"op": op, "ns": ns, "ui": uuid, "o": o, **o2} | place

    rows = [usual(150, "i", {"_id": n, "name": "x"}) for n in range(20)]
    rows += [usual(151, "i", ORDERS | {"seq": 3}), usual(151, "i", ORDERS | {"seq": 3}, "s.other")]
    rows += [usual(second, "u", {"$v": 2, "diff": {"u": {"seq": second}}}, o2=ORDERS) for second in (199, 200, 201)]
    rows += [usual(202, "u", {"$v": 2, "diff": {"u": {"name": "y"}}}, o2={"_id": 5}), usual(203, "d", {"_id": 6})]
    list(walker.walk(b"".join(map(bson.encode, rows))))
    (seen,) = search.seen.values()
    assert (seen.restored, seen.issued) == (199, 201)
    assert (walker.entries, walker.parsed) == (len(rows), 4)


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
async def test_only_collections_with_an_inserted_counter_are_read_again(tmp_path: Path, grouped: bool) -> None:
    """Of a collection created since, whose counters are not live any more, the inserts are the only sign."""
    made = entry(Ts(150, 1), "i", ORDERS | {"seq": 3})
    rows = [entry(Ts(140, 1), "i", {"_id": 1, "seq": "text"}, "s.orders"), group(Ts(150, 1), made) if grouped else made]
    found = CounterInserts()
    for row in rows:
        found.feed(read_entry(bson.encode(row)))
    counter = bson.encode(ORDERS | {"seq": 1})
    found.write("s.orders", counter + bson.encode({"_id": 1}) + counter, len(counter))
    assert found.found == {NS}, "not what stands before or behind a document"
    by_chance = bson.encode({"_id": 0x6301, "v": 0x6301})
    assert may_be_counter("s.orders", by_chance)
    found.write("s.orders", by_chance, 0)
    assert found.found == {NS}, "not whose values look like a field"
    later = [made, moved(Ts(250, 1), 9)]
    read = await search(tmp_path, later, backup=None, stored={}, inserted=found.found)
    assert values(read) == [(3, 9)]
    assert values(await search(tmp_path, later, backup=None, stored={}, inserted=set())) == [], "it was not read"
    assert values(await search(tmp_path, [moved(LIMIT, 7)], inserted=set())) == [(5, 7)], "the backup has a counter"
    by_update = [moved(Ts(150, 1), 3), moved(Ts(250, 1), 9)]
    found_live = await search(tmp_path, by_update, backup=None, stored={}, live=8, inserted=set())
    assert values(found_live) == [(3, 9)], "one is live: an update gave it its number"
