"""What a counter and a pool ask of the server, step by step, and what they make of each answer, without a server."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import bson
import pymongo
import pytest
from bson import Int64, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReadPreference, ReturnDocument, WriteConcern, errors
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database

from tallyglass.allocate.counter import Counter
from tallyglass.allocate.engine import sessions
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget
from tallyglass.allocate.engine.handles import choose_concern, is_safe
from tallyglass.allocate.engine.meter import Event, EventKind, Meter, Stats
from tallyglass.allocate.engine.steps import Call, Pause, Steps
from tallyglass.allocate.errors import (
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    CollisionLimit,
    CounterMissing,
    CounterRewound,
    CounterTypeError,
    Exhausted,
    NotUnique,
    PoolEmpty,
    PoolOverlap,
    TransactionRefused,
    UnsafeWriteConcern,
)
from tallyglass.allocate.insert import unique
from tallyglass.allocate.insert.absent import MaxPlusOne
from tallyglass.allocate.insert.gapless import GaplessInsert
from tallyglass.allocate.insert.insertion import collided_on
from tallyglass.allocate.insert.proxy import ProxiedInsert
from tallyglass.allocate.insert.random_ids import Fill, NumberSpace, RandomIds
from tallyglass.allocate.insert.unique import Uniqueness, _ensure, judge_uniqueness
from tallyglass.allocate.layout import ARTICLE, MANUAL, Layout
from tallyglass.allocate.pool import Pool
from tallyglass.allocate.pool_map import PoolLayout
from tallyglass.allocate.repair import _advance, _verify
from tallyglass.allocate.scopes import ScopeCore

LOST = errors.AutoReconnect("lost")
NOT_APPLIED = errors.OperationFailure("WriteConflict", 112)
HELLO = {"setName": "rs"}


def duplicate(name: str, *fields: str) -> errors.DuplicateKeyError:
    text = f"E11000 duplicate key error collection: s.c index: {name} dup key: {{ }}"
    return errors.DuplicateKeyError(text, 11000, {"errmsg": text, "keyPattern": dict.fromkeys(fields, 1)})


SAME_ID = duplicate("_id_", "_id")
OTHER_INDEX = duplicate("field_1_model_1", "field", "model")


METHODS = (
    *("find_one_and_update", "update_one", "bulk_write", "insert_one", "delete_one"),
    *("find_one", "find", "list_indexes", "create_index", "estimated_document_count"),
)


@dataclass
class Sent:
    """What a call would have asked of the server."""

    on: Any
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    seconds: float = 0.0


def record(method: str) -> Any:
    return lambda self, *args, **options: Sent(self, method, args, options)


class Server:
    """Carries out the steps of an allocator with a script instead of a server, on a clock that only it moves.

    Each element of the script answers one call: a reply, an error to raise, or a function of the call.
    """

    def __init__(self) -> None:
        self.now = 1_000.0
        self.calls: list[Sent] = []
        self.call_takes = 0.0
        self.config: Iterator[Any] = iter(())
        self.hello: dict[str, Any] = HELLO

    def run(self, steps: Steps[Any], *script: Any) -> Any:
        answers = iter(script)
        try:
            step = next(steps)
            while True:
                step = self._after(steps, step, answers)
        except StopIteration as stop:
            assert next(answers, "the end") == "the end", "the script is not used up"
            return stop.value

    def _after(self, steps: Steps[Any], step: Call[Any] | Pause, answers: Iterator[Any]) -> Call[Any] | Pause:
        if isinstance(step, Pause):
            self.now += step.seconds
            return next(steps)
        sent: Sent = step.operation()
        sent.seconds = step.seconds
        if sent.method == "command":
            return steps.send(self.hello)
        if isinstance(sent.on, Collection) and sent.on.database.name == "config":
            answer = next(self.config, None)
            return steps.throw(answer) if isinstance(answer, errors.PyMongoError) else steps.send(answer)
        self.calls.append(sent)
        self.now += min(self.call_takes, step.seconds)
        answer = next(answers)
        answer = answer(sent) if callable(answer) else answer
        if isinstance(answer, errors.PyMongoError):
            return steps.throw(answer)
        return steps.send(answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(Database, "command", record("command"))
    for method in METHODS:
        monkeypatch.setattr(Collection, method, record(method))
    return made


@pytest.fixture
def client() -> Iterator[MongoClient[Any]]:
    with MongoClient[Any](connect=False) as made:
        yield made


def counter(client: MongoClient[Any], **how: Any) -> Counter:
    return Counter(client.s.counters, "orders", **how)


def scope(client: MongoClient[Any], deadlines: Deadlines | None = None) -> ScopeCore:
    return ScopeCore(client.s.counters, "a/b", None, None, deadlines or Deadlines(), None)


def at(value: int) -> dict[str, Any]:
    """The counter's document, whose last id is ``value``."""
    return {"_id": "orders", "next": Int64(value)}


# --- one attempt after the other -----------------------------------------------------------------------------------


def test_every_attempt_of_unknown_outcome_burns_its_ids(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client)
    ids = server.run(orders.core.take(5), LOST, NOT_APPLIED, LOST, at(30))
    assert ids == range(31, 36)
    assert (orders.stats().burned, orders.stats().retries, orders.stats().failures) == (10, 3, 0)
    assert orders.stats().fetches == 1


def test_the_deadline_error_reports_ids_that_may_have_been_taken(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, deadlines=Deadlines(total=1.0, attempt=0.5))
    began = server.now
    with pytest.raises(AllocationUnknown) as unknown:
        server.run(orders.core.take(5), *[LOST] * 3, *[NOT_APPLIED] * 99)
    assert unknown.value.burned == orders.stats().burned == 15
    assert orders.stats().failures == 1
    assert server.now - began <= 1.0
    with pytest.raises(AllocationTimeout):
        server.run(orders.core.take(5), *[NOT_APPLIED] * 99)
    assert orders.stats().burned == 15


def test_no_call_outlives_the_deadline(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, deadlines=Deadlines(total=1.0, attempt=0.4))
    server.call_takes, began = 9.0, server.now
    with pytest.raises(AllocationUnknown) as unknown:
        server.run(orders.core.take(1), *[LOST] * 9)
    assert unknown.value.burned == len(server.calls)
    assert server.calls[0].seconds == 0.4
    assert server.calls[-1].seconds < 0.4
    assert server.now - began <= 1.0


def test_an_unsatisfiable_write_concern_burns_and_is_not_retried(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client)
    with pytest.raises(AllocationUnknown) as unknown:
        server.run(orders.core.take(5), LOST, errors.WriteConcernError("not enough members", 100))
    assert unknown.value.burned == orders.stats().burned == 10


def test_an_interrupted_call_burns_its_ids(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client)
    server.run(orders.core.take(1), at(0))
    steps = orders.core.take(7)
    assert isinstance(next(steps), Call)
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt())
    assert orders.stats().burned == 7


def test_creating_is_tried_again_after_a_duplicate_key_but_not_after_a_refusal(
    server: Server, client: MongoClient[Any]
) -> None:
    made = SimpleNamespace(upserted_id=None)
    assert server.run(counter(client).core.create(), SAME_ID, LOST, made) is False
    with pytest.raises(AllocationRefused):
        server.run(counter(client).core.create(), errors.OperationFailure("not authorized", 13))


def test_a_duplicate_of_another_index_is_refused_by_its_name(server: Server, client: MongoClient[Any]) -> None:
    """Where all documents lack the fields of a unique index, as counters do, it lets only one of them exist."""
    proxied = ProxiedInsert(client.s.reserved, client.s.docs, "number")
    bulk = errors.BulkWriteError({"writeErrors": [{"code": 11000, **OTHER_INDEX.details}]})
    for steps, *script in (
        (scope(client).take(1), OTHER_INDEX),
        (scope(client).create(), OTHER_INDEX),
        (counter(client).core.take(1), OTHER_INDEX),
        (pool(client).core.take(1), rows(100, 120), OTHER_INDEX),
        (pool(client).core.create(), [], bulk),
        (proxied._core.insert({"number": 7}, None), BY_ID, OTHER_INDEX),
    ):
        with pytest.raises(AllocationRefused, match=r"index field_1_model_1 \(field, model\) refuses") as refused:
            server.run(steps, *script)
        assert refused.value.code == 11000


def test_rounds_that_settle_nothing_end_with_the_deadline(server: Server, client: MongoClient[Any]) -> None:
    server.call_takes, soon = 0.1, Deadlines(total=1.0, attempt=0.5)
    taken = duplicate("number_1", "number")
    random_ids = RandomIds(client.s.docs, "number", NumberSpace.digits(6), deadlines=soon)
    for steps, *script in (
        (scope(client, deadlines=soon).take(1), *[SAME_ID, None] * 99),
        (counter(client, deadlines=soon).core.take(1), *[None, at(5)] * 99),
        (pool(client, deadlines=soon).core.take(1), rows(100, 120), *[None, rows(100)[0]] * 99),
        (random_ids._core.insert({}, None), UNIQUE, *[taken] * 99),
    ):
        began = server.now
        with pytest.raises(AllocationTimeout):
            server.run(steps, *script)
        assert server.now - began <= 1.2


def test_ids_burned_in_an_earlier_round_are_reported_at_the_deadline(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, deadlines=Deadlines(total=1.0, attempt=0.5))
    with pytest.raises(AllocationUnknown) as unknown:
        server.run(orders.core.take(5), LOST, *[None, at(5)] * 99)
    assert unknown.value.burned == orders.stats().burned == 5


def test_pauses_double_up_to_a_second_and_the_shortest_deadline_wins(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: {(0.5, 1.0): 1.0}[low, high])
    budget = RetryBudget(Deadlines(total=10.0, attempt=4.0))
    assert [budget.pause() for _ in range(8)] == [Pause(n) for n in (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0)]
    for passed, length, spent in ((0.0, 4.0, False), (6.5, 3.5, False), (9.94, 0.06, False), (9.96, 0.05, True)):
        server.now = 1_000.0 + passed
        assert (round(budget.call_seconds(), 3), budget.spent()) == (length, spent)
    server.now = 1_008.9
    assert budget.pause() == Pause(1.0)
    server.now = 1_009.0
    assert budget.pause() is None
    for options, outer, length in (({"timeoutMS": 3_000}, 9.0, 3.0), ({}, 2.0, 2.0), ({"timeoutMS": 60_000}, 9.0, 4.0)):
        with MongoClient[Any](connect=False, **options) as client, pymongo.timeout(outer):
            assert round(RetryBudget(Deadlines(total=10.0, attempt=4.0), client).call_seconds(), 1) == length


def test_a_counter_is_moved_forward_by_its_document_alone(server: Server, client: MongoClient[Any]) -> None:
    orders, matched = counter(client), SimpleNamespace(matched_count=1)
    assert server.run(_advance(orders.core, 401), matched, at(400)) == 401
    assert server.calls[0].args == (
        {"_id": {"$eq": "orders"}, "next": {"$type": ["int", "long"]}},
        {"$max": {"next": 400}},
    )
    nothing = SimpleNamespace(matched_count=0)
    for found in (None, at(5)):
        with pytest.raises(CounterMissing, match=r"s\.counters 'orders' does not exist"):
            server.run(_advance(orders.core, 401), nothing, found)
    with pytest.raises(CounterTypeError):
        server.run(_advance(orders.core, 401), nothing, {"next": 5.0})


def test_the_next_number_is_one_above_the_largest(server: Server, client: MongoClient[Any]) -> None:
    core = MaxPlusOne(client.s.docs, "number", first=5)._core
    for found, number in ((None, 5), ({"number": 3}, 5), ({"number": 4}, 5), ({"number": Int64(5)}, 6)):
        assert server.run(core.insert({"n": 1}, None), *[UNIQUE] * (found is None), found, None) == number
        assert type(server.calls[-1].args[0]["number"]) is Int64
    read = server.calls[-2]
    assert (read.args, read.options) == (({"number": {"$type": "number"}}, {"number": 1}), {"sort": [("number", -1)]})
    with pytest.raises(Exhausted, match="end of int64") as end:
        server.run(core.insert({}, None), {"number": 2**63 - 1})
    assert end.value.maximum == 2**63 - 1
    with pytest.raises(CounterTypeError, match="as a double"):
        server.run(core.insert({}, None), {"number": 7.0})


@pytest.mark.parametrize(
    ("details", "field", "same"),
    [
        ({"keyPattern": {"number": 1}}, "number", True),
        ({"keyPattern": {"number": -1, "at": 1}}, "number", False),
        ({"keyPattern": {"at": 1}}, "number", False),
        ({}, "number", True),
        ({}, "num", False),
        (None, "number", True),
    ],
)
def test_a_duplicate_is_of_the_field_whose_index_it_names(details: Any, field: str, same: bool) -> None:
    error = errors.DuplicateKeyError("E11000 duplicate key error index: number_1 dup key", 11000, details)
    assert collided_on(error, field) is same


@pytest.mark.parametrize(
    ("count", "middle", "slow"),
    [(0, None, None), (1, 0.0, 0.0), (100, 50.0, 99.0), (200, 100.0, 198.0), (1_224, 712.0, 1_213.0)],
)
def test_the_latest_fetches_are_told_as_median_and_99th_percentile(
    count: int, middle: float | None, slow: float | None
) -> None:
    meter = Meter()
    for n in range(count):
        meter.emit(EventKind.FETCHED, seconds=float(n), fetches=1)
        meter.emit(EventKind.STALLED, seconds=99.0, stalls=1)
    stats = meter.stats(full=3)
    assert stats == Stats(fetches=count, stalls=count, full=3, fetch_p50=middle, fetch_p99=slow)


# --- one counter document ------------------------------------------------------------------------------------------


def test_the_request_is_guarded_and_returns_the_document_before(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, highest=100)
    server.run(orders.core.take(5), at(0))
    (call,) = server.calls
    guard = {"$type": ["int", "long"], "$lte": 95}
    assert (call.method, call.args) == (
        "find_one_and_update",
        ({"_id": {"$eq": "orders"}, "next": guard}, {"$inc": {"next": 5}}),
    )
    assert call.options["return_document"] is ReturnDocument.BEFORE
    assert call.options["upsert"] is False
    assert call.on.read_preference == ReadPreference.PRIMARY


@pytest.mark.parametrize(("layout", "field", "most"), [(ARTICLE, "COUNT", 2**63 - 2), (MANUAL, "next", 2**63 - 2)])
def test_the_stored_number_never_leaves_int64(
    server: Server, client: MongoClient[Any], layout: Layout, field: str, most: int
) -> None:
    server.run(counter(client, layout=layout).core.take(1), {"_id": "orders", field: Int64(0)})
    assert server.calls[-1].args[0][field]["$lte"] == most, "incremented by one it is the largest int64"


@pytest.mark.parametrize(("found", "right"), [(10, True), (9, False), (0, False)])
def test_a_rewound_counter_stops_permanently(server: Server, client: MongoClient[Any], found: int, right: bool) -> None:
    events: list[Event] = []
    orders = counter(client, on_event=events.append)
    server.run(orders.core.take(10), at(0))
    if right:
        assert server.run(orders.core.take(2), at(found)) == range(found + 1, found + 3)
        return
    with pytest.raises(CounterRewound):
        server.run(orders.core.take(2), at(found))
    assert (events[-1].kind, events[-1].n) == (EventKind.REWOUND, 10 - found)
    assert orders.stats().burned == 2
    frames = set()
    for _ in range(3):
        with pytest.raises(CounterRewound) as refused:
            server.run(orders.core.take(2))
        frames.add(len(refused.traceback))
    assert len(frames) == 1, "what is raised at every call keeps nothing of the earlier ones"


def test_replies_out_of_order_do_not_lower_the_floor(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client)
    server.run(orders.core.take(1), at(0))
    late, early = orders.core.take(5), orders.core.take(5)
    next(late)
    next(early)
    for steps, value in ((early, 6), (late, 1)):
        with pytest.raises(StopIteration):
            steps.send(at(value))
    with pytest.raises(CounterRewound):
        server.run(orders.core.take(1), at(6))


def test_the_last_ids_before_the_ceiling_are_handed_out(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, highest=100)
    assert server.run(orders.core.take(10, least=1), None, at(97), at(97)) == range(98, 101)
    assert server.calls[-1].args[1] == {"$inc": {"next": 3}}
    with pytest.raises(Exhausted) as end:
        server.run(orders.core.take(10, least=1), None, at(100))
    assert (end.value.remaining, end.value.maximum) == (0, 100)
    with pytest.raises(Exhausted, match=r" has 1 id left, and 10 ids were requested\."):
        server.run(orders.core.take(10), None, at(99))
    with pytest.raises(Exhausted, match=r" has 0 ids left, and 1 id was requested\."):
        server.run(orders.core.take(1), None, at(100))


def test_an_old_answer_of_a_new_primary_is_no_rewound_counter(server: Server, client: MongoClient[Any]) -> None:
    """What a majority of the members has is read, and after a failover that may be older than what was acknowledged."""
    orders = counter(client, highest=100)
    server.run(orders.core.take(50), at(0))
    assert server.run(orders.core.take(60, least=1), None, at(40), None, at(50), at(50)) == range(51, 101)
    ids = pool(client)
    server.run(ids.core.take(4), rows(100, 120), {"COUNT": Int64(100)})
    assert server.run(ids.core.take(1), None, rows(103)[0], {"COUNT": Int64(104)}) == range(104, 105)


def test_a_rewound_counter_is_detected_after_its_remainder_is_read(server: Server, client: MongoClient[Any]) -> None:
    orders = counter(client, highest=100)
    server.run(orders.core.take(50), at(0))
    with pytest.raises(CounterRewound):
        server.run(orders.core.take(60), None, at(40), at(40))


@pytest.mark.parametrize(
    ("layout", "highest", "drift", "command"),
    [
        (MANUAL, None, 0, ""),
        (MANUAL, 99, 1, ""),
        (MANUAL, 100, 0, ""),
        (MANUAL, 101, -1, '{"$max": {"next": NumberLong("101")}}'),
        (MANUAL, 2**63 - 1, 101 - 2**63, '{"$max": {"next": NumberLong("9223372036854775807")}}'),
        (ARTICLE, 101, -1, '{"$max": {"COUNT": NumberLong("102")}}'),
        (ARTICLE, 2**63 - 1, 101 - 2**63, ""),
    ],
)
def test_a_counter_is_behind_where_the_next_id_is_taken(
    server: Server, client: MongoClient[Any], layout: Layout, highest: int | None, drift: int, command: str
) -> None:
    largest = None if highest is None else {"_id": highest}
    orders, now = counter(client, layout=layout), {"_id": "orders", layout.field: Int64(layout.stored(101))}
    found = server.run(_verify(orders.core, client.s.orders, "_id"), largest, now)
    assert (found.next_id, found.drift, found.behind) == (101, drift, drift < 0)
    assert bool(found.command) == bool(command)
    assert command in found.command
    assert server.run(orders.core.peek(), now) == 101


# --- a pool of documents -------------------------------------------------------------------------------------------

LAYOUT = PoolLayout(2, 10, first=100)


def pool(client: MongoClient[Any], layout: PoolLayout = LAYOUT, **how: Any) -> Pool:
    return Pool(client.s.pool, layout=layout, **how)


def rows(*counts: int, layout: PoolLayout = LAYOUT) -> list[dict[str, Any]]:
    return [
        {"_id": layout.key(n), "COUNT": Int64(count), "MAX_VALUE": Int64(layout.start(n) + layout.span)}
        for n, count in enumerate(counts)
    ]


def test_a_pool_that_is_gone_in_the_middle_of_a_call_is_missing_not_empty(
    server: Server, client: MongoClient[Any]
) -> None:
    with pytest.raises(CounterMissing, match=r"There is no pool in s\.pool: no document has MAX_VALUE"):
        server.run(pool(client).core.take(1), rows(100, 110), *[None, None] * 2, [])
    assert server.run(pool(client).core.take(1), rows(100), None, None, rows(105), rows(105)[0]) == range(105, 106)


def test_a_range_of_a_pool_stays_inside_its_document(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client)
    assert server.run(ids.core.take(10), rows(100, 120), {"COUNT": Int64(100)}) == range(100, 110)
    filter_ = server.calls[-1].args[0]
    assert filter_["COUNT"]["$lte"] == 100
    assert filter_["MAX_VALUE"] == 110
    with pytest.raises(PoolEmpty):
        server.run(ids.core.take(1), rows(110, 120))
    assert ids.stats().full == 2


def test_a_pool_is_read_once_more_before_it_is_called_empty(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client)
    with pytest.raises(
        PoolEmpty, match=r"No document of the pool s\.pool has 11 ids left; 10 ids are left in all"
    ) as empty:
        server.run(ids.core.take(11), rows(110, 110))
    assert empty.value.remaining == 10
    with pytest.raises(PoolEmpty):
        server.run(ids.core.take(11), rows(110, 115))
    assert server.run(ids.core.take(5), {"COUNT": Int64(115)}) == range(115, 120)
    with pytest.raises(PoolEmpty, match="1 id left; 0 ids are left in all"):
        server.run(ids.core.take(1), rows(110, 120))


def test_only_documents_with_an_end_are_read_as_those_of_a_pool(server: Server, client: MongoClient[Any]) -> None:
    server.run(pool(client).core.take(1), rows(100, 120), {"COUNT": Int64(100)})
    assert server.calls[0].args[0] == {"MAX_VALUE": {"$exists": True}}


def test_a_document_that_went_back_stops_the_pool(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client)
    server.run(ids.core.take(4), rows(100, 120), {"COUNT": Int64(100)})
    with pytest.raises(CounterRewound):
        server.run(ids.core.take(1), {"COUNT": Int64(103)})
    assert ids.stats().burned == 1
    full = pool(client)
    server.run(full.core.take(4), rows(100, 120), {"COUNT": Int64(100)})
    with pytest.raises(CounterRewound):
        server.run(full.core.take(1), None, rows(103, 120)[0], {"COUNT": Int64(103)})
    with pytest.raises(CounterRewound):
        server.run(full.core.take(1))


def test_a_document_that_went_back_while_the_pool_was_read_again_stops_it(
    server: Server, client: MongoClient[Any]
) -> None:
    ids = pool(client)
    server.run(ids.core.take(10), rows(100, 120), {"COUNT": Int64(100)})
    with pytest.raises(CounterRewound):
        server.run(ids.core.take(1), rows(105, 120), {"COUNT": Int64(105)})


def test_a_document_that_a_restore_brought_back_stops_the_pool(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client, PoolLayout(1, 10, first=100))
    server.run(ids.core.take(5), rows(100), {"COUNT": Int64(100)})
    with pytest.raises(CounterMissing):
        server.run(ids.core.take(1), None, None, [])
    with pytest.raises(CounterRewound):
        server.run(ids.core.take(1), rows(100), {"COUNT": Int64(100)})


def test_a_document_whose_end_was_changed_is_read_again(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client)
    changed = rows(100)[0] | {"MAX_VALUE": Int64(105)}
    script = rows(100, 120), None, changed, [changed, rows(100, 120)[1]], {"COUNT": Int64(100)}
    assert server.run(ids.core.take(5), *script) == range(100, 105)
    assert server.calls[-1].args[0]["MAX_VALUE"] == 105


def test_a_document_filled_by_another_process_is_skipped(server: Server, client: MongoClient[Any]) -> None:
    ids = pool(client)
    filled = rows(110)[0]
    with pytest.raises(PoolEmpty) as empty:
        server.run(ids.core.take(2), rows(100, 120), None, filled, rows(110, 120))
    assert empty.value.remaining == 0


def test_a_pool_with_another_layout_is_not_extended(server: Server, client: MongoClient[Any]) -> None:
    other = PoolLayout(1, 9, first=100)
    with pytest.raises(PoolOverlap, match="another span"):
        server.run(pool(client).core.create(), rows(100, layout=other))


def test_a_document_of_a_pool_that_was_deleted_is_not_made_again(server: Server, client: MongoClient[Any]) -> None:
    four = PoolLayout(4, 10, first=100)
    made = SimpleNamespace(upserted_count=2)
    assert server.run(pool(client, four).core.create(), rows(110, 120), made, rows(110, 120, 120, 130)) == 2
    (writes,) = server.calls[1].args
    assert [write._filter for write in writes] == [{"_id": {"$eq": four.key(n)}} for n in (2, 3)]
    assert server.calls[1].options == {}, "in their order: what one call could not finish, the next one continues"
    for there, gone in (([1, 2, 3], 0), ([0, 2], 1), ([3], 0)):
        with pytest.raises(CounterMissing, match=f"IDENTIFIER {gone} was deleted") as missing:
            server.run(pool(client, four).core.create(), [rows(110, 120, 130, 140)[n] for n in there])
        assert missing.value.advice.endswith("with its MAX_VALUE, and a COUNT above them.")


def test_documents_that_would_overlap_are_not_created(server: Server, client: MongoClient[Any]) -> None:
    theirs = {"_id": {"pool": 1}, "COUNT": Int64(105), "MAX_VALUE": Int64(115)}
    with pytest.raises(PoolOverlap, match="own the same ids"):
        server.run(pool(client).core.create(), [theirs])


# --- what is written with, and where -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("concern", "safe"),
    [
        (WriteConcern("majority"), True),
        (WriteConcern("majority", j=True), True),
        (WriteConcern("majority", j=False), False),
        (WriteConcern(1), False),
        (WriteConcern(3, j=True), False),
        (WriteConcern("dc1"), False),
    ],
)
def test_only_a_journaled_majority_is_safe(concern: WriteConcern, safe: bool) -> None:
    assert is_safe(concern) is safe
    if safe:
        assert choose_concern(concern, None) == WriteConcern("majority", j=True)
        slow = WriteConcern("majority", 500, concern.document.get("j"))
        assert choose_concern(slow, None) == WriteConcern("majority", 500, j=True)
    else:
        with pytest.raises(UnsafeWriteConcern):
            choose_concern(concern, None)


def test_no_id_is_taken_in_a_transaction(client: MongoClient[Any]) -> None:
    session = SimpleNamespace(in_transaction=True)
    with pytest.raises(TransactionRefused):
        next(counter(client).core.take(1, session=session))
    with pytest.raises(TransactionRefused):
        next(pool(client).core.take(1, session=session))
    assert isinstance(next(counter(client).core.take(1, session=SimpleNamespace(in_transaction=False))), Call)


@pytest.mark.skipif(not hasattr(ClientSession, "bind"), reason="this PyMongo binds no session to a context")
def test_no_id_is_taken_in_a_transaction_that_is_bound_to_the_context(client: MongoClient[Any]) -> None:
    with client.start_session() as session, session.bind():
        session.start_transaction()
        with pytest.raises(TransactionRefused):
            counter(client).take(1)
        session.abort_transaction()


def test_a_bound_session_is_found_where_the_driver_calls_its_variable_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Bindable:
        bind, in_transaction = None, True

    class Older:
        in_transaction = True

    variable: ContextVar[Any] = ContextVar("another name")
    monkeypatch.setattr(sessions, "_MODULES", (SimpleNamespace(), SimpleNamespace(_SESSION="renamed")))
    monkeypatch.setattr(sessions, "_SESSIONS", (Bindable,))
    for value in (Bindable(), Older()):
        token = variable.set(value)
        if isinstance(value, Bindable):
            with pytest.raises(TransactionRefused):
                sessions.refuse_bound_transaction()
            value.in_transaction = False
        sessions.refuse_bound_transaction()
        variable.reset(token)
    monkeypatch.setattr(sessions, "_SESSIONS", (Older,))
    token = variable.set(Older())
    sessions.refuse_bound_transaction()
    variable.reset(token)


# --- numbers without gaps ------------------------------------------------------------------------------------------

WITHIN = {"key": {"tenant": 1, "number": 1}, "unique": True}
MOMENT = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def session() -> Any:
    names = ("start_transaction", "commit_transaction", "abort_transaction")
    made = SimpleNamespace(in_transaction=True)
    for name in names:
        setattr(made, name, lambda *args, name=name, **options: Sent(made, name, args, options))
    return made


def gapless(client: MongoClient[Any], **how: Any) -> GaplessInsert:
    return GaplessInsert(client.s.counters, client.s.invoices, within=("tenant",), **how)


def stored(**fields: Any) -> RawBSONDocument:
    return RawBSONDocument(bson.encode({"_id": 1, "tenant": "a", "number": Int64(4), **fields}))


REFUSED = None, {"next": Int64(9)}, SAME_ID, None
"""Answers to a transaction whose document has an _id that exists: to its beginning, counter, insert and end."""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"at": MOMENT, "n": float("nan"), "x": (1, {"y": 2})}, {"at": MOMENT, "n": float("nan"), "x": [1, {"y": 2}]}),
        ({"number": None}, {"more": 1}),
        ({"at": Timestamp(0, 0)}, {"at": Timestamp(7, 1)}),
    ],
)
def test_a_document_that_is_there_returns_its_number(
    server: Server, client: MongoClient[Any], session: Any, given: dict[str, Any], found: dict[str, Any]
) -> None:
    steps = gapless(client)._core.insert({"_id": 1, "tenant": "a", **given}, session)
    assert server.run(steps, [WITHIN], *REFUSED, [stored(_id="x"), stored(**found)]) == 4


@pytest.mark.parametrize(
    ("given", "found", "name"),
    [
        ({"total": 1}, {"total": 1.0}, "total"),
        ({"total": 1}, {"total": True}, "total"),
        ({"mail": None}, {}, "mail"),
        ({}, {"number": None}, "number"),
    ],
)
def test_another_document_with_this_id_is_not_taken_for_this_one(
    server: Server, client: MongoClient[Any], session: Any, given: dict[str, Any], found: dict[str, Any], name: str
) -> None:
    steps = gapless(client)._core.insert({"_id": 1, "tenant": "a", **given}, session)
    with pytest.raises(AllocationRefused, match=r"Another document has this _id in s\.invoices") as refused:
        server.run(steps, [WITHIN], *REFUSED, [stored(**found)])
    assert refused.value.advice.startswith(f"It differs in {name}.")
    assert refused.value.__cause__ is SAME_ID


def test_a_document_that_no_majority_shows_yet_is_looked_for_again(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    document = {"_id": 1, "tenant": "a"}
    steps = gapless(client)._core.insert(document, session)
    assert server.run(steps, [WITHIN], *[*REFUSED, []] * 3, *REFUSED, [stored()]) == 4
    for rest in ([*REFUSED, []] * 99, [*REFUSED, *[LOST] * 99]):
        hasty = gapless(client, deadlines=Deadlines(total=1.0, attempt=0.5))
        with pytest.raises(AllocationUnknown):
            server.run(hasty._core.insert(document, session), [WITHIN], *rest)


def test_through_a_router_a_document_is_looked_for_on_each_shard(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    server.hello = {"msg": "isdbgrid"}
    core, begun, document = gapless(client)._core, (None, {"next": Int64(9)}), {"_id": 1, "tenant": "a"}
    assert server.run(core.insert(document, session), [WITHIN], *begun, None, None, None) == 9
    lookup = next(call for call in server.calls if call.method == "find_one")
    assert lookup.args == ({"_id": {"$eq": 1}, "tenant": {"$eq": "a"}}, {"_id": 1})
    assert lookup.options == {"session": session}
    assert server.run(core.insert(document, session), *begun, {"_id": 1}, None, [stored()]) == 4
    assert [call.method for call in server.calls][-2:] == ["abort_transaction", "find"]
    with pytest.raises(AllocationRefused, match="Another document has this _id") as refused:
        server.run(core.insert(document | {"total": 1}, session), *begun, {"_id": 1}, None, [stored()])
    assert refused.value.code == 11000
    assert server.run(core.insert({"tenant": "a"}, session), *begun, None, None) == 9, "a new _id is not looked for"
    assert core.meter.stats().issued == 2


def test_first_uses_that_collide_are_tried_again_but_another_index_of_the_counters_is_named(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    begun = [WITHIN], None
    again = None, {"next": Int64(1)}, None, None
    assert server.run(gapless(client)._core.insert({"tenant": "a"}, session), *begun, SAME_ID, None, *again) == 1
    with pytest.raises(AllocationRefused, match=r"field_1_model_1 .* s\.counters"):
        server.run(gapless(client)._core.insert({"tenant": "b"}, session), *begun, OTHER_INDEX, None)


def test_a_commit_of_unknown_outcome_is_repeated_and_one_that_failed_is_a_new_transaction(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    written = None, {"next": Int64(9)}, None
    events: list[Event] = []
    core = gapless(client, on_event=events.append)._core
    steps = core.insert({"tenant": "a"}, session)
    assert server.run(steps, [WITHIN], *written, UNKNOWN, KILLED, UNKNOWN, None) == 9
    assert [(event.kind, event.note) for event in events] == [
        (EventKind.RETRIED, name) for name in ("AutoReconnect", "WriteConcernError", "AutoReconnect")
    ]
    assert (core.meter.stats().retries, core.meter.stats().issued) == (3, 1)
    for commit in ([FAILED], [UNKNOWN, FAILED]):
        steps = gapless(client)._core.insert({"tenant": "a"}, session)
        assert server.run(steps, [WITHIN], *written, *commit, None, *written, None) == 9


def test_a_number_that_is_still_taken_in_a_second_transaction_is_refused(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    events: list[Event] = []
    core = gapless(client, on_event=events.append)._core
    taken = duplicate("tenant_1_number_1", "tenant", "number")
    refused, written = (None, {"next": Int64(9)}, taken, None), (None, {"next": Int64(10)}, None, None)
    assert server.run(core.insert({"tenant": "a"}, session), [WITHIN], *refused, *written) == 10
    assert [event.kind for event in events] == [EventKind.RETRIED]
    inserted = [call.args[0] for call in server.calls if call.method == "insert_one"]
    assert [document["number"] for document in inserted] == [9, 10]
    assert inserted[0]["_id"] == inserted[1]["_id"]
    with pytest.raises(AllocationRefused, match=r"s\.invoices\.number already holds the next number") as twice:
        server.run(core.insert({"tenant": "a"}, session), *refused, *refused)
    assert (twice.value.code, twice.value.__cause__) == (11000, taken)


def test_a_slow_call_before_the_commit_is_no_refusal(server: Server, client: MongoClient[Any], session: Any) -> None:
    late = errors.ExecutionTimeout("operation would exceed time limit", 50)
    steps = gapless(client)._core.insert({"tenant": "a"}, session)
    assert server.run(steps, [WITHIN], None, late, None, None, {"next": Int64(9)}, None, None) == 9
    hasty = gapless(client, deadlines=Deadlines(total=1.0, attempt=0.5))
    with pytest.raises(AllocationTimeout):
        server.run(hasty._core.insert({"tenant": "a"}, session), [WITHIN], *[None, late, None] * 99)


UNKNOWN = errors.AutoReconnect("lost", {"errorLabels": ["UnknownTransactionCommitResult"]})
FAILED = errors.OperationFailure("aborted", 251, {"errorLabels": ["TransientTransactionError"]})
NO_LOGIN = errors.OperationFailure("Authentication failed", 18)
KILLED = errors.WriteConcernError("operation was interrupted", 11601)


@pytest.mark.parametrize(
    ("commit", "known"),
    [([UNKNOWN] * 99, False), ([UNKNOWN, NO_LOGIN], False), ([NO_LOGIN], True), ([KILLED] * 99, False)],
    ids=["to the end", "then an error", "an error", "applied"],
)
def test_a_commit_whose_outcome_stays_unknown_does_not_mean_that_nothing_was_inserted(
    server: Server, client: MongoClient[Any], session: Any, commit: list[Any], known: bool
) -> None:
    hasty = gapless(client, deadlines=Deadlines(total=1.0, attempt=0.5))
    session.in_transaction = False
    with pytest.raises(AllocationRefused if known else AllocationUnknown):
        server.run(hasty._core.insert({"tenant": "a"}, session), [WITHIN], None, {"next": Int64(9)}, None, *commit)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"key": {"number": -1, "tenant": 1}}, True),
        ({"unique": False}, False),
        ({"partialFilterExpression": {"tenant": "a"}}, False),
        ({"key": {"number": 1}}, False),
        ({"key": {"tenant": 1, "number": 1, "at": 1}}, False),
    ],
)
def test_numbers_without_gaps_need_a_unique_index_on_the_scope_and_the_number(
    server: Server, client: MongoClient[Any], session: Any, changes: dict[str, Any], kept: bool
) -> None:
    core, indexes = gapless(client)._core, [*BY_ID, WITHIN | changes]
    written = None, {"next": Int64(9)}, None, None
    if kept:
        assert server.run(core.insert({"tenant": "a"}, session), indexes, *written) == 9
        assert server.run(core.insert({"tenant": "a"}, session), *written) == 9, "it is asked once"
        assert (core.meter.stats().issued, core.key({"tenant": "a"})) == (
            2,
            {"numbers": "s.invoices.number", "tenant": "a"},
        )
        upsert = next(call for call in server.calls if call.method == "find_one_and_update")
        assert upsert.args == ({"_id": {"$eq": core.key({"tenant": "a"})}}, {"$inc": {"next": 1}})
        assert upsert.options == {"upsert": True, "return_document": ReturnDocument.AFTER, "session": session}
        return
    for _ in range(2):
        with pytest.raises(NotUnique, match=r"s\.invoices\.number has no unique index on tenant, number"):
            server.run(core.insert({"tenant": "a"}, session), indexes)
    server.run(core.create(), None)
    assert (server.calls[-1].args, server.calls[-1].options) == (([("tenant", 1), ("number", 1)],), {"unique": True})


@pytest.mark.parametrize(
    ("answer", "error", "title"),
    [
        (errors.OperationFailure("Failed to apply $inc", 2), Exhausted, "The number in {} is at the end of int64."),
        (errors.OperationFailure("non-numeric", 14), CounterTypeError, "The field in {} is not a number."),
        ({"next": 4.0}, CounterTypeError, "{} keeps next as a double, not as an integer."),
    ],
)
def test_a_counter_of_numbers_without_gaps_that_cannot_go_on_is_named(
    server: Server, client: MongoClient[Any], session: Any, answer: Any, error: type[Exception], title: str
) -> None:
    with pytest.raises(error) as refused:
        server.run(gapless(client)._core.insert({"tenant": "a"}, session), [WITHIN], None, answer, None)
    counter = "s.counters {'numbers': 's.invoices.number', 'tenant': 'a'}"
    assert getattr(refused.value, "maximum", 2**63 - 1) == 2**63 - 1
    assert str(refused.value).startswith(title.format(counter))


def test_numbers_without_gaps_need_a_server_that_has_transactions(
    server: Server, client: MongoClient[Any], session: Any
) -> None:
    standalone = errors.OperationFailure("Transaction numbers are only allowed on a replica set member or mongos", 20)
    with pytest.raises(AllocationRefused, match="need transactions, which a standalone server does not have") as no:
        server.run(gapless(client)._core.insert({"tenant": "a"}, session), [WITHIN], None, standalone, None)
    assert no.value.code == 20
    with pytest.raises(AllocationRefused, match=r"refuses to work on s\.invoices"):
        server.run(gapless(client)._core.insert({"tenant": "a"}, session), [WITHIN], None, NO_LOGIN, None)


@pytest.mark.parametrize(
    ("details", "advice"),
    [
        (
            {"errmsg": 'not authorized on s to execute command { update: "counters", ordered: true, lsid: { id: 1 } }'},
            "The user may not run update on s.counters: grant it readWrite on the database s.",
        ),
        ({"errmsg": "Document failed validation"}, "Document failed validation"),
        (None, "as the driver says it"),
    ],
)
def test_a_refusal_says_what_to_grant(
    server: Server, client: MongoClient[Any], details: dict[str, Any] | None, advice: str
) -> None:
    refusal = errors.OperationFailure("as the driver says it", 13, details)
    with pytest.raises(AllocationRefused, match=r"refuses to work on s\.c") as refused:
        server.run(counter(client).core.take(1), refusal)
    assert (refused.value.advice, refused.value.code) == (advice, 13)
    with pytest.raises(AllocationRefused, match=r"The driver refuses to work on s\.c"):
        server.run(counter(client).core.take(1), errors.InvalidOperation("Cannot use MongoClient after close"))


@pytest.mark.parametrize(
    ("hello", "concern", "notes"),
    [
        (HELLO, None, []),
        ({"msg": "isdbgrid"}, None, []),
        ({}, None, ["standalone: no retries by the driver, no second copy of the counter"]),
        ({"setName": "rs"}, WriteConcern(1), ["unsafe write concern {'w': 1}"]),
    ],
)
def test_what_weakens_the_guarantees_is_told_once(
    server: Server, client: MongoClient[Any], hello: dict[str, Any], concern: WriteConcern | None, notes: list[str]
) -> None:
    events: list[Event] = []
    server.hello = hello
    orders = counter(client, on_event=events.append, unsafe_write_concern=concern)
    top = 2**53 - 1
    for last in (0, 1, top - 2, top - 1, top):
        server.run(orders.core.take(1), at(last))
    javascript = "ids pass 2^53, which JavaScript numbers round: send them there as text or BigInt"
    where = "s.counters 'orders'"
    assert [event for event in events if event.kind is EventKind.WEAK] == [
        Event(EventKind.WEAK, note=note, name=where) for note in (*notes, javascript)
    ]
    assert [event.n for event in events if event.kind is EventKind.FETCHED] == [1] * 5
    assert events[-1].kind is EventKind.WEAK, "after the last one"


def test_the_space_of_an_allocator_bounds_the_ranges_of_its_cache(client: MongoClient[Any]) -> None:
    assert pool(client).space == 20
    spaces = {highest: counter(client, highest=highest).space for highest in (None, 0, 1, 7)}
    assert spaces == {None: 2**63 - 1, 0: 1, 1: 1, 7: 7}
    assert counter(client, highest=7, layout=ARTICLE).space == 8


def test_a_collision_is_an_event_and_ends_after_so_many_tries(server: Server, client: MongoClient[Any]) -> None:
    events: list[Event] = []
    core = RandomIds(client.s.docs, "number", NumberSpace(3, 4), tries=2, on_event=events.append)._core
    taken = duplicate("number_1", "number")
    with pytest.raises(CollisionLimit, match=r"2 ids for s\.docs\.number were all taken") as limit:
        server.run(core.insert({}, None), UNIQUE, taken, taken)
    assert limit.value.tries == 2
    assert events == [Event(EventKind.COLLISION, 1, name="s.docs.number")] * 2
    assert server.run(core.insert({"_id": 5, "n": 1}, None), None) == 3
    assert server.calls[-1].args == ({"_id": 5, "n": 1, "number": 3},)
    assert (core.meter.stats().issued, core.meter.stats().collisions) == (1, 2)
    with pytest.raises(AllocationRefused, match=r"A unique field other than s\.docs\.number"):
        server.run(core.insert({}, None), OTHER_INDEX)
    assert server.run(core.fill(), 1).expected_tries == float("inf")
    assert (Fill(1, 4).collision_rate, Fill(1, 4).expected_tries, Fill(9, 4).collision_rate) == (0.25, 4 / 3, 1.0)


# --- documents with an id of their own -----------------------------------------------------------------------------

BY_ID = [{"key": {"_id": 1}, "name": "_id_"}]
UNIQUE = [*BY_ID, {"key": {"number": 1}, "name": "number_1", "unique": True}]
NOT_SHOWN = LOST, SAME_ID, None, None
"""Answers to an insert whose reply is lost, and to its second try, while a majority shows neither of them."""
WRITTEN = {"_id": 1}


def inserts(client: MongoClient[Any], **how: Any) -> dict[str, tuple[Steps[Any], tuple[Any, ...]]]:
    """Each strategy's steps, and the answers to those before the insert in question."""
    random_ids = RandomIds(client.s.cards, "number", NumberSpace.digits(3), **how)._core
    proxied = ProxiedInsert(client.s.reserved, client.s.cards, "number", **how)._core
    return {
        "random": (random_ids.insert({}, None), (UNIQUE,)),
        "reserve": (proxied._reserve(7, "me", proxied.budget()), ()),
        "write": (proxied.insert({"number": 7}, None), (BY_ID, None)),
    }


@pytest.mark.parametrize(
    ("space", "numbers"),
    [
        (NumberSpace(5, 8), {5, 6, 7}),
        (NumberSpace(8, 11, width=3), {"008", "009", "010"}),
        (NumberSpace.digits(1), {*range(1, 10)}),
        (NumberSpace.digits(1, text=True), {*"0123456789"}),
    ],
)
def test_each_number_of_a_space_is_drawn_and_no_other(space: NumberSpace, numbers: set[int | str]) -> None:
    assert {space.draw() for _ in range(1_000)} == numbers


@pytest.mark.parametrize(
    ("index", "shard_key", "kept", "reason"),
    [
        ({"key": {"number": 1}, "unique": True}, None, True, "A unique index covers every document"),
        ({"key": {"number": 1}}, None, False, "No unique index on number alone"),
        ({"key": {"number": 1, "at": 1}, "unique": True}, None, False, "No unique index on number alone"),
        ({"key": {"number": 1}, "unique": True}, {"number": 1}, True, "A unique index covers every document"),
        ({"key": {"number": 1}}, {"number": 1}, False, "No unique index on number alone"),
        ({"key": {"number": 1}, "unique": True}, {"tenant": 1}, False, "sharded by tenant"),
        ({"key": {"number": 1}, "unique": True}, {"tenant": 1, "number": 1}, False, "sharded by tenant, number"),
        ({"key": {"number": 1}, "unique": True}, {"number": "hashed"}, True, "A unique index covers every document"),
        ({"key": {"number": "hashed"}}, {"number": "hashed"}, False, "No unique index on number alone"),
    ],
)
def test_the_database_keeps_a_field_unique_by_an_index_that_covers_all_shards(
    index: dict[str, Any], shard_key: dict[str, Any] | None, kept: bool, reason: str
) -> None:
    indexes = [{"name": "_id_", "key": {"_id": 1}}, {"name": "n", **index}]
    found = judge_uniqueness("number", indexes, shard_key)
    assert (found.kept, found.index) == (kept, "n" if kept else "")
    assert reason in found.reason
    assert judge_uniqueness("_id", indexes, shard_key).kept is (shard_key is None)
    for by in (1, "hashed"):
        assert judge_uniqueness("_id", indexes, {"_id": by}).kept
    for stats in ({"indexBuilds": ["n"]}, {"shards": {"s0": {}, "s1": {"indexBuilds": ["n"]}}}):
        building = judge_uniqueness("number", indexes, shard_key, stats)
        assert (building.kept, "index n is still being built" in building.reason) == (False, kept)


def test_documents_may_share_an_id_where_no_index_or_another_shard_key_keeps_it_unique() -> None:
    for stats, indexes, kept in (
        ({}, [], True),
        ({"timeseries": {}}, [], False),
        ({}, [{"name": "at_1", "key": {"at": 1}}], False),
        ({"sharded": False}, BY_ID, True),
        ({"sharded": True}, BY_ID, False),
    ):
        assert judge_uniqueness("_id", indexes, None, stats).kept is kept
    assert judge_uniqueness("number", UNIQUE, None, {"sharded": True}).kept, "the server allows no other such index"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ([LOST, NO_LOGIN, NO_LOGIN], ""),
        ([LOST, None, {"key": {"_id": 1}}], ""),
        ([{"key": {"tenant": 1}, "dropped": True}], ""),
        ([{"key": {"tenant": 1}, "unsplittable": True}], ""),
        ([{"key": {"tenant": 1}}], "sharded by tenant"),
        ([None, {"key": {"tenant": 1}}], "sharded by tenant"),
    ],
)
def test_nothing_is_inserted_before_the_database_is_known_to_keep_its_ids_apart(
    server: Server, client: MongoClient[Any], config: list[Any], reason: str
) -> None:
    largest = MaxPlusOne(client.s.docs)._core
    proxied = ProxiedInsert(client.s.docs, client.s.others, "number")._core
    for steps, *script in (
        (largest.insert({}, None), {"_id": 6}, None),
        (proxied.insert({"number": 7}, None), None, None),
    ):
        server.config = iter(config)
        if reason:
            with pytest.raises(NotUnique, match=r"Two documents can have the same s\.docs\._id") as refused:
                server.run(steps, BY_ID)
            assert reason in refused.value.advice
        else:
            assert server.run(steps, BY_ID, *script) in (7, None)
        assert next(server.config, "read") == "read"
    if not reason:
        assert server.run(largest.insert({}, None), {"_id": 7}, None) == 8, "it is asked once"
        server.run(proxied.insert({"number": 8}, None), None, None)


def test_an_index_whose_build_is_lost_took_no_id(server: Server, client: MongoClient[Any]) -> None:
    with pytest.raises(AllocationTimeout, match=r"No id from s\.docs\.number in time"):
        server.run(_ensure(client.s.docs, "number"), BY_ID, LOST)


@pytest.mark.parametrize(
    ("field", "script", "outcome"),
    [
        ("number", [UNIQUE], ""),
        ("number", [BY_ID, None, UNIQUE], ""),
        ("_id", [[]], ""),
        (
            "_id",
            [[{"key": {"at": 1}, "name": "at_1"}]],
            "same s.docs._id. No unique index on _id alone covers",
        ),
        ("number", [BY_ID, None, BY_ID], "same s.docs.number. No unique index on number alone covers every document."),
        ("number", [BY_ID, SAME_ID], "s.docs.number already holds a value twice. E11000"),
        ("number", [BY_ID, NO_LOGIN], "The server cannot keep s.docs.number unique. Authentication failed"),
    ],
)
def test_the_index_is_made_where_it_is_missing(
    server: Server, client: MongoClient[Any], field: str, script: list[Any], outcome: str
) -> None:
    if outcome:
        with pytest.raises(NotUnique) as refused:
            server.run(_ensure(client.s.docs, field), *script)
        assert outcome in f"{refused.value} {refused.value.advice}"
    else:
        kept = Uniqueness(True, "A unique index covers every document.", "number_1" if field == "number" else "_id_")
        assert server.run(_ensure(client.s.docs, field), *script) == kept
    made = [(call.args, call.options, call.seconds) for call in server.calls if call.method == "create_index"]
    assert made == [(([("number", 1)],), {"unique": True}, 600.0)] * (len(script) > 1)
    server.hello = {"sharded": True}
    server.config = iter([NO_LOGIN, NO_LOGIN])
    assert server.run(unique._verify(client.s.docs, "_id"), BY_ID) == Uniqueness(
        False, "The collection is sharded, and this user may not read by what: config.collections."
    )


@pytest.mark.parametrize("strategy", ["random", "reserve", "write"])
def test_a_document_that_no_majority_shows_yet_is_known_for_its_own(
    server: Server, client: MongoClient[Any], strategy: str
) -> None:
    steps, before = inserts(client)[strategy]
    server.run(steps, *before, *NOT_SHOWN, SAME_ID, WRITTEN)
    steps, before = inserts(client, deadlines=Deadlines(total=1.0, attempt=0.5))[strategy]
    with pytest.raises(AllocationUnknown):
        server.run(steps, *before, *[*NOT_SHOWN, *NOT_SHOWN[1:] * 99])


@pytest.mark.parametrize("strategy", ["random", "reserve", "write"])
def test_a_refusal_after_a_lost_reply_does_not_mean_that_nothing_was_inserted(
    server: Server, client: MongoClient[Any], strategy: str
) -> None:
    refusal = errors.OperationFailure("Document failed validation", 121)
    steps, before = inserts(client)[strategy]
    with pytest.raises(AllocationUnknown):
        server.run(steps, *before, LOST, refusal)
    steps, before = inserts(client)[strategy]
    released = [SimpleNamespace(deleted_count=1)] * (strategy == "write")
    with pytest.raises(AllocationRefused) as refused:
        server.run(steps, *before, refusal, *released)
    assert refused.value.code == 121


@pytest.mark.parametrize("strategy", ["random", "reserve", "write"])
def test_where_the_document_cannot_be_looked_for_it_may_be_there(
    server: Server, client: MongoClient[Any], strategy: str
) -> None:
    """And so its id stays reserved: no reservation is deleted."""
    for answers in ([errors.OperationFailure("not authorized", 13)], [LOST] * 99):
        steps, before = inserts(client, deadlines=Deadlines(total=1.0, attempt=0.5))[strategy]
        with pytest.raises(AllocationUnknown):
            server.run(steps, *before, LOST, SAME_ID, *answers)


def test_a_document_of_someone_else_is_not_taken_for_ones_own(server: Server, client: MongoClient[Any]) -> None:
    steps, _ = inserts(client)["reserve"]
    with pytest.raises(CollisionLimit):
        server.run(steps, LOST, SAME_ID, None, WRITTEN)
    key = RandomIds(client.s.cards, "_id", NumberSpace.digits(3))._core
    with pytest.raises(AllocationUnknown, match="unknown whether this insert wrote it"):
        server.run(key.insert({}, None), BY_ID, LOST, SAME_ID, WRITTEN)


# --- counters by scope ---------------------------------------------------------------------------------------------


def test_the_first_ids_of_a_scope_are_those_that_its_reply_ends_with(server: Server, client: MongoClient[Any]) -> None:
    for period, field in ((None, {"next": 12}), ("2026", {"periods": {"2026": 12}})):
        core = ScopeCore(client.s.counters, "a/b", period, None, Deadlines(), None)
        assert server.run(core.take(5), {"_id": "a/b"} | field) == range(8, 13)
        assert server.calls[-1].options["return_document"] is ReturnDocument.AFTER
        (where,) = (name for name in server.calls[-1].args[1]["$inc"])
        assert {where: None} in server.calls[-1].args[0]["$or"], "null is matched, so that its increment is refused"
        # A scope whose first ids are too many is not made, and the reply is the document before the update.
        full = ScopeCore(client.s.counters, "a/b", period, 3, Deadlines(), None)
        assert server.run(full.take(4), {"_id": "a/b"} | field) == range(13, 17)
        assert server.calls[-1].options["return_document"] is ReturnDocument.BEFORE
        assert server.calls[-1].options["upsert"] is False
        fitting = ScopeCore(client.s.counters, "a/b", period, 3, Deadlines(), None)
        assert server.run(fitting.take(3), {"_id": "a/b"} | field) == range(10, 13)
        assert server.calls[-1].options["return_document"] is ReturnDocument.AFTER
        assert server.calls[-1].args[0]["$or"][0][where]["$lte"] == 0


def test_a_period_that_is_closed_is_not_begun_again(server: Server, client: MongoClient[Any]) -> None:
    core = ScopeCore(client.s.counters, "a/b", "2025", None, Deadlines(), None)
    closed, nothing = {"_id": "a/b", "retired_before": "2026", "periods": {}}, SimpleNamespace(modified_count=0)
    for steps, *script in ((core.create(), None, nothing), (core.take(1), SAME_ID), (core.peek(),)):
        with pytest.raises(AllocationRefused, match=r"period 2025 .* is closed: periods before 2026 were retired"):
            server.run(steps, *script, closed, closed)
    broken = {"_id": "a/b", "retired_before": 2026, "periods": {}}
    for steps, *script in ((core.create(), None, nothing), (core.take(1), SAME_ID), (core.peek(),)):
        with pytest.raises(AllocationRefused, match="does not keep retired_before as text: what was") as refused:
            server.run(steps, *script, broken)
        assert refused.value.advice == "Set it to the first period that may be used, as text: 2026 is no period."
    assert server.run(scope(client).peek(), broken | {"next": 4}) == 5, "its own number does not depend on it"
    assert server.run(core.create(7), None, SimpleNamespace(modified_count=1)) is True
    unknown = {"$nin": [None], "$not": {"$type": "string"}}
    retired = [{"retired_before": {"$gt": "2025"}}, {"retired_before": unknown}]
    unused = {"_id": {"$eq": "a/b"}, "$nor": retired, "periods.2025": {"$exists": False}}
    assert server.calls[-1].args == (unused, {"$set": {"periods.2025": 6}})
    assert server.run(core.create(7), None, nothing, {"_id": "a/b", "periods": {"2025": 6}}, None) is False
