"""Mistakes in arguments are one sentence at the call; allocators cannot be copied; repr and logs name them."""

from __future__ import annotations

import copy
import datetime
import logging
import pickle
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import bson
import pytest
from bson import Int64
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.regex import Regex
from pymongo import AsyncMongoClient, MongoClient, WriteConcern

from tallyglass.allocate import (
    MANUAL,
    Adaptive,
    AsyncCached,
    AsyncCounter,
    AsyncPool,
    Cached,
    Counter,
    Counters,
    Deadlines,
    Fixed,
    GaplessInsert,
    Layout,
    MaxPlusOne,
    NumberSpace,
    Pool,
    PoolLayout,
    ProxiedInsert,
    RandomIds,
    Semantics,
    UnsafeWriteConcern,
    Uuid7,
    advance_to,
)
from tallyglass.allocate.engine.checks import storable
from tallyglass.allocate.engine.handles import prepare
from tallyglass.allocate.engine.meter import EventKind, Meter

CLIENT: MongoClient[Any] = MongoClient(connect=False)
DB = CLIENT.shop
COUNTER = Counter(DB.counters, "orders")


@pytest.mark.parametrize(
    "call",
    [
        lambda: COUNTER.take(1.5),  # type: ignore[arg-type]
        lambda: COUNTER.take(0),
        lambda: COUNTER.take(2**63),
        lambda: COUNTER.take(True),
        lambda: COUNTER.take_up_to(-1),
        lambda: COUNTER.create(first=1.5),  # type: ignore[arg-type]
        lambda: COUNTER.create(first=-(2**63)),
        lambda: advance_to(COUNTER, 1.5),  # type: ignore[arg-type]
        lambda: advance_to(COUNTER, 2**63 + 1),
        lambda: Counter(DB.counters, "x", highest=1e6),  # type: ignore[arg-type]
        lambda: Pool(DB.pool).take(2.0),  # type: ignore[arg-type]
        lambda: PoolLayout(documents=1.5),  # type: ignore[arg-type]
        lambda: PoolLayout(maximum="$max"),
        lambda: PoolLayout(maximum="range.end"),
        lambda: ProxiedInsert(DB.reserved, DB.docs, "range.end"),
        lambda: Cached(COUNTER, step=2**63),
        lambda: Cached(COUNTER, step=0),
        lambda: Cached(COUNTER, step="10"),  # type: ignore[arg-type]
        lambda: Cached(COUNTER, patience=-1),
        lambda: Cached(COUNTER, patience=float("nan")),
        lambda: Cached(COUNTER, patience=None),  # type: ignore[arg-type]
        lambda: Cached(COUNTER, ahead=2),
        lambda: Cached(COUNTER).take(1.5),  # type: ignore[arg-type]
        lambda: Cached(COUNTER).take(-3),
        lambda: AsyncCached(COUNTER),  # type: ignore[arg-type]
        lambda: Fixed(1.5),  # type: ignore[arg-type]
        lambda: Adaptive(seconds=float("inf")),
        lambda: Adaptive(least=5, most=4),
        lambda: Deadlines(total=float("nan")),
        lambda: Deadlines(1, 2),
        lambda: NumberSpace(0.5, 9),  # type: ignore[arg-type]
        lambda: NumberSpace(0, 2**70),
        lambda: NumberSpace(0, 1_001, width=3),
        lambda: NumberSpace(-1, 9, width=3),
        lambda: RandomIds(DB.cards, "number", NumberSpace(0, 9), tries=0),
        lambda: RandomIds(DB.cards, "a.b", NumberSpace(0, 9)),
        lambda: MaxPlusOne(DB.low, first=1.5),  # type: ignore[arg-type]
        lambda: MaxPlusOne(DB.low, "$where"),
        lambda: ProxiedInsert(DB.reserved, DB.target, "$where"),
        lambda: ProxiedInsert(DB.reserved, DB.target, "number").insert({"number": {"$gt": 0}}),
        lambda: Layout("next", Semantics.LAST, first=0.5),  # type: ignore[arg-type]
        *(
            lambda within=within: GaplessInsert(DB.counters, DB.invoices, within=within)
            for within in ("tenant", ("number",), ("numbers",), ("tenant", "tenant"), ("a.b",))
        ),
    ],
)
def test_an_invalid_argument_is_named_at_the_call(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^\w.* (must|do not|cannot|share|needs|holds)\b.*"):
        call()
    assert COUNTER.stats().issued == 0


def test_the_least_and_the_most_that_an_argument_may_be() -> None:
    lowest, end = -(2**63), 2**63
    assert (NumberSpace(lowest, end).size, NumberSpace(0, 1_000, width=3).size) == (2**64, 1_000)
    assert (Fixed(1).step, Fixed(end - 1).step) == (1, end - 1)
    assert (Adaptive(least=1, most=1).current(), Adaptive().current(), Adaptive().most) == (1, 100, 100_000)
    assert PoolLayout(1, 1).start(1) == 1
    assert PoolLayout(1, end - 1).start(1) == end - 1
    assert Deadlines(1, 1) == Deadlines(1.0, 1.0)
    assert (Deadlines().total, Deadlines().attempt) == (30.0, 10.0)
    RandomIds(DB.cards, "number", NumberSpace(0, 1), tries=1)
    for ahead in (0, 1, 0.5):
        Cached(COUNTER, ahead=ahead, patience=0)
    Counters(DB.scopes, remembered=1)
    for wrong, match in (
        (lambda: NumberSpace(0, end + 1), "high must be from"),
        (lambda: NumberSpace(5, 5), "needs low < high"),
        (lambda: NumberSpace(0, 9, width=-1), "width must be at least 0"),
        (lambda: NumberSpace.digits(0), "1 to 18 digits"),
        (lambda: NumberSpace.digits(19), "1 to 18 digits"),
        (lambda: PoolLayout(1, end), "span of a pool must be"),
        (lambda: PoolLayout(1, end - 1, first=1), "do not fit into 64 bits"),
        (lambda: Adaptive(most=0), "most must be at least 1"),
        (lambda: Adaptive(least=0), "least must be at least 1"),
        (lambda: Deadlines(total=0), "total must be a finite number of seconds above 0, not 0"),
        (lambda: Cached(COUNTER, ahead=1.1), "share of one step"),
        (lambda: Cached(COUNTER, ahead=-0.1), "share of one step"),
        (lambda: Cached(COUNTER, patience=-1), "patience must be a finite number of seconds from 0, not -1"),
        (lambda: Counters(DB.scopes, remembered=0), "remembered must be at least 1"),
        (lambda: Counters(DB.scopes).of(), "at least one part"),
        (lambda: Counters(DB.scopes).of("a", ""), "empty part"),
        (lambda: Counters(DB.scopes).of("a", period="x" * 65), "1 to 64 letters"),
        (lambda: Counters(DB.scopes).of("a", period=""), "1 to 64 letters"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    assert NumberSpace.digits(18).high == 10**18
    scopes = Counters(DB.scopes, remembered=2)
    first = scopes.of("a/b", "c%", period="x" * 64)
    assert (first.core.key, first.core.layout.field) == ("a%2Fb/c%25", f"periods.{'x' * 64}")
    assert scopes.of("a/b", "c%", period="x" * 64) is first
    assert (scopes.of("a").core.layout, scopes.of("b").name) == (MANUAL, "shop.scopes 'b'")
    assert scopes.of("a/b", "c%", period="x" * 64) is not first, "only two are remembered"
    assert repr(scopes) == "<Counters shop.scopes>"


@pytest.mark.parametrize(
    "key",
    [
        {"$regex": "^secret"},
        {"a": {"$gt": ""}},
        {"a": [{"$ne": 1}]},
        re.compile("x"),
        Regex("x"),
        ["x"],
        None,
        object(),
        {"a": {1, 2}},
        2**64,
    ],
    ids=range(10),
)
def test_a_key_is_never_an_operator(key: object) -> None:
    with pytest.raises((TypeError, ValueError), match="key"):
        Counter(DB.counters, key)


@pytest.mark.parametrize(
    "key", ["orders", 7, Int64(7), b"x", UUID(int=7), {"db": "x", "coll": "y"}, datetime.date.max, 1.5]
)
def test_keys_that_a_document_can_have(key: object) -> None:
    if isinstance(key, datetime.date):
        key = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert Counter(DB.counters, key).core.key == key


def test_a_document_has_at_most_16_mib() -> None:
    most = 2**24 - len(bson.encode({"a": ""}))
    storable({"a": "x" * most}, "this")
    with pytest.raises(ValueError, match=r"^this cannot be stored: it has 16,777,217 bytes, 16,777,216 are possible$"):
        storable({"a": "x" * (most + 1)}, "this")
    with pytest.raises(TypeError, match=r"^this cannot be stored: .*cannot encode object") as refused:
        storable({"a": object()}, "this")
    assert len(str(refused.value)) < 160


@pytest.mark.parametrize("field", ["$where", "a.$b", "a..b", "", ".a", "a.", "_id", "_id.x", "a\0b"])
def test_a_field_is_never_an_operator(field: str) -> None:
    with pytest.raises(ValueError, match="field"):
        Layout(field, Semantics.LAST)
    with pytest.raises(ValueError, match="extra"):
        Layout("next", Semantics.LAST, extra={field: 1})


def test_extra_fields_leave_the_number_alone() -> None:
    with pytest.raises(ValueError, match="extra"):
        Layout("auto.seq", Semantics.LAST, extra={"auto": 1})
    assert Layout("auto.seq", Semantics.LAST, extra={"name": "x"}).new_document("k", 1)["name"] == "x"


ALLOCATORS = [
    COUNTER,
    COUNTER.core,
    Pool(DB.pool),
    Cached(COUNTER),
    RandomIds(DB.cards, "number", NumberSpace(0, 9)),
    MaxPlusOne(DB.low),
    ProxiedInsert(DB.reserved, DB.target, "number"),
    Uuid7(),
]


@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_allocator_can_be_copied(allocator: object, duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="Create another one over the same counter"):
        duplicate(allocator)


async def test_no_asynchronous_allocator_can_be_copied() -> None:
    async with AsyncMongoClient[Any](connect=False) as client:
        counter = AsyncCounter(client.shop.counters, "orders")
        for allocator in (counter, AsyncPool(client.shop.pool), AsyncCached(counter)):
            with pytest.raises(TypeError, match="cannot be copied"):
                copy.copy(allocator)


def test_repr_and_events_name_the_allocator(caplog: pytest.LogCaptureFixture) -> None:
    assert repr(COUNTER) == "<Counter shop.counters 'orders'>"
    assert repr(Cached(COUNTER, step=7)) == "<Cached over shop.counters 'orders', 0 ids in memory, step 7>"
    seen: list[Any] = []
    meter = Meter(seen.append, "shop.counters 'orders'")
    with caplog.at_level(logging.DEBUG, "tallyglass.allocate"):
        meter.emit(EventKind.BURNED, 5, note="WTimeoutError")
        meter.emit(EventKind.BURNED, 5, note="closed")
        meter.emit(EventKind.FETCHED, 5)
        meter.emit(EventKind.REWOUND, 7)
    assert [event.name for event in seen] == ["shop.counters 'orders'"] * 4
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "shop.counters 'orders': burned, 5 ids: WTimeoutError"),
        ("INFO", "shop.counters 'orders': burned, 5 ids: closed"),
        ("ERROR", "shop.counters 'orders': rewound, 7 ids"),
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda local: Counter(local.ids, "x"),
        lambda local: Counters(local.ids),
        lambda local: Pool(local.ids),
        lambda local: MaxPlusOne(local.ids),
        lambda local: GaplessInsert(local.ids, DB.invoices),
        lambda local: Counter(local.ids, "x", unsafe_write_concern=WriteConcern(1)),
    ],
)
def test_ids_of_a_database_that_is_not_replicated_are_refused(make: Callable[[Any], object]) -> None:
    with pytest.raises(UnsafeWriteConcern, match="The database local is not replicated"):
        make(CLIENT.local)


def test_a_raising_hook_is_logged_and_loses_no_ids(caplog: pytest.LogCaptureFixture) -> None:
    def hook(event: object) -> None:
        raise RuntimeError("the application's mistake")

    meter = Meter(hook, "x")
    meter.emit(EventKind.FETCHED, 1, fetches=1)
    assert meter.stats().fetches == 1
    assert "hook raised" in caplog.text


def test_layouts_of_the_library_are_valid() -> None:
    assert MANUAL.new_document("k", 1) == {"next": Int64(0)}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (UuidRepresentation.UNSPECIFIED, UuidRepresentation.STANDARD),
        (UuidRepresentation.STANDARD, UuidRepresentation.STANDARD),
        (UuidRepresentation.JAVA_LEGACY, UuidRepresentation.JAVA_LEGACY),
    ],
)
def test_uuids_in_documents_of_the_caller_are_written_as_by_its_client(given: int, used: int) -> None:
    options: Any = CodecOptions(uuid_representation=given)
    collection = CLIENT.shop.get_collection("orders", codec_options=options)
    for inserts, wanted in ((True, used), (False, UuidRepresentation.STANDARD)):
        prepared = prepare(collection, asynchronous=False, inserts=inserts)
        assert prepared.codec_options.uuid_representation == wanted
    assert MaxPlusOne(collection)._core.collection.codec_options.uuid_representation == used
