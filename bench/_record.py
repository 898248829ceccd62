"""Make a recording: real libraries at work on a server, and labelled acts of people among them.

``python -m bench._record DIR [--seconds N]`` starts a server that logs every statement and writes ``oplog.bson.gz``,
``mongod.log.gz`` and ``acts.jsonl`` to DIR: many similar acts, for ``bench.evidence``. With ``--rare`` each kind of act
is done once, with longer pauses, for ``bench.incidents``. It needs the libraries, in an environment of its own:
``pip install 'pymongo>=4.13' motor odmantic requests-cache Flask-Session eve sacred fireworks kombu maggma aiogram Ming
mongodb-migrations``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import DeleteOne, MongoClient
from pymongo.errors import PyMongoError

from bench._record_apps import APPLICATIONS, Client
from tallyglass.demo.server import ReplicaSet

PASSWORD = "recording"
PEOPLE = ("ann", "bea", "cid", "dora")
PEOPLES_APPLICATIONS = ("mongosh 2.5.6", "nightly-fix", "migrate 1.2", "mongosh 2.5.6")
ROLES = ["readWriteAnyDatabase", "dbAdminAnyDatabase"]
PAUSE, RARE_PAUSE = (0.5, 3.0), (11.0, 22.0)
"""Seconds between two acts, at least and at most."""

HELD_BACK = 3
"""Every so many-th act, by the hash of its name, is held back from tuning."""

# Acts of people: the namespace, the filter and how to do it


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of act: the namespace and op of its entries, the filter that finds its documents, and how it is done."""

    name: str
    ns: str
    op: str
    query: dict[str, Any]
    do: Callable[[Any, dict[str, Any]], Any]
    in_sessions: bool = False
    """Whether its client retries writes, as clients do by default: single writes then carry a session."""


def _mark(collection: Any, query: dict[str, Any]) -> list[Any]:
    return [collection.update_many(query, {"$set": {"fixed": 1, "at": time.time()}})]


def few(size: int) -> dict[str, Any]:
    """The filter of an act on so many documents: it is done on the first of the collection, by ``_id``."""
    return {"$limit": size}


KINDS = (
    *(
        Kind(f"deleteMany {size} of {ns}", ns, "d", few(size), lambda c, q: [c.delete_many(q)])
        for ns in ("orders.order", "rest.people", "http_cache.responses", "orders.archive")
        for size in (3, 15, 60)
    ),
    *(
        Kind(f"updateMany {size} of {ns}", ns, "u", few(size), _mark)
        for ns in ("orders.order", "rest.drafts", "orders.archive")
        for size in (4, 40)
    ),
    Kind("pipeline of rest.people", "rest.people", "u", few(12),
         lambda c, q: [c.update_many(q, [{"$set": {"copy": time.time()}}])]),
    Kind("loop of deleteOne, orders", "orders.order", "d", few(10),
         lambda c, q: [c.delete_one({"_id": one}) for one in q["_id"]["$in"]]),
    Kind("deleteMany all drafts", "rest.drafts", "d", {}, lambda c, q: [c.delete_many({})]),
    Kind("drop", "scratch.import", "c", {}, lambda c, q: c.drop()),
    Kind("createIndexes", "orders.archive", "c", {}, lambda c, q: c.create_index("seen", name=f"s{time.time_ns()}")),
)  # fmt: skip


def _ids(query: dict[str, Any]) -> list[Any]:
    return query["_id"]["$in"]  # type: ignore[no-any-return]


def each(name: str, *rest: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """A loop of single writes."""
    return lambda c, q: [getattr(c, name)({"_id": one}, *rest) for one in _ids(q)]


def pool(collection: Any, query: dict[str, Any]) -> Any:
    """Single deletes by eight threads."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda one: collection.delete_one({"_id": one}), _ids(query)))


def in_transaction(collection: Any, query: dict[str, Any]) -> Any:
    """Single deletes in one transaction."""
    with collection.database.client.start_session() as session, session.start_transaction():
        return [collection.delete_one({"_id": one}, session=session) for one in _ids(query)]


def delete(ns: str, size: int) -> Kind:
    """A deleteMany of so many documents."""
    return Kind(f"deleteMany {size} of {ns}", ns, "d", few(size), lambda c, q: [c.delete_many(q)])


def update(ns: str, size: int, change: Any = None) -> Kind:
    """An updateMany of so many documents."""
    to = change or {"$set": {"checked": True}}
    return Kind(f"updateMany {size} of {ns}", ns, "u", few(size), lambda c, q: [c.update_many(q, to)])


def command(op: str, ns: str, do: Callable[[Any, dict[str, Any]], Any], name: str = "") -> Kind:
    """A change of definitions, whose entry is the command ``op``."""
    return Kind(name or f"{op} {ns}", ns, op, {}, do)


_BULK = 350
RARE = (
    delete("shop.reviews", 2_400), delete("shop.reviews", 3), delete("shop.customers", 12),
    delete("shop.invoices", 300), delete("shop.carts", 30), delete("shop.pages", 25),
    update("shop.customers", 1_700), update("shop.customers", 40, {"$set": {"vip": 1}}),
    update("shop.invoices", 2_500, {"$set": {"paid": True}}), update("shop.stock", 400, {"$mul": {"left": 2}}),
    update("shop.tickets", 120, [{"$set": {"copy": "$n"}}]),
    Kind("deleteOne loop 60 of shop.addresses", "shop.addresses", "d", few(60), each("delete_one"), True),
    Kind("updateOne loop 200 of shop.tickets", "shop.tickets", "u", few(200),
         each("update_one", {"$set": {"state": "closed"}}), True),
    Kind("replaceOne loop 40 of shop.pages", "shop.pages", "u", few(40), each("replace_one", {"text": ""}), True),
    Kind("findOneAndDelete loop 30 of shop.tickets", "shop.tickets", "d", few(30), each("find_one_and_delete"), True),
    Kind("bulkWrite 300 of shop.addresses", "shop.addresses", "d", few(300),
         lambda c, q: [c.bulk_write([DeleteOne({"_id": one}) for one in _ids(q)])], True),
    Kind("pool 200 of shop.addresses", "shop.addresses", "d", few(200), pool, True),
    Kind("transaction 40 of shop.coupons", "shop.coupons", "applyOps", few(40), in_transaction, True),
    Kind("350 updateOnes on 2 of shop.coupons", "shop.coupons", "u", few(2),
         lambda c, q: [c.update_one({"_id": _ids(q)[n % 2]}, {"$set": {"n": -n}}) for n in range(_BULK)]),
    update("shop.coupons", 100, {"$set": {"ends": 1}}), delete("shop.coupons", 90),
    delete("orders.order", 400), update("orders.archive", 300, {"$set": {"seen": None}}),
    delete("http_cache.responses", 700), delete("flask_session.sessions", 200), delete("rest.people", 15),
    update("rest.people", 18, {"$set": {"n": 0}}), delete("fireworks.fireworks", 100),
    update("fireworks.launches", 60, {"$set": {"state": "LOST"}}), delete("broker.messages", 60),
    delete("warehouse.summary", 200), update("warehouse.readings", 300, {"$set": {"value": 0}}),
    delete("aiogram_fsm.states_and_data", 150), delete("site.articles", 800),
    update("site.articles", 1_000, [{"$set": {"title": "$n"}}]),
    update("staging.accounts", 150, {"$set": {"email": ""}}), delete("sacred.metrics", 2),
    command("dropIndexes", "shop.tickets", lambda c, q: c.drop_index("n_1")),
    command("createIndexes", "shop.pages", lambda c, q: c.create_index("at", expireAfterSeconds=10**6)),
    command("collMod", "shop.pages", lambda c, q: c.database.command("collMod", c.name, validationLevel="off")),
    command("renameCollection", "shop.pages", lambda c, q: c.rename("pages_old")),
    command("renameCollection", "shop.tickets",
             lambda c, q: list(c.aggregate([{"$match": {"n": 1}}, {"$out": c.name}])), "out over shop.tickets"),
    command("convertToCapped", "shop.addresses",
             lambda c, q: c.database.command("convertToCapped", c.name, size=100_000)),
    command("drop", "shop.coupons", lambda c, q: c.drop()),
    command("dropDatabase", "hr.people", lambda c, q: c.database.client.drop_database("hr")),
)  # fmt: skip
"""Each is done once, in random order but for the commands, which come last."""

STATIC = {
    "shop.customers": 5_000, "shop.invoices": 3_000, "shop.stock": 400, "shop.coupons": 800, "shop.reviews": 6_000,
    "shop.addresses": 2_000, "shop.tickets": 1_500, "shop.pages": 900, "hr.people": 400,
}  # fmt: skip
"""Collections with so many documents from the beginning."""


def _entries_of(kind: Kind, ids: Sequence[Any]) -> dict[str, Any]:
    """The entries of an act, as a query on the oplog."""
    db = kind.ns.partition(".")[0]
    if kind.op in ("d", "u"):
        key = "o._id" if kind.op == "d" else "o2._id"
        return {"op": kind.op, "ns": kind.ns, **({key: {"$in": list(ids)}} if ids else {})}
    if kind.op == "applyOps":
        return {"op": "c", "o.applyOps.ns": kind.ns}
    names = {"createIndexes": ("createIndexes", "commitIndexBuild"), "convertToCapped": ("renameCollection",)}
    fields = [{f"o.{one}": {"$exists": True}} for one in names.get(kind.op, (kind.op,))]
    return {"op": "c", "ns": f"{db}.$cmd", "$or": fields}


def act(kind: Kind, person: Client, admin: Client) -> dict[str, Any]:
    """Do one act: its first and last entry, how many, and whether these are certainly its own."""
    db, _, name = kind.ns.partition(".")
    collection = person[db][name]
    if kind.name == "drop":
        collection.insert_many([{"n": n} for n in range(20)])
    size = kind.query.get("$limit", 0)
    ids = (
        [row["_id"] for row in admin[db][name].find({}, {"_id": 1}, limit=size)]
        if kind.op in ("d", "u", "applyOps")
        else []
    )
    since = admin.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"]  # type: ignore[index]
    done = kind.do(collection, {"_id": {"$in": ids}} if size else kind.query)
    found = list(admin.local["oplog.rs"].find({"ts": {"$gt": since}, **_entries_of(kind, ids if size else [])}))
    if not found:
        return {}
    counted = len(found)
    if kind.op in ("d", "u") and done and hasattr(done[0], "acknowledged"):
        counted = sum(one.deleted_count if kind.op == "d" else one.modified_count for one in done)
    # Another's write of the same documents at the same moment would be taken for the person's.
    first, last = (f"{one['ts'].time}:{one['ts'].inc}" for one in (found[0], found[-1]))
    row = {
        "ns": kind.ns,
        "op": kind.op,
        "n": len(ids) if kind.op == "applyOps" else counted,
        "first": first,
        "last": last,
    }
    return {**row, "own": counted == len(found)}


def _acts(
    uri_of: Callable[[str], str], admin: Client, seconds: float, rng: random.Random, rare: Sequence[Kind]
) -> Iterator[dict[str, Any]]:
    people = {
        (name, retries): MongoClient[dict[str, Any]](uri_of(name), appname=application, retryWrites=retries)
        for name, application in zip(PEOPLE, PEOPLES_APPLICATIONS, strict=True)
        for retries in (False, True)
    }
    until, number = time.monotonic() + seconds, 0
    writes = [kind for kind in rare if kind.op in ("d", "u", "applyOps")]
    once = iter([*rng.sample(writes, len(writes)), *(kind for kind in rare if kind not in writes)])
    while time.monotonic() < until:
        time.sleep(rng.uniform(*(RARE_PAUSE if rare else PAUSE)))
        kind = next(once, None) if rare else rng.choice(KINDS)
        if kind is None:
            break
        user = rng.choice(PEOPLE)
        person = people[user, kind.in_sessions]
        with suppress(PyMongoError):
            found = act(kind, person, admin)
            if not found or not (rare or found["own"]):
                continue
            number += 1
            name = kind.name if rare else f"{number} {kind.name}"
            held = hashlib.sha256(name.encode()).digest()[0] % HELD_BACK == 0
            application = person.options.pool_options.appname
            sessions = int(kind.in_sessions) * (8 if kind.do is pool else 1)
            yield {"name": name, "user": user, "app": application, **found, "sessions": sessions, "expect": found["n"],
                   "held": held}  # fmt: skip
    for one in people.values():
        one.close()


def program_of(name: str) -> list[str]:
    """The command that runs one of the applications, without its URI."""
    return [sys.executable, "-W", "ignore", "-m", "bench._record", "--application", name]


PROGRAMS = {one.__name__: program_of(one.__name__) for one in APPLICATIONS}


def record(
    folder: Path, seconds: float, seed: int, rare: Sequence[Kind] = (), programs: Mapping[str, list[str]] = PROGRAMS
) -> None:
    """Run everything and write the three files. Each of ``rare`` is done once; without, those of :data:`KINDS` again
    and again. ``programs`` are the commands of the applications by name; the URI is added."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as keys:
        key = Path(keys) / "key"
        key.touch(0o600)
        key.write_text("c2VjcmV0Zm9ydGhlbWVtYmVycw")
        with ReplicaSet(1, options=[f"--keyFile={key}", "--slowms=-1"]) as servers:
            _record(servers, folder, seconds, random.Random(seed), rare, programs)


def _record(
    servers: ReplicaSet,
    folder: Path,
    seconds: float,
    rng: random.Random,
    rare: Sequence[Kind],
    programs: Mapping[str, list[str]],
) -> None:
    def uri_of(name: str) -> str:
        return servers.uri.replace("mongodb://", f"mongodb://{name}:{PASSWORD}@") + "&authSource=admin"

    with servers.client() as first:
        first.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
    admin: Client = MongoClient(uri_of("root"))
    for name in (*PEOPLE, *programs):
        admin.admin.command("createUser", name, pwd=PASSWORD, roles=ROLES)
    for ns, size in STATIC.items():
        db, _, collection = ns.partition(".")
        admin[db][collection].insert_many([{"_id": n, "n": n, "left": 5} for n in range(size)])
    admin.shop.tickets.create_index("n")
    running = {
        name: subprocess.Popen([*argv, uri_of(name)], stdout=subprocess.DEVNULL) for name, argv in programs.items()
    }
    try:
        time.sleep(90 if rare else 10)
        rows = list(_acts(uri_of, admin, seconds, rng, rare))
        time.sleep(60 if rare else 0)
        missing = [name for name, process in running.items() if process.poll() is not None]
    finally:
        for process in running.values():
            process.terminate()
            process.wait(30)
    with gzip.open(folder / "oplog.bson.gz", "wb") as file:
        for batch in admin.local["oplog.rs"].find_raw_batches({"op": {"$ne": "n"}}):
            file.write(batch)  # type: ignore[arg-type]
    admin.close()
    lines = servers.members[0].log.read_text("utf-8", "replace")
    (folder / "mongod.log.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "acts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print(f"{len(rows)} acts, {lines.count(chr(10)):,} lines; ended early: {', '.join(missing) or 'none'}")


def main() -> None:
    """Record, or run one of the applications."""
    parser = argparse.ArgumentParser(prog="python -m bench._record", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rare", action="store_true", help="each kind of act once")
    parser.add_argument("--application", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.application:
        next(one for one in APPLICATIONS if one.__name__ == given.application)(given.folder, threading.Event())
    else:
        record(Path(given.folder), given.seconds, given.seed, RARE if given.rare else ())


if __name__ == "__main__":
    main()
