"""The gateway reads with both drivers, and cannot be made to write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from bson import Timestamp, decode_all

from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import Driver, open_gateway
from tallyglass.mongo.gateway import OPLOG, RAW_BATCH, Namespace
from tallyglass.mongo.mongo_gateway import MongoGateway

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DB = "gateway_check"


@pytest.fixture(params=list(Driver))
async def gateway(request: pytest.FixtureRequest, replica_set: ReplicaSet) -> AsyncIterator[MongoGateway]:
    with replica_set.client() as client:
        client[DB].things.insert_many([{"_id": n, "v": n * n} for n in range(10)])
        gateway = open_gateway(replica_set.uri, driver=request.param)
        yield gateway
        await gateway.close()
        client.drop_database(DB)


async def test_reads_collections_and_metadata(gateway: MongoGateway) -> None:
    ns = Namespace(DB, "things")
    assert (await gateway.command("hello"))["setName"] == "tally"
    assert DB in await gateway.list_databases()
    assert [row.ns for row in await gateway.list_collections(DB)] == [ns]
    assert [row["name"] for row in await gateway.list_indexes(ns)] == ["_id_"]
    assert await gateway.estimate(ns) == 10
    assert await gateway.find_one(ns, {}, sort=[("_id", -1)]) == {"_id": 9, "v": 81}
    assert [row["_id"] async for row in gateway.find(ns, {"v": {"$gt": 30}}, batch_size=2)] == [6, 7, 8, 9]
    raw = b"".join([batch async for batch in gateway.find_raw(ns, {}, limit=3, batch_size=2)])
    assert [row["_id"] for row in decode_all(raw)] == [0, 1, 2]
    assert [await gateway.count(one) for one in (ns, Namespace(DB, "none"))] == [10, 0]
    assert await gateway.extent(ns, {"v": {"$gt": 30}}, most=100) == (4, 4 * 21)
    assert await gateway.extent(ns, {}, most=3) == (3, 3 * 21)
    assert await gateway.extent(ns, {"v": 5}, most=3) == (0, 0)


async def test_a_raw_batch_is_bounded(gateway: MongoGateway, replica_set: ReplicaSet) -> None:
    with replica_set.client() as client:
        client[DB].many.insert_many([{"_id": n} for n in range(RAW_BATCH + 1)])
    sizes = [len(decode_all(batch)) async for batch in gateway.find_raw(Namespace(DB, "many"), {})]
    assert sizes == [RAW_BATCH, 1]


async def test_tail_yields_old_entries_then_an_empty_batch(gateway: MongoGateway) -> None:
    seen = 0
    async for batch in gateway.tail_raw(OPLOG, {"ts": {"$gte": Timestamp(0, 1)}, "op": "i"}, await_ms=100):
        if not batch:
            break
        seen += sum(row["ns"] == f"{DB}.things" for row in decode_all(batch))
    assert seen >= 10


async def test_refuses_to_write(gateway: MongoGateway) -> None:
    with pytest.raises(ValueError, match="only reads"):
        await gateway.command("dropDatabase", db=DB)


async def test_cancelled_task_stops_at_the_next_read(gateway: MongoGateway) -> None:
    """Ctrl-C cancels a command while it prints. The next await may be in the driver, which can lose a cancellation."""
    ns = Namespace(DB, "things")

    def cancel_current_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def reads_batches() -> None:
        async for _ in gateway.find_raw(ns, {}, batch_size=2):
            cancel_current_task()

    async def reads_documents() -> None:
        async for _ in gateway.find(ns, {}, batch_size=2):
            cancel_current_task()

    async def reads_once() -> None:
        cancel_current_task()
        await gateway.find_one(ns, {})

    for reader in (reads_batches, reads_documents, reads_once):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(reader())
