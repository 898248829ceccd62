"""What the demo writes: documents that are the same for the same random source, and counters that fit them."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from typing import Any

import pytest
from bson import Int64, ObjectId
from pymongo import AsyncMongoClient, MongoClient

from builders import virtual_time
from builders.memory_mongo import Memory, changed
from tallyglass.demo import goods
from tallyglass.demo.numbering import SPAN, ArticlePool, RaisedCounter
from tallyglass.demo.seed import INDEXES, STAGING, seed
from tallyglass.demo.streams import Stream, all_streams

HOURS = 30 * 3600.0


def number_of(document: dict[str, Any]) -> Any:
    return document.get("number", document.get("ticket_no", document["_id"]))


def rows(memory: Memory, stream: Stream) -> list[dict[str, Any]]:
    return memory.data.rows[str(stream.target)]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    return Memory(monkeypatch, random.Random(1))


@pytest.fixture
def streams(memory: Memory) -> dict[str, Stream]:
    made = all_streams(random.Random(2))
    with MongoClient[Any](connect=False) as client:
        seed(client, made, random.Random(3), HOURS)
    return made


def test_the_documents_of_the_past_end_with_their_counter(memory: Memory, streams: dict[str, Stream]) -> None:
    now = time.time() - HOURS
    for name, stream in streams.items():
        stored = rows(memory, stream)
        assert len(stored) == len(stream.ids) == (900 if name == "orders" else 300)
        assert list(stream.ids) == [row["_id"] for row in stored]
        numbers = [number_of(row) for row in stored]
        assert len(set(numbers)) == len(numbers)
        if name != "readings":
            assert all(before < after for before, after in pairwise(numbers))
            (last,) = stream.numbers.earlier([0])
            assert numbers[-1] == last
        times = [row["_id"].generation_time.timestamp() for row in stored if isinstance(row["_id"], ObjectId)]
        assert times == sorted(times)
        if times:
            assert (round((now - times[0]) / 86_400), (now - times[-1]) / 86_400 < 40 / len(times)) == (40, True)
            assert len({row["_id"].binary[4:9] for row in stored}) == 3
    orders = rows(memory, streams["orders"])
    assert {row["status"] for row in orders} == {"pending", "paid", "shipped"}
    assert all(int(row["placed"].timestamp()) == int(row["_id"].generation_time.timestamp()) for row in orders)
    unique = {f"{db}.{name}": [(f,) for f, alone in fields if alone] for (db, name), fields in INDEXES.items()}
    wanted = {ns: fields for ns, fields in unique.items() if fields}
    assert memory.data.unique == wanted | {"support.counters": [("id", "reference_value")]}
    assert {name: len(memory.data.rows[f"staging.{name}"]) for name in STAGING} == STAGING
    assert len(memory.data.rows["shop.carts"]) == 120
    assert len(memory.data.rows["shop.products"]) == goods.PRODUCTS == 72
    pool = memory.data.rows["plant.identifierPool"]
    assert [row["MAX_VALUE"] for row in pool] == [(n + 1) * SPAN for n in range(1_000)]
    left = [row["MAX_VALUE"] - row["COUNT"] for row in pool]
    assert sorted(left)[:3] == [left[7], left[340], left[673]] == [4_000, 8_000, 12_000]
    assert all(SPAN * 0.03 <= n <= SPAN * 0.98 and n % 200 == 0 for n in sorted(left)[3:])


def test_the_workload_counts_on(memory: Memory, streams: dict[str, Stream]) -> None:
    async def go_on() -> None:
        async with AsyncMongoClient[Any](connect=False) as client:
            for stream in streams.values():
                counters = memory.data.rows[str(stream.numbers.ns)]
                done = stream.numbers.advance(250)
                at = next(n for n, row in enumerate(counters) if row["_id"] == done.identity)
                counters[at] = changed(counters[at], {"$set": done.changes})
                taken = [await stream.numbers.next_number(client) for _ in range(260)]
                known = {number_of(row) for row in rows(memory, stream)}
                assert len(set(taken) | known) == len(taken) + len(known)
                if isinstance(stream.numbers, ArticlePool):
                    assert sum(after - before == 1 for before, after in pairwise(taken)) == 258, "in batches of 200"
                    assert isinstance(counters[at]["COUNT"], Int64)
                else:
                    assert taken == [done.number + n for n in range(1, 261)]
                    assert type(taken[0]) is type(done.number)
                if isinstance(stream.numbers, RaisedCounter):
                    assert counters[0 if counters[0]["_id"] == "vouchers" else at]["MAX_VALUE"] - taken[-1] >= 40
                await stream.step(client, random.Random(4))
                assert len(rows(memory, stream)) == len(known) + stream.batch == len(stream.ids)

    virtual_time.run(go_on(), seconds=1e6)


def test_a_day_of_the_workload_has_its_mean_rate() -> None:
    stream = all_streams(random.Random(2))["orders"]
    given = [stream.given_in(3_600 * hours) for hours in (0, 1, 6, 12, 18, 24, 30)]
    assert given == [0, 26_551, 106_795, 213_591, 452_395, 691_200, 797_995]
    waits = [stream.wait(random.Random(n), 22.5) for n in range(2_000)]
    assert sum(waits) / len(waits) == pytest.approx(1 / 12, rel=0.1)


MADE: list[tuple[Any, dict[str, Any]]] = [
    (
        goods.order,
        {
            "number": 20,
            "customer": "John Liskov",
            "lines": [{"sku": "copper-hourglass", "qty": 1}],
            "total": 429.77,
            "status": "pending",
        },
    ),
    (
        goods.customer,
        {"number": 20, "name": "Barbara Turing", "email": "barbara.turing.20@example.com", "points": 391},
    ),
    (goods.product, {"_id": "oak-chronometer", "price": 48.1, "stock": 433}),
    (goods.cart, {"_id": "cart-0020", "count": 3, "total": 286.76}),
    (goods.payment, {"_id": 20, "method": "card", "amount": 516.16}),
    (goods.voucher, {"number": 20, "worth": 10, "spent": False}),
    (goods.reading, {"_id": 20, "sensor": "s09", "value": 13.47}),
    (goods.message, {"_id": 20, "from": "Barbara Turing", "text": "broken lens late"}),
    (goods.comment, {"number": 20, "author": "Barbara Turing", "text": "broken lens late"}),
    (goods.ticket, {"ticket_no": 20, "from": "Barbara Turing", "subject": "broken lens late", "open": True}),
    (goods.person, {"_id": 20, "name": "Barbara Turing"}),
]


@pytest.mark.parametrize(("make", "document"), MADE, ids=[make.__name__ for make, _ in MADE])
def test_a_random_source_makes_the_same_document(make: Any, document: dict[str, Any]) -> None:
    made = make(random.Random(1), 20)
    made.pop("placed", None)
    assert made == document
    assert str(goods.object_id_at(random.Random(1), 1e9, b"abcde")) == "3b9aca006162636465b16522"
    every = [make(random.Random(n), n) for n in range(300)]
    assert len({len(one["lines"]) for one in every if "lines" in one}) in (0, 3)
    assert {line["qty"] for one in every for line in one.get("lines", ())} in (set(), {1, 2, 3, 4})
