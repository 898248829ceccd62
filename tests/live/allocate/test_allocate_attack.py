"""No id twice and no error but the library's own, while an administrator and the network do at random what they can.

Nothing that is done takes a counter back: a type, a name or a document is changed and changed back in single steps.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter as Tally
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from bson import Int64
from proxy import Proxy
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tallyglass.allocate import (
    AllocationError,
    Cached,
    Counter,
    CounterRewound,
    Counters,
    Deadlines,
    GaplessInsert,
    MaxPlusOne,
    NumberSpace,
    Pool,
    PoolLayout,
    ProxiedInsert,
    RandomIds,
)
from tallyglass.demo.server import ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.soak]

SECONDS = float(os.environ.get("ATTACK_SECONDS", "120"))
SEED = int(os.environ.get("ATTACK_SEED", "1"))
DEADLINES = Deadlines(total=4.0, attempt=1.5)
LAYOUT = PoolLayout(5, 200_000)
Document = dict[str, Any]
Take = Callable[[], list[int]]


def makers(db: Any) -> dict[str, Callable[[], Take]]:
    """Makes an allocator of each class: its calls return ids, of one space for each name."""

    def counter() -> Take:
        ids = Counter(db.counters, "orders", deadlines=DEADLINES)
        return lambda: list(ids.take_up_to(random.randint(1, 5)))

    def cached() -> Take:
        ids = Cached(Counter(db.counters, "cached", deadlines=DEADLINES), step=random.choice([1, 7, 50]), patience=5)
        return lambda: ids.take(random.randint(1, 20))

    def scope() -> Take:
        ids = Counters(db.scopes, deadlines=DEADLINES).of("a", "b", period="2026")
        return lambda: list(ids.take(random.randint(1, 5)))

    def pool() -> Take:
        ids = Pool(db.pool, layout=LAYOUT, deadlines=DEADLINES)
        return lambda: list(ids.take_up_to(random.randint(1, 5)))

    def gapless() -> Take:
        ids = GaplessInsert(db.numbers, db.bills, within=("tenant",), deadlines=DEADLINES)
        return lambda: [ids.insert({"tenant": "a"})]

    def largest() -> Take:
        ids = MaxPlusOne(db.low, "number", deadlines=DEADLINES)
        return lambda: [ids.insert({})]

    def random_ids() -> Take:
        ids = RandomIds(db.cards, "number", NumberSpace(0, 10**9), deadlines=DEADLINES)
        return lambda: [ids.insert({})]

    def proxied() -> Take:
        ids = ProxiedInsert(db.reserved, db.tickets, "number", deadlines=DEADLINES)

        def insert() -> list[int]:
            number = random.randrange(20_000)
            ids.insert({"number": number})
            return [number]

        return insert

    return {make.__name__: make for make in (counter, cached, scope, pool, gapless, largest, random_ids, proxied)}


NUMBERS = [("counters", "next"), ("pool", "COUNT"), ("numbers", "next"), ("scopes", "periods.2026")]
TYPES = [("$toString", "$toLong"), ("$toDouble", "$toLong"), ("$toDecimal", "$toLong"), ("$toInt", "$toLong")]
FAILURES: list[Document] = [
    *({"errorCode": code} for code in (6, 13, 50, 64, 79, 91, 112, 189, 262, 11600)),
    *({"writeConcernError": {"code": code, "errmsg": "late"}} for code in (64, 91, 11602)),
    {"closeConnection": True},
    {"blockConnection": True, "blockTimeMS": 2_000},
]
COMMANDS = ["findAndModify", "insert", "update", "find", "commitTransaction", "listIndexes", "delete", "hello"]


class Administrator:
    """What may happen to a server and to its documents; each act ends as it began."""

    def __init__(self, db: Any, proxy: Proxy, chance: random.Random) -> None:
        self.db, self.proxy, self.chance = db, proxy, chance
        self.acts = [
            *(self.retype, self.hide, self.delete, self.rename, self.view, self.validate, self.forward, self.fail),
            *(self.cut, self.reset, self.step_down, self.kill_sessions),
        ]

    def pause(self) -> None:
        time.sleep(self.chance.uniform(0.05, 0.8))

    def retype(self) -> None:
        collection, field = self.chance.choice(NUMBERS)
        there, back = self.chance.choice(TYPES)
        self.db[collection].update_many({}, [{"$set": {field: {there: f"${field}"}}}])
        self.pause()
        self.db[collection].update_many({}, [{"$set": {field: {back: f"${field}"}}}])

    def hide(self) -> None:
        """The number under another name, or in an array."""
        collection, field = self.chance.choice(NUMBERS[:2])
        if self.chance.random() < 0.5:
            self.db[collection].update_many({}, {"$rename": {field: "other"}})
            self.pause()
            self.db[collection].update_many({}, {"$rename": {"other": field}})
            return
        self.db[collection].update_many({}, [{"$set": {field: [f"${field}"]}}])
        self.pause()
        self.db[collection].update_many({}, [{"$set": {field: {"$arrayElemAt": [f"${field}", 0]}}}])

    def delete(self) -> None:
        name = self.chance.choice(["counters", "pool"])
        deleted = self.db[name].find_one_and_delete({})
        self.pause()
        if deleted:
            self.db[name].insert_one(deleted)

    def rename(self) -> None:
        name = self.chance.choice(["counters", "pool"])
        self.db[name].rename("away")
        self.pause()
        self.db.away.rename(name)

    def view(self) -> None:
        name = self.chance.choice(["counters", "pool"])
        self.db[name].rename("away")
        self.db.create_collection(name, viewOn="away", pipeline=[])
        self.pause()
        self.db[name].drop()
        self.db.away.rename(name)

    def validate(self) -> None:
        name = self.chance.choice(["counters", "pool", "bills", "numbers", "cards", "low", "reserved", "tickets"])
        self.db.command("collMod", name, validator={"never": True})
        self.pause()
        self.db.command("collMod", name, validator={})

    def forward(self) -> None:
        """Another writer takes ids; of the pool some up to the end of a document."""
        collection, field = self.chance.choice([*NUMBERS[:2], NUMBERS[3]])
        self.db[collection].update_many({field: {"$type": "long"}}, {"$inc": {field: Int64(3)}})

    def fail(self) -> None:
        how = self.chance.choice(FAILURES)
        commands = self.chance.sample(COMMANDS, self.chance.randint(1, 4))
        mode: Any = self.chance.choice([{"times": 3}, {"activationProbability": 0.3}])
        data = {"failCommands": commands, "appName": "attacked", **how}
        self.db.client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)
        self.pause()
        self.db.client.admin.command("configureFailPoint", "failCommand", mode="off")

    def cut(self) -> None:
        self.proxy.cut()
        self.pause()
        self.proxy.heal()

    def reset(self) -> None:
        for _ in range(self.chance.randint(1, 20)):
            self.proxy.reset()
            time.sleep(self.chance.uniform(0, 0.02))

    def step_down(self) -> None:
        with contextlib.suppress(PyMongoError):
            self.db.client.admin.command("replSetStepDown", 1, force=True)

    def kill_sessions(self) -> None:
        self.db.client.admin.command("killAllSessions", [])


class Caller(threading.Thread):
    """Takes ids of one kind until the end. ``wrong`` is what no caller may see."""

    def __init__(self, name: str, make: Callable[[], Take], end: float, chance: random.Random) -> None:
        super().__init__(name=name)
        self.make, self.end, self.chance = make, end, chance
        self.ids: list[int] = []
        self.errors: Tally[str] = Tally()
        self.wrong: list[str] = []
        self.longest = 0.0

    def run(self) -> None:
        take = self.make()
        while time.monotonic() < self.end:
            if self.chance.random() < 0.02:
                take = self.make()
            began = time.monotonic()
            try:
                with pymongo.timeout(self.chance.choice([None, 0.3])):
                    self.ids += take()
            except AllocationError as error:
                self.errors[type(error).__name__] += 1
                if isinstance(error, CounterRewound) or not error.title:
                    self.wrong.append(repr(error))
                time.sleep(0.02)
            except BaseException as error:  # noqa: BLE001 - what the test looks for
                self.wrong.append(repr(error))
            self.longest = max(self.longest, time.monotonic() - began)


def test_no_id_twice_whatever_an_administrator_does() -> None:
    chance = random.Random(SEED)
    port, options = free_port(), ["--setParameter", "enableTestCommands=1"]
    with ReplicaSet(1, options=options) as servers, servers.client() as plain, contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy(int(servers.members[0].address.rpartition(":")[2]), port))
        db = plain.attack
        for collection in ("low", "cards", "tickets"):
            db[collection].create_index("number", unique=True)
        Counter(db.counters, "orders").create()
        Counter(db.counters, "cached").create()
        Pool(db.pool, layout=LAYOUT).create()
        GaplessInsert(db.numbers, db.bills, within=("tenant",)).create()
        end, callers = time.monotonic() + SECONDS, []
        for make in makers(db):
            taken = makers(db)[make]()()
            for n in range(2):
                uri = f"mongodb://127.0.0.1:{port}/?directConnection=true&retryWrites={str(n == 0).lower()}"
                client: MongoClient[Document] = MongoClient(uri, appName="attacked", serverSelectionTimeoutMS=3_000)
                stack.callback(client.close)
                callers.append(Caller(make, makers(client.attack)[make], end, random.Random(chance.random())))
                callers[-1].ids, taken = taken, []
        for caller in callers:
            caller.start()
        administrator, done = Administrator(db, proxy, chance), Tally[str]()
        while time.monotonic() < end - 8:
            act = chance.choice(administrator.acts)
            done[act.__name__] += 1
            act()
            servers.await_primary()
        for caller in callers:
            caller.join()
        tally = {name: [one for one in callers if one.name == name] for name in makers(db)}
        for name, pair in tally.items():
            print(
                name,
                [len(one.ids) for one in pair],
                [f"{one.longest:.1f}" for one in pair],
                *(one.errors for one in pair),
            )
        print(done)
        for name, pair in tally.items():
            ids = [one for caller in pair for one in caller.ids]
            assert len(ids) == len(set(ids)) > 0, name
            assert [caller.wrong for caller in pair] == [[], []], name
            assert max(caller.longest for caller in pair) < DEADLINES.total + 4, name
        stored = {name: [row["number"] for row in db[name].find()] for name in ("bills", "low", "cards", "tickets")}
        assert sorted(stored["bills"]) == list(range(1, len(stored["bills"]) + 1))
        for name, make in (("bills", "gapless"), ("low", "largest"), ("cards", "random_ids"), ("tickets", "proxied")):
            assert len(stored[name]) == len(set(stored[name])), name
            assert {one for caller in tally[make] for one in caller.ids} <= set(stored[name]), name
