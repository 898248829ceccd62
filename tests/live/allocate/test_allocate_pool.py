"""A pool of counter documents, over each driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from allocate_kit import Kit, done
from bson import Int64

from tallyglass.allocate import (
    CounterMissing,
    CounterRewound,
    CounterTypeError,
    Event,
    EventKind,
    PoolEmpty,
    PoolLayout,
    PoolOverlap,
)

pytestmark = [pytest.mark.live, pytest.mark.smoke, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


async def made(kit: Kit, layout: PoolLayout, **how: Any) -> Any:
    pool = kit.Pool(kit.db.pool, layout=layout, **how)
    await done(pool.create())
    return pool


async def test_the_pool_of_the_article_is_created_in_one_call_and_once(kit: Kit) -> None:
    pools = [kit.Pool(kit.db.pool) for _ in range(3)]
    if kit.sync:
        counts = await asyncio.gather(*(asyncio.to_thread(pool.create) for pool in pools))
    else:
        counts = await asyncio.gather(*(pool.create() for pool in pools))
    assert sum(counts) == 1000
    last = kit.plain.pool.find_one({"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER 999"})
    assert (last["COUNT"], last["MAX_VALUE"]) == (999 * 10**9, 1000 * 10**9)
    assert await done(pools[0].create()) == 0
    ids = [await done(pools[0].next()) for _ in range(50)]
    assert len({one // 10**9 for one in ids}) > 10
    assert len(set(ids)) == 50


async def test_every_id_is_handed_out_once_then_it_is_empty(kit: Kit) -> None:
    seen: list[Event] = []
    pool = await made(kit, PoolLayout(5, 23, first=100), on_event=seen.append)
    ids: list[int] = []
    for _ in range(10):
        ids += await done(pool.take(10))
    with pytest.raises(PoolEmpty) as caught:
        await done(pool.take(10))
    assert caught.value.remaining == 5 * 3
    assert len(ids) == 5 * 20
    for _ in range(5):
        ids += await done(pool.take_up_to(10))
    assert sorted(ids) == list(range(100, 100 + 5 * 23))
    with pytest.raises(PoolEmpty):
        await done(pool.next())
    assert pool.stats().full == 5
    assert sum(event.kind is EventKind.FULL for event in seen) == 5
    assert all(row["COUNT"] == row["MAX_VALUE"] for row in kit.plain.pool.find())


async def test_a_pool_that_grew_is_found_again(kit: Kit) -> None:
    pool = await made(kit, PoolLayout(2, 5))
    for _ in range(2):
        await done(pool.take(5))
    kit.plain.pool.insert_one({"_id": "more", "COUNT": 10, "MAX_VALUE": 12})
    assert await done(pool.take_up_to(10)) == range(10, 12)


async def test_no_document_passes_its_maximum_despite_other_writers(kit: Kit) -> None:
    pool = await made(kit, PoolLayout(1, 100))
    await done(pool.take(10))
    kit.plain.pool.update_one({}, {"$set": {"MAX_VALUE": Int64(50), "COUNT": Int64(45)}})
    assert await done(pool.take_up_to(10)) == range(45, 50)
    with pytest.raises(PoolEmpty):
        await done(pool.next())


async def test_errors_of_a_pool_are_typed(kit: Kit) -> None:
    with pytest.raises(CounterMissing):
        await done(kit.Pool(kit.db.pool).next())
    pool = await made(kit, PoolLayout(1, 10))
    with pytest.raises(PoolOverlap, match="another span"):
        await done(kit.Pool(kit.db.pool, layout=PoolLayout(3, 20)).create())
    await done(pool.take(5))
    kit.plain.pool.update_many({}, {"$inc": {"COUNT": -5}})
    with pytest.raises(CounterRewound):
        await done(pool.next())
    kit.plain.pool.update_many({}, {"$inc": {"COUNT": 5.0}})
    with pytest.raises(CounterTypeError):
        await done(kit.Pool(kit.db.pool).next())
    kit.plain.pool.delete_many({})
    kit.plain.pool.insert_many([{"COUNT": 0, "MAX_VALUE": 10}, {"COUNT": 5, "MAX_VALUE": 20}])
    with pytest.raises(PoolOverlap, match="own the same ids"):
        await done(kit.Pool(kit.db.pool).next())
