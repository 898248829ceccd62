"""Numbers without a gap, over each driver: concurrency, scopes, lost commits, refusals; and counters by scope."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from allocate_kit import ASYNC, MOTOR, SYNC, Kit, client_of, done
from bson import DatetimeMS, Int64, ObjectId, Timestamp
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError

from tallyglass.allocate import (
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    Counter,
    Counters,
    CounterTypeError,
    Deadlines,
    Exhausted,
    GaplessInsert,
    NotUnique,
)
from tallyglass.demo.server import ReplicaSet, Standalone

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DB = "allocate_gapless"
MOMENT = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
"""BSON keeps its milliseconds, and no zone."""


@pytest.fixture(scope="module")
def faulty() -> Iterator[ReplicaSet]:
    with ReplicaSet(1, options=["--setParameter", "enableTestCommands=1"]) as servers:
        yield servers


@pytest.fixture(params=[SYNC, ASYNC, MOTOR])
async def tested(request: pytest.FixtureRequest, faulty: ReplicaSet) -> AsyncIterator[Kit]:
    client = client_of(request.param, faulty.uri, appName="tested", heartbeatFrequencyMS=500)
    with faulty.client() as plain:
        yield Kit(request.param, client, client[DB], plain[DB])
        fail(faulty, "off")
        plain.drop_database(DB)
    await done(client.close())


def fail(servers: ReplicaSet, times: int | str, **how: Any) -> None:
    mode = times if isinstance(times, str) else {"times": times}
    with servers.client() as client:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data={"appName": "tested", **how})


async def made(kit: Kit, **how: Any) -> Any:
    invoices = kit.GaplessInsert(kit.db.counters, kit.db.invoices, within=("tenant", "year"), **how)
    await done(invoices.create())
    return invoices


async def together(kit: Kit, calls: list[Any]) -> list[Any]:
    if kit.sync:
        return list(await asyncio.gather(*(asyncio.to_thread(call) for call in calls)))
    return list(await asyncio.gather(*(call() for call in calls)))


async def test_writers_at_once_get_consecutive_numbers_in_each_scope(kit: Kit) -> None:
    invoices = await made(kit)
    documents = [{"tenant": tenant, "year": year} for tenant in "ab" for year in (2025, 2026) for _ in range(6)]
    numbers = await together(kit, [lambda doc=doc: invoices.insert(doc) for doc in documents])
    assert sorted(numbers) == sorted([1, 2, 3, 4, 5, 6] * 4)
    for tenant, year in [("a", 2025), ("b", 2026)]:
        stored = [row["number"] for row in kit.plain.invoices.find({"tenant": tenant, "year": year}).sort("number")]
        assert stored == [1, 2, 3, 4, 5, 6]
        counter = kit.plain.counters.find_one({"_id": invoices.key({"tenant": tenant, "year": year})})
        assert counter["next"] == 6
    assert invoices.stats().issued == 24


async def test_a_number_that_is_taken_only_once_is_tried_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen where the first transactions of a deployment create the collection of the counters at the same time."""
    invoices = await made(kit)
    core, refusals = invoices._core, []
    transaction = core._transaction

    def taken_once(*args: Any) -> Any:
        if not refusals:
            refusals.append({"keyPattern": {"tenant": 1, "year": 1, "number": 1}})
            raise DuplicateKeyError("E11000", 11000, refusals[0])
        return transaction(*args)

    monkeypatch.setattr(core, "_transaction", taken_once)
    assert await done(invoices.insert({"tenant": "a", "year": 2026})) == 1
    assert refusals


async def test_a_document_that_is_there_returns_its_number_however_bson_writes_it(kit: Kit) -> None:
    invoices = await made(kit)
    documents: list[dict[str, Any]] = [
        {"at": MOMENT},
        {"at": MOMENT.replace(tzinfo=None)},
        {"at": DatetimeMS(2**50)},
        {"at": Timestamp(0, 0)},
        {"rate": float("nan")},
        {"lines": ({"sum": 1}, 2)},
        {"by": uuid.uuid4()},
        {"number": None},
        {"_id": MOMENT},
    ]
    documents = [{"_id": n, "tenant": "a", "year": 2026, **fields} for n, fields in enumerate(documents, 1)]
    for number, document in enumerate(documents, 1):
        assert await done(invoices.insert(document)) == number
        assert await done(invoices.insert(document)) == number, document


async def test_a_unique_index_of_a_library_on_the_counters_is_named(kit: Kit) -> None:
    """The identitycounters of mongoose plugins: only one document may lack both fields."""
    kit.plain.counters.create_index([("field", 1), ("model", 1)], unique=True)
    invoices = await made(kit)
    assert await done(invoices.insert({"tenant": "a", "year": 2026})) == 1
    assert await done(invoices.insert({"tenant": "a", "year": 2026})) == 2
    counters = kit.Counters(kit.db.counters)
    for call in (
        lambda: invoices.insert({"tenant": "b", "year": 2026}),
        lambda: counters.of("b").next(),
        lambda: kit.Counter(kit.db.counters, "c").create(),
        lambda: kit.Pool(kit.db.counters).create(),
    ):
        with pytest.raises(AllocationRefused, match=r"field_1_model_1 \(field, model\).*\.counters") as refused:
            await done(call())
        assert refused.value.__cause__ is not None


async def test_scopes_that_a_collation_takes_for_one_have_no_gaps(kit: Kit) -> None:
    """The counters of one number may not serve two scopes, except where the unique index takes them for one as well."""
    as_one = {"locale": "en", "strength": 2}
    kit.plain.create_collection("counters", collation=as_one)
    invoices = await made(kit)
    for tenant, other in (("acme", "ACME"), ({"in": ["a"]}, {"in": ["A"]})):
        assert await done(invoices.insert({"tenant": tenant, "year": 2026})) == 1
        with pytest.raises(AllocationRefused, match=r"collation of .*\.counters .*ACME.*acme|in.*A.*in.*a"):
            await done(invoices.insert({"tenant": other, "year": 2026}))
        assert await done(invoices.insert({"tenant": tenant, "year": 2026.0})) == 2
    kit.plain.create_collection("folded", collation=as_one)
    folded = kit.GaplessInsert(kit.db.counters, kit.db.folded, within=("tenant",))
    await done(folded.create())
    assert [await done(folded.insert({"tenant": tenant})) for tenant in ("acme", "ACME")] == [1, 2]
    folded = kit.GaplessInsert(kit.db.plain, kit.db.folded, within=("tenant",))
    with pytest.raises(AllocationRefused, match="the collation of its index takes two scopes for one"):
        await done(folded.insert({"tenant": "Acme"}))


async def test_an_insert_that_fails_takes_no_number(kit: Kit) -> None:
    invoices = await made(kit)
    kit.plain.invoices.create_index("mail", unique=True, sparse=True)
    base = {"tenant": "a", "year": 2026}
    assert await done(invoices.insert({**base, "mail": "x"})) == 1
    with pytest.raises(AllocationRefused):
        await done(invoices.insert({**base, "mail": "x"}))
    with pytest.raises(ValueError, match="year"):
        await done(invoices.insert({"tenant": "a"}))
    with pytest.raises(ValueError, match="operator"):
        await done(invoices.insert({"tenant": {"$gt": ""}, "year": 2026}))
    assert await done(invoices.insert(base)) == 2
    kit.plain.counters.update_one({"_id": invoices.key(base)}, {"$set": {"next": 7.0}})
    with pytest.raises(CounterTypeError):
        await done(invoices.insert(base))
    assert kit.plain.counters.find_one({"_id": invoices.key(base)})["next"] == 7.0
    for value, error in (("7", CounterTypeError), (Int64(2**63 - 1), Exhausted)):
        kit.plain.counters.update_one({"_id": invoices.key(base)}, {"$set": {"next": value}})
        with pytest.raises(error, match=r"\.counters {'numbers': "):
            await done(invoices.insert(base))
        assert kit.plain.counters.find_one({"_id": invoices.key(base)})["next"] == value
    assert kit.plain.invoices.count_documents({}) == 2


async def test_a_number_taken_by_another_writer_is_refused_not_skipped(kit: Kit) -> None:
    invoices = await made(kit)
    kit.plain.invoices.insert_one({"tenant": "a", "year": 2026, "number": 1})
    with pytest.raises(AllocationRefused, match="already holds the next number"):
        await done(invoices.insert({"tenant": "a", "year": 2026}))
    counter = kit.Counter(kit.db.counters, invoices.key({"tenant": "a", "year": 2026}))
    await done(counter.create(first=2))
    assert await done(invoices.insert({"tenant": "a", "year": 2026})) == 2


async def test_without_the_unique_index_nothing_is_inserted(kit: Kit) -> None:
    with pytest.raises(NotUnique, match="create"):
        await done(kit.GaplessInsert(kit.db.counters, kit.db.bare).insert({}))
    assert kit.plain.bare.count_documents({}) == 0


@pytest.mark.parametrize("tested", [SYNC, ASYNC], indirect=True)
@pytest.mark.parametrize(
    "how",
    [
        {"failCommands": ["commitTransaction"], "closeConnection": True},
        {"failCommands": ["commitTransaction"], "errorCode": 91},
        {
            "failCommands": ["commitTransaction"],
            "writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}},
        },
        {"failCommands": ["insert"], "closeConnection": True},
        {"failCommands": ["findAndModify"], "errorCode": 112, "errorLabels": ["TransientTransactionError"]},
    ],
    ids=["commit-lost", "commit-shutdown", "commit-late", "insert-lost", "conflict"],
)
async def test_a_lost_reply_causes_neither_a_gap_nor_a_duplicate(
    faulty: ReplicaSet, tested: Kit, how: dict[str, Any]
) -> None:
    invoices = await made(tested)
    numbers = []
    for times in (1, 2):
        fail(faulty, times, **how)
        numbers.append(await done(invoices.insert({"tenant": "a", "year": 2026})))
    assert numbers == [1, 2]
    assert sorted(row["number"] for row in tested.plain.invoices.find()) == [1, 2]
    if "commitTransaction" not in how["failCommands"]:
        assert invoices.stats().retries > 0, "a commit is retried by the driver itself"


async def test_an_unknown_commit_can_be_repeated_with_the_same_id(faulty: ReplicaSet, tested: Kit) -> None:
    invoices = await made(tested)
    hasty = await made(tested, deadlines=Deadlines(0.5, 0.5))
    document = {"_id": ObjectId(), "tenant": "a", "year": 2026}
    late = {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}
    await done(invoices.insert({"tenant": "a", "year": 2026}))
    fail(faulty, "alwaysOn", failCommands=["commitTransaction"], writeConcernError=late)
    # The commit did happen, and the majority read that looks for the document finds it, or it stays unknown; on a slow
    # machine it was not even sent.
    try:
        first = await done(hasty.insert(document))
    except (AllocationUnknown, AllocationTimeout):
        first = 2
    fail(faulty, "off")
    assert await done(invoices.insert(document)) == first == 2
    assert tested.plain.invoices.count_documents({}) == 2


@pytest.mark.parametrize("tested", [ASYNC, MOTOR], indirect=True)
async def test_a_cancelled_insert_runs_to_completion(faulty: ReplicaSet, tested: Kit) -> None:
    invoices = await made(tested)
    await invoices.insert({"tenant": "a", "year": 2026})
    fail(faulty, 1, failCommands=["commitTransaction"], blockConnection=True, blockTimeMS=2_000)
    call = asyncio.create_task(invoices.insert({"tenant": "a", "year": 2026}))
    await asyncio.wait([call], timeout=0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await invoices.insert({"tenant": "a", "year": 2026}) == 3
    assert tested.plain.invoices.count_documents({}) == 3


def test_a_standalone_is_refused_with_the_remedy(standalone: Standalone) -> None:
    with standalone.client() as client:
        numbers = GaplessInsert(client[DB].counters, client[DB].invoices)
        numbers.create()
        with pytest.raises(AllocationRefused, match="need transactions"):
            numbers.insert({})
        client.drop_database(DB)


async def test_scopes_are_created_by_their_first_use_once(kit: Kit) -> None:
    counters = kit.Counters(kit.db.scopes)
    calls = [
        lambda tenant=tenant, period=period: counters.of(tenant, "invoice", period=period).next()
        for tenant in ("acme", "b/c")
        for period in (None, "2025", "2026")
        for _ in range(5)
    ]
    numbers = await together(kit, calls)
    assert sorted(numbers) == sorted([1, 2, 3, 4, 5] * 6)
    assert {row["_id"] for row in kit.plain.scopes.find()} == {"acme/invoice", "b%2Fc/invoice"}
    document = kit.plain.scopes.find_one({"_id": "acme/invoice"})
    assert (document["next"], document["periods"]) == (5, {"2025": 5, "2026": 5})
    assert counters.of("acme", "invoice") is counters.of("acme", "invoice")
    assert await done(counters.of("acme", "invoice", period="2026").take(3)) == range(6, 9)
    assert await done(counters.of("acme", "invoice", period="2026").peek()) == 9
    assert await done(counters.of("acme", "credit").create(first=1000)) is True
    assert await done(counters.of("acme", "credit").create(first=1)) is False
    assert await done(counters.of("acme", "credit").next()) == 1000


async def test_a_retired_period_never_starts_again(kit: Kit) -> None:
    counters = kit.Counters(kit.db.scopes)
    for period in ("2024", "2025", "2026"):
        await done(counters.of("acme", period=period).take(3))
    assert await done(counters.retire("2026")) == 1
    assert kit.plain.scopes.find_one()["periods"] == {"2026": 3}
    for period in ("2024", "2025", "2023"):
        with pytest.raises(AllocationRefused, match="is closed"):
            await done(counters.of("acme", period=period).next())
    assert await done(counters.retire("2025")) == 0
    assert await done(counters.of("acme", period="2026").next()) == 4
    assert await done(kit.Counters(kit.db.scopes).of("acme", period="2026").next()) == 5
    for broken in (2026, 2026.0, float("nan"), True, {"year": 2026}, MOMENT):
        kit.plain.scopes.update_one({}, {"$set": {"retired_before": broken}})
        for period in ("2024", "2026"):
            with pytest.raises(AllocationRefused, match="what was retired is unknown"):
                await done(kit.Counters(kit.db.scopes).of("acme", period=period).next())
    assert await done(counters.of("acme").next()) == 1


async def test_a_period_is_retired_by_the_order_of_the_collation(kit: Kit) -> None:
    kit.plain.create_collection("scopes", collation={"locale": "en", "numericOrdering": True})
    counters = kit.Counters(kit.db.scopes, deadlines=Deadlines(5, 5))
    for period in ("2026-9", "2026-11"):
        await done(counters.of("acme", period=period).next())
    assert await done(counters.retire("2026-11")) == 1
    with pytest.raises(AllocationRefused, match="is closed"):
        await done(counters.of("acme", period="2026-9").next())
    assert await done(counters.of("acme", period="2026-11").next()) == 2


async def test_scopes_have_ceilings_types_and_caches(kit: Kit) -> None:
    counters = kit.Counters(kit.db.scopes, highest=10)
    cached = kit.Cached(counters.of("a", period="x"), step=4)
    assert await done(cached.take(10)) == list(range(1, 11))
    with pytest.raises(Exhausted):
        await done(cached.next())
    await done(cached.close())
    with pytest.raises(Exhausted):
        await done(counters.of("b").take(11))
    assert await done(counters.of("b").take_up_to(11)) == range(1, 11)
    kit.plain.scopes.insert_many([{"_id": "double", "next": 5.0}, {"_id": "null", "next": None}])
    for scope in ("double", "null"):
        with pytest.raises(CounterTypeError):
            await done(counters.of(scope).next())
    kit.plain.scopes.insert_one({"_id": "other", "next": Int64(4)})
    assert await done(counters.of("other").next()) == 5


def test_scopes_and_periods_are_checked() -> None:
    client: MongoClient[Any] = MongoClient(connect=False)
    counters = Counters(client.shop.scopes, remembered=2)
    for wrong in ((), ("",), ("a", 1)):
        with pytest.raises((TypeError, ValueError), match="scope"):
            counters.of(*wrong)  # type: ignore[arg-type]
    for period in ("", "a.b", "$x", 2026, "x" * 65):
        with pytest.raises((TypeError, ValueError), match="period"):
            counters.of("a", period=period)  # type: ignore[arg-type]
    first = counters.of("a")
    assert (isinstance(first, Counter), repr(first)) == (True, "<Counter shop.scopes 'a'>")
    counters.of("b")
    counters.of("c")
    assert counters.of("a") is not first, "no more than it may remember"
    client.close()
