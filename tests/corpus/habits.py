"""Databases of applications with habits of their own, labelled as those of ``applications``.

Blocks of many sizes, texts and decimals, maps and arrays of counters, roll-backs, shared sequences, and numbers that
follow ids which others made. Left out of the labels are ids in base 36, and worker numbers that are used in bits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from bson import Decimal128, Int64, ObjectId
from tests.corpus.applications import Application, Db, take

_FREE: dict[str, list[int]] = {}
"""Ids that a process took and did not use yet, by its name."""


def _from_block(name: str, following: Iterator[int]) -> int:
    free = _FREE.setdefault(name, [])
    if not free:
        free += following
    return free.pop(0)


def _nothing(db: Db, rng: random.Random) -> None:
    """What every database has: visits, stock, and a log."""
    db.visits.update_one({"_id": f"page {rng.randrange(30)}"}, {"$inc": {"n": 1}}, upsert=True)
    db.stock.update_one({"_id": rng.randrange(20)}, {"$inc": {"n": rng.choice([-2, -1, 3])}}, upsert=True)
    db.log.insert_one({"level": rng.randint(0, 4), "ms": rng.randint(1, 900)})


# --- hi/lo of 1,000 by two services, beside a lease of worker numbers


def pick_seed(db: Db, rng: random.Random) -> None:
    db.unique_keys.insert_many([{"_id": "pick", "next_hi": 412}, {"_id": "crate", "next_hi": 90}])
    db.workers.insert_one({"_id": "lease", "n": 40})


def pick_live(db: Db, rng: random.Random) -> None:
    for name, block, count in (("pick", 1_000, 40), ("crate", 20, 7)):
        for _ in range(count):
            service = f"{db.name} {name} {rng.randrange(2)}"
            hi = None if _FREE.get(service) else take(db, "unique_keys", {"_id": name}, "next_hi", before=True)
            number = _from_block(service, iter(range((hi or 0) * block, (hi or 0) * block + block)))
            db[f"{name}s"].insert_one({"_id": Int64(number), "kg": rng.randint(1, 30)})
    if rng.random() < 0.05:
        take(db, "workers", {"_id": "lease"}, "n")
    _nothing(db, rng)


# --- one series for each year and branch, and one that starts again


def notary_seed(db: Db, rng: random.Random) -> None:
    db.deed_numbers.insert_many([{"_id": {"year": y, "branch": b}, "n": 5_000 + y} for y in (2025, 2026) for b in "NS"])
    db.roll.insert_one({"_id": "roll", "year": 2025, "n": 1_840})
    db.rolls.create_index([("no", 1), ("year", 1)], unique=True)


def notary_live(db: Db, rng: random.Random) -> None:
    branch = rng.choice("NS")
    number = take(db, "deed_numbers", {"_id": {"year": 2026, "branch": branch}}, "n")
    db.deeds.insert_one({"_id": f"{branch}-2026/{number:06d}", "pages": rng.randint(1, 40)})
    row = db.roll.find_one({"_id": "roll"}) or {}
    year, n = (2026, 1) if row["year"] == 2025 and row["n"] >= 1_870 else (row["year"], row["n"] + 1)
    db.roll.update_one({"_id": "roll"}, {"$set": {"year": year, "n": n}})
    db.rolls.insert_one({"year": year, "no": n, "fee": rng.randint(10, 900)})
    _nothing(db, rng)


# --- numbers as texts: padded, bare, and in base 36


def airline_seed(db: Db, rng: random.Random) -> None:
    db.series.insert_many([{"_id": "ticket", "last": "0004171"}, {"_id": "bag", "last": "LH552310"}])
    db.locators.insert_one({"_id": "pnr", "last": "k9x2a"})


def airline_live(db: Db, rng: random.Random) -> None:
    for name, text in (("ticket", "{:07d}"), ("bag", "LH{:06d}")):
        row = db.series.find_one({"_id": name}) or {}
        following = text.format(int(row["last"].removeprefix("LH")) + 1)
        db.series.update_one({"_id": name, "last": row["last"]}, {"$set": {"last": following}})
        db[f"{name}s"].insert_one({"_id": following, "kg": rng.randint(1, 30)})
    row = db.locators.find_one({"_id": "pnr"}) or {}
    number = int(row["last"], 36) + 1
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + text
    db.locators.update_one({"_id": "pnr"}, {"$set": {"last": text}})
    db.bookings.insert_one({"_id": text, "seats": rng.randint(1, 5)})
    _nothing(db, rng)


# --- counters in an array, by name and by position


def library_seed(db: Db, rng: random.Random) -> None:
    names = ("loan", "member", "fine")
    db.settings.insert_one({"_id": "main", "seqs": [{"k": k, "v": 7_000 * n + 31} for n, k in enumerate(names, 1)]})
    db.shelves.insert_one({"_id": "slots", "next": [300, 1_300, 2_300]})


def library_live(db: Db, rng: random.Random) -> None:
    name = rng.choice(["loan", "loan", "member", "fine"])
    row = db.settings.find_one_and_update(
        {"_id": "main"}, {"$inc": {"seqs.$[one].v": 1}}, array_filters=[{"one.k": name}], return_document=True
    )
    number = next(one["v"] for one in row["seqs"] if one["k"] == name)
    db[f"{name}s"].insert_one({"_id": ObjectId(), "number": number, "days": rng.randint(1, 30)})
    place = rng.randrange(3)
    number = db.shelves.find_one_and_update({"_id": "slots"}, {"$inc": {f"next.{place}": 1}})["next"][place]
    db.books.insert_one({"_id": number, "shelf": place})
    _nothing(db, rng)


# --- doubles and decimals


def casino_seed(db: Db, rng: random.Random) -> None:
    db.seq.insert_many([{"_id": "bet", "n": 88_000.0}, {"_id": "chip", "n": Decimal128("9007199254740993")}])
    db.purse.insert_many([{"_id": n, "n": 500.0} for n in range(20)])


def casino_live(db: Db, rng: random.Random) -> None:
    db.bets.insert_one({"_id": take(db, "seq", {"_id": "bet"}, "n", 1.0), "stake": rng.randint(1, 90)})
    if rng.random() < 0.6:
        db.chips.insert_one({"_id": take(db, "seq", {"_id": "chip"}, "n"), "stake": rng.randint(1, 90)})
    db.purse.update_one({"_id": rng.randrange(20)}, {"$inc": {"n": float(rng.choice([-5, 1, 2.5]))}})
    _nothing(db, rng)


# --- blocks of 1,000 that three services use up slowly


def metro_seed(db: Db, rng: random.Random) -> None:
    db.allocator.insert_one({"_id": "trip", "upto": Int64(7_000_000)})


def metro_live(db: Db, rng: random.Random) -> None:
    for _ in range(60):
        service = f"{db.name} {rng.randrange(3)}"
        end = None if _FREE.get(service) else take(db, "allocator", {"_id": "trip"}, "upto", 1_000)
        number = _from_block(service, iter(range((end or 0) - 999, (end or 0) + 1)))
        db.trips.insert_one({"_id": Int64(number), "gate": rng.randint(1, 40)})
    _nothing(db, rng)


# --- a map of tenants in one document


def saas_seed(db: Db, rng: random.Random) -> None:
    tenants = {f"t{n}": {"invoice": 100 * n, "offer": 900 * n + 7_000, "seats": n} for n in range(12)}
    db.numbers.insert_one({"_id": "all", "tenants": tenants})
    db.invoices.create_index([("tenant", 1), ("no", 1)], unique=True)


def saas_live(db: Db, rng: random.Random) -> None:
    tenant = f"t{rng.randrange(1, 4)}"
    number = take(db, "numbers", {"_id": "all"}, f"tenants.{tenant}.invoice")
    db.invoices.insert_one({"tenant": tenant, "no": number, "cents": rng.randint(100, 9_000)})
    if rng.random() < 0.5:
        number = take(db, "numbers", {"_id": "all"}, f"tenants.{tenant}.offer")
        db.offers.insert_one({"tenant": tenant, "no": f"{tenant}-{number}", "cents": rng.randint(100, 9_000)})
    db.numbers.update_one({"_id": "all"}, {"$inc": {f"tenants.{tenant}.seats": rng.choice([-1, 1])}})
    _nothing(db, rng)


# --- pipelines: the number beside a time, as a text, and as the next to use


def press_seed(db: Db, rng: random.Random) -> None:
    db.state.insert_one({"_id": "issue", "no": 410, "at": None, "code": "ISS-000410"})
    db.next_numbers.insert_many([{"_id": "article", "value": 30_100}, {"_id": "photo", "value": 61_000}])


def press_live(db: Db, rng: random.Random) -> None:
    following = {"$add": ["$no", 1]}
    code = {"$concat": ["ISS-", {"$substrCP": [{"$toString": {"$add": [1_000_001, "$no"]}}, 1, 6]}]}
    update = [{"$set": {"no": following, "at": "$$NOW", "code": code}}]
    row = db.state.find_one_and_update({"_id": "issue"}, update, return_document=True)
    db.issues.insert_one({"_id": row["code"], "pages": rng.randint(8, 90)})
    number = take(db, "next_numbers", {"_id": "article"}, "value", before=True)
    db.articles.insert_one({"_id": number, "words": rng.randint(8, 900)})
    number = take(db, "next_numbers", {"_id": "photo"}, "value")
    db.photos.insert_one({"_id": number, "width": rng.randint(8, 900)})
    _nothing(db, rng)


# --- no counter at all: ids by time, and numbers that follow ids which others made


def bus_seed(db: Db, rng: random.Random) -> None:
    db.worker_ids.insert_one({"_id": "w", "seq": 0, "last": 0})
    db.projector.insert_one({"_id": "orders", "position": 44_000})
    db.marks.insert_one({"_id": "orders", "newest": 44_000})
    db.views.create_index("order", unique=True)


def bus_live(db: Db, rng: random.Random) -> None:
    millis = int(time.time() * 1_000) - 1_700_000_000_000
    seq = rng.randint(0, 3)
    db.worker_ids.update_one({"_id": "w"}, {"$set": {"seq": seq, "last": millis}})
    db.events.insert_one({"_id": Int64(millis << 22 | 7 << 12 | seq), "kind": rng.randint(1, 5)})
    # The number of an order comes from another database.
    made = _FREE.setdefault(db.name, [44_000])
    made[0] = number = made[0] + 1
    db.orders.insert_one({"_id": number, "cents": rng.randint(100, 9_000)})
    db.marks.update_one({"_id": "orders"}, {"$set": {"newest": number}})
    db.projector.update_one({"_id": "orders"}, {"$set": {"position": number}})
    db.views.insert_one({"_id": ObjectId(), "order": number, "lines": rng.randint(1, 9)})
    _nothing(db, rng)


# --- ids that roll-backs leave out, and three services on one counter


def exchange_seed(db: Db, rng: random.Random) -> None:
    db.counters.insert_many([{"_id": "trade", "seq": Int64(5_200_000)}, {"_id": "doc", "seq": 700}])


def exchange_live(db: Db, rng: random.Random) -> None:
    number = take(db, "counters", {"_id": "trade"}, "seq")
    if rng.random() < 0.7:
        db.trades.insert_one({"_id": number, "lots": rng.randint(1, 90)})
    for name in rng.sample(["orders", "bills", "notes"], 2):
        db[name].insert_one({"_id": take(db, "counters", {"_id": "doc"}, "seq"), "lines": rng.randint(1, 9)})
    _nothing(db, rng)


HABITS = (
    Application("pick", pick_seed, pick_live, frozenset({("unique_keys", "next_hi")})),
    Application("notary", notary_seed, notary_live, frozenset({("deed_numbers", "n"), ("roll", "n")})),
    Application("airline", airline_seed, airline_live, frozenset({("series", "last")})),
    Application(
        "library", library_seed, library_live,
        frozenset(pair for n in range(3) for pair in (("settings", f"seqs.{n}.v"), ("shelves", f"next.{n}"))),
    ),
    Application("casino", casino_seed, casino_live, frozenset({("seq", "n")})),
    Application("metro", metro_seed, metro_live, frozenset({("allocator", "upto")})),
    Application(
        "saas", saas_seed, saas_live,
        frozenset({("numbers", f"tenants.t{n}.{name}") for n in range(1, 4) for name in ("invoice", "offer")}),
    ),
    Application(
        "press", press_seed, press_live,
        frozenset({("state", "code"), ("next_numbers", "value")}),
    ),
    Application("bus", bus_seed, bus_live, frozenset()),
    Application("exchange", exchange_seed, exchange_live, frozenset({("counters", "seq")})),
)  # fmt: skip
