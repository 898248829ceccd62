"""What each public method returns, with a MongoClient and with an AsyncMongoClient; the defaults of the arguments."""

from __future__ import annotations

import inspect
import random
import string
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from builders.memory_mongo import Memory
from tallyglass import allocate
from tallyglass.allocate import (
    AllocatorClosed,
    CollisionLimit,
    Deadlines,
    Drift,
    Fill,
    NotUnique,
    NumberSpace,
    PoolLayout,
    Uniqueness,
)
from tallyglass.allocate import format as number_format
from tallyglass.allocate.format import Digits, NumberFormat
from tallyglass.allocate.format import formatted as formats

Call = Callable[..., Any]


class Kit:
    """The classes and functions for one kind of client, its database, and that of the server."""

    def __init__(self, client: Any, memory: Memory) -> None:
        self.db, self.memory = client.s, memory
        self.sync = isinstance(client, MongoClient)

    def __getattr__(self, name: str) -> Any:
        module = formats if name == "Formatted" else allocate
        if self.sync:
            return getattr(module, name)
        return getattr(module, f"Async{name}" if name[0].isupper() else f"{name}_async")


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def first_of(ids: Any) -> int:
    if isinstance(ids, AsyncIterator):
        return await anext(ids)
    assert isinstance(ids, Iterator)
    return next(ids)


@pytest.fixture(params=[MongoClient, AsyncMongoClient])
async def kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kit]:
    memory = Memory(monkeypatch, random.Random(1))
    monkeypatch.setattr("asyncio.sleep", quick)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    client = request.param(connect=False)
    yield Kit(client, memory)
    await done(client.close())


async def quick(seconds: float, result: Any = None) -> Any:
    return result


async def test_a_counter(kit: Kit) -> None:
    ids = kit.Counter(kit.db.counters, "x", highest=100)
    assert (await done(ids.create(5)), await done(ids.create()), await done(ids.peek())) == (True, False, 5)
    assert (await done(ids.next()), await done(ids.take(3)), await done(ids.take_up_to(2))) == (
        5,
        range(6, 9),
        range(9, 11),
    )
    assert await first_of(aiter(ids) if not kit.sync else iter(ids)) == 11
    assert await done(ids.take_up_to(1000)) == range(12, 101)
    assert (ids.stats().issued, ids.stats().fetches, ids.space) == (96, 5, 100)
    assert (ids.name, repr(ids)) == ("s.counters 'x'", f"<{type(ids).__name__} s.counters 'x'>")
    assert kit.memory.data.rows["s.counters"] == [{"_id": "x", "next": 100}]


async def test_scopes(kit: Kit) -> None:
    counters = kit.Counters(kit.db.scopes, highest=9)
    ids = counters.of("a", "b/c", period="2026")
    assert (await done(ids.create(3)), await done(ids.next()), await done(ids.take(2))) == (True, 3, range(4, 6))
    assert (await done(ids.create()), await done(counters.of("a").next())) == (False, 1)
    assert repr(counters) == f"<{type(counters).__name__} s.scopes>"
    assert [row["_id"] for row in kit.memory.data.rows["s.scopes"]] == ["a/b%2Fc", "a"]


async def test_a_pool(kit: Kit) -> None:
    pool = kit.Pool(kit.db.pool, layout=PoolLayout(3, 4, first=8))
    assert (await done(pool.create()), await done(pool.create())) == (3, 0)
    taken = [one for n in range(6) for one in await done(pool.take(2))]
    assert sorted(taken) == list(range(8, 20))
    assert (pool.stats().issued, pool.stats().full, pool.space, pool.name) == (12, 3, 12, "s.pool")


async def test_the_last_id_is_taken_alone(kit: Kit) -> None:
    ids = kit.Counter(kit.db.counters, "short", highest=3)
    await done(ids.create())
    assert [await done(ids.take(2)), await done(ids.take_up_to(9))] == [range(1, 3), range(3, 4)]


async def test_inserts(kit: Kit) -> None:
    assert await done(kit.ensure_unique(kit.db.cards, "number")) == Uniqueness(
        True, "A unique index covers every document.", "number"
    )
    cards = kit.RandomIds(kit.db.cards, "number", NumberSpace(7, 8))
    assert (await done(cards.insert({"a": 1})), await done(cards.fill())) == (7, Fill(1, 1))
    with pytest.raises(CollisionLimit) as full:
        await done(cards.insert({}))
    assert (full.value.tries, cards.stats().collisions, cards.stats().issued) == (20, 20, 1)
    assert (await done(kit.verify_unique(kit.db.low, "number"))).kept is False
    largest = kit.MaxPlusOne(kit.db.low, "number", first=4)
    with pytest.raises(NotUnique):
        await done(largest.insert({}))
    await done(kit.ensure_unique(kit.db.low, "number"))
    assert [await done(largest.insert({"n": n})) for n in range(3)] == [4, 5, 6]
    assert repr(largest) == f"<{type(largest).__name__} s.low.number>"
    tickets = kit.ProxiedInsert(kit.db.reserved, kit.db.tickets, "number")
    assert await done(tickets.insert({"_id": 1, "number": 5})) is None
    with pytest.raises(CollisionLimit, match=r"5 is already taken in s\.reserved"):
        await done(tickets.insert({"number": 5}))
    assert (tickets.stats().issued, tickets.stats().collisions) == (1, 1)
    assert [await done(tickets.release(5, owner)) for owner in (2, 1, 1)] == [False, True, False]
    bills = kit.GaplessInsert(kit.db.numbers, kit.db.bills, within=("tenant",))
    await done(bills.create())
    assert [await done(bills.insert({"tenant": tenant})) for tenant in "aab"] == [1, 2, 1]
    assert (largest.stats().issued, bills.stats().issued) == (3, 3)
    assert bills.key({"tenant": "a"}) == {"numbers": "s.bills.number", "tenant": "a"}


async def test_a_counter_behind_its_collection(kit: Kit) -> None:
    ids = kit.Counter(kit.db.counters, "x")
    await done(ids.create())
    kit.memory.data.rows["s.orders"] = [{"_id": 7}]
    found = await done(kit.verify(ids, kit.db.orders))
    assert (found.drift, found.behind) == (-7, True)
    assert found == Drift(1, 7, found.command)
    assert [await done(kit.advance_to(ids, next_id)) for next_id in (8, 3)] == [8, 8]
    assert await done(kit.verify(ids, kit.db.orders)) == Drift(8, 7)
    # A scope that a restore to before its first use has removed.
    scope = kit.Counters(kit.db.scopes).of("acme", period="2026")
    assert '"upsert": true' in (await done(kit.verify(scope, kit.db.orders))).command
    assert [await done(kit.advance_to(scope, next_id)) for next_id in (8, 3)] == [8, 8]
    assert await done(scope.next()) == 8


async def test_a_cache(kit: Kit) -> None:
    counter = kit.Counter(kit.db.counters, "x")
    await done(counter.create())
    cached = kit.Cached(counter, step=10, ahead=0)
    async with AsyncExitStack() as stack:
        if kit.sync:
            assert stack.enter_context(cached) is cached
        else:
            assert await stack.enter_async_context(cached) is cached
        assert (await done(cached.next()), await done(cached.take(1)), await done(cached.take(3))) == (
            1,
            [2],
            [3, 4, 5],
        )
        assert await first_of(aiter(cached) if not kit.sync else iter(cached)) == 6
        texts = kit.Formatted(cached, NumberFormat("A", body=Digits(3)))
        assert (await done(texts.next()), await done(texts.take(2))) == ("A-007", ["A-008", "A-009"])
        for wrong in (0, -1):
            with pytest.raises(ValueError, match="the number of ids must be at least 1"):
                await done(cached.take(wrong))
    assert (cached.stats().issued, cached.stats().burned, await done(cached.close())) == (9, 1, 0)
    with pytest.raises(AllocatorClosed):
        await done(cached.next())


async def test_a_cache_of_many_pieces_gives_as_many_ids_as_were_asked_for(kit: Kit) -> None:
    counter = kit.Counter(kit.db.counters, "x")
    await done(counter.create())
    cached, expected = kit.Cached(counter, step=100, ahead=0), 1
    for n in (1, 10, 30, 7, 150, 2):
        assert await done(cached.take(n)) == list(range(expected, expected + n))
        expected += n
    await done(cached.close())


NO_DEFAULT = inspect.Parameter.empty
ALLOCATOR = {"deadlines": None, "on_event": None}
COUNTER = {**ALLOCATOR, "write_concern": None, "unsafe_write_concern": None}
DEFAULTS: dict[str, dict[str, Any]] = {
    "Counter": {"layout": allocate.MANUAL, "highest": None, **COUNTER},
    "Counters": {"highest": None, "remembered": 1000, **COUNTER},
    "Pool": {"layout": None, **COUNTER},
    "Cached": {"step": None, "ahead": None, "patience": 30.0, "on_event": None},
    "GaplessInsert": {"field": "number", "within": (), **ALLOCATOR},
    "MaxPlusOne": {"field": "_id", "first": 1, "tries": 50, **ALLOCATOR},
    "RandomIds": {"tries": 20, **ALLOCATOR},
    "ProxiedInsert": ALLOCATOR,
    "CounterTypeError": {"advice": "", "type_name": ""},
    "Exhausted": {"advice": "", "remaining": 0, "maximum": None},
    "CounterRewound": {"advice": "", "seen": 0, "found": 0},
    "AllocationUnknown": {"advice": "", "burned": 0},
    "AllocationRefused": {"advice": "", "code": None},
    "CollisionLimit": {"advice": "", "tries": 0},
    "Drift": {"command": ""},
    "Uniqueness": {"index": "", "shard_key": None},
    "Event": {"n": 0, "seconds": 0.0, "note": "", "name": ""},
    "Digits": {"width": 1, "grow": False},
    "Crockford": {"width": 1, "grow": False},
    "ShortCode": {"alphabet": string.ascii_letters + string.digits, "width": 6},
    "NumberFormat": {"prefix": "", "date": "", "body": Digits(6), "check": None, "separator": "-"},
    "Deadlines": {"total": 30.0, "attempt": 10.0},
    "Adaptive": {"seconds": 20.0, "least": 100, "most": 100_000},
    "Fixed": {"step": 1000},
    "NumberSpace": {"width": 0},
    "Layout": {"first": 1},
    "PoolLayout": {
        "documents": 1000,
        "span": 10**9,
        "first": 0,
        "prefix": "UNIQUE COUNT DOCUMENT IDENTIFIER ",
        "counter": allocate.ARTICLE,
        "maximum": "MAX_VALUE",
    },
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_of_the_arguments(name: str) -> None:
    module = number_format if name in number_format.__all__ else allocate
    for kind in {getattr(module, name), getattr(module, f"Async{name}", None)} - {None}:
        parameters = inspect.signature(kind).parameters.values()
        found = {one.name: one.default for one in parameters if one.default is not NO_DEFAULT}
        assert {key: value for key, value in found.items() if key != "extra"} == DEFAULTS[name]
    assert Deadlines() == Deadlines(30, 10)
