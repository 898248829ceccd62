"""Counters beside their collections and their past, read from a server in memory: what is behind, what is missing."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64, ObjectId, Timestamp

from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow import collection as collection_module
from tallyglass.counters.follow import differences as differences_module
from tallyglass.counters.follow.differences import Difference, differences
from tallyglass.counters.follow.drift import LargestId
from tallyglass.counters.follow.past_reader import PastReader
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher, look, watch
from tallyglass.counters.history.oplog_samples import OplogPast, PastValue
from tallyglass.counters.recognise.config import IdField, parse_config
from tallyglass.counters.recognise.discovery import MOST_READ
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.snapshot import Absence, Flag, Grade, NumericType
from tallyglass.counters.standing import IdSpan, Standing
from tallyglass.counters.verdict import CRITICAL, OK, UNKNOWN, WARNING
from tallyglass.errors import RefusedError
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Extent, Namespace

Row = dict[str, Any]
COUNTERS, ORDERS = Namespace("shop", "counters"), Namespace("shop", "orders")


def values(row: Any, path: str) -> list[Any]:
    if not path:
        return row if isinstance(row, list) else [row]
    if isinstance(row, list):
        return [value for one in row for value in values(one, path)]
    name, _, rest = path.partition(".")
    return values(row[name], rest) if isinstance(row, dict) and name in row else []


def fits(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted or (value != value and wanted != wanted))
    number = isinstance(value, (int, float))
    tests = {
        "$in": lambda among: value in among,
        "$mod": lambda parts: number and math.fmod(int(value), parts[0]) == parts[1],
        "$nin": lambda among: value not in among,
        "$type": lambda _: number,
        "$gte": lambda low: (number or isinstance(value, Timestamp)) and value >= low,
        "$gt": lambda low: number and value > low,
        "$lte": lambda high: number and value <= high,
        "$lt": lambda high: (number or isinstance(value, Timestamp)) and value < high,
    }
    return all(tests[name](operand) for name, operand in wanted.items())


def matches(row: Row, query: Mapping[str, Any]) -> bool:
    return all(
        any(matches(row, one) for one in wanted) if name == "$or"
        else any(fits(value, wanted) for value in values(row, name))
        for name, wanted in query.items()
    )  # fmt: skip


class Server:
    """A replica set with the counter of a shop's orders, the orders by their number, and what the oplog says of both.

    The oplog begins an hour ago; its clock is ``ahead`` by seconds. Nothing sorts numbers apart from other values here.
    """

    def __init__(self, seq: float, ids: Iterable[float], past: Iterable[float] = (), *, ahead: int = 0) -> None:
        self.held = {COUNTERS: [{"_id": "orders", "field": "_id", "seq": seq}], ORDERS: [{"_id": one} for one in ids]}
        self.clock = int(time.time()) + ahead
        moved = [
            {"ns": "shop.counters", "op": "u", "o2": {"_id": "orders"}, "o": {"$v": 2, "diff": {"u": {"seq": value}}}}
            for value in past
        ]
        rows = [{"ns": "", "op": "n", "o": {}}, *moved, {"ns": "", "op": "n", "o": {}}]
        step = 3_600 // len(rows)
        stamps = [self.clock - 3_600 + step * n for n in range(len(rows))]
        self.held[OPLOG] = [
            row | {"ts": Timestamp(at, 1), "t": 1, "v": 2} for row, at in zip(rows, stamps, strict=True)
        ]
        self.refused: set[Namespace] = set()
        self.slow: set[Namespace] = set()
        self.sizes: dict[Namespace, int] = {}
        self.indexes: dict[Namespace, list[Row]] = {}
        self.asked: Counter[Namespace] = Counter()
        self.order: list[str] = []

    def found(self, ns: Namespace, query: Mapping[str, Any], sort: Any = ()) -> list[Row]:
        rows = [row for row in self.held[ns] if matches(row, query)]
        for name, direction in sort or ():
            if name != "$natural":
                rows.sort(key=lambda row: -math.inf if row[name] != row[name] else row[name])
            rows = rows[::direction]
        return rows

    async def command(self, name: str, *_: Any, **__: Any) -> Row:
        return {"setName": "rs"} if name == "hello" else {}

    async def catch_up(self) -> float:
        self.order.append("now")
        return float(self.clock)

    async def list_databases(self) -> list[str]:
        return ["shop"]

    async def list_collections(self, _: str) -> list[CollectionInfo]:
        return [CollectionInfo(ns) for ns in self.held if ns != OPLOG]

    async def list_indexes(self, ns: Namespace) -> list[Row]:
        return [{"key": {"_id": 1}}, *self.indexes.get(ns, [])]

    async def estimate(self, ns: Namespace) -> int:
        return self.sizes.get(ns, len(self.held[ns]))

    async def extent(self, ns: Namespace, query: Row, *, most: int, **_: Any) -> Extent:
        return Extent(min(len(self.found(ns, query)), most), 0)

    async def find_one(self, ns: Namespace, query: Row, *, sort: Any = (), **_: Any) -> Row | None:
        self.asked[ns] += 1
        self.order += ["id"] * (ns == ORDERS)
        if ns in self.refused:
            raise RefusedError("It took too long.", code=50)
        return next(iter(self.found(ns, query, sort)), None)

    async def find(self, ns: Namespace, query: Row, *, limit: int = 0, **_: Any) -> AsyncIterator[Row]:
        self.order += ["counter"] * (ns == COUNTERS)
        for row in self.found(ns, query)[: limit or None]:
            yield row

    async def find_raw(
        self, ns: Namespace, query: Row, *, sort: Any = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        for row in self.found(ns, query, sort)[: limit or None]:
            yield bson.encode(row)
        if ns in self.slow:
            raise RefusedError("It took too long.", code=50)

    async def close(self) -> None:
        pass


async def compared(server: Server, **rule: Any) -> Difference:
    rules = [{"collection": "shop.counters", "target": "shop.orders._id", **rule}] if rule else []
    compared = await differences(server, WatchSettings(config=parse_config({"counter": rules})))  # type: ignore[arg-type]
    (found,), unknown, incomplete = compared.rows, compared.not_compared, compared.unread
    assert (unknown, incomplete) == (0, [])
    return found


@pytest.mark.parametrize(
    ("server", "standing", "behind", "missing", "gaps", "why"),
    [
        (lambda: Server(100, range(1, 101)), Standing.AGREES, 0, 0, [], "They agree."),
        (lambda: Server(105, {*range(1, 101)} - {*range(40, 50)}),
         Standing.AGREES, 0, 15, [(40, 49), (101, 105)], "5 ahead"),
        (lambda: Server(90, range(1, 101), range(60, 91)),
         Standing.BEHIND, 10, 0, [], "10 behind: ids up to 100 exist"),
        (lambda: Server(90, range(1, 101)), Standing.BEHIND, 10, 0, [], "10 behind: ids up to 100 exist"),
        (lambda: Server(90, range(91, 101), range(60, 91)),
         Standing.BEHIND, 10, 0, [], "10 behind: ids up to 100 exist"),
        (lambda: Server(90, range(91, 101)), Standing.UNCLEAR, 0, 0, [], "it was not seen to move"),
        (lambda: Server(90, [89, 91]), Standing.BEHIND, 1, 1, [(90, 90)], "1 behind: ids up to 91 exist"),
        (lambda: Server(90, [*range(69, 90, 10), 91]),
         Standing.BEHIND, 1, 19, [(70, 78), (80, 88), (90, 90)], "1 behind"),
        (lambda: Server(90, [79, 91]), Standing.UNCLEAR, 0, 11, [(80, 90)], "it was not seen to move"),
        (lambda: Server(100, [*range(1, 101), 100.5, math.nan, 1e300]), Standing.AGREES, 0, 0, [], "They agree."),
        (lambda: Server(50, [*range(55, 60), *range(70, 101)], range(99, 49, -1)),
         Standing.AGREES, 0, 15, [(60, 69), (50, 54)], "5 ahead of the smallest id"),
        (lambda: Server(60, range(50, 101), range(99, 59, -1)),
         Standing.BEHIND, 10, 0, [], "It descends and is 10 behind"),
        (lambda: Server(90, [*range(1, 91), 5_000], range(60, 91)),
         Standing.UNCLEAR, 0, 4_909, [(91, 4_999)], "but the nearest is 4,910 further on"),
        (lambda: Server(90, [*range(1, 91), *range(5_000, 5_004)], range(60, 91)),
         Standing.UNCLEAR, 0, 4_909, [(91, 4_999)], "but the nearest is 4,910 further on"),
        (lambda: Server(90, [*range(1, 91), *range(5_000, 6_000)], range(60, 91)),
         Standing.UNCLEAR, 0, 4_909, [(91, 4_999)], "but the nearest is 4,910 further on"),
        (lambda: Server(90, range(5_000, 6_000), range(60, 91)),
         Standing.UNCLEAR, 0, 0, [], "but the nearest is 4,910 further on"),
        (lambda: Server(90, range(5_000, 6_000), [*range(5_960, 6_000), *range(60, 91)]),
         Standing.BEHIND, 5_909, 0, [], "so it collides at 5000: it was there before."),
        (lambda: Server(90, [*range(1, 92), 5_000], range(60, 91)),
         Standing.BEHIND, 4_910, 4_908, [(92, 4_999)], "4,910 behind"),
        (lambda: Server(90, [*range(1, 91), 5_000]),
         Standing.UNCLEAR, 0, 4_909, [(91, 4_999)], "but the nearest is 4,910 further on"),
    ],
    ids=[
        "agrees", "ahead", "behind", "not seen to move", "rose before", "unclear", "next to both", "ids below",
        "far above", "beside odd ids", "descends", "descends, behind", "a stray", "four strays",
        "those of an older system", "none passed", "was there before",
        "a stray and the next", "a stray, not seen to move",
    ],
)  # fmt: skip
async def test_a_counter_beside_its_collection(
    server: Callable[[], Server], standing: Standing, behind: int, missing: int, gaps: list[tuple[int, ...]], why: str
) -> None:
    found = await compared(server())
    assert (found.standing, found.behind, found.missing) == (standing, behind, missing)
    assert [(gap.first, gap.last) for gap in found.gaps] == gaps
    assert why in found.why
    end = found.smallest if found.direction < 0 else found.largest
    change = f'{{"${"min" if found.direction < 0 else "max"}": {{"seq": NumberInt({end})}}}}'
    assert (change if behind else "") in found.counter.repair
    assert bool(found.counter.repair) == bool(behind)


@pytest.mark.parametrize(
    ("rule", "seq", "ids", "burn", "missing", "gaps"),
    [
        ({}, 1, [1], 0.0, 0, []),
        ({}, 0, [5], None, 0, []),
        ({}, 10, {*range(1, 11)} - {5}, 0.1, 1, [(5, 5)]),
        ({"semantics": "next"}, 11, range(1, 11), 0.0, 0, []),
        ({"step": 10}, 120, {*range(10, 101, 10)} - {40, 50}, 1 / 3, 4, [(40, 50), (110, 120)]),
        ({"step": 10}, 100, {*range(1, 101)} - {*range(41, 51)}, 0.1, 10, [(41, 50)]),
        ({"step": -10}, 10, range(20, 101, 10), 0.1, 1, [(10, 10)]),
        ({"cycle": True, "max": 100}, 50, range(1, 101), None, 0, []),
        ({"resets": "yearly"}, 50, range(1, 101), None, 0, []),
    ],
    ids=[
        "first id", "none yet", "one missing", "next id", "steps of ten", "ten at once", "steps of ten down", "cycles",
        "starts again each year",
    ],
)  # fmt: skip
async def test_ids_without_a_document_are_counted_in_steps_unless_those_between_exist(
    rule: Row, seq: int, ids: Iterable[int], burn: float | None, missing: int, gaps: list[tuple[int, ...]]
) -> None:
    found = await compared(Server(seq, ids), **rule)
    assert (found.counter.burn, found.missing) == (pytest.approx(burn) if burn else burn, missing)
    assert [(gap.first, gap.last) for gap in found.gaps] == gaps


@pytest.mark.parametrize(
    ("seq", "standing", "why", "flags"),
    [
        (90, Standing.AGREES, "They agree.", ()),
        (95, Standing.AGREES, "5 ahead of the largest id: 5 ids have no document", ()),
        (80, Standing.BEHIND, "10 behind: ids up to 90 exist", (Flag.BEHIND,)),
    ],
)
@pytest.mark.parametrize("refused", [False, True])
async def test_a_counter_is_compared_with_all_collections_that_share_it(
    monkeypatch: pytest.MonkeyPatch, seq: int, standing: Standing, why: str, flags: tuple[Flag, ...], refused: bool
) -> None:
    server, bills = Server(seq, range(1, 71), range(60, seq)), Namespace("shop", "bills")
    server.held[bills] = [{"_id": one} for one in range(71, 91)]
    targets = IdField(ORDERS, "_id"), IdField(bills, "_id")
    own = tuple(("orders", target) for target in targets)
    known = UsageFinding(COUNTERS, "seq", Grade.CERTAIN, targets, by_document=own)

    async def remembered(_: PastReader) -> tuple[dict[Any, Any], list[UsageFinding], list[Any]]:
        return {}, [known], []

    monkeypatch.setattr(PastReader, "remembered", remembered)
    if refused:
        server.refused.add(ORDERS)
    found = await differences(server, WatchSettings())  # type: ignore[arg-type]
    assert bool(found.unread) == refused
    (row,) = found.rows
    assert (row.standing, row.counter.flags) == (standing, flags)
    if refused:
        assert (row.smallest, row.largest, row.documents) == (71, 90, 20)
    else:
        assert (row.smallest, row.largest, row.documents, row.looked_at) == (1, 90, 90, 90)
        assert (row.counter.target, why in row.why) == ("shop.orders._id, shop.bills._id", True)
        assert [gap.first for gap in row.gaps] == [91] * (seq == 95)


@pytest.mark.parametrize(
    ("name", "other", "by_other", "standing"),
    [
        ("a", {"_id": "d", "seq": 100}, (), Standing.UNCLEAR),
        ("a", {"_id": "d", "seq": 101}, (), Standing.UNCLEAR),
        ("a", {"_id": "d", "seq": 99}, (), Standing.BEHIND),
        ("a", {"_id": "d", "value": 100}, (), Standing.BEHIND),
        ("a", {"_id": "d", "seq": 100}, (("d", IdField(COUNTERS, "n")),), Standing.BEHIND),
        ("order_seq", {"_id": "d", "seq": 100}, (), Standing.BEHIND),
    ],
    ids=["has reached them", "has passed them", "is below them", "another number", "has ids of its own", "by its name"],
)
async def test_a_counter_is_not_behind_by_ids_that_one_beside_it_may_have_handed_out(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    other: Row,
    by_other: tuple[tuple[str, IdField], ...],
    standing: Standing,
) -> None:
    """Tenants with numbers of their own in one collection, of which only one was at work lately."""
    server, target = Server(0, range(1, 101)), IdField(ORDERS, "_id")
    server.held[COUNTERS] = [{"_id": name, "seq": 40}, other]
    known = UsageFinding(COUNTERS, "seq", Grade.CERTAIN, (target,), by_document=((name, target), *by_other))

    async def remembered(_: PastReader) -> tuple[dict[Any, Any], list[UsageFinding], list[Any]]:
        return {}, [known], []

    monkeypatch.setattr(PastReader, "remembered", remembered)
    found = await differences(server, WatchSettings())  # type: ignore[arg-type]
    (row,) = [row for row in found.rows if row.counter.id == name]
    assert (row.standing, bool(row.counter.repair)) == (standing, standing is Standing.BEHIND)
    why = "60 behind: ids up to 100 exist, or they are ids of d, which has passed them and was not seen in use."
    assert row.why.startswith(why) == (standing is Standing.UNCLEAR)


@pytest.mark.parametrize(("direction", "newest"), [(1, [17, 18, 19]), (-1, [3, 5, 7])])
async def test_the_newest_ids_are_those_of_all_collections_together(
    monkeypatch: pytest.MonkeyPatch, direction: int, newest: list[int]
) -> None:
    monkeypatch.setattr(differences_module, "NEWEST", 3)
    server, bills = Server(0, [2, 3, 5, 17, 19, 25, "x"]), Namespace("shop", "bills")  # type: ignore[list-item]
    server.held[bills] = [{"_id": one} for one in (7, 9, 18)]
    targets = IdField(ORDERS, "_id"), IdField(bills, "_id")
    largest = LargestId(targets, IdSpan(3, 19), 10, 0.0, dated=False)
    assert await differences_module._newest(server, largest, direction) == newest  # type: ignore[arg-type]
    server.slow.add(ORDERS)
    assert await differences_module._newest(server, largest, direction) == []  # type: ignore[arg-type]


ODD, EVEN = range(1, 52, 2), range(2, 81, 2)


@pytest.mark.parametrize(
    ("odd", "even", "more", "expected"),
    [
        (51, 80, [], {"odd": (Standing.AGREES, 51, ""), "even": (Standing.AGREES, 80, "")}),
        (49, 80, [], {"odd": (Standing.BEHIND, 51, "51"), "even": (Standing.AGREES, 80, "")}),
        (51, 78, [81], {"odd": (Standing.BEHIND, 81, "81"), "even": (Standing.BEHIND, 80, "80")}),
        (51, 80, [81.5], {"odd": (Standing.AGREES, 51, ""), "even": (Standing.AGREES, 80, "")}),
        # Reading past so many ids of others would take too long.
        (51, 80, [100_051], {"odd": (Standing.UNCLEAR, 100_051, ""), "even": (Standing.AGREES, 80, "")}),
        (51, 80, [100_050], {"odd": (Standing.AGREES, 51, ""), "even": (Standing.UNCLEAR, 100_050, "")}),
        (51, 80, [100_052], {"even": (Standing.UNCLEAR, 100_052, "")}),
    ],
)
async def test_counters_that_take_turns_are_each_compared_with_their_own_ids(
    monkeypatch: pytest.MonkeyPatch, odd: int, even: int, more: list[float],
    expected: dict[str, tuple[Standing, int, str]],
) -> None:  # fmt: skip
    server, target = Server(0, [*ODD, *EVEN, *more]), IdField(ORDERS, "_id")
    server.held[COUNTERS] = [{"_id": "odd", "seq": odd}, {"_id": "even", "seq": even}, {"_id": "idle", "seq": 4}]
    own = (("odd", target), ("even", target))
    known = UsageFinding(COUNTERS, "seq", Grade.CERTAIN, (target,), step=2, ids_apart=2, by_document=own)

    async def remembered(_: PastReader) -> tuple[dict[Any, Any], list[UsageFinding], list[Any]]:
        return {}, [known], []

    monkeypatch.setattr(PastReader, "remembered", remembered)
    found = await differences(server, WatchSettings())  # type: ignore[arg-type]
    assert found.not_compared == 3 - len(expected)
    moved = {row.counter.id: "".join(re.findall(r"NumberInt\((\d+)", row.counter.repair)) for row in found.rows}
    assert {row.counter.id: (row.standing, row.largest, moved[row.counter.id]) for row in found.rows} == expected


async def test_the_counters_of_pools_and_groups_are_counted_as_not_compared() -> None:
    server = Server(9, range(1, 10))
    pool = Namespace("shop", "ranges")
    server.held[COUNTERS] += [{"_id": f"tenant {n}", "seq": n} for n in range(250)]
    server.held[pool] = [
        {"_id": n, "seq": 1_000 * n + 9, "min": 1_000 * n + 1, "max": 1_000 * n + 1_000} for n in range(4)
    ]
    found = await differences(server, WatchSettings())  # type: ignore[arg-type]
    assert ([row.counter.id for row in found.rows], found.not_compared) == ([], 1 + 250 + 1)


@pytest.mark.parametrize("most", [2, 1])
async def test_a_counter_whose_ids_are_known_is_compared_beside_many_tenants(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(collection_module, "MOST_COMPARED", most)
    server, target = Server(0, range(1, 80)), IdField(ORDERS, "_id")
    server.held[COUNTERS] = [{"_id": f"tenant {n}", "seq": n} for n in range(250)] + [{"_id": "orders", "seq": 9}]
    own = (("orders", target), ("no longer there", target))
    known = UsageFinding(COUNTERS, "seq", Grade.CERTAIN, (target,), by_document=own)

    async def remembered(_: PastReader) -> tuple[dict[Any, Any], list[UsageFinding], list[Any]]:
        return {}, [known], []

    monkeypatch.setattr(PastReader, "remembered", remembered)
    found = await differences(server, WatchSettings())  # type: ignore[arg-type]
    behind = [(row.counter.id, row.standing, row.behind) for row in found.rows]
    compared = most == len(own)
    assert behind == ([("orders", Standing.BEHIND, 70)] if compared else [])
    assert found.not_compared == 250 + (not compared), "of more, the ids are those of tenants"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (range(1, 10), False),
        ([*map(Int64, range(1, 10))], True),
        ([*range(1, 9), Int64(2**31 - 1)], True),
        ([*range(1, 9), Int64(2**31)], False),
    ],
)
async def test_ids_that_are_64_bit_before_they_have_to_be_have_a_writer_of_64_bits(
    ids: Iterable[int], expected: bool
) -> None:
    watcher = Watcher(Server(9, ids), WatchSettings())  # type: ignore[arg-type]
    await watcher.look(1.0)
    ((tracker, largest),) = watcher.compared()
    assert largest is not None
    assert (largest.int64_ids, tracker.readers_64) == (expected, expected)


async def test_the_ids_are_read_before_the_counter_and_by_a_member_that_is_no_further() -> None:
    server = Server(90, range(11, 81))
    await look(server, WatchSettings())  # type: ignore[arg-type]
    *_, last = "".join(one[0] for one in server.order).split("i")
    assert last == "nc"


async def test_a_later_run_knows_what_an_earlier_one_read(tmp_path: Path) -> None:
    server = Server(90, range(11, 81))
    settings = WatchSettings(history_path=tmp_path / "kept.sqlite", oplog_history=False)
    await look(server, settings)  # type: ignore[arg-type]
    server.held[COUNTERS][0]["seq"] = 95
    (view,) = (await look(server, settings)).counters  # type: ignore[arg-type]
    assert [value for _, value in view.history][:2] == [90, 95]


async def test_one_that_cannot_be_compared_is_said_to_be_so() -> None:
    server = Server(90, range(1, 101), range(60, 91))
    server.refused = {ORDERS}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    (trouble,) = seen.troubles
    assert (trouble.ns, trouble.partial) == ("shop.orders", False)
    assert "cannot be compared with the largest id" in trouble.title
    verdict = check_counters(seen)
    assert (verdict.level, "cannot be compared with the largest id" in verdict.line) == (UNKNOWN, True)
    compared = await differences(server, WatchSettings())  # type: ignore[arg-type]
    rows, unknown, unread = compared.rows, compared.not_compared, compared.unread
    assert (rows, unknown, len(unread)) == ([], 1, 1)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("shop.ordres._id", "The target shop.ordres._id is not compared: there is no such collection"),
        ("shop.orders.nmber", "The target shop.orders.nmber is not compared: no index begins with that field"),
        ("shop.orders._id", ""),
        ("", ""),
    ],
)
async def test_a_target_of_ones_own_that_is_not_there_is_named(target: str, why: str) -> None:
    rule = {"collection": "shop.counters"} | ({"target": target} if target else {})
    server = Server(90, range(1, 81) if target else (), range(60, 91))
    seen = await look(server, WatchSettings(config=parse_config({"counter": [rule]})))  # type: ignore[arg-type]
    titles = [trouble.title for trouble in seen.troubles]
    assert [title.startswith(why) for title in titles] == ([True] if why else [])
    verdict = check_counters(seen)
    assert (verdict.level, why in verdict.line) == (OK, True)


@pytest.mark.parametrize(
    ("config", "is_compared"),
    [
        ({"include": ["shop.counters"]}, True),
        ({"exclude": ["shop.orders"]}, False),
        ({"exclude": ["shop.orders"], "counter": [{"collection": "shop.counters", "target": "shop.orders._id"}]}, True),
    ],
)
async def test_what_include_leaves_out_is_compared_and_what_exclude_does_is_not(config: Row, is_compared: bool) -> None:
    settings = WatchSettings(config=parse_config(config))
    (view,) = (await look(Server(90, range(1, 101), range(60, 91)), settings)).counters  # type: ignore[arg-type]
    assert (view.flags == (Flag.BEHIND,), view.target) == (is_compared, "shop.orders._id" if is_compared else "")


async def test_all_is_dated_by_the_clock_of_the_server() -> None:
    server, now = Server(90, range(11, 81), range(60, 91), ahead=600), time.time()
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    (view,) = seen.counters
    assert [value for _, value in view.history[:-1]] == list(range(60, 91))
    assert server.clock - 3_600 <= view.history[0][0] <= server.clock - 3_400
    assert (seen.at.timestamp(), seen.ahead) == (pytest.approx(server.clock, abs=30), pytest.approx(600, abs=30))
    assert seen.read_at.timestamp() == pytest.approx(now, abs=30)
    assert (view.target, view.drift, view.burn) == ("shop.orders._id", 10, 0.125)
    server.refused = {OPLOG}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    assert [(trouble.ns, trouble.partial) for trouble in seen.troubles] == [("local.oplog.rs", True)]
    assert (seen.counters[0].history, seen.oplog_seconds) == ((), None)


async def test_where_there_is_no_oplog_it_is_said_and_asked_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    server, alone = Server(90, range(1, 91)), Server(90, range(1, 91))
    server.refused = {OPLOG}
    async with aclosing(watch(server, WatchSettings(refresh_seconds=0))) as snapshots:  # type: ignore[arg-type, type-var]
        for _ in range(3):
            await anext(snapshots)
    assert server.asked[OPLOG] == 1

    async def command(*_: Any, **__: Any) -> Row:
        return {}

    monkeypatch.setattr(alone, "command", command)
    (trouble,) = (await look(alone, WatchSettings())).troubles  # type: ignore[arg-type]
    assert (trouble.ns, trouble.partial) == ("local.oplog.rs", True)
    assert trouble.title.startswith("There is no oplog without a replica set")
    assert alone.asked[OPLOG] == 0


@pytest.mark.parametrize("patient", [False, True])
async def test_of_an_oplog_that_is_not_yet_read_nothing_is_told_unless_nobody_waits_longer(
    monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    async def advance(past: OplogPast, _: float) -> bool:
        past.values = {COUNTERS: {"orders": {"seq": [PastValue(1.0, 5, NumericType.INT32)]}}}
        return False

    monkeypatch.setattr(OplogPast, "advance", advance)
    watcher = Watcher(Server(90, range(1, 91)), WatchSettings())  # type: ignore[arg-type]
    seen = await watcher.refresh(1.0, patient=patient)
    told = "The time was up before all of the oplog was read: the history of counters has holes."
    assert [one.partial for one in seen.troubles if one.title == told] == [True] * patient
    assert [value for _, value in seen.counters[0].history] == [5, 90][: 2 * patient]


async def test_a_repair_is_seen_at_once_and_what_agrees_is_not_read_each_time() -> None:
    server = Server(90, range(1, 101), range(60, 91))
    async with aclosing(watch(server, WatchSettings(refresh_seconds=0))) as snapshots:  # type: ignore[arg-type, type-var]
        flags = [(await anext(snapshots)).counters[0].flags for _ in range(2)]
        server.held[COUNTERS][0]["seq"] = 101
        flags.append((await anext(snapshots)).counters[0].flags)
        assert flags == [(), (Flag.BEHIND,), ()]
        asked = server.asked[ORDERS]
        await anext(snapshots)
        assert server.asked[ORDERS] == asked


async def test_an_oplog_that_is_read_too_slowly_leaves_the_counters_known() -> None:
    server = Server(100, range(1, 101), range(60, 101))
    server.slow = {OPLOG}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    assert all(trouble.partial for trouble in seen.troubles)
    titles = [trouble.title for trouble in seen.troubles]
    assert [title.partition(" requests for ")[2] for title in titles] == [
        "the oplog: the history of counters has holes.", "the use of numbers: a counter may be a guess.",
    ]  # fmt: skip
    assert check_counters(seen).level == OK
    assert seen.oplog_seconds == 42 * (3_600 // 43), "the steps between 43 entries"


async def test_only_counters_of_a_pattern_are_compared() -> None:
    found = {}
    orders, users = "shop.* orders", "shop.* users"
    for patterns in ((orders,), (users,), (users, orders)):
        compared = await differences(Server(100, range(1, 101)), WatchSettings(), patterns)  # type: ignore[arg-type]
        found[patterns] = (len(compared.rows), compared.not_compared, compared.missed)
    assert found == {(orders,): (1, 0, ()), (users,): (0, 0, (users,)), (users, orders): (1, 0, (users,))}


async def test_a_counter_whose_document_is_gone_is_missed_in_every_later_run(tmp_path: Path) -> None:
    server, settings = Server(100, range(1, 101)), WatchSettings(history_path=tmp_path / "kept.sqlite")
    assert (await look(server, settings)).missing == ()  # type: ignore[arg-type]
    orders = server.held[COUNTERS].pop()
    for _ in range(2):
        seen = await look(server, settings)  # type: ignore[arg-type]
        assert [(one.id, one.absence, one.routine) for one in seen.missing] == [("orders", Absence.GONE, False)]
        assert (check_counters(seen).level, seen.known) == (WARNING, 1)
    server.held[COUNTERS] = [orders]
    seen = await look(server, settings)  # type: ignore[arg-type]
    assert (seen.missing, seen.known, len(seen.counters)) == ((), 1, 1)


SETTINGS = Namespace("shop", "settings")


def counted_in_settings(path: str) -> Server:
    """A shop whose orders have a number from its settings, at a ``path``."""
    server, oplog = Server(0, []), list[Row]()
    for n in range(1_000, 1_030):
        at = Timestamp(server.clock - 200 + 3 * (n - 1_000), 1)
        change = {"$v": 2, "diff": {"u": {"number": n}}}
        oplog.append({"ns": "shop.settings", "op": "u", "o2": {"_id": "shop"}, "o": change, "ts": at, "t": 1, "v": 2})
        row = {"_id": ObjectId(), path: n}
        later = Timestamp(at.time + 1, 1)
        oplog.append({"ns": "shop.orders", "op": "i", "o2": {"_id": row["_id"]}, "o": row, "ts": later, "t": 1, "v": 2})
    server.held = {
        SETTINGS: [{"_id": "shop", "theme": "dark", "number": n}],
        ORDERS: [entry["o"] for entry in oplog if entry["op"] == "i"],
        OPLOG: [*server.held[OPLOG][:1], *oplog, server.held[OPLOG][-1] | {"ts": Timestamp(server.clock, 1)}],
    }
    return server


@pytest.mark.parametrize(
    ("path", "index", "found"),
    [
        ("_id", {}, [("shop.settings", "number", Grade.CERTAIN, "shop.orders._id", 0)]),
        ("serial", {}, [("shop.settings", "number", Grade.CERTAIN, "", None)]),
        ("serial", {"key": {"serial": 1}}, [("shop.settings", "number", Grade.CERTAIN, "shop.orders.serial", 0)]),
        ("serial", {"key": {"serial": -1, "at": 1}},
         [("shop.settings", "number", Grade.CERTAIN, "shop.orders.serial", 0)]),
        ("serial", {"key": {"at": 1, "serial": 1}}, [("shop.settings", "number", Grade.CERTAIN, "", None)]),
        ("serial", {"key": {"serial": "hashed"}}, [("shop.settings", "number", Grade.CERTAIN, "", None)]),
        ("serial", {"key": {"serial": 1}, "hidden": True}, [("shop.settings", "number", Grade.CERTAIN, "", None)]),
        ("number", {}, []),
        ("number", {"key": {"number": 1}}, [("shop.settings", "number", Grade.CERTAIN, "shop.orders.number", 0)]),
    ],
    ids=[
        "ids", "an id that nothing looks up", "an index", "an index of two", "an index of another", "a hash",
        "a hidden index", "a total in a log", "the same name",
    ],
)  # fmt: skip
async def test_a_number_in_use_as_an_id_is_followed_wherever_it_is(
    path: str, index: Row, found: list[tuple[object, ...]]
) -> None:
    server = counted_in_settings(path)
    server.indexes = {ORDERS: [index]}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    assert seen.troubles == ()
    assert [(one.ns, one.field, one.grade, one.target, one.drift) for one in seen.counters] == found


async def test_an_acknowledged_flag_of_one_counter_alarms_no_longer() -> None:
    for name, acknowledged, level in (("shop.counters orders", (Flag.BEHIND,), OK), ("shop.* users", (), CRITICAL)):
        server = Server(90, range(1, 101), range(60, 91))
        note = {"counter": name, "flags": ["BEHIND", "RESET"], "until": datetime(2999, 1, 1, tzinfo=UTC)}
        seen = await look(server, WatchSettings(config=parse_config({"acknowledge": [note]})))  # type: ignore[arg-type]
        assert [(one.flags, one.acknowledged) for one in seen.counters] == [((Flag.BEHIND,), acknowledged)]
        assert check_counters(seen).level == level
        assert seen.unmatched == (() if acknowledged else (f"acknowledge {name} matches no counter.",))


async def test_what_expires_or_has_too_many_documents_is_not_followed() -> None:
    server = counted_in_settings("serial")
    server.indexes = {SETTINGS: [{"key": {"at": 1}, "expireAfterSeconds": 60}]}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    assert (seen.counters, seen.troubles) == ((), ())
    server = counted_in_settings("serial")
    server.sizes = {SETTINGS: MOST_READ + 1}
    seen = await look(server, WatchSettings())  # type: ignore[arg-type]
    (trouble,) = seen.troubles
    assert (seen.counters, trouble.ns, trouble.partial) == ((), "shop.settings", True)


@pytest.mark.parametrize(("exclude", "followed"), [("shop.settings", 0), ("shop.orders", 1)])
async def test_a_number_in_use_as_an_id_is_not_followed_where_the_collection_is_left_out(
    exclude: str, followed: int
) -> None:
    settings = WatchSettings(config=parse_config({"exclude": [exclude]}))
    seen = await look(counted_in_settings("_id"), settings)  # type: ignore[arg-type]
    assert len(seen.counters) == followed


GUESSES = Namespace("shop", "number_counters")


class Busy(Server):
    """A server with a guess that moves on by five with each reading."""

    async def find(self, ns: Namespace, query: Row, *, limit: int = 0, **_: Any) -> AsyncIterator[Row]:
        async for row in super().find(ns, query, limit=limit):
            yield {**row}
            if ns == GUESSES:
                row["value"] += 5


@pytest.mark.parametrize(
    ("kind", "value", "largest", "others", "grade"),
    [
        (Server, 500, 500, [], Grade.LIKELY), (Server, 500, 503, [], Grade.POSSIBLE),
        (Server, 100, 100, [], Grade.LIKELY), (Server, 99, 99, [], Grade.POSSIBLE),
        (Busy, 500, 508, [200], Grade.LIKELY), (Busy, 500, 512, [], Grade.POSSIBLE),
        (Busy, 500, 508, [507], Grade.POSSIBLE),
    ],
    ids=["is it", "is near it", "is 100", "is 99", "went past it", "did not reach it", "went past two"],
)  # fmt: skip
async def test_an_idle_guess_is_the_largest_id_of_a_collection_or_moves_past_it(
    kind: type[Server], value: int, largest: int, others: list[int], grade: Grade
) -> None:
    server = kind(0, [])
    server.held[ORDERS] = [{"_id": largest}]
    server.held[GUESSES] = [{"_id": "Order", "value": value}]
    server.held |= {Namespace("shop", f"other{n}"): [{"_id": n}] for n in others}
    del server.held[COUNTERS]
    (view,) = (await look(server, WatchSettings(oplog_history=False))).counters  # type: ignore[arg-type]
    assert view.grade is grade


async def test_a_counter_in_use_beside_an_idle_guess_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    server, bills = Server(0, [500]), IdField(Namespace("shop", "bills"), "_id")
    server.held[GUESSES] = [{"_id": "Order", "value": 500}, {"_id": "Bill", "value": 80}]
    server.held[bills.ns] = [{"_id": n} for n in range(1, 91)]
    del server.held[COUNTERS]
    known = UsageFinding(GUESSES, "value", Grade.CERTAIN, (bills,), by_document=(("Bill", bills),), is_apart=True)

    async def remembered(_: PastReader) -> tuple[dict[Any, Any], list[UsageFinding], list[Any]]:
        return {}, [known], []

    monkeypatch.setattr(PastReader, "remembered", remembered)
    found = (await look(server, WatchSettings())).counters  # type: ignore[arg-type]
    assert {one.id: (one.grade, one.flags) for one in found} == {
        "Bill": (Grade.CERTAIN, (Flag.BEHIND,)),
        "Order": (Grade.LIKELY, ()),
    }


@pytest.mark.parametrize(
    ("index", "grade"),
    [
        ({"key": {"number": 1}}, Grade.LIKELY),
        ({"key": {"number": 1}, "partialFilterExpression": {"paid": True}}, Grade.POSSIBLE),
        ({"key": {"number": 1}, "hidden": True}, Grade.POSSIBLE),
        ({"key": {"number": "hashed"}}, Grade.POSSIBLE),
        ({"key": {"number": 1, "at": 1}}, Grade.POSSIBLE),
    ],
    ids=["an index", "a partial index", "a hidden index", "a hash", "an index of two"],
)
async def test_an_idle_guess_is_compared_with_fields_that_have_an_index_of_their_own(index: Row, grade: Grade) -> None:
    server = Server(0, [])
    server.held = {
        ORDERS: [{"_id": ObjectId(), "number": 500}],
        GUESSES: [{"_id": "Order", "value": 500}],
        OPLOG: server.held[OPLOG],
    }
    server.indexes = {ORDERS: [index]}
    (view,) = (await look(server, WatchSettings(oplog_history=False))).counters  # type: ignore[arg-type]
    assert view.grade is grade


@pytest.mark.parametrize(("look_seconds", "late"), [(60.0, 4), (90.0, 0)])
async def test_counters_for_which_there_is_no_time_are_said_to_be_not_compared(
    monkeypatch: pytest.MonkeyPatch, look_seconds: float, late: int
) -> None:
    """Each reading of an id takes a second, and nothing else any time; after 30 a counter could be compared again."""

    class Slow(Server):
        passed = 0.0

        async def find_one(self, ns: Namespace, query: Row, *, sort: Any = (), **_: Any) -> Row | None:
            self.passed += ns not in (COUNTERS, OPLOG)
            return await super().find_one(ns, query, sort=sort)

    server, names, began = Slow(0, []), [f"kind{n}s" for n in range(40)], time.monotonic()
    server.held |= {Namespace("shop", name): [{"_id": 5}] for name in names}
    server.held[COUNTERS] = [{"_id": name, "field": "_id", "seq": 5} for name in names]
    monkeypatch.setattr(time, "monotonic", lambda: began + server.passed)
    seen = await look(server, WatchSettings(look_seconds=look_seconds))  # type: ignore[arg-type]
    assert sum(one.drift is None for one in seen.counters) == late
    why = f"The time was up before {late} counters could be compared with the ids of their collections."
    assert [trouble.title for trouble in seen.troubles] == [why] * bool(late)
