"""What the rules rest on, on the real server: each hazard happens here, and the library does not fall for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pymongo
import pytest
from allocate_kit import ASYNC, MOTOR, SYNC, Kit, client_of, done
from bson import Int64
from pymongo import MongoClient, ReturnDocument
from pymongo.errors import OperationFailure

from tallyglass import allocate
from tallyglass.allocate import AllocationRefused, AllocationTimeout, AllocationUnknown, Deadlines
from tallyglass.demo.server import ReplicaSet, Standalone

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DB = "allocate_hazards"


@pytest.fixture(scope="module")
def faulty() -> Iterator[ReplicaSet]:
    """A replica set whose commands can be made to fail (failCommand)."""
    with ReplicaSet(1, options=["--setParameter", "enableTestCommands=1"]) as servers:
        yield servers


@pytest.fixture
def counters(faulty: ReplicaSet) -> Iterator[Any]:
    with faulty.client() as client:
        client[DB].counters.insert_one({"_id": "x", "next": Int64(0)})
        yield client[DB].counters
        client.drop_database(DB)


@pytest.fixture(params=[SYNC, ASYNC, MOTOR])
async def tested(request: pytest.FixtureRequest, faulty: ReplicaSet, counters: Any) -> AsyncIterator[Kit]:
    """The client whose commands fail."""
    client = client_of(request.param, faulty.uri, appName="tested", heartbeatFrequencyMS=500)
    yield Kit(request.param, client, client[DB], counters.database)
    fail(faulty, "off")
    await done(client.close())


def fail(servers: ReplicaSet, times: int | str, **how: Any) -> None:
    """Have the next findAndModify commands of the tested client fail."""
    mode = times if isinstance(times, str) else {"times": times}
    data = {"failCommands": ["findAndModify"], "appName": "tested", **how}
    with servers.client() as client:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)


def test_a_double_stalls_without_an_error_and_spreads(replica_set: ReplicaSet) -> None:
    with replica_set.client() as client:
        client.drop_database(DB)
        counters = client[DB].raw
        counters.insert_many([{"_id": 1, "n": 2.0**53}, {"_id": 2, "n": 7}, {"_id": 3, "n": float("nan")}])

        def bump(key: int, by: object) -> Any:
            return counters.find_one_and_update(
                {"_id": key}, {"$inc": {"n": by}}, return_document=ReturnDocument.AFTER
            )["n"]

        assert bump(1, 1) == bump(1, 1) == 2.0**53
        assert bump(3, 1) != bump(3, 1)
        assert isinstance(bump(2, 1.0), float)
        assert isinstance(bump(2, Int64(1)), float), "a double never turns back by itself"
        counters.insert_one({"_id": 4, "n": Int64(2**63 - 1)})
        with pytest.raises(OperationFailure) as caught:
            bump(4, 1)
        assert caught.value.code == 2
        counters.insert_one({"_id": 5, "n": "7"})
        with pytest.raises(OperationFailure) as caught:
            bump(5, 1)
        assert caught.value.code == 14
        client.drop_database(DB)


def test_an_aborted_transaction_takes_an_increment_back(replica_set: ReplicaSet) -> None:
    """Why a session in a transaction is refused: the id was seen, and it comes again."""
    with replica_set.client() as client:
        client.drop_database(DB)
        counters = client[DB].raw
        counters.insert_one({"_id": 1, "n": 1})
        taken = []
        for _ in range(2):
            with client.start_session() as session:
                session.start_transaction()
                taken.append(counters.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, session=session)["n"])
                session.abort_transaction()
        assert taken == [1, 1]
        client.drop_database(DB)


@pytest.mark.parametrize("tested", [SYNC, ASYNC], indirect=True)
@pytest.mark.parametrize(
    ("times", "how", "burned"),
    [
        (1, {"closeConnection": True}, 0),
        (2, {"closeConnection": True}, 0),
        (1, {"errorCode": 10107, "errorLabels": ["RetryableWriteError"]}, 0),
        (1, {"errorCode": 11600, "errorLabels": []}, 1),
        (1, {"errorCode": 217}, 1),
        (1, {"errorCode": 112}, 0),
        (1, {"errorCode": 261}, 0),
        (1, {"writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}}, 1),
        (1, {"writeConcernError": {"code": 91, "errmsg": "shutdown"}}, 0),
    ],
    ids=[
        "lost",
        "lost-twice",
        "stepped-down",
        "interrupted",
        "no-image",
        "conflict",
        "sessions",
        "wtimeout",
        "wc-retried",
    ],
)
async def test_outcomes(faulty: ReplicaSet, tested: Kit, times: int, how: dict[str, Any], burned: int) -> None:
    """One failed command: another id is taken, no id is issued twice, and possibly lost ids are counted."""
    counter = tested.Counter(tested.db.counters, "x")
    assert await done(counter.next()) == 1
    fail(faulty, times, **how)
    second = await done(counter.next())
    third = await done(counter.next())
    assert third == second + 1
    stats = counter.stats()
    assert (stats.burned, stats.issued) == (burned * 1, 3)
    stored = tested.plain.counters.find_one()["next"]
    assert stats.issued <= stored <= stats.issued + stats.burned


@pytest.mark.parametrize("tested", [SYNC, ASYNC], indirect=True)
async def test_an_outage_until_the_deadline_is_a_typed_error(faulty: ReplicaSet, tested: Kit) -> None:
    counter = tested.Counter(tested.db.counters, "x", deadlines=Deadlines(2.0, 1.0))
    assert await done(counter.next()) == 1
    cases = [
        ({"closeConnection": True}, AllocationUnknown),
        ({"errorCode": 112}, AllocationTimeout),
        ({"errorCode": 13}, AllocationRefused),
        ({"writeConcernError": {"code": 100, "errmsg": "not enough members"}}, AllocationUnknown),
        ({"blockConnection": True, "blockTimeMS": 4000}, AllocationUnknown),
    ]
    for how, expected in cases:
        fail(faulty, "alwaysOn", **how)
        with pytest.raises(expected) as caught:
            await done(counter.next())
        assert caught.value.__cause__ is not None
        fail(faulty, "off")
    value = await done(counter.next())
    assert value > 1
    assert value <= 2 + counter.stats().burned


@pytest.mark.parametrize("tested", [SYNC, ASYNC], indirect=True)
@pytest.mark.parametrize("cached", [False, True])
async def test_a_shorter_deadline_of_the_caller_wins(faulty: ReplicaSet, tested: Kit, cached: bool) -> None:
    """``with pymongo.timeout(...)`` around a call that would be tried again for 30 seconds.

    The deadline may pass while a request is on its way: then it is unknown what that did.
    """
    ids = tested.Counter(tested.db.counters, "x")
    if cached:
        ids = tested.Cached(ids, step=1, ahead=0)
    await done(ids.next())
    fail(faulty, "alwaysOn", errorCode=112)
    began = time.monotonic()
    with pymongo.timeout(0.3), pytest.raises((AllocationTimeout, AllocationUnknown)):
        await done(ids.next())
    assert time.monotonic() - began < 15
    fail(faulty, "off")
    if cached:
        assert await done(ids.next()) >= 2, "the shared fetch does not end with one caller's deadline"


def test_timeout_ms_of_the_client_bounds_a_call(faulty: ReplicaSet, counters: Any) -> None:
    with MongoClient(faulty.uri, appName="tested", timeoutMS=2_000) as client:
        counter = allocate.Counter(client[DB].counters, "x")
        counter.next()
        fail(faulty, "alwaysOn", errorCode=112)
        began = time.monotonic()
        with pytest.raises(AllocationTimeout):
            counter.next()
        assert time.monotonic() - began < 15
        fail(faulty, "off")


@pytest.mark.parametrize("tested", [ASYNC, MOTOR], indirect=True)
async def test_an_interrupted_call_burns_and_the_next_one_continues(faulty: ReplicaSet, tested: Kit) -> None:
    counter = tested.Counter(tested.db.counters, "x")
    await counter.next()
    fail(faulty, 1, blockConnection=True, blockTimeMS=2_000)
    call = asyncio.create_task(counter.take(10))
    await asyncio.wait([call], timeout=0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert counter.stats().burned == 10
    assert await counter.next() in (2, 12)


@pytest.mark.parametrize("strategy", ["random", "proxy"])
def test_an_insert_whose_reply_is_lost_is_applied_once(faulty: ReplicaSet, strategy: str) -> None:
    """The answers to the insert and to the driver's own retry are lost: the document is in, once."""
    with MongoClient(faulty.uri, appName="tested", retryWrites=False) as client:
        client.drop_database(DB)
        allocate.ensure_unique(client[DB].docs, "number")
        fail(
            faulty,
            1,
            failCommands=["insert"],
            writeConcernError={"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}},
        )
        if strategy == "random":
            ids = allocate.RandomIds(client[DB].docs, "number", allocate.NumberSpace.digits(9))
            number = ids.insert({"a": 1})
        else:
            number = 7
            allocate.ProxiedInsert(client[DB].reserved, client[DB].docs, "number").insert({"number": 7})
        assert [row["number"] for row in client[DB].docs.find()] == [number]


def test_without_retryable_writes_a_lost_reply_burns_its_ids(faulty: ReplicaSet, counters: Any) -> None:
    with MongoClient(faulty.uri, appName="tested", retryWrites=False) as client:
        counter = allocate.Counter(client[DB].counters, "x")
        assert counter.next() == 1
        fail(faulty, 1, closeConnection=True)
        assert counter.next() == 2
        assert counter.stats().burned == 1


def test_a_standalone_is_named_and_works(standalone: Standalone) -> None:
    seen: list[allocate.Event] = []
    with standalone.client() as client:
        counter = allocate.Counter(client[DB].counters, "x", on_event=seen.append)
        counter.create()
        assert counter.take(5) == range(1, 6)
        assert counter.peek() == 6
        pool = allocate.Pool(client[DB].pool, layout=allocate.PoolLayout(2, 5), on_event=seen.append)
        assert pool.create() == 2
        assert len(pool.take(3)) == 3
        assert [event.note.split(":")[0] for event in seen if event.kind is allocate.EventKind.WEAK] == [
            "standalone",
            "standalone",
        ]
        client.drop_database(DB)


def test_a_command_is_not_retried_but_the_helper_is(faulty: ReplicaSet, counters: Any) -> None:
    """Why ``db.command`` is never used to allocate."""
    with MongoClient(faulty.uri, appName="tested") as client:
        fail(faulty, 1, closeConnection=True)
        with pytest.raises(Exception, match=r"closed|reset|refused"):
            client[DB].command("findAndModify", "counters", query={"_id": "x"}, update={"$inc": {"next": 1}})
        fail(faulty, 1, closeConnection=True)
        assert client[DB].counters.find_one_and_update({"_id": "x"}, {"$inc": {"next": 1}}) is not None
