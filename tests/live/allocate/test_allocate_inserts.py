"""The strategies that insert, and what keeps ids apart in the database; over each driver."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from allocate_kit import Kit, done
from bson import Decimal128, Int64
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, TypeCodec, TypeRegistry

from tallyglass.allocate import (
    AllocationRefused,
    CollisionLimit,
    CounterMissing,
    CounterTypeError,
    Exhausted,
    NotUnique,
    NumberSpace,
    to_binary,
)

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


async def together(kit: Kit, calls: list[Any]) -> list[Any]:
    if kit.sync:
        return list(await asyncio.gather(*(asyncio.to_thread(call) for call in calls)))
    return list(await asyncio.gather(*(call() for call in calls)))


async def test_random_ids_fill_a_space_to_the_last_one(kit: Kit) -> None:
    await done(kit.ensure_unique(kit.db.cards, "number"))
    ids = kit.RandomIds(kit.db.cards, "number", NumberSpace(10, 40), tries=1000)
    taken = await together(kit, [lambda: ids.insert({"owner": "x"})] * 30)
    assert sorted(taken) == list(range(10, 40))
    assert ids.stats().collisions > 0
    fill = await done(ids.fill())
    assert (fill.used, fill.collision_rate, fill.expected_tries) == (30, 1.0, float("inf"))
    with pytest.raises(CollisionLimit):
        await done(kit.RandomIds(kit.db.cards, "number", NumberSpace(10, 40), tries=5).insert({}))


async def test_exactly_twelve_digits(kit: Kit) -> None:
    await done(kit.ensure_unique(kit.db.accounts, "number"))
    number = await done(kit.RandomIds(kit.db.accounts, "number", NumberSpace.digits(12)).insert({"a": 1}))
    assert len(str(number)) == 12
    text = await done(kit.RandomIds(kit.db.accounts, "number", NumberSpace.digits(12, text=True)).insert({}))
    assert len(text) == 12
    assert {type(row["number"]) for row in kit.plain.accounts.find()} == {Int64, str}


async def test_no_unique_index_no_random_ids(kit: Kit) -> None:
    with pytest.raises(NotUnique):
        await done(kit.RandomIds(kit.db.bare, "number", NumberSpace.digits(12)).insert({}))
    kit.plain.bare.create_index("number", unique=True, partialFilterExpression={"number": {"$gt": 5}})
    with pytest.raises(NotUnique):
        await done(kit.RandomIds(kit.db.bare, "number", NumberSpace.digits(12)).insert({}))


async def test_a_collision_of_another_field_is_refused(kit: Kit) -> None:
    await done(kit.ensure_unique(kit.db.cards, "number"))
    await done(kit.ensure_unique(kit.db.cards, "email"))
    ids = kit.RandomIds(kit.db.cards, "number", NumberSpace.digits(6))
    await done(ids.insert({"email": "a"}))
    with pytest.raises(AllocationRefused, match="A unique field other"):
        await done(ids.insert({"email": "a"}))
    assert ids.stats().collisions == 0


async def test_max_plus_one_leaves_no_gap_under_concurrency(kit: Kit) -> None:
    ids = kit.MaxPlusOne(kit.db.low, first=5)
    taken = await together(kit, [lambda: ids.insert({"x": 1})] * 12)
    assert sorted(taken) == list(range(5, 17))
    assert {type(row["_id"]) for row in kit.plain.low.find()} <= {int, Int64}


async def test_max_plus_one_refuses_non_integers_and_the_end_of_int64(kit: Kit) -> None:
    kit.plain.low.insert_one({"_id": 2.0**53})
    with pytest.raises(CounterTypeError):
        await done(kit.MaxPlusOne(kit.db.low).insert({}))
    kit.plain.low.insert_one({"_id": Decimal128("1e30")})
    with pytest.raises(CounterTypeError):
        await done(kit.MaxPlusOne(kit.db.low).insert({}))
    kit.plain.end.insert_one({"_id": Int64(2**63 - 1)})
    with pytest.raises(Exhausted):
        await done(kit.MaxPlusOne(kit.db.end).insert({}))


async def test_uniqueness_is_created_verified_and_refused(kit: Kit) -> None:
    before = await done(kit.verify_unique(kit.db.things, "number"))
    assert not before.kept
    after = await done(kit.ensure_unique(kit.db.things, "number"))
    assert (after.kept, after.index) == (True, "number_1")
    assert (await done(kit.verify_unique(kit.db.things, "_id"))).kept
    kit.plain.twice.insert_many([{"n": 1}, {"n": 1}])
    with pytest.raises(NotUnique, match="twice"):
        await done(kit.ensure_unique(kit.db.twice, "n"))


async def test_the_proxy_keeps_ids_apart_and_releases_what_failed(kit: Kit) -> None:
    kit.plain.target.create_index("email", unique=True)
    inserts = kit.ProxiedInsert(kit.db.reserved, kit.db.target, "number")
    await done(inserts.insert({"number": 1, "email": "a"}))
    with pytest.raises(CollisionLimit):
        await done(inserts.insert({"number": 1, "email": "b"}))
    with pytest.raises(AllocationRefused, match="free again"):
        await done(inserts.insert({"number": 2, "email": "a"}))
    await done(inserts.insert({"number": 2, "email": "c"}))
    assert sorted(row["number"] for row in kit.plain.target.find()) == [1, 2]
    owners = {row["_id"]: row["owner"] for row in kit.plain.reserved.find()}
    assert owners == {row["number"]: row["_id"] for row in kit.plain.target.find()}
    assert await done(inserts.release(2, "someone else")) is False
    assert await done(inserts.release(2, owners[2])) is True


class Price(TypeCodec):
    python_type = Decimal
    bson_type = Decimal128

    def transform_python(self, value: Decimal) -> Decimal128:
        return Decimal128(value)

    def transform_bson(self, value: Decimal128) -> Decimal:
        return value.to_decimal()


async def test_documents_are_written_as_the_callers_client_writes_them(kit: Kit) -> None:
    options: CodecOptions[Any] = CodecOptions(
        uuid_representation=UuidRepresentation.PYTHON_LEGACY, type_registry=TypeRegistry([Price()])
    )
    theirs = kit.db.get_collection("orders", codec_options=options)
    order, tenant, key = {"price": Decimal("1.50"), "ref": uuid4()}, uuid4(), uuid4()
    gapless = kit.GaplessInsert(kit.db.counters, theirs, within=("tenant",))
    proxied = kit.ProxiedInsert(kit.db.reserved, theirs, "key")
    await done(gapless.create())
    await done(kit.MaxPlusOne(theirs).insert({**order, "tenant": 1}))
    await done(proxied.insert({**order, "_id": 2, "tenant": 2, "key": key}))
    assert await done(gapless.insert({**order, "_id": 3, "tenant": tenant})) == 1
    assert await done(gapless.insert({**order, "_id": 3, "tenant": tenant})) == 1, "the one that is there"
    assert [row["_id"] for row in await done(theirs.find(order).sort("_id").to_list(None))] == [1, 2, 3]
    own = [kit.plain.counters.find_one()["_id"]["tenant"], kit.plain.reserved.find_one()["_id"]]
    assert own == [to_binary(tenant), to_binary(key)]
    assert await done(kit.Counter(kit.db.counters, key).create())
    for what in (object(), 2**70, "x" * 2**24, "\ud800"):
        for ids in (gapless, proxied, kit.MaxPlusOne(theirs)):
            with pytest.raises((TypeError, ValueError), match="cannot be stored"):
                await done(ids.insert({"tenant": tenant, "key": 4, "what": what}))
    assert kit.plain.reserved.count_documents({}) == 1
    assert await done(gapless.insert({"tenant": tenant, "_id": 4})) == 2


async def test_a_counter_behind_its_collection_is_found_and_moved_forward_only(kit: Kit) -> None:
    counter = kit.Counter(kit.db.counters, "orders")
    await done(counter.create())
    assert (await done(kit.verify(counter, kit.db.orders))).drift == 0
    kit.plain.orders.insert_many([{"_id": n} for n in (3, 400)])
    found = await done(kit.verify(counter, kit.db.orders))
    assert (found.next_id, found.highest, found.drift, found.behind) == (1, 400, -400, True)
    change, concern = '{"$max": {"next": NumberLong("400")}}', '{"writeConcern": {"w": "majority"}}'
    assert found.command.endswith(f'.updateOne({{"_id": "orders"}}, {change}, {concern})')
    assert await done(kit.advance_to(counter, 401)) == 401
    assert await done(kit.advance_to(counter, 7)) == 401
    assert (await done(kit.verify(counter, kit.db.orders))).drift == 0
    assert await done(counter.next()) == 401
    with pytest.raises(CounterMissing):
        await done(kit.advance_to(kit.Counter(kit.db.counters, "nowhere"), 5))
    kit.plain.counters.insert_one({"_id": "double", "next": 1.0})
    with pytest.raises(CounterTypeError):
        await done(kit.advance_to(kit.Counter(kit.db.counters, "double"), 5))
