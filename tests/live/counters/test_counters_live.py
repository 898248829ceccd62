"""Counters on a real server, written by other code than the one that looks at them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mongoengine
import pytest
from bson import Int64, json_util
from gateways import OpenGateway
from pymongo import MongoClient

from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher, look, watch
from tallyglass.counters.recognise.config import parse_config
from tallyglass.counters.recognise.idle import LargestIds
from tallyglass.counters.snapshot import CountersSnapshot, CounterView, Flag, Grade, NumericType
from tallyglass.counters.verdict import UNKNOWN, WARNING, Thresholds, grade
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import Driver, open_gateway
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.text import clean

pytestmark = pytest.mark.live

DB = "counters_check"
Client = MongoClient[dict[str, Any]]
QUICK = WatchSettings(refresh_seconds=0.05)


@pytest.fixture
def client(replica_set: ReplicaSet) -> AsyncIterator[Client]:
    with replica_set.client() as client:
        client.drop_database(DB)
        yield client
        client.drop_database(DB)


@pytest.fixture
async def gateway(replica_set: ReplicaSet) -> AsyncIterator[MongoGateway]:
    gateway = open_gateway(replica_set.uri)
    yield gateway
    await gateway.close()


def ours(snapshot: CountersSnapshot) -> dict[str, CounterView]:
    """The counters of this module's database by their id."""
    return {counter.id: counter for counter in snapshot.counters if counter.ns.startswith(f"{DB}.")}


async def until(
    gateway: MongoGateway, steps: list[Callable[[], object]], done: Callable[[dict[str, CounterView]], bool]
) -> tuple[dict[str, CounterView], int]:
    """Watch, doing a step after each of the first snapshots.

    The first snapshot after them all that is ``done``, and how many snapshots after the last step it came.
    """
    async with aclosing(watch(gateway, QUICK)) as snapshots:
        waited = 0
        async for snapshot in snapshots:
            found = ours(snapshot)
            if steps:
                steps.pop(0)()
                continue
            waited += 1
            if done(found):
                return found, waited
            assert waited < 200, found
    raise AssertionError("the watch ended")


async def test_mongoengine(client: Client, gateway: MongoGateway, replica_set: ReplicaSet) -> None:
    class Invoice(mongoengine.Document):  # type: ignore[misc]
        number = mongoengine.SequenceField(db_alias=DB)
        meta = {"db_alias": DB, "collection": "invoices", "indexes": ["number"]}  # noqa: RUF012

    mongoengine.connect(DB, alias=DB, host=replica_set.uri, uuidRepresentation="standard")
    try:
        for _ in range(30):
            Invoice().save()
    finally:
        mongoengine.disconnect(DB)
    counter = ours(await look(gateway))["invoices.number"]
    assert (counter.shape, counter.library) == ("mongoengine", "MongoEngine SequenceField")
    assert (counter.value, counter.type, counter.confidence) == (30, NumericType.INT32, 1.0)
    assert (counter.target, counter.drift, counter.flags) == (f"{DB}.invoices.number", 0, ())
    assert counter.forecast.steps >= 25, "its past was not read from the oplog"


async def test_double_that_stalls_is_flagged_at_once(client: Client, gateway: MongoGateway) -> None:
    counters = client[DB].counters
    counters.insert_one({"_id": "old", "seq": 2.0**53 - 1})
    first = ours(await look(gateway))["old"]
    assert Flag.DOUBLE in first.flags
    assert Flag.STALLED not in first.flags

    def allocate() -> None:
        for _ in range(3):
            counters.update_one({"_id": "old"}, {"$inc": {"seq": 1}})

    found, waited = await until(gateway, [allocate], lambda found: Flag.STALLED in found["old"].flags)
    assert waited == 1
    assert (found["old"].value, found["old"].left) == (2**53, 0)
    assert found["old"].ceiling is not None
    assert "2^53" in found["old"].ceiling.reason


async def test_one_increment_by_a_double_flips_the_type_and_the_moment_is_named(
    client: Client, gateway: MongoGateway
) -> None:
    counters = client[DB].counters
    counters.insert_one({"_id": "orders", "seq": 41})
    found, waited = await until(
        gateway,
        [lambda: counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1.0}})],
        lambda found: Flag.DOUBLE in found["orders"].flags,
    )
    assert waited == 1
    assert re.match(r"Turned from int32 into double at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["orders"].notes[0])
    # The same from the oplog, for somebody who looks only afterwards.
    (note,) = ours(await look(gateway))["orders"].notes
    assert note.startswith("Turned from int32 into double at ")


@pytest.mark.smoke
async def test_rewound_and_reset_are_flagged_live_and_from_the_oplog(client: Client, gateway: MongoGateway) -> None:
    counters = client[DB].counters
    counters.insert_many([{"_id": "restored", "seq": 0}, {"_id": "dropped", "seq": 0}])
    counters.update_many({}, {"$inc": {"seq": 5_000}})

    def go_back() -> None:
        counters.replace_one({"_id": "restored"}, {"seq": 4_000})
        counters.replace_one({"_id": "dropped"}, {"seq": 1})

    found, waited = await until(gateway, [go_back], lambda found: Flag.REWOUND in found["restored"].flags)
    assert waited == 1
    assert "from 5000 to 4000" in found["restored"].notes[0]
    assert found["dropped"].flags == (Flag.RESET,)
    afterwards = ours(await look(gateway))
    assert afterwards["restored"].flags == (Flag.REWOUND,)
    assert afterwards["dropped"].flags == (Flag.RESET,)
    # PastValue the old mark no id is handed out a second time any more.
    counters.update_one({"_id": "restored"}, {"$inc": {"seq": 2_000}})
    assert ours(await look(gateway))["restored"].flags == ()


@pytest.mark.smoke
@pytest.mark.parametrize("identity", ["orders", "a'b\"c\\`(x)\u202e\x1b[31m", {"db": DB, "coll": "orders"}])
async def test_behind_is_flagged_and_its_repair_mends_it(client: Client, gateway: MongoGateway, identity: Any) -> None:
    db = client[DB]
    field = "seq_value" if isinstance(identity, dict) else "current_id"
    name = "counters" if isinstance(identity, dict) else "doctrine_increment_ids"
    db[name].insert_one({"_id": identity, field: 7.0})
    target = "orders" if isinstance(identity, dict) else identity
    db[target].insert_many([{"_id": 20}, {"_id": Int64(12)}, {"_id": 6}, {"_id": "not a number"}])
    counter = next(c for c in (await look(gateway)).counters if c.ns == f"{DB}.{name}")
    assert (counter.drift, Flag.BEHIND in counter.flags) == (-13, True)
    assert clean(counter.repair) == counter.repair
    assert counter.repair.isascii()
    run(client, counter.repair)
    run(client, counter.repair)
    (document,) = db[name].find()
    assert document == {"_id": identity, field: 20}
    assert isinstance(document[field], Int64)
    mended = next(c for c in (await look(gateway)).counters if c.ns == f"{DB}.{name}")
    assert (mended.drift, Flag.BEHIND in mended.flags, mended.repair) == (0, False, "")


async def test_drift_is_as_of_its_reading_and_a_repair_is_seen_at_once(client: Client, gateway: MongoGateway) -> None:
    db = client[DB]
    db.doctrine_increment_ids.insert_one({"_id": "orders", "current_id": 10})
    db.orders.insert_many([{"_id": n} for n in (3, 10)])
    calls = 0

    def grow() -> None:
        nonlocal calls
        calls += 1
        db.doctrine_increment_ids.update_one({"_id": "orders"}, {"$inc": {"current_id": 100}})

    found, _ = await until(gateway, [lambda: None, lambda: None, grow, grow], lambda found: True)
    assert (found["orders"].value, found["orders"].drift, found["orders"].burn) == (210, 0, 0.75)

    def fall_behind() -> None:
        db.orders.insert_one({"_id": 500})

    def mend() -> None:
        db.doctrine_increment_ids.update_one({"_id": "orders"}, {"$max": {"current_id": 500}})

    fall_behind()
    await until(gateway, [lambda: None, lambda: None], lambda found: Flag.BEHIND in found["orders"].flags)
    found, _ = await until(gateway, [lambda: None, lambda: None, mend], lambda found: found["orders"].flags == ())
    assert (found["orders"].drift, found["orders"].repair) == (0, "")


def run(client: Client, command: str) -> None:
    """Run a repair as mongosh would: the literals of the text, and nothing else, become the update."""
    found = re.fullmatch(r"db\.getSiblingDB\((.+?)\)\.getCollection\((.+?)\)\.updateOne\((.+)\)", command)
    assert found
    text = re.sub(r'EJSON\.parse\(("(?:[^"\\]|\\.)*"), \{relaxed: false\}\)', lambda m: json_util.loads(m[1]), found[3])
    text = re.sub(r'Number(Long|Int)\("?(-?\d+)"?\)', r'{"$number\1": "\2"}', text)
    query, update, options = json_util.loads(f"[{text}]", json_options=json_util.CANONICAL_JSON_OPTIONS)
    assert options == {"writeConcern": {"w": "majority"}}
    collection = client[json_util.loads(found[1])][json_util.loads(found[2])]
    assert collection.update_one(query, update).matched_count == 1


async def test_pool_is_one_row(client: Client, gateway: MongoGateway) -> None:
    span = 10**6
    client[DB].accounts.insert_many(
        [{"_id": n, "COUNT": Int64(n * span), "MAX_VALUE": Int64((n + 1) * span - 1)} for n in range(1000)]
    )
    client[DB].accounts.update_one({"_id": 3}, {"$inc": {"COUNT": span}})
    client[DB].accounts.update_one({"_id": 4}, {"$inc": {"COUNT": span // 2}})
    pool_row = ours(await look(gateway))["pool"]
    pool = pool_row.pool
    assert pool is not None
    assert (pool.documents, pool.full, pool.used[:6]) == (1000, 1, (0.0, 0.0, 0.0, 1.0, 0.5, 0.0))
    assert (pool_row.value, pool_row.left, pool_row.flags) == (1_500_000, 998_500_000, (Flag.FIRST_FULL,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_past_and_new_values_are_read_through_motor(
    client: Client, replica_set: ReplicaSet, gateway_to: OpenGateway
) -> None:
    client[DB].counters.insert_one({"_id": "orders", "seq": 0})
    for _ in range(12):
        client[DB].counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})
    gateway = gateway_to(replica_set.uri, driver=Driver.MOTOR)

    def allocate() -> None:
        client[DB].counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})

    def is_whole(found: dict[str, CounterView]) -> bool:
        """Twelve steps are in the oplog, and one comes while it is watched."""
        return "orders" in found and found["orders"].forecast.steps == 13

    found, _ = await until(gateway, [allocate], is_whole)
    assert found["orders"].value == 13


async def test_a_configured_target_may_have_dots_in_its_collection_and_in_its_field(
    client: Client, gateway: MongoGateway
) -> None:
    db = client[DB]
    db.numbers.insert_many([{"_id": name, "n": 5} for name in ("orders", "orders.old", "no.such")])
    for collection, path in (("orders", "meta.number"), ("orders.old", "number"), ("orders.meta", "other")):
        db[collection].create_index(path)
    db.orders.insert_one({"meta": {"number": 9}})
    db["orders.old"].insert_one({"number": 8})
    fields = {"orders": "orders.meta.number", "orders.old": "orders.old.number", "no.such": "no.such.number"}
    rules = [
        {"collection": f"{DB}.numbers", "id": key, "name": key, "field": "n", "target": f"{DB}.{to}"}
        for key, to in fields.items()
    ]
    seen = await look(gateway, WatchSettings(config=parse_config({"counter": rules})))
    found = {key: (counter.target, counter.drift) for key, counter in ours(seen).items() if key in fields}
    assert found == {
        "orders": (f"{DB}.orders.meta.number", -4),
        "orders.old": (f"{DB}.orders.old.number", -3),
        "no.such": ("", None),
    }
    (trouble,) = [trouble for trouble in seen.troubles if "The target" in trouble.title]
    assert trouble.title.startswith(f"The target {DB}.no.such.number is not compared: there is no such collection")


async def test_configured_counters(client: Client, gateway: MongoGateway) -> None:
    client[DB].odd.insert_many([{"_id": "invoice", "deep": {"n": 90}, "other": [1]}, {"_id": "x", "deep": {"n": 1}}])
    client[DB].counters.insert_many([{"_id": "secret", "seq": 1}, {"_id": "shown", "seq": 1}])
    client[DB].invoices.insert_many([{"number": n} for n in (80, 95)])
    client[DB].invoices.create_index("number")
    config = parse_config(
        {
            "counter": [
                {"collection": f"{DB}.odd", "id": "invoice", "field": "deep.n", "name": "Invoices", "digits": 2,
                 "semantics": "next", "target": f"{DB}.invoices.number"},
                {"collection": f"{DB}.counters", "id": "secret", "hide": True},
            ]
        }
    )  # fmt: skip
    found = ours(await look(gateway, WatchSettings(config=config)))
    assert set(found) == {"Invoices", "shown"}
    counter = found["Invoices"]
    assert counter.ceiling is not None
    assert (counter.ceiling.value, counter.ceiling.reason, counter.left) == (99, "2 digits", 10)
    assert (counter.drift, "NumberInt(96)}}" in counter.repair) == (-6, True)


async def test_samples_of_earlier_runs_count(client: Client, gateway: MongoGateway, tmp_path: Path) -> None:
    settings = WatchSettings(history_path=tmp_path / "state" / "counters.sqlite", oplog_history=False)
    client[DB].counters.insert_one({"_id": "orders", "seq": 100})
    await look(gateway, settings)
    client[DB].counters.update_one({"_id": "orders"}, {"$set": {"seq": 50}})
    assert ours(await look(gateway, settings))["orders"].flags == (Flag.REWOUND,)
    assert (tmp_path / "state" / "counters.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("kind", "warns"), [(int, True), (Int64, False)])
async def test_2_31_warns_until_the_ids_are_seen_to_be_64_bit(
    client: Client, gateway: MongoGateway, kind: type[int], warns: bool
) -> None:
    start = 2**31 - 1_000
    client[DB].doctrine_increment_ids.insert_one({"_id": "orders", "current_id": start})
    client[DB].orders.insert_many([{"_id": kind(start - n)} for n in range(20)])
    # A counter of no known library, whose ids are recognised by their use.
    client[DB].numbers.insert_one({"_id": "receipt", "upto": start})
    for _ in range(6):
        row = client[DB].numbers.find_one_and_update({}, {"$inc": {"upto": 1}}, return_document=True)
        client[DB].receipts.insert_one({"no": kind(row["upto"])})
    found = ours(await look(gateway))
    for name in ("orders", "receipt"):
        assert found[name].target if name == "orders" else found[name].grade in (Grade.LIKELY, Grade.CERTAIN)
        level, why = grade(found[name], Thresholds(), datetime.now(UTC))
        assert (found[name].crossing is not None, level, "2^31" in why) == (warns, WARNING, warns), why
        # Its readers may have less than 64 bits.
        assert "left until int32" in why


async def test_an_idle_guess_is_likely_where_it_is_the_largest_id_of_a_collection(
    client: Client, gateway: MongoGateway
) -> None:
    rows = [{"_id": "banquet", "value": 3_402}, {"_id": "waitlist", "value": 311}, {"_id": "few", "value": 30}]
    client[DB].number_counters.insert_many(rows)
    client[DB].banquets.insert_many([{"number": n} for n in range(3_390, 3_403)])
    client[DB].banquets.create_index("number")
    client[DB].tables.insert_many([{"_id": n} for n in range(31)])
    found = ours(await look(gateway))
    grades = {name: counter.grade for name, counter in found.items()}
    assert grades == {"banquet": Grade.LIKELY, "waitlist": Grade.POSSIBLE, "few": Grade.POSSIBLE}
    assert found["banquet"].evidence == f"Its value is the largest id in {DB}.banquets.number."
    # That may still be chance: new documents there do not make it a fault.
    client[DB].banquets.insert_one({"number": 3_500})
    assert ours(await look(gateway))["banquet"].drift is None


async def test_a_guess_is_likely_where_it_moves_while_it_is_compared(
    client: Client, gateway: MongoGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client[DB].number_counters.insert_one({"_id": "banquet", "value": 3_402})
    client[DB].banquets.insert_one({"_id": 3_402})

    advance = LargestIds.advance

    async def in_use(largest: LargestIds, deadline: float) -> bool:
        client[DB].banquets.insert_one({"_id": 3_403})
        done = await advance(largest, deadline)
        client[DB].number_counters.update_one({"_id": "banquet"}, {"$set": {"value": 3_404}})
        return done

    monkeypatch.setattr(LargestIds, "advance", in_use)
    assert ours(await look(gateway))["banquet"].evidence == f"Its value is the largest id in {DB}.banquets._id."


async def test_a_comparison_with_largest_ids_that_takes_long_goes_on(
    client: Client, gateway: MongoGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client[DB].number_counters.insert_one({"_id": "banquet", "value": 3_402})
    client[DB].banquets.insert_one({"_id": 3_402})
    advance = LargestIds.advance

    async def without_time(largest: LargestIds, _: float) -> bool:
        return await advance(largest, float("-inf"))

    monkeypatch.setattr(LargestIds, "advance", without_time)
    watcher = Watcher(gateway, WatchSettings())
    try:
        first = await watcher.refresh(15)
        assert ours(first)["banquet"].grade is Grade.POSSIBLE
        assert any("compared yet with the largest ids" in trouble.title for trouble in first.troubles)
        monkeypatch.setattr(LargestIds, "advance", advance)
        second = await watcher.refresh(15)
        assert ours(second)["banquet"].grade is Grade.LIKELY
        assert not any("compared yet with the largest ids" in trouble.title for trouble in second.troubles)
    finally:
        await watcher.close()


async def test_several_rules_find_numbers_in_fields_arrays_and_texts(client: Client, gateway: MongoGateway) -> None:
    client[DB].settings.insert_one(
        {"_id": "global", "numbers": {"invoice": 120, "offer": 70}, "items": [{"next": 11}, {"next": 22}],
         "code": "RE-2026-000123"}
    )  # fmt: skip
    where = {"collection": f"{DB}.set*", "id": "global"}
    rules = [
        {**where, "field": "numbers.invoice", "name": "invoices", "max": 999},
        {**where, "field": "numbers.offer", "digits": 2},
        {**where, "field": "items.*.next", "block": 10, "consumer": "int32"},
        {**where, "field": "code", "name": "codes"},
    ]
    found = ours(await look(gateway, WatchSettings(config=parse_config({"counter": rules}))))
    values = {
        name: (counter.value, counter.ceiling.value if counter.ceiling else None) for name, counter in found.items()
    }
    assert values == {
        "invoices": (120, 999),
        "global.numbers.offer": (70, 99),
        "global.items.0.next": (11, (2**31 - 1) // 10),
        "global.items.1.next": (22, (2**31 - 1) // 10),
        "codes": (123, 999_999),
    }


async def test_a_search_that_times_out_is_incomplete_and_keeps_its_results(
    client: Client, gateway: MongoGateway, tmp_path: Path
) -> None:
    client[DB].counters.insert_one({"_id": "orders", "seq": 4})
    rule = parse_config({"counter": [{"collection": f"{DB}.counters", "field": "seq"}], "include": [f"{DB}.*"]})
    path = tmp_path / "history.sqlite"
    snapshot = await look(gateway, WatchSettings(config=rule, history_path=path, look_seconds=0.0))
    result = check_counters(snapshot)
    assert (result.level, "before 1 of 1 collections" in result.line, snapshot.unmatched) == (UNKNOWN, True, ())
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT ns FROM looked").fetchall() == [(f"{DB}.counters",)]
