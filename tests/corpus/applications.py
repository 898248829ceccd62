"""Databases of applications under live writes, labelled: which numbers hand out ids, and which only look like it.

Each application seeds its collections once and then lives: ``live`` is called again and again and does what one user
does. ``counters`` are the true ones as ``(collection, path)``; every other number of the database is none. The
applications of :data:`HELD_OUT` were written before the recognition was first run on them, and no rule was changed for
them since.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson import Decimal128, Int64, ObjectId
from pymongo import MongoClient, ReturnDocument
from pymongo.database import Database

Db = Database[dict[str, Any]]
Pair = tuple[str, str]


def take(db: Db, name: str, query: dict[str, Any], path: str, by: Any = 1, *, before: bool = False) -> Any:
    """What nearly every application does: increment, and get the document back."""
    row = db[name].find_one_and_update(
        query,
        {"$inc": {path: by}},
        upsert=True,
        return_document=ReturnDocument.BEFORE if before else ReturnDocument.AFTER,
    )
    value: Any = row
    for step in path.split("."):
        value = value[step]
    return value


@dataclass(frozen=True, slots=True)
class Application:
    """One database: how it begins, what one user does, and which numbers hand out ids."""

    name: str
    seed: Callable[[Db, random.Random], None]
    live: Callable[[Db, random.Random], None]
    counters: frozenset[Pair]


def _fill(db: Db, rng: random.Random, names: str, make: Callable[[random.Random, int], dict[str, Any]]) -> None:
    for name in names.split():
        db[name].insert_many([make(rng, n) for n in range(rng.randint(8, 30))])


def _now() -> datetime:
    return datetime.now(UTC)


# --- a web shop: mongoose, one counters collection


def shop_seed(db: Db, rng: random.Random) -> None:
    db.counters.insert_many([{"_id": name, "seq": start} for name, start in (("orders", 10_420), ("customers", 3_311))])
    db.counters.insert_one({"_id": "pageviews", "seq": 88_100})
    db.view_counters.insert_many([{"_id": f"product-{n}", "count": rng.randint(50, 900)} for n in range(25)])
    db.stock_counters.insert_many([{"_id": f"sku-{n}", "count": rng.randint(50, 900)} for n in range(25)])
    db.coupon_ids.insert_many([{"_id": f"SUMMER{n}", "value": rng.randint(5, 40)} for n in range(12)])
    db.rate_limits.insert_many([{"_id": f"10.0.0.{n}", "counter": 3, "at": _now()} for n in range(20)])
    db.rate_limits.create_index("at", expireAfterSeconds=3600)
    db.carts.insert_many([{"_id": ObjectId(), "items": [{"sku": "a", "qty": 1}], "v": 0} for _ in range(30)])
    _fill(db, rng, "products categories brands reviews", lambda r, n: {"name": f"p{n}", "price": r.uniform(1, 90)})
    _fill(db, rng, "wishlists addresses vouchers returns", lambda r, n: {"user": r.randint(1, 40), "rank": n % 5})


def shop_live(db: Db, rng: random.Random) -> None:
    db.view_counters.update_one({"_id": f"product-{rng.randrange(25)}"}, {"$inc": {"count": 1}})
    db.counters.update_one({"_id": "pageviews"}, {"$inc": {"seq": 1}})
    db.rate_limits.update_one({"_id": f"10.0.0.{rng.randrange(20)}"}, {"$inc": {"counter": 1}})
    db.clicks.insert_one({"page": rng.randint(1, 300), "ms": rng.randint(3, 900), "depth": rng.randint(1, 12)})
    if rng.random() < 0.5:
        number = take(db, "counters", {"_id": "orders"}, "seq")
        qty = rng.randint(1, 5)
        db.orders.insert_one({"_id": number, "customer": rng.randint(1, 3311), "qty": qty, "total": rng.uniform(5, 99)})
        db.stock_counters.update_one({"_id": f"sku-{rng.randrange(25)}"}, {"$inc": {"count": -qty}})
        db.audit.insert_one({"what": "order", "level": rng.randint(0, 4)})
    if rng.random() < 0.25:
        number = take(db, "counters", {"_id": "customers"}, "seq")
        db.customers.insert_one({"customerNo": number, "logins": 0, "points": rng.randint(0, 50)})
    if rng.random() < 0.2:
        db.stock_counters.update_one({"_id": f"sku-{rng.randrange(25)}"}, {"$inc": {"count": rng.randint(10, 50)}})


# --- German invoicing with tenants by ObjectId, settings documents, strings, yearly numbers


def invoice_seed(db: Db, rng: random.Random) -> None:
    tenants = [ObjectId() for _ in range(6)]
    db.mandanten.insert_many(
        [
            {"_id": one, "name": f"Firma {n}", "nummern": {"rechnung": 100 * n + 17, "angebot": 7_000 * n + 903},
             "besuche": rng.randint(10, 90)}
            for n, one in enumerate(tenants)
        ]
    )  # fmt: skip
    db.einstellungen.insert_one(
        {"_id": "global", "kreise": [{"n": "lieferschein", "z": 50_011}, {"n": "gutschrift", "z": 1_207}], "stufe": 3}
    )
    db.nummernkreis.insert_one({"_id": "kunde", "stand": "KD-004210"})
    db.lager.insert_many([{"_id": n, "bestand": rng.randint(10, 400)} for n in range(20)])
    _fill(db, rng, "artikel texte vorlagen steuern konten", lambda r, n: {"bez": f"x{n}", "satz": r.choice([7, 19])})
    _fill(
        db, rng, "kontakte notizen aufgaben dateien", lambda r, n: {"prio": r.randint(1, 3), "alter": r.randint(1, 99)}
    )


def invoice_live(db: Db, rng: random.Random) -> None:
    tenant = rng.choice(list(db.mandanten.find({}, {"_id": 1})))["_id"]
    if rng.random() < 0.6:
        number = take(db, "mandanten", {"_id": tenant}, "nummern.rechnung")
        db.rechnungen.insert_one({"mandant": tenant, "nr": f"RE-2026-{number:05d}", "pos": rng.randint(1, 8)})
    if rng.random() < 0.4:
        number = take(db, "mandanten", {"_id": tenant}, "nummern.angebot")
        db.angebote.insert_one({"mandant": tenant, "nr": number, "rabatt": rng.randint(0, 10)})
    if rng.random() < 0.5:
        row = db.einstellungen.find_one_and_update(
            {"_id": "global", "kreise.n": "lieferschein"}, {"$inc": {"kreise.$.z": 1}}, return_document=True
        )
        db.lieferscheine.insert_one({"nr": row["kreise"][0]["z"], "gewicht": rng.uniform(1, 40)})
    if rng.random() < 0.3:
        row = db.nummernkreis.find_one({"_id": "kunde"}) or {}
        following = f"KD-{int(row['stand'][3:]) + 1:06d}"
        db.nummernkreis.replace_one({"_id": "kunde"}, {"_id": "kunde", "stand": following})
        db.kunden.insert_one({"_id": following, "plz": rng.randint(10_000, 99_999)})
    db.mandanten.update_one({"_id": tenant}, {"$inc": {"besuche": 1}})
    db.lager.update_one({"_id": rng.randrange(20)}, {"$inc": {"bestand": rng.choice([-3, -2, -1, 5])}})
    db.protokoll.insert_one({"stufe": rng.randint(0, 5), "dauer": rng.randint(1, 800)})


# --- a ticket system: per-project numbers, optimistic versions, linked lists


def tickets_seed(db: Db, rng: random.Random) -> None:
    db.projects.insert_many(
        [{"_id": f"P{n}", "issueSeq": 400 * n + 31, "stars": rng.randint(1, 60), "version": 1} for n in range(8)]
    )
    db.sprints.insert_many([{"_id": n, "next": n + 1} for n in range(40)])
    db.menu.insert_many([{"_id": f"m{n}", "sequence": n * 10} for n in range(15)])
    db.workers.insert_many([{"_id": f"w{n}", "seq": rng.randint(1_000, 2_000), "at": _now()} for n in range(6)])
    db.boards.insert_many([{"_id": ObjectId(), "version": 1, "columns": 4} for _ in range(10)])
    _fill(db, rng, "labels milestones users teams filters", lambda r, n: {"name": f"l{n}", "color": r.randint(0, 255)})
    _fill(db, rng, "webhooks roles watchers attachments", lambda r, n: {"size": r.randint(1, 9_000), "order": n})


def tickets_live(db: Db, rng: random.Random) -> None:
    project = f"P{rng.randrange(8)}"
    number = take(db, "projects", {"_id": project}, "issueSeq")
    db.issues.insert_one({"_id": f"{project}-{number}", "number": number, "project": project, "votes": 0})
    db.projects.update_one({"_id": project}, {"$inc": {"version": 1}})
    db.workers.update_one({"_id": f"w{rng.randrange(6)}"}, {"$inc": {"seq": 1}, "$set": {"at": _now()}})
    board = rng.choice(list(db.boards.find({}, {"version": 1})))
    db.boards.update_one({"_id": board["_id"]}, {"$inc": {"version": 1}})
    db.history.insert_one({"board": board["_id"], "version": board["version"] + 1, "field": "state"})
    db.issues.update_one({"number": number - 1}, {"$inc": {"votes": 1}})


# --- telemetry: sensors, heartbeats, packet totals; one device registry that numbers


def telemetry_seed(db: Db, rng: random.Random) -> None:
    db.sensors.insert_many([{"_id": f"s{n}", "lastValue": rng.randint(10, 40), "seq": 100 * n} for n in range(20)])
    db.gateways.insert_many([{"_id": n, "packets": 10_000 * n, "uptime": 3_600 * n} for n in range(1, 6)])
    db.meters.insert_many([{"_id": n, "kwh": rng.uniform(100, 900)} for n in range(12)])
    db.leases.insert_one({"_id": "leader", "term": 41, "token": 800})
    db.registry.insert_one({"_id": "devices", "allocated": 70_120})
    _fill(db, rng, "sites floors rooms alarms rules firmware", lambda r, n: {"level": r.randint(0, 4), "n": n})
    _fill(db, rng, "thresholds dashboards exports tokens", lambda r, n: {"limit": r.randint(10, 99), "last": n})


def telemetry_live(db: Db, rng: random.Random) -> None:
    for _ in range(3):
        sensor = f"s{rng.randrange(20)}"
        value = rng.randint(10, 40)
        db.sensors.update_one({"_id": sensor}, {"$set": {"lastValue": value}, "$inc": {"seq": 1}})
        db.readings.insert_one({"sensor": sensor, "value": value, "tray": rng.randint(1, 9)})
    db.gateways.update_one({"_id": rng.randint(1, 5)}, {"$inc": {"packets": rng.randint(1, 30), "uptime": 5}})
    db.meters.update_one({"_id": rng.randrange(12)}, {"$inc": {"kwh": rng.uniform(0.1, 2)}})
    db.leases.update_one({"_id": "leader"}, {"$inc": {"token": 1}})
    if rng.random() < 0.4:
        number = take(db, "registry", {"_id": "devices"}, "allocated", 5)
        db.devices.insert_many([{"_id": n, "model": rng.randint(1, 4)} for n in range(number - 4, number + 1)])


# --- a bank: transactions, balances, descending cheque numbers, Decimal128, hi/lo


def bank_seed(db: Db, rng: random.Random) -> None:
    db.accounts.insert_many(
        [{"_id": 1_000 + n, "balance": Decimal128("500"), "movements": rng.randint(3, 70)} for n in range(20)]
    )
    db.sequences.insert_many([{"_id": "transfer", "x": Decimal128("90071992547409930")}, {"_id": "card", "x": 4_400}])
    db.hilo.insert_one({"_id": "ledger", "hi": 812})
    db.cheques.insert_one({"_id": "book", "left": 99_500})
    _fill(
        db, rng, "branches currencies rates limits", lambda r, n: {"max": r.randint(100, 900), "used": r.randint(1, 99)}
    )
    _fill(db, rng, "products mandates statements fees cases", lambda r, n: {"code": r.randint(1, 9), "days": n})


_ledger: dict[str, list[int]] = {}


def bank_live(db: Db, rng: random.Random) -> None:
    account = 1_000 + rng.randrange(20)
    with db.client.start_session() as session, session.start_transaction():
        row = db.sequences.find_one_and_update(
            {"_id": "transfer"}, {"$inc": {"x": 1}}, return_document=True, session=session
        )
        db.transfers.insert_one({"ref": row["x"], "account": account, "day": rng.randint(1, 28)}, session=session)
        amount = Decimal128(str(rng.randint(-40, 40)))
        db.accounts.update_one({"_id": account}, {"$inc": {"balance": amount, "movements": 1}}, session=session)
    free = _ledger.setdefault(db.name, [])
    for _ in range(rng.randint(5, 30)):
        if not free:
            hi = take(db, "hilo", {"_id": "ledger"}, "hi")
            free += range(hi * 50 + 49, hi * 50 - 1, -1)
        db.ledger.insert_one({"_id": Int64(free.pop()), "kind": rng.randint(1, 3)})
    if rng.random() < 0.4:
        number = take(db, "cheques", {"_id": "book"}, "left", -1)
        db.issued_cheques.insert_one({"no": number, "account": account})
    if rng.random() < 0.4:
        number = take(db, "sequences", {"_id": "card"}, "x", before=True)
        db.cards.insert_one({"cardNo": number, "pin": rng.randint(1_000, 9_999)})


# --- a forum in the manner of NodeBB; a blog with likes


def forum_seed(db: Db, rng: random.Random) -> None:
    db.objects.insert_one({"_key": "global", "nextPid": 8_801, "nextTid": 930, "uniqueIPCount": 77})
    db.objects.create_index("_key")
    db.objects.insert_many([{"_key": f"user:{n}", "reputation": n, "postcount": rng.randint(1, 99)} for n in range(40)])
    db.likes.insert_many([{"_id": f"post{n}", "n": rng.randint(1, 99)} for n in range(30)])
    _fill(db, rng, "sessions badges bans drafts polls", lambda r, n: {"score": r.randint(1, 99), "left": n})
    _fill(db, rng, "mails feeds plugins themes groups", lambda r, n: {"order": n, "hits": r.randint(1, 999)})


def forum_live(db: Db, rng: random.Random) -> None:
    number = take(db, "objects", {"_key": "global"}, "nextPid")
    db.posts.insert_one({"pid": number, "uid": rng.randint(1, 40), "votes": 0})
    db.objects.update_one({"_key": f"user:{rng.randrange(40)}"}, {"$inc": {"postcount": 1, "reputation": 1}})
    db.likes.update_one({"_id": f"post{rng.randrange(30)}"}, {"$inc": {"n": 1}})
    if rng.random() < 0.3:
        db.topics.insert_one({"tid": take(db, "objects", {"_key": "global"}, "nextTid"), "cid": rng.randint(1, 5)})


DEVELOPED_ON = (
    Application("shop", shop_seed, shop_live, frozenset({("counters", "seq")})),
    Application(
        "invoicing",
        invoice_seed,
        invoice_live,
        frozenset(
            {("mandanten", "nummern.rechnung"), ("mandanten", "nummern.angebot"), ("einstellungen", "kreise.0.z"),
             ("nummernkreis", "stand")}
        ),
    ),
    Application("tickets", tickets_seed, tickets_live, frozenset({("projects", "issueSeq")})),
    Application("telemetry", telemetry_seed, telemetry_live, frozenset({("registry", "allocated")})),
    Application(
        "bank", bank_seed, bank_live, frozenset({("sequences", "x"), ("hilo", "hi"), ("cheques", "left")})
    ),
    Application("forum", forum_seed, forum_live, frozenset({("objects", "nextPid"), ("objects", "nextTid")})),
)  # fmt: skip


# --- held out: a clinic, a game, logistics, a school, a CMS


def clinic_seed(db: Db, rng: random.Random) -> None:
    db.facility.insert_many(
        [{"_id": uuid.uuid4().hex, "site": n, "mrn": {"last": 20_000 * n + 44}, "beds": 30} for n in range(3)]
    )
    db.app_state.insert_one({"_id": 1, "schema": 14, "accession": 660_120, "jobs": 3, "lastRun": 0})
    db.queue_tickets.insert_many([{"_id": f"desk{n}", "current": rng.randint(1, 90)} for n in range(4)])
    db.beds.insert_many([{"_id": n, "occupied": 0, "cleanings": rng.randint(1, 40)} for n in range(30)])
    _fill(db, rng, "wards staff shifts drugs devices labs", lambda r, n: {"grade": r.randint(1, 5), "index": n})
    _fill(db, rng, "consents letters plans codes rooms", lambda r, n: {"pages": r.randint(1, 9), "sequence": n})


def clinic_live(db: Db, rng: random.Random) -> None:
    site = rng.randrange(3)
    number = take(db, "facility", {"site": site}, "mrn.last")
    db.patients.insert_one({"mrn": f"{number:08d}", "site": site, "age": rng.randint(0, 99)})
    if rng.random() < 0.7:
        accession = take(db, "app_state", {"_id": 1}, "accession")
        db.samples.insert_one({"acc": accession, "tube": rng.randint(1, 6), "result": rng.uniform(0, 9)})
    desk = f"desk{rng.randrange(4)}"
    current = (db.queue_tickets.find_one({"_id": desk}) or {})["current"] % 99 + 1
    db.queue_tickets.update_one({"_id": desk}, {"$set": {"current": current}})
    db.beds.update_one({"_id": rng.randrange(30)}, {"$inc": {"cleanings": 1}})
    db.app_state.update_one({"_id": 1}, {"$inc": {"jobs": 1}, "$set": {"lastRun": int(_now().timestamp())}})
    db.access_log.insert_one({"user": rng.randint(1, 60), "ms": rng.randint(1, 500)})


def game_seed(db: Db, rng: random.Random) -> None:
    db.players.insert_many([{"_id": n, "xp": rng.randint(1, 900), "level": n % 9, "gold": 100} for n in range(60)])
    db.world.insert_one({"_id": "w1", "tick": 91_000, "spawn": {"npc": 5_500, "item": 81_000}})
    db.matchmaking.insert_one({"_id": "ladder", "match_no": 30_310, "waiting": 4})
    db.achievements.insert_many([{"_id": f"a{n}", "count": rng.randint(1, 99)} for n in range(20)])
    _fill(db, rng, "maps skins quests guilds seasons", lambda r, n: {"tier": r.randint(1, 9), "next": n + 1})
    _fill(db, rng, "shops servers chats bans reports", lambda r, n: {"load": r.uniform(0, 1), "serial": n})


def game_live(db: Db, rng: random.Random) -> None:
    db.world.update_one({"_id": "w1"}, {"$inc": {"tick": 1}})
    db.players.update_one({"_id": rng.randrange(60)}, {"$inc": {"xp": rng.randint(1, 50), "gold": rng.randint(-5, 6)}})
    item = take(db, "world", {"_id": "w1"}, "spawn.item")
    db.items.insert_one({"_id": Int64(item), "owner": rng.randrange(60), "power": rng.randint(1, 20)})
    if rng.random() < 0.5:
        npc = take(db, "world", {"_id": "w1"}, "spawn.npc", before=True)
        db.npcs.insert_one({"npc": npc, "hp": rng.randint(10, 99)})
    if rng.random() < 0.5:
        match = take(db, "matchmaking", {"_id": "ladder"}, "match_no")
        db.matches.insert_one({"match": match, "players": [{"id": rng.randrange(60)}], "score": rng.randint(0, 9)})
        db.matchmaking.update_one({"_id": "ladder"}, {"$set": {"waiting": rng.randint(0, 9)}})
    db.achievements.update_one({"_id": f"a{rng.randrange(20)}"}, {"$inc": {"count": 1}})


def freight_seed(db: Db, rng: random.Random) -> None:
    db.hubs.insert_many(
        [
            {"_id": {"country": c, "hub": h}, "lastParcel": 300_000 * h + 7, "trucks": 5}
            for c in ("de", "fr")
            for h in (1, 2)
        ]
    )
    db.prefixes.insert_many([{"_id": f"X{n}", "number": f"{n}00417", "used": n} for n in range(3)])
    db.odometers.insert_many([{"_id": n, "km": 50_000 * n, "trips": rng.randint(1, 99)} for n in range(1, 9)])
    db.label_ranges.insert_one({"_id": "labels", "upto": 400_000})
    _fill(db, rng, "routes drivers depots tariffs holidays", lambda r, n: {"km": r.randint(1, 900), "stop": n})
    _fill(db, rng, "zones claims partners pallets docks", lambda r, n: {"weight": r.uniform(1, 90), "pos": n})


def freight_live(db: Db, rng: random.Random) -> None:
    hub = {"country": rng.choice(["de", "fr"]), "hub": rng.choice([1, 2])}
    number = take(db, "hubs", {"_id": hub}, "lastParcel")
    db.parcels.insert_one({"hub": hub, "no": number, "zone": rng.randint(1, 9), "w": rng.uniform(0.1, 30)})
    if rng.random() < 0.6:
        prefix = f"X{rng.randrange(3)}"
        row = db.prefixes.find_one({"_id": prefix}) or {}
        following = f"{int(row['number']) + 1:0{len(row['number'])}d}"
        db.prefixes.update_one({"_id": prefix}, {"$set": {"number": following}})
        db.waybills.insert_one({"ref": f"{prefix}/{following}", "legs": rng.randint(1, 4)})
    if rng.random() < 0.3:
        top = take(db, "label_ranges", {"_id": "labels"}, "upto", 20)
        db.labels.insert_many([{"_id": n, "size": rng.randint(1, 3)} for n in range(top - 19, top + 1)])
    db.odometers.update_one({"_id": rng.randint(1, 8)}, {"$inc": {"km": rng.randint(1, 60), "trips": 1}})
    db.pings.insert_one({"truck": rng.randint(1, 8), "speed": rng.randint(0, 90)})


def school_seed(db: Db, rng: random.Random) -> None:
    db.identitycounters.insert_many(
        [
            {"_id": ObjectId(), "model": m, "field": "no", "count": c, "__v": 0}
            for m, c in (("Pupil", 5_012), ("Test", 88))
        ]
    )
    db.idcounters.insert_one({"_id": ObjectId(), "c": 21_400, "f": "loanNo", "m": "Loan"})
    db.absences.insert_many([{"_id": f"c{n}", "seq": rng.randint(1, 60)} for n in range(12)])
    db.canteen.insert_many([{"_id": n, "meals": rng.randint(1, 90), "credit": rng.randint(0, 50)} for n in range(30)])
    _fill(db, rng, "classes rooms subjects marks parents", lambda r, n: {"year": r.randint(1, 12), "order": n})
    _fill(db, rng, "buses clubs events books notices", lambda r, n: {"copies": r.randint(1, 9), "num": n})


def school_live(db: Db, rng: random.Random) -> None:
    number = take(db, "identitycounters", {"model": "Pupil", "field": "no"}, "count")
    db.pupils.insert_one({"no": number, "year": rng.randint(1, 12)})
    loan = take(db, "idcounters", {"m": "Loan"}, "c")
    db.loans.insert_one({"loanNo": loan, "days": rng.randint(1, 28)})
    db.absences.update_one({"_id": f"c{rng.randrange(12)}"}, {"$inc": {"seq": 1}})
    db.canteen.update_one({"_id": rng.randrange(30)}, {"$inc": {"meals": 1, "credit": rng.choice([-4, 20])}})
    db.gate_log.insert_one({"gate": rng.randint(1, 4), "card": rng.randint(1, 500)})


def cms_seed(db: Db, rng: random.Random) -> None:
    db.pages.insert_many([{"_id": f"/p{n}", "hits": rng.randint(1, 999), "rev": 1, "menu": n} for n in range(30)])
    db.meta.insert_one({"_id": "autonumber", "values": {"asset": 33_000, "comment": 120_400, "rebuilds": 12}})
    db.locks.insert_many([{"_id": f"l{n}", "fence": rng.randint(1, 50)} for n in range(6)])
    db.queue.insert_one({"_id": "render", "length": 3, "done": 5_000})
    _fill(db, rng, "templates blocks sites locales redirects", lambda r, n: {"weight": n, "ttl": r.randint(1, 600)})
    _fill(db, rng, "forms mailings tags users media", lambda r, n: {"bytes": r.randint(1, 9_999), "counter": n})


def cms_live(db: Db, rng: random.Random) -> None:
    page = f"/p{rng.randrange(30)}"
    db.pages.update_one({"_id": page}, {"$inc": {"hits": 1}})
    comment = take(db, "meta", {"_id": "autonumber"}, "values.comment")
    db.comments.insert_one({"_id": comment, "page": page, "stars": rng.randint(1, 5)})
    if rng.random() < 0.5:
        asset = take(db, "meta", {"_id": "autonumber"}, "values.asset")
        db.assets.insert_one({"key": f"img-{asset}", "w": rng.randint(10, 4_000), "h": rng.randint(10, 4_000)})
        db.meta.update_one({"_id": "autonumber"}, {"$inc": {"values.rebuilds": 1}})
    rev = take(db, "pages", {"_id": page}, "rev")
    db.revisions.insert_one({"page": page, "rev": rev, "words": rng.randint(5, 900)})
    db.locks.update_one({"_id": f"l{rng.randrange(6)}"}, {"$inc": {"fence": 1}})
    db.queue.update_one({"_id": "render"}, {"$inc": {"length": rng.choice([-1, 1]), "done": 1}})


HELD_OUT = (
    Application("clinic", clinic_seed, clinic_live, frozenset({("facility", "mrn.last"), ("app_state", "accession")})),
    Application(
        "game", game_seed, game_live,
        frozenset({("world", "spawn.item"), ("world", "spawn.npc"), ("matchmaking", "match_no")}),
    ),
    Application(
        "freight", freight_seed, freight_live,
        frozenset({("hubs", "lastParcel"), ("prefixes", "number"), ("label_ranges", "upto")}),
    ),
    Application("school", school_seed, school_live, frozenset({("identitycounters", "count"), ("idcounters", "c")})),
    Application("cms", cms_seed, cms_live, frozenset({("meta", "values.asset"), ("meta", "values.comment")})),
)  # fmt: skip


# --- held out a second time, after the rules had been changed: a hotel, a ride service


def hotel_seed(db: Db, rng: random.Random) -> None:
    def sequence(name: str, last: int, by: int = 1, top: int = 999_999, cycle: bool = False) -> dict[str, Any]:
        return {"_id": name, "increment_by": by, "min_value": 1, "max_value": top, "cycle": cycle, "last_value": last}

    db.pms_sequence.insert_many(
        [sequence("reservation", 48_210), sequence("invoice", 70_005, 5), sequence("voucher", 7_712)]
    )
    db.key_cards.insert_one(sequence("card", 180, top=199, cycle=True))
    # Nobody takes a number from these two while they are watched.
    db.vouchers.insert_many([{"_id": n, "euro": rng.randint(10, 90)} for n in range(7_650, 7_713)])
    db.idcounters.insert_one({"_id": ObjectId(), "c": 5_120, "f": "no", "m": "Guest"})
    db.guests.insert_many([{"no": n, "stars": rng.randint(1, 5)} for n in range(5_050, 5_121)])
    db.guests.create_index("no")
    db.number_counters.insert_many([{"_id": "banquet", "value": 3_402}, {"_id": "waitlist", "value": 311}])
    db.banquets.insert_many([{"_id": n, "covers": rng.randint(10, 300)} for n in range(3_380, 3_403)])
    db.night_audit.insert_one({"_id": "state", "business_day": 20_261_122, "last_run": 411, "open_folios": 17})
    db.occupancy.insert_many([{"_id": f"2026-12-{n:02d}", "count": rng.randint(1, 60)} for n in range(1, 29)])
    db.housekeeping.insert_many([{"_id": f"room {n}", "seq": rng.randint(1, 400)} for n in range(100, 130)])
    db.statistics.insert_one({"_id": "hotel", "reservations": 48_210, "breakfasts": 90_311})
    _fill(db, rng, "rooms rates seasons packages agents", lambda r, n: {"floor": r.randint(1, 9), "next": n + 1})
    _fill(db, rng, "spa minibar events menus staff", lambda r, n: {"number": 100 + n, "value": r.uniform(1, 90)})


def hotel_live(db: Db, rng: random.Random) -> None:
    day = f"2026-12-{rng.randint(1, 28):02d}"
    db.occupancy.update_one({"_id": day}, {"$inc": {"count": 1}})
    number = take(db, "pms_sequence", {"_id": "reservation"}, "last_value")
    db.reservations.insert_one({"_id": number, "nights": rng.randint(1, 9), "guest": rng.randint(5_050, 5_120)})
    db.statistics.update_one({"_id": "hotel"}, {"$inc": {"reservations": 1, "breakfasts": rng.randint(0, 3)}})
    if rng.random() < 0.5:
        number = take(db, "pms_sequence", {"_id": "invoice"}, "last_value", 5)
        db.folios.insert_one({"invoiceNo": f"R{number:07d}", "total": rng.uniform(50, 900)})
    if rng.random() < 0.7:
        card = (db.key_cards.find_one({"_id": "card"}) or {})["last_value"]
        following = 1 if card >= 199 else card + 1
        db.key_cards.update_one({"_id": "card", "last_value": card}, {"$set": {"last_value": following}})
        db.issued_keys.insert_one({"card": following, "room": rng.randint(100, 129)})
    db.housekeeping.update_one({"_id": f"room {rng.randint(100, 129)}"}, {"$inc": {"seq": 1}})
    db.night_audit.update_one({"_id": "state"}, {"$inc": {"open_folios": rng.choice([-1, 1]), "last_run": 1}})
    db.door_log.insert_one({"room": rng.randint(100, 129), "ms": rng.randint(1, 900)})


def ride_seed(db: Db, rng: random.Random) -> None:
    db.city_state.insert_many(
        [{"_id": ObjectId(), "city": c, "trip": {"n": 40_000 * n + 123}, "demand": 1.0, "open": 5}
         for n, c in enumerate(("ber", "ham", "muc"), 1)]
    )  # fmt: skip
    db.ledger_head.insert_one({"_id": uuid.uuid4().hex, "head": Int64(2_200_004), "hash": uuid.uuid4().hex})
    db.receipts_no.insert_one({"_id": 1, "y": 2026, "running": "R-26-018440"})
    db.drivers.insert_many(
        [{"_id": n, "trips": rng.randint(10, 900), "beat": rng.randint(1_000, 9_000), "score": 4.5} for n in range(25)]
    )
    db.cells.insert_many(
        [{"_id": f"u33{n}", "cars": rng.randint(0, 9), "requests": rng.randint(1, 99)} for n in range(40)]
    )
    db.experiments.insert_many([{"_id": f"e{n}", "rollout": 5 * n, "exposures": rng.randint(1, 999)} for n in range(8)])
    db.schema_version.insert_one({"_id": "current", "version": 88})
    _fill(db, rng, "vehicles zones tariffs promos ratings", lambda r, n: {"seats": r.randint(1, 7), "seq": n})
    _fill(db, rng, "tickets shifts airports banks devices", lambda r, n: {"count": r.randint(1, 60), "level": n})


def ride_live(db: Db, rng: random.Random) -> None:
    city, driver = rng.choice(["ber", "ham", "muc"]), rng.randrange(25)
    # An update by a pipeline, and a read before a compare-and-set.
    row = db.city_state.find_one_and_update(
        {"city": city}, [{"$set": {"trip.n": {"$add": ["$trip.n", 1]}}}], return_document=True
    )
    db.trips.insert_one({"city": city, "tripNo": row["trip"]["n"], "driver": driver, "km": rng.uniform(1, 30)})
    db.drivers.update_one({"_id": driver}, {"$inc": {"trips": 1, "beat": 1}})
    if rng.random() < 0.6:
        head = db.ledger_head.find_one({}) or {}
        db.ledger_head.update_one({"head": head["head"]}, {"$set": {"head": Int64(head["head"] + 1)}})
        db.bookings.insert_one(
            {"_id": Int64(head["head"] + 1), "cents": rng.randint(100, 9_000), "side": rng.choice([0, 1])}
        )
    if rng.random() < 0.4:
        row = db.receipts_no.find_one({"_id": 1}) or {}
        running = f"R-26-{int(row['running'][5:]) + 1:06d}"
        db.receipts_no.update_one({"_id": 1}, {"$set": {"running": running}})
        db.receipts.insert_one({"no": running, "tax": rng.choice([7, 19])})
    db.city_state.update_one(
        {"city": city}, {"$set": {"demand": rng.uniform(1, 3)}, "$inc": {"open": rng.choice([-1, 1])}}
    )
    db.cells.update_one({"_id": f"u33{rng.randrange(40)}"}, {"$inc": {"cars": rng.choice([-1, 1]), "requests": 1}})
    db.experiments.update_one({"_id": f"e{rng.randrange(8)}"}, {"$inc": {"exposures": 1}})
    db.positions.insert_one({"driver": driver, "lat": rng.uniform(48, 54), "speed": rng.randint(0, 60)})


HELD_OUT_AGAIN = (
    Application(
        "hotel", hotel_seed, hotel_live,
        frozenset(
            {("pms_sequence", "last_value"), ("key_cards", "last_value"), ("idcounters", "c"),
             ("number_counters", "value")}
        ),
    ),
    Application(
        "ride", ride_seed, ride_live,
        frozenset({("city_state", "trip.n"), ("ledger_head", "head"), ("receipts_no", "running")}),
    ),
)  # fmt: skip


# --- unusual ways to use a number, and totals that only look like one


def depot_seed(db: Db, rng: random.Random) -> None:
    db.consignment.insert_one({"_id": "c", "n": 700_100})
    db.seals.insert_one({"_id": "s", "n": 51_000})
    db.clockish.insert_one({"_id": "k", "n": int(_now().timestamp()) + 500})
    db.ledger.insert_many(
        [{"_id": "head", "last": 88_000}, *({"_id": n, "sum": n % 90} for n in range(87_900, 88_001))]
    )
    db.bays.insert_one({"_id": "bay", "at": 1})
    db.fw_id_assigner.insert_one({"_id": ObjectId(), "next_fw_id": 3_001, "next_launch_id": 901})
    db.consignments.create_index("number", unique=True)
    db.people.insert_many([{"_id": ObjectId(), "logins": rng.randint(100, 90_000)} for _ in range(30)])
    db.articles.insert_many([{"_id": f"a{n}", "sold": rng.randint(100, 90_000)} for n in range(20)])
    db.consumers.insert_one({"_id": "stock", "offset": 4_400_123})


_WAITING: list[tuple[float, int]] = []


def depot_live(db: Db, rng: random.Random) -> None:
    # The number is used when the goods have been weighed, seconds later.
    now = _now().timestamp()
    _WAITING.append((now + 4, take(db, "consignment", {"_id": "c"}, "n")))
    while _WAITING and _WAITING[0][0] <= now:
        db.consignments.insert_one({"number": _WAITING.pop(0)[1], "kg": rng.randint(1, 90)})
    if rng.random() < 0.6:
        first, second = (take(db, "seals", {"_id": "s"}, "n") for _ in range(2))
        db.containers.insert_one({"front": first, "back": second, "kg": rng.randint(1, 90)})
    if rng.random() < 0.3:
        db.notes.insert_one({"_id": take(db, "clockish", {"_id": "k"}, "n"), "words": rng.randint(1, 90)})
    if rng.random() < 0.6:
        db.ledger.insert_one({"_id": take(db, "ledger", {"_id": "head"}, "last"), "sum": rng.randint(1, 90)})
    bay = (db.bays.find_one({"_id": "bay"}) or {})["at"] % 8 + 1
    db.bays.update_one({"_id": "bay"}, {"$set": {"at": bay}})
    db.arrivals.insert_one({"bay": bay, "wheels": rng.choice([4, 6, 8])})
    firework = take(db, "fw_id_assigner", {}, "next_fw_id", before=True)
    db.fireworks.insert_one({"fw_id": firework, "state": "READY"})
    if rng.random() < 0.4:
        launch = take(db, "fw_id_assigner", {}, "next_launch_id", before=True)
        db.launches.insert_one({"launch_id": launch, "fw_id": firework})
    person = rng.choice(list(db.people.find({}, {"_id": 1})))["_id"]
    logins = take(db, "people", {"_id": person}, "logins")
    db.login_log.insert_one({"person": person, "logins": logins, "ms": rng.randint(1, 900)})
    article = f"a{rng.randrange(20)}"
    sold = take(db, "articles", {"_id": article}, "sold", rng.randint(1, 3))
    db.sales.insert_one({"article": article, "sold": sold, "cents": rng.randint(100, 9_000)})
    offset = take(db, "consumers", {"_id": "stock"}, "offset")
    db.stock_events.insert_one({"offset": offset, "delta": rng.randint(-5, 5)})


UNUSUAL = (
    Application(
        "depot", depot_seed, depot_live,
        frozenset(
            {("consignment", "n"), ("seals", "n"), ("clockish", "n"), ("ledger", "last"), ("bays", "at"),
             ("fw_id_assigner", "next_fw_id"), ("fw_id_assigner", "next_launch_id")}
        ),
    ),
)  # fmt: skip


def run_application(uri: str, application: Application, rounds: int, pause: Callable[[], None], seed: int = 1) -> None:
    """Seed one application and let its users act for some rounds, with a pause after each."""
    rng = random.Random(f"{seed} {application.name}")
    with MongoClient[dict[str, Any]](uri) as client:
        db = client[application.name]
        application.seed(db, rng)
        for _ in range(rounds):
            application.live(db, rng)
            pause()
