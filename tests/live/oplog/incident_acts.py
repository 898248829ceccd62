"""What a person does that is an incident: one act of each kind, and the entries that it must have written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymongo import DeleteOne, MongoClient, ReplaceOne

from server_version import major
from tallyglass.oplog.incidents.commands import REMADE
from tallyglass.oplog.snapshot import Harm

DB = "oplog_incidents"
Client = MongoClient[Any]


@dataclass(frozen=True)
class Done:
    """What the test did: the entries that it must have written, found by their own marks."""

    kind: str
    ns: str
    first: dict[str, Any]
    last: dict[str, Any]
    documents: int | None
    harm: Harm
    point: dict[str, Any] | None = None
    note: str = ""


def entry(ns: str, **fields: Any) -> dict[str, Any]:
    """A query for entries of a namespace; ``__`` in a name means a dot."""
    return {"ns": ns, **{name.replace("__", "."): value for name, value in fields.items()}}


def command_entry(db: str, name: str, value: Any, **more: Any) -> dict[str, Any]:
    """A query for the entries of a command."""
    return entry(f"{db}.$cmd", op="c", **{f"o.{name}": value}, **more)


def drop(client: Client) -> Done:
    client[DB].gone.insert_many([{"_id": n} for n in range(7)])
    client[DB].gone.drop()
    mark = command_entry(DB, "drop", "gone")
    return Done("drop", f"{DB}.gone", mark, mark, 7, Harm.LOSS)


def drop_database(client: Client) -> Done:
    db = client[f"{DB}_whole"]
    for name in ("a", "b", "c"):
        db[name].insert_many([{"_id": n} for n in range(5)])
    client.drop_database(db)
    first = {"ns": f"{DB}_whole.$cmd", "o.drop": {"$exists": True}}
    return Done("dropDatabase", f"{DB}_whole", first, command_entry(f"{DB}_whole", "dropDatabase", 1), 15, Harm.LOSS)


def delete_many(client: Client) -> Done:
    client[DB].orders.insert_many([{"_id": n, "old": n % 3 == 0} for n in range(600)])
    client[DB].orders.delete_one({"_id": 1})
    client[DB].orders.delete_many({"old": True})
    mark = entry(f"{DB}.orders", op="d", lsid={"$exists": False})
    return Done("deleteMany", f"{DB}.orders", mark, mark, 200, Harm.LOSS)


def update_many(client: Client) -> Done:
    client[DB].stock.insert_many([{"_id": n, "n": 1} for n in range(300)])
    client[DB].stock.update_one({"_id": 5}, {"$set": {"n": 2}})
    client[DB].stock.update_many({}, {"$set": {"price": 0}})
    mark = entry(f"{DB}.stock", op="u", lsid={"$exists": False})
    return Done("updateMany", f"{DB}.stock", mark, mark, 300, Harm.CHANGE)


def out(client: Client) -> Done:
    client[DB].source.insert_many([{"_id": n} for n in range(9)])
    client[DB].report.insert_many([{"_id": n} for n in range(4)])
    client[DB].source.aggregate([{"$out": "report"}])
    mark = command_entry(DB, "to", f"{DB}.report")
    return Done("out", f"{DB}.report", mark, mark, 4, Harm.LOSS)


def map_reduce(client: Client) -> Done:
    client[DB].mapped.insert_many([{"_id": n} for n in range(3)])
    client[DB].reduced.insert_many([{"_id": n} for n in range(6)])
    client[DB].command(
        "mapReduce", "mapped", map="function() { emit(1, 1) }", reduce="function(a, b) { return 1 }",
        out={"replace": "reduced"},
    )  # fmt: skip
    mark = command_entry(DB, "to", f"{DB}.reduced")
    return Done("out", f"{DB}.reduced", mark, mark, 6, Harm.LOSS)


def rename(client: Client) -> Done:
    client[DB].early.insert_one({"_id": 1})
    client[DB].early.rename("late")
    mark = command_entry(DB, "renameCollection", f"{DB}.early")
    return Done("rename", f"{DB}.early", mark, mark, None, Harm.DEFINITION)


def rename_onto(client: Client) -> Done:
    client[DB].upper.insert_many([{"_id": n} for n in range(2)])
    client[DB].lower.insert_many([{"_id": n} for n in range(8)])
    client[DB].upper.rename("lower", dropTarget=True)
    mark = command_entry(DB, "renameCollection", f"{DB}.upper")
    return Done("rename", f"{DB}.upper", mark, mark, 8, Harm.LOSS)


def coll_mod(client: Client) -> Done:
    client[DB].ruled.insert_one({"_id": 1})
    client[DB].command("collMod", "ruled", validator={"a": {"$exists": True}})
    mark = command_entry(DB, "collMod", "ruled")
    return Done("collMod", f"{DB}.ruled", mark, mark, None, Harm.DEFINITION)


def ttl_index(client: Client) -> Done:
    client[DB].expiring.create_index("at", expireAfterSeconds=3_600)
    mark = command_entry(DB, "createIndexes", "expiring")
    return Done("createIndexes", f"{DB}.expiring", mark, mark, None, Harm.DEFINITION)


def role(client: Client) -> Done:
    """dropRole writes an applyOps with a session, which contains the delete; before 5.0 the delete alone."""
    client[DB].command("createRole", "incident", privileges=[], roles=[])
    client[DB].command("dropRole", "incident")
    deleted = {"ns": "admin.system.roles", "op": "d", "o._id": f"{DB}.incident"}
    mark = {"o.applyOps": {"$elemMatch": deleted}} if major() >= (5, 0) else deleted
    return Done("users", "admin.system.roles", mark, mark, 1, Harm.DEFINITION)


def delete_one_loop(client: Client) -> Done:
    client[DB].looped.insert_many([{"_id": n} for n in range(300)])
    with client.start_session() as session:
        for n in range(300):
            client[DB].looped.delete_one({"_id": n}, session=session)
    mark = entry(f"{DB}.looped", op="d")
    return Done("deletes", f"{DB}.looped", mark, mark, 300, Harm.LOSS)


def find_and_modify_loop(client: Client) -> Done:
    client[DB].modified.insert_many([{"_id": n} for n in range(100)])
    for n in range(100):
        client[DB].modified.find_one_and_replace({"_id": n}, {"n": n})
    mark = entry(f"{DB}.modified", op="u")
    return Done("updates", f"{DB}.modified", mark, mark, 100, Harm.CHANGE)


def replaces(client: Client) -> Done:
    client[DB].replaced.insert_many([{"_id": n} for n in range(800)])
    for n in range(800):
        client[DB].replaced.replace_one({"_id": n}, {"n": n})
    mark = entry(f"{DB}.replaced", op="u")
    return Done("updates", f"{DB}.replaced", mark, mark, 800, Harm.CHANGE)


def merge(client: Client) -> Done:
    """Nothing tells it from an updateMany."""
    client[DB].merged.insert_many([{"_id": n} for n in range(60)])
    client[DB].merged.aggregate([{"$set": {"n": 1}}, {"$merge": "merged"}])
    mark = entry(f"{DB}.merged", op="u")
    return Done("updateMany", f"{DB}.merged", mark, mark, 60, Harm.CHANGE)


def remake(client: Client) -> Done:
    client[DB].remade.insert_many([{"_id": n} for n in range(3)])
    client[DB].remade.drop()
    client[DB].create_collection("remade")
    mark = command_entry(DB, "drop", "remade")
    return Done("drop", f"{DB}.remade", mark, mark, 3, Harm.LOSS, note=REMADE)


def loops_of_two_sessions(client: Client) -> tuple[Done, Done]:
    """Two clients delete in one collection at once, one document each in turn."""
    things = client[DB].turns
    things.insert_many([{"_id": n} for n in range(240)])
    with client.start_session() as left, client.start_session() as right:
        for n in range(120):
            things.delete_one({"_id": n}, session=left)
            things.delete_one({"_id": 120 + n}, session=right)
    marks = [entry(f"{DB}.turns", op="d", o___id=ids) for ids in ({"$lt": 120}, {"$gte": 120})]
    one, other = (Done("deletes", f"{DB}.turns", mark, mark, 120, Harm.LOSS) for mark in marks)
    return one, other


def updates_of_two_fields(client: Client) -> tuple[Done, Done]:
    """Two statements without a session, less than three seconds apart."""
    things = client[DB].fields
    things.insert_many([{"_id": n} for n in range(50)])
    things.update_many({}, {"$set": {"price": 1}})
    time.sleep(0.2)
    things.update_many({}, {"$set": {"name": "x"}})
    added = "o__diff__i" if major() >= (5, 0) else "o__$set"
    marks = [entry(f"{DB}.fields", op="u", **{f"{added}__{name}": {"$exists": True}}) for name in ("price", "name")]
    one, other = (Done("updateMany", f"{DB}.fields", mark, mark, 50, Harm.CHANGE) for mark in marks)
    return one, other


def bulk_write(client: Client) -> Done:
    client[DB].bulk.insert_many([{"_id": n} for n in range(2_000)])
    client[DB].bulk.bulk_write([DeleteOne({"_id": n}) for n in range(2_000)])
    mark = entry(f"{DB}.bulk", op="d")
    return Done("batch", f"{DB}.bulk", mark, mark, 2_000, Harm.LOSS)


def upserts(client: Client) -> Done:
    client[DB].imported.insert_many([{"_id": n} for n in range(500)])
    client[DB].imported.bulk_write([ReplaceOne({"_id": n}, {"n": n}, upsert=True) for n in range(800)])
    mark = entry(f"{DB}.imported", op="u")
    return Done("batch", f"{DB}.imported", mark, mark, 500, Harm.CHANGE)


def drop_indexes(client: Client) -> Done:
    client[DB].indexed.create_index("a")
    client[DB].indexed.drop_index("a_1")
    mark = command_entry(DB, "dropIndexes", "indexed")
    return Done("dropIndexes", f"{DB}.indexed", mark, mark, None, Harm.DEFINITION)


def transaction(client: Client) -> Done:
    """Entries of 16 MB at most: what it did took effect with the last of them."""
    client[DB].large.insert_one({"_id": "before"})
    with client.start_session() as session, session.start_transaction():
        for n in range(3):
            client[DB].large.insert_one({"_id": n, "pad": "x" * 7_000_000}, session=session)
        client[DB].large.insert_many([{"_id": 100 + n} for n in range(120)], session=session)
        client[DB].large.update_one({"_id": "before"}, {"$set": {"after": True}}, session=session)
    inner = {"o.applyOps": {"$elemMatch": {"ns": f"{DB}.large"}}}
    last = inner | {"o.count": {"$exists": True}}
    return Done("transaction", f"{DB}.large", inner, last, 124, Harm.CHANGE, point=last)


def transaction_of_deletes(client: Client) -> Done:
    client[DB].small.insert_many([{"_id": n} for n in range(60)])
    with client.start_session() as session, session.start_transaction():
        client[DB].small.delete_many({}, session=session)
    mark = {"o.applyOps": {"$elemMatch": {"ns": f"{DB}.small"}}}
    return Done("transaction", f"{DB}.small", mark, mark, 60, Harm.LOSS)


def convert_to_capped(client: Client) -> Done:
    client[DB].capped.insert_many([{"_id": n} for n in range(5)])
    client[DB].command("convertToCapped", "capped", size=100_000)
    mark = command_entry(DB, "to", f"{DB}.capped")
    return Done("convertToCapped", f"{DB}.capped", mark, mark, 5, Harm.LOSS)


def user(client: Client) -> Done:
    client[DB].command("createUser", "incident", pwd="x", roles=[])
    client[DB].command("dropUser", "incident")
    mark = entry("admin.system.users", op="d", o___id=f"{DB}.incident")
    return Done("users", "admin.system.users", mark, mark, 1, Harm.DEFINITION)


def set_fcv(client: Client) -> Done:
    now, former = ".".join(map(str, major())), {(4, 4): "4.2", (5, 0): "4.4", (6, 0): "5.0", (7, 0): "6.0"}[major()]
    for version in (former, now):
        client.admin.command("setFeatureCompatibilityVersion", version)
    doc = entry("admin.system.version", op="u", o2___id="featureCompatibilityVersion")
    first = doc | {"o.targetVersion": now}
    return Done("setFCV", "admin.system.version", first, doc | {"o.version": now}, None, Harm.DEFINITION)


ACTS: list[Callable[[Client], Done]] = [
    drop, drop_database, delete_many, update_many, out, map_reduce, rename, rename_onto, coll_mod, drop_indexes,
    transaction, transaction_of_deletes, convert_to_capped, user, ttl_index, role, delete_one_loop,
    find_and_modify_loop, bulk_write, upserts, replaces, merge, remake,
]  # fmt: skip
PAIRS: list[Callable[[Client], tuple[Done, Done]]] = [loops_of_two_sessions, updates_of_two_fields]
