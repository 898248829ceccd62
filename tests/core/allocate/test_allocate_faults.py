"""No id twice, whatever gets lost: processes over a replica set in memory, in an order and with faults by chance."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from builders import virtual_time
from builders.memory_mongo import Memory
from tallyglass import allocate
from tallyglass.allocate import (
    AllocationError,
    AllocationTimeout,
    AllocationUnknown,
    CounterMissing,
    CounterRewound,
    Deadlines,
    Exhausted,
    GaplessInsert,
    NumberSpace,
    PoolLayout,
)

SMALL = PoolLayout(5, 40, first=100)
SEEDS = range(3)
Make = Callable[[Any, str, random.Random], Callable[[], Any]]
"""Makes an allocator of a process with these classes (a prefix of their names): a call takes ids, or inserts."""


def of(prefix: str, name: str) -> Any:
    return getattr(allocate, f"{prefix}{name}" if name[0].isupper() else f"{name}{'_async' * bool(prefix)}")


def counter(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "Counter")(db.counters, "orders", highest=300)
    return lambda: ids.take_up_to(chance.randint(1, 9))


def scope(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "Counters")(db.scopes, highest=300).of("a", "b", period="2026")
    return lambda: ids.take(chance.randint(1, 4))


def pool(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "Pool")(db.pool, layout=SMALL)
    return lambda: ids.take_up_to(chance.randint(1, 9))


def random_ids(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "RandomIds")(db.cards, "number", NumberSpace(0, 300), tries=1000)
    return lambda: ids.insert({"by": "random"})


def largest(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "MaxPlusOne")(db.low, "number", first=5)
    return lambda: ids.insert({"by": "largest"})


def gapless(db: Any, prefix: str, chance: random.Random) -> Callable[[], Any]:
    ids = of(prefix, "GaplessInsert")(db.counters, db.invoices, within=("tenant",))
    return lambda: ids.insert({"tenant": "a"})


ALL = (counter, scope, pool, random_ids, largest, gapless)


@pytest.fixture(params=SEEDS)
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    made = Memory(monkeypatch, random.Random(request.param), faults=0.15)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for ns, fields in (("s.cards", "number"), ("s.low", "number")):
        made.data.unique[ns] = [(fields,)]
    made.data.unique["s.invoices"] = [("tenant", "number")]
    return made


def prepared(db: Any, prefix: str) -> list[Any]:
    """What is done once, by many processes at a time."""
    return [
        lambda: of(prefix, "Counter")(db.counters, "orders").create(first=1),
        lambda: of(prefix, "Pool")(db.pool, layout=SMALL).create(),
    ]


def check(memory: Memory, make: Make, taken: list[Any]) -> None:
    ids = [one for ids in taken for one in (ids if isinstance(ids, range) else [ids])]
    assert len(ids) == len(set(ids)) > 30
    names = {random_ids: "cards", largest: "low", gapless: "invoices"}
    if make in names:
        stored = [row["number"] for row in memory.data.rows[f"s.{names[make]}"]]
        assert set(ids) <= set(stored)
        assert len(stored) == len(set(stored))
        if make is gapless:
            assert sorted(stored) == list(range(1, len(stored) + 1))
    low, high = {counter: (1, 300), scope: (1, 300), pool: (100, 299), random_ids: (0, 299)}.get(make, (1, 999))
    assert low <= min(ids) <= max(ids) <= high


@pytest.mark.parametrize("make", ALL)
def test_many_processes_get_no_id_twice(memory: Memory, make: Make) -> None:
    async def process(db: Any, taken: list[Any]) -> None:
        call = make(db, "Async", memory.chance)
        for _ in range(12):
            if memory.chance.random() < 0.1:
                call = make(db, "Async", memory.chance)  # another process takes its place
            try:
                taken.append(await call())
            except AllocationError:
                continue

    async def all_of_them() -> list[Any]:
        taken: list[Any] = []
        async with AsyncMongoClient[Any](connect=False) as client:
            twice: list[Awaitable[Any]] = [begin() for begin in prepared(client.s, "Async") * 2]
            await asyncio.gather(*twice)
            await asyncio.gather(*(process(client.s, taken) for _ in range(4)))
            await asyncio.gather(*memory.late)
        return taken

    check(memory, make, virtual_time.run(all_of_them()))


@pytest.mark.parametrize("make", ALL)
def test_one_process_gets_no_id_twice(memory: Memory, make: Make) -> None:
    with MongoClient[Any](connect=False) as client:
        for begin in prepared(client.s, ""):
            begin()
        call = make(client.s, "", memory.chance)
        taken = []
        for _ in range(40):
            try:
                taken.append(call())
            except Exhausted:
                break
    check(memory, make, taken)


@pytest.mark.parametrize("shard_key", ["number", "tenant"])
def test_an_insert_that_is_repeated_stores_one_document_on_whichever_shard(memory: Memory, shard_key: str) -> None:
    memory.hello = {"msg": "isdbgrid"}
    memory.data.shard_keys["s.invoices"] = shard_key
    numbers, unknown = [], 0
    with MongoClient[Any](connect=False) as client:
        hasty = Deadlines(total=0.06, attempt=0.06)
        ids = GaplessInsert(client.s.counters, client.s.invoices, within=("tenant",), deadlines=hasty)
        while len(numbers) < 40:
            try:
                numbers.append(ids.insert({"_id": f"bill {len(numbers)}", "tenant": 7}))
            except (AllocationUnknown, AllocationTimeout) as error:
                unknown += isinstance(error, AllocationUnknown)
    stored = [(row["_id"], row["number"]) for row in memory.data.rows["s.invoices"]]
    assert stored == [(f"bill {n}", number) for n, number in enumerate(numbers)]
    assert numbers == list(range(1, 41))
    assert unknown > 0


@pytest.mark.parametrize("make", [counter, scope, pool])
def test_a_process_that_knew_a_document_before_it_went_back_repeats_no_id(memory: Memory, make: Make) -> None:
    with MongoClient[Any](connect=False) as client:
        for begin in prepared(client.s, ""):
            begin()
        call, taken, kept, stopped = make(client.s, "", memory.chance), [], memory.data, False
        for _ in range(60):
            if memory.chance.random() < 0.5:
                kept = memory.data.copy()
            try:
                taken += call()
            except (CounterRewound, CounterMissing, Exhausted) as error:
                stopped = stopped or isinstance(error, CounterRewound)
            else:
                assert not stopped
            if memory.chance.random() < 0.05:
                memory.data.rows = {ns: documents[1:] for ns, documents in memory.data.rows.items()}
            elif memory.chance.random() < 0.1:
                memory.data = kept.copy()
    assert len(taken) == len(set(taken)) > 0
