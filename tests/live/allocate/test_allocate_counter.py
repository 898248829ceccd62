"""One counter document, over each driver: ids, ceilings, types, missing documents, write concerns, sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from allocate_kit import ASYNC, SYNC, Kit, done
from bson import Decimal128, Int64
from pymongo import WriteConcern

from tallyglass.allocate import (
    ARTICLE,
    MANUAL,
    MANUAL_SEQ,
    NODE,
    AsyncCounter,
    Counter,
    CounterMissing,
    CounterRewound,
    CounterTypeError,
    Event,
    EventKind,
    Exhausted,
    Layout,
    Semantics,
    TransactionRefused,
    UnsafeWriteConcern,
    WrongClient,
)

pytestmark = [pytest.mark.live, pytest.mark.smoke, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


BINDING = pytest.mark.parametrize("kit", [SYNC, ASYNC], indirect=True)
"""For tests of bound sessions, which Motor does not have."""


async def made(kit: Kit, key: object = "orders", **how: Any) -> Any:
    counter = kit.Counter(kit.db.counters, key, **how)
    await done(counter.create())
    return counter


@pytest.mark.parametrize(
    ("layout", "first", "stored"),
    [(ARTICLE, 0, 4), (MANUAL, 1, 4), (MANUAL_SEQ, 1, 4), (NODE, 1, 4), (Layout("a.b", Semantics.NEXT, 7), 7, 11)],
)
async def test_ids_and_the_stored_number(kit: Kit, layout: Layout, first: int, stored: int) -> None:
    counter = await made(kit, layout=layout)
    assert await done(counter.next()) == first
    assert await done(counter.take(3)) == range(first + 1, first + 4)
    assert await done(counter.peek()) == first + 4
    document = kit.plain.counters.find_one({"_id": "orders"})
    for name in layout.field.split("."):
        document = document[name]
    assert (document, type(document)) == (stored, Int64)
    stats = counter.stats()
    assert (stats.issued, stats.burned, stats.fetches) == (4, 0, 2)
    assert stats.fetch_p50 is not None


async def test_documents_of_other_writers_keep_working(kit: Kit) -> None:
    kit.plain.counters.insert_one({"_id": {"db": "shop", "coll": "x"}, "COUNT": 2**31 - 1, "NOTES": "int32"})
    counter = kit.Counter(kit.db.counters, {"db": "shop", "coll": "x"}, layout=ARTICLE)
    assert await done(counter.take(2)) == range(2**31 - 1, 2**31 + 1)


async def test_create_is_idempotent_and_concurrent_safe(kit: Kit) -> None:
    counters = [kit.Counter(kit.db.counters, "race", layout=NODE) for _ in range(8)]
    if kit.sync:
        made = await asyncio.gather(*(asyncio.to_thread(counter.create, 500) for counter in counters))
    else:
        made = await asyncio.gather(*(counter.create(500) for counter in counters))
    assert sorted(made) == [False] * 7 + [True]
    assert await done(counters[0].next()) == 500
    assert await done(counters[1].create(1)) is False
    assert await done(counters[1].next()) == 501


async def test_a_missing_document_is_an_error_and_stays_missing(kit: Kit) -> None:
    counter = kit.Counter(kit.db.counters, "nowhere")
    with pytest.raises(CounterMissing, match="create"):
        await done(counter.next())
    assert kit.plain.counters.count_documents({}) == 0


@pytest.mark.parametrize("layout", [ARTICLE, MANUAL])
async def test_the_ceiling_is_in_the_filter(kit: Kit, layout: Layout) -> None:
    counter = await made(kit, layout=layout, highest=10)
    ids = [*await done(counter.take(8 - layout.first))]
    with pytest.raises(Exhausted) as caught:
        await done(counter.take(4))
    assert (caught.value.remaining, caught.value.maximum) == (3, 10)
    ids += await done(counter.take_up_to(4))
    assert ids == list(range(layout.first, 11))
    before = kit.plain.counters.find_one()
    with pytest.raises(Exhausted):
        await done(counter.take_up_to(1))
    assert kit.plain.counters.find_one() == before


async def test_the_end_of_int64_is_exhaustion(kit: Kit) -> None:
    kit.plain.counters.insert_one({"_id": "last", "next": Int64(2**63 - 3)})
    kit.plain.counters.insert_one({"_id": "next", "COUNT": Int64(2**63 - 3)})
    for key, layout, left in (("last", MANUAL, 2), ("next", ARTICLE, 2)):
        counter = kit.Counter(kit.db.counters, key, layout=layout)
        assert len(await done(counter.take_up_to(100))) == left
        with pytest.raises(Exhausted):
            await done(counter.next())


async def test_a_non_integer_counter_is_refused_and_unchanged(kit: Kit) -> None:
    wrong: list[tuple[object, str]] = [
        (1.0, "double"),
        (2.0**53, "double"),
        (float("nan"), "double"),
        (Decimal128("1"), "decimal"),
        ("1", "string"),
        (True, "boolean"),
        (None, "missing"),
        ({"a": 1}, "object"),
    ]
    for value, name in wrong:
        kit.plain.counters.replace_one({"_id": "x"}, {"next": value}, upsert=True)
        before = kit.plain.counters.find_one()
        with pytest.raises(CounterTypeError) as caught:
            await done(kit.Counter(kit.db.counters, "x").next())
        assert caught.value.type_name == name
        assert str(kit.plain.counters.find_one()) == str(before)


async def test_a_number_in_an_array_is_refused_and_unchanged(kit: Kit) -> None:
    document = {"_id": "x", "list": [{"n": 4}], "map": {"2026-11-25": {"0": 8}}}
    kit.plain.counters.insert_one(document)
    counter = kit.Counter(kit.db.counters, "x", layout=Layout("list.0.n", Semantics.LAST))
    with pytest.raises(CounterTypeError, match="an array"):
        await done(counter.next())
    with pytest.raises(CounterTypeError, match="an array"):
        await done(kit.advance_to(counter, 9))
    assert kit.plain.counters.find_one() == document
    assert await done(kit.Counter(kit.db.counters, "x", layout=Layout("map.2026-11-25.0", Semantics.LAST)).next()) == 9


async def test_a_counter_that_went_back_stops_the_allocator(kit: Kit) -> None:
    seen: list[Event] = []
    counter = await made(kit, on_event=seen.append)
    await done(counter.take(100))
    kit.plain.counters.update_one({"_id": "orders"}, {"$set": {"next": Int64(40)}})
    with pytest.raises(CounterRewound) as caught:
        await done(counter.next())
    assert (caught.value.seen, caught.value.found) == (101, 41)
    kit.plain.counters.update_one({"_id": "orders"}, {"$set": {"next": Int64(1000)}})
    with pytest.raises(CounterRewound):
        await done(counter.next())
    assert EventKind.REWOUND in {event.kind for event in seen}
    assert await done(kit.Counter(kit.db.counters, "orders").next()) == 1001


async def test_weak_write_concerns_must_be_explicit(kit: Kit) -> None:
    for weak in (WriteConcern(1), WriteConcern("majority", j=False), WriteConcern(0), WriteConcern()):
        with pytest.raises(UnsafeWriteConcern):
            kit.Counter(kit.db.counters, "x", write_concern=weak)
    with pytest.raises(UnsafeWriteConcern, match="returns no id"):
        kit.Counter(kit.db.counters, "x", unsafe_write_concern=WriteConcern(0))
    seen: list[Event] = []
    weak_handle = kit.db.counters.with_options(write_concern=WriteConcern(1))
    counter = kit.Counter(weak_handle, "x", write_concern=WriteConcern("majority", wtimeout=5000))
    await done(counter.create())
    unsafe = kit.Counter(weak_handle, "x", unsafe_write_concern=WriteConcern(1), on_event=seen.append)
    assert [await done(counter.next()), await done(unsafe.next())] == [1, 2]
    assert [event.note for event in seen if event.kind is EventKind.WEAK] == ["unsafe write concern {'w': 1}"]


async def test_a_transaction_is_refused_and_takes_nothing(kit: Kit) -> None:
    counter = await made(kit)
    session = await done(kit.client.start_session())
    transaction = session.start_transaction()
    await done(transaction) if hasattr(transaction, "__await__") else None
    with pytest.raises(TransactionRefused):
        await done(counter.next(session=session))
    await done(session.abort_transaction())
    assert await done(counter.next(session=session)) == 1
    await done(session.end_session())


@BINDING
async def test_a_bound_transaction_is_refused_too(kit: Kit) -> None:
    counter = await made(kit)
    session = await done(kit.client.start_session())
    if kit.sync:
        with session.bind(), session.start_transaction(), pytest.raises(TransactionRefused):
            counter.next()
    else:
        async with session.bind(), await done(session.start_transaction()):
            with pytest.raises(TransactionRefused):
                await counter.next()
    assert await done(counter.next()) == 1


async def test_the_wrong_kind_of_client_is_named(kit: Kit) -> None:
    wrong = AsyncCounter if kit.sync else Counter
    with pytest.raises(WrongClient):
        wrong(kit.db.counters, "x")
    with pytest.raises(WrongClient, match="not a collection"):
        wrong("counters", "x")  # type: ignore[arg-type]


@BINDING
async def test_a_bound_transaction_is_found_by_its_type_when_the_driver_renames_its_variable(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pymongo.asynchronous import client_session as asynchronous
    from pymongo.synchronous import client_session as synchronous

    from tallyglass.allocate.engine import sessions

    counter = await made(kit)
    session = await done(kit.client.start_session())

    class Renamed:
        """The module as it would be."""

    monkeypatch.setattr(sessions, "_MODULES", (Renamed, Renamed))
    assert all(hasattr(module, "_SESSION") for module in (asynchronous, synchronous)), "then it was renamed"
    if kit.sync:
        with session.bind(), session.start_transaction(), pytest.raises(TransactionRefused):
            counter.next()
    else:
        async with session.bind(), await done(session.start_transaction()):
            with pytest.raises(TransactionRefused):
                await counter.next()


async def test_a_session_variable_of_another_library_is_ignored(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextvars import ContextVar
    from types import SimpleNamespace

    from tallyglass.allocate.engine import sessions

    counter = await made(kit)
    variable: ContextVar[Any] = ContextVar("SESSION")
    token = variable.set(SimpleNamespace(in_transaction=True))
    try:
        assert await done(counter.next()) == 1
        monkeypatch.setattr(sessions, "_MODULES", (object, object))
        assert await done(counter.next()) == 2
    finally:
        variable.reset(token)


async def test_keys_that_are_documents_are_compared_whole(kit: Kit) -> None:
    key = {"db": "shop", "coll": "x"}
    kit.plain.counters.insert_one({"_id": {**key, "more": 1}, "next": Int64(5)})
    counter = await made(kit, key)
    assert await done(counter.next()) == 1
    assert [row["next"] for row in kit.plain.counters.find({"_id": key})] == [1]


async def test_ids_past_2_53_are_reported_once(kit: Kit) -> None:
    seen: list[Event] = []
    counter = kit.Counter(kit.db.counters, "big", on_event=seen.append)
    await done(counter.create(2**53 - 2))
    assert [await done(counter.next()) for _ in range(4)] == list(range(2**53 - 2, 2**53 + 2))
    assert [event.note[:14] for event in seen if event.kind is EventKind.WEAK] == ["ids pass 2^53,"]
