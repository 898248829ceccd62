"""Make a recording for ``bench.evidence``: real libraries at work on a server, and labelled acts of people among them.

``python -m bench._record DIR [--seconds N]`` starts a server that logs every statement and writes ``oplog.bson.gz``,
``mongod.log.gz`` and ``acts.jsonl`` to DIR. It needs the libraries, in an environment of its own:
``pip install pymongo motor odmantic requests-cache Flask-Session eve sacred``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bson
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tallyglass.demo.server import ReplicaSet

PASSWORD = "recording"
PEOPLE = ("ann", "bea", "cid", "dora")
PEOPLES_APPLICATIONS = ("mongosh 2.5.6", "nightly-fix", "migrate 1.2", "mongosh 2.5.6")
ROLES = ["readWriteAnyDatabase", "dbAdminAnyDatabase"]
PAUSE = (0.5, 3.0)
"""Seconds between two acts, at least and at most."""

HELD_BACK = 3
"""Every so many-th act, by the hash of its name, is held back from tuning."""

Client = MongoClient[dict[str, Any]]
Doing = Callable[[str, threading.Event], None]


# Applications, each with an account of its own


def odmantic_orders(uri: str, ended: threading.Event) -> None:
    """odmantic over Motor: saves, updates and deletes models one at a time."""
    from motor.motor_asyncio import AsyncIOMotorClient
    from odmantic import AIOEngine, Model

    class Order(Model):  # type: ignore[misc]
        number: int
        state: str = "new"

    async def work() -> None:
        engine = AIOEngine(AsyncIOMotorClient(uri, appname="odmantic-orders"), database="orders")
        for number in range(10**9):
            if ended.is_set():
                return
            await engine.save_all([Order(number=number * 10 + n) for n in range(5)])
            for one in await engine.find(Order, Order.state == "new", limit=2):
                one.state = "paid"
                await engine.save(one)
            await engine.remove(Order, Order.number < number * 10 - 3_000)
            await asyncio.sleep(0.05)

    asyncio.run(work())


def requests_cache(uri: str, ended: threading.Event) -> None:
    """requests-cache: its storage, with a TTL index, single and mass removals."""
    from requests_cache.backends.mongodb import MongoDict

    client: Client = MongoClient(uri, appname="requests-cache")
    responses = MongoDict("http_cache", collection_name="responses", connection=client, serializer="pickle")
    responses.set_ttl(60)
    for n in range(10**9):
        if ended.wait(0.02):
            return
        responses[f"k{n}"] = {"body": "x" * 50}
        if n % 5 == 0:
            with suppress(KeyError):
                del responses[f"k{n - 50}"]
        if n % 400 == 399:
            responses.bulk_delete([f"k{m}" for m in range(n - 300, n - 200)])


def flask_session(uri: str, ended: threading.Event) -> None:
    """Flask-Session: one upsert a request, deletes at the end of a session."""
    from flask import Flask, session
    from flask_session.mongodb import MongoDBSessionInterface

    app = Flask("shop")
    app.session_interface = MongoDBSessionInterface(app, client=MongoClient(uri, appname="flask-session"), db="web")

    @app.route("/<step>")  # type: ignore[untyped-decorator]
    def visit(step: str) -> str:
        if step == "leave":
            session.clear()
        else:
            session["n"] = session.get("n", 0) + 1
        return "ok"

    while not ended.is_set():
        with app.test_client() as browser:
            for _ in range(random.randint(2, 6)):
                browser.get("/in")
            if random.random() < 0.5:
                browser.get("/leave")


def eve_api(uri: str, ended: threading.Event) -> None:
    """Eve: a REST service that posts, patches and deletes, now and then a whole resource."""
    from eve import Eve

    settings = {
        "MONGO_URI": uri.replace("/?", "/rest?") + "&appName=eve-api", "RESOURCE_METHODS": ["GET", "POST", "DELETE"],
        "ITEM_METHODS": ["GET", "PATCH", "DELETE"], "IF_MATCH": False,
        "DOMAIN": {"people": {"schema": {"n": {"type": "integer"}}}, "drafts": {"schema": {"n": {"type": "integer"}}}},
    }  # fmt: skip
    client = Eve(settings=settings).test_client()
    made: list[str] = []
    for n in range(10**9):
        if ended.wait(0.03):
            return
        for resource in ("people", "drafts"):
            answer = client.post(f"/{resource}", json={"n": n})
            if resource == "people" and answer.status_code == 201:
                made.append(answer.json["_id"])
        if len(made) > 20:
            client.patch(f"/people/{random.choice(made)}", json={"n": -n})
            client.delete(f"/people/{made.pop(0)}")
        if n % 300 == 299:
            client.delete("/drafts")


def sacred_runs(uri: str, ended: threading.Event) -> None:
    """sacred: the heartbeat and metrics of experiments, whole documents replaced."""
    from sacred import Experiment
    from sacred.observers import MongoObserver

    client: Client = MongoClient(uri, appname="sacred")
    while not ended.is_set():
        experiment = Experiment("fit", interactive=True, save_git_info=False)
        experiment.observers.append(MongoObserver(client=client, db_name="sacred"))

        @experiment.main  # type: ignore[untyped-decorator]
        def fit(_run: Any) -> int:
            for step in range(20):
                _run.log_scalar("loss", 1 / (step + 1), step)
                time.sleep(0.05)
            return 1

        experiment.run(options={"--loglevel": "CRITICAL"})


def archiver(uri: str, ended: threading.Event) -> None:
    """A job of the usual kind: moves old rows to an archive, without sessions."""
    client: Client = MongoClient(uri, appname="archiver", retryWrites=False)
    while not ended.wait(4):
        old = list(client.orders.order.find({"state": "paid"}, limit=40))
        if old:
            client.orders.archive.insert_many([one | {"_id": bson.ObjectId()} for one in old])
            client.orders.order.delete_many({"_id": {"$in": [one["_id"] for one in old]}})
        client.orders.archive.update_many({"seen": None}, {"$set": {"seen": time.time()}})


APPLICATIONS: tuple[Doing, ...] = (
    odmantic_orders, requests_cache, flask_session, eve_api, sacred_runs, archiver,
)  # fmt: skip

# Acts of people: the namespace, the filter and how to do it


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of act: the namespace and op of its entries, the filter that finds its documents, and how it is done."""

    name: str
    ns: str
    op: str
    query: dict[str, Any]
    do: Callable[[Any, dict[str, Any]], Any]


def _mark(collection: Any, query: dict[str, Any]) -> list[Any]:
    return [collection.update_many(query, {"$set": {"fixed": 1, "at": time.time()}})]


def _few(size: int) -> dict[str, Any]:
    return {"$limit": size}


KINDS = (
    *(
        Kind(f"deleteMany {size} of {ns}", ns, "d", _few(size), lambda c, q: [c.delete_many(q)])
        for ns in ("orders.order", "rest.people", "http_cache.responses", "orders.archive")
        for size in (3, 15, 60)
    ),
    *(
        Kind(f"updateMany {size} of {ns}", ns, "u", _few(size), _mark)
        for ns in ("orders.order", "rest.drafts", "orders.archive")
        for size in (4, 40)
    ),
    Kind("pipeline of rest.people", "rest.people", "u", _few(12),
         lambda c, q: [c.update_many(q, [{"$set": {"copy": time.time()}}])]),
    Kind("loop of deleteOne, orders", "orders.order", "d", _few(10),
         lambda c, q: [c.delete_one({"_id": one}) for one in q["_id"]["$in"]]),
    Kind("deleteMany all drafts", "rest.drafts", "d", {}, lambda c, q: [c.delete_many({})]),
    Kind("drop", "scratch.import", "c", {}, lambda c, q: c.drop()),
    Kind("createIndexes", "orders.archive", "c", {}, lambda c, q: c.create_index("seen", name=f"s{time.time_ns()}")),
)  # fmt: skip
_COMMANDS = {"drop": "drop", "createIndexes": "createIndexes"}


def act(kind: Kind, person: Client, admin: Client) -> list[dict[str, Any]]:
    """Do one act; the entries that are its own, those of its documents, or none where that is not sure."""
    db, _, name = kind.ns.partition(".")
    collection = person[db][name]
    if kind.name == "drop":
        collection.insert_many([{"n": n} for n in range(20)])
    size = kind.query.get("$limit", 0)
    ids = [row["_id"] for row in admin[db][name].find({}, {"_id": 1}, limit=size)] if kind.op != "c" else []
    since = admin.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"]  # type: ignore[index]
    done = kind.do(collection, {"_id": {"$in": ids}} if size else kind.query)
    if kind.op == "c":
        names = [f"o.{one}" for one in (_COMMANDS[kind.name], "commitIndexBuild")]
        query: dict[str, Any] = {"op": "c", "ns": f"{db}.$cmd", "$or": [{one: name} for one in names]}
    else:
        key = "o._id" if kind.op == "d" else "o2._id"
        query = {"op": kind.op, "ns": kind.ns, **({key: {"$in": ids}} if size else {})}
    found = list(admin.local["oplog.rs"].find({"ts": {"$gt": since}, **query}))
    counted = [one.deleted_count if kind.op == "d" else one.modified_count for one in done] if kind.op != "c" else None
    # Another's write of the same documents at the same moment would be taken for the person's.
    return found if counted is None or sum(counted) == len(found) else []


def _acts(uri_of: Callable[[str], str], admin: Client, seconds: float, seed: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    people = {
        name: MongoClient[dict[str, Any]](uri_of(name), appname=application, retryWrites=False)
        for name, application in zip(PEOPLE, PEOPLES_APPLICATIONS, strict=True)
    }
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        time.sleep(rng.uniform(*PAUSE))
        kind, user = rng.choice(KINDS), rng.choice(PEOPLE)
        with suppress(PyMongoError):
            found = act(kind, people[user], admin)
            n = len(found)
            if not found:
                continue
            number += 1
            name = f"{number} {kind.name}"
            first, last = (f"{one['ts'].time}:{one['ts'].inc}" for one in (found[0], found[-1]))
            op = _COMMANDS.get(kind.name, kind.op)
            held = hashlib.sha256(name.encode()).digest()[0] % HELD_BACK == 0
            row = {
                "name": name,
                "ns": kind.ns,
                "op": op,
                "user": user,
                "app": people[user].options.pool_options.appname,
            }
            yield row | {"n": n, "first": first, "last": last, "sessions": 0, "expect": n, "held": held}
    for one in people.values():
        one.close()


def record(folder: Path, seconds: float, seed: int) -> None:
    """Run everything and write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as keys:
        key = Path(keys) / "key"
        key.touch(0o600)
        key.write_text("c2VjcmV0Zm9ydGhlbWVtYmVycw")
        with ReplicaSet(1, options=[f"--keyFile={key}", "--slowms=-1"]) as servers:
            _record(servers, folder, seconds, seed)


def _record(servers: ReplicaSet, folder: Path, seconds: float, seed: int) -> None:
    def uri_of(name: str) -> str:
        return servers.uri.replace("mongodb://", f"mongodb://{name}:{PASSWORD}@") + "&authSource=admin"

    with servers.client() as first:
        first.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
    admin: Client = MongoClient(uri_of("root"))
    for name in (*PEOPLE, *(one.__name__ for one in APPLICATIONS)):
        admin.admin.command("createUser", name, pwd=PASSWORD, roles=ROLES)
    words = [sys.executable, "-W", "ignore", "-m", "bench._record", "--application"]
    running = [subprocess.Popen([*words, one.__name__, uri_of(one.__name__)]) for one in APPLICATIONS]
    try:
        time.sleep(10)
        rows = list(_acts(uri_of, admin, seconds, seed))
        missing = [
            one.__name__ for one, process in zip(APPLICATIONS, running, strict=True) if process.poll() is not None
        ]
    finally:
        for process in running:
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
    parser.add_argument("--application", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.application:
        next(one for one in APPLICATIONS if one.__name__ == given.application)(given.folder, threading.Event())
    else:
        record(Path(given.folder), given.seconds, given.seed)


if __name__ == "__main__":
    main()
