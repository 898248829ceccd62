"""The applications of a recording: real libraries at their usual work, each in a process with an account of its own."""

from __future__ import annotations

import asyncio
import io
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
from pymongo import MongoClient

Client = MongoClient[dict[str, Any]]
Doing = Callable[[str, threading.Event], None]


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

    while not ended.wait(0.05):
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


def fireworks_jobs(uri: str, ended: threading.Event) -> None:
    """FireWorks: workflows that are queued, launched, archived and deleted."""
    from fireworks import Firework, FWorker, LaunchPad, ScriptTask, Workflow
    from fireworks.core.rocket_launcher import launch_rocket

    os.chdir(tempfile.mkdtemp(prefix="fireworks-"))
    pad = LaunchPad(host=uri, name="fireworks", uri_mode=True, strm_lvl="CRITICAL")
    pad.reset("", require_password=False, max_reset_wo_password=10**9)
    for n in range(10**9):
        if ended.wait(0.3):
            return
        jobs = [Firework(ScriptTask.from_str("true"), name=f"job {n}.{part}") for part in range(2)]
        pad.add_wf(Workflow(jobs, {jobs[0]: [jobs[1]]}))
        for _ in jobs:
            launch_rocket(pad, FWorker(), strm_lvl="CRITICAL")
        if n % 4 == 3:
            pad.delete_wf(jobs[0].fw_id)
        if n % 150 == 149:
            pad.detect_lostruns(expiration_secs=60, fizzle=True)


def kombu_queue(uri: str, ended: threading.Event) -> None:
    """kombu over MongoDB: messages are put and taken by findAndModify; the queue is purged now and then."""
    from kombu.connection import Connection

    with Connection(uri.replace("/?", "/broker?") + "&appName=kombu") as connection:  # type: ignore[no-untyped-call]
        queue = connection.SimpleQueue("mails")
        for n in range(10**9):
            if ended.wait(0.04):
                return
            for part in range(3):
                queue.put({"n": n, "part": part})
            for _ in range(random.randint(1, 4)):
                with suppress(queue.Empty):
                    queue.get(block=False).ack()
            if n % 900 == 899:
                queue.clear()


def maggma_etl(uri: str, ended: threading.Event) -> None:
    """maggma: builders that copy what is new to a target, and remove orphans there."""
    from maggma.builders import CopyBuilder
    from maggma.stores import MongoStore

    client: Client = MongoClient(uri, appname="maggma-source")
    for n in range(10**9):
        now = datetime.now(UTC)
        rows = [{"key": f"{n}.{part}", "value": part, "last_updated": now} for part in range(60)]
        client.warehouse.readings.insert_many(rows)
        if n >= 8:
            client.warehouse.readings.delete_many({"key": {"$regex": f"^{n - 8}[.]"}})
        source, target = (
            MongoStore(
                "warehouse", name, uri=uri, key="key", last_updated_field="last_updated", last_updated_type="datetime"
            )
            for name in ("readings", "summary")
        )
        for store in (source, target):
            store.connect()
        CopyBuilder(source, target, delete_orphans=True).run()
        if ended.wait(15):
            return


def aiogram_states(uri: str, ended: threading.Event) -> None:
    """aiogram: the states of conversations, kept and removed by a chat's bot."""
    from aiogram.fsm.storage.base import StorageKey
    from aiogram.fsm.storage.pymongo import PyMongoStorage

    async def work() -> None:
        storage = PyMongoStorage.from_url(uri, {"appname": "aiogram"})
        for n in range(10**9):
            if ended.is_set():
                return
            key = StorageKey(bot_id=1, chat_id=n % 700, user_id=n % 700)
            for step in ("name", "address", "payment"):
                await storage.set_state(key, step)
                await storage.update_data(key, {step: "x" * 20})
            if n % 3:
                await storage.set_state(key, None)
                await storage.set_data(key, {})
            await asyncio.sleep(0.03)

    asyncio.run(work())


def ming_articles(uri: str, ended: threading.Event) -> None:
    """Ming: the articles of a site, their comments and revisions, through its unit of work."""
    from ming import create_datastore, schema
    from ming.odm import FieldProperty, MappedClass, ThreadLocalODMSession

    unit = ThreadLocalODMSession(bind=create_datastore(uri.replace("/?", "/site?") + "&appName=ming"))

    class Article(MappedClass):  # type: ignore[misc]
        class __mongometa__:
            session, name = unit, "articles"

        _id = FieldProperty(schema.ObjectId)
        n = FieldProperty(int)
        state = FieldProperty(str, if_missing="draft")

    for n in range(10**9):
        if ended.wait(0.06):
            return
        Article(n=n)
        unit.flush_all()
        for one in Article.query.find({"state": "draft"}).limit(2).all():
            one.state = "public"
        unit.flush_all()
        Article.query.remove({"n": n - 4_000})
        if n % 200 == 199:
            Article.query.update({"n": {"$lt": n - 150}, "state": "public"}, {"$set": {"state": "old"}}, multi=True)
        unit.close_all()


_MIGRATION = """
from mongodb_migrations.base import BaseMigration
class Migration(BaseMigration):
    def upgrade(self):
        self.db.accounts.update_many({}, {"$set": {"plan": "basic"}})
    def downgrade(self):
        self.db.accounts.update_many({}, {"$unset": {"plan": 1}})
"""


def staging_migrations(uri: str, ended: threading.Event) -> None:
    """mongodb-migrations: the migration of a staging environment, up and down with each deployment."""
    from mongodb_migrations.cli import MigrationManager
    from mongodb_migrations.config import Configuration, Execution

    folder = Path(tempfile.mkdtemp(prefix="migrations-"))
    (folder / "20260101000000_plan.py").write_text(_MIGRATION)
    url = uri.replace("/?", "/staging?") + "&appName=migrations"
    client: Client = MongoClient(uri)
    client.staging.accounts.insert_many([{"n": n} for n in range(150)])
    while True:
        for way in (Execution.MIGRATE, Execution.DOWNGRADE):
            given = {"mongo_url": url, "mongo_migrations_path": str(folder), "execution": way}
            with redirect_stdout(io.StringIO()):
                MigrationManager(Configuration({**given, "mongo_username": None})).run()
            if ended.wait(20):
                return


def storefront(uri: str, ended: threading.Event) -> None:
    """A shop over the driver itself: carts come and go, customers and stock change singly, invoices are added."""
    client: Client = MongoClient(uri, appname="storefront")
    shop = client.shop
    for n in range(10**9):
        if ended.wait(0.02):
            return
        shop.carts.insert_one({"_id": n, "lines": [n % 7]})
        shop.customers.update_one({"_id": random.randrange(5_000)}, {"$set": {"seen": n}})
        if n % 2:
            shop.invoices.insert_one({"n": n, "paid": False, "tenant": n % 9})
            shop.carts.delete_one({"_id": n - random.randint(1, 60)})
        shop.stock.update_one({"_id": n % 400}, {"$inc": {"left": -1}})


APPLICATIONS: tuple[Doing, ...] = (
    odmantic_orders, requests_cache, flask_session, eve_api, sacred_runs, archiver, fireworks_jobs, kombu_queue,
    maggma_etl, aiogram_states, ming_articles, staging_migrations, storefront,
)  # fmt: skip
