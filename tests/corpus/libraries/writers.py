"""Let libraries for Python hand out ids: ``python writers.py URI ROUNDS PAUSE_SECONDS [NAME...]``.

Each writes into a database of its own. Those that need a PyMongo below 4 (djongo, hyperopt) run in another environment.
``beside:NAME`` writes numbers that are no ids into the database of another library.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

URI, ROUNDS, PAUSE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
_GROUPS = 5


def mongoengine() -> Callable[[int], object]:
    """``SequenceField``, plain and as the primary key."""
    from mongoengine import Document, IntField, SequenceField, connect

    connect("lib_mongoengine", host=URI, alias="lib")

    class Invoice(Document):
        number = SequenceField(db_alias="lib", unique=True)
        group = IntField()
        meta: ClassVar[dict[str, Any]] = {"db_alias": "lib"}

    class Person(Document):
        id = SequenceField(db_alias="lib", primary_key=True)
        group = IntField()
        meta: ClassVar[dict[str, Any]] = {"db_alias": "lib"}

    def write(n: int) -> None:
        Invoice(group=n % _GROUPS).save()
        Person(group=n % _GROUPS).save()

    return write


def fireworks() -> Callable[[int], object]:
    """Fireworks and launches have a number each, both in one document."""
    from fireworks import Firework, LaunchPad, ScriptTask
    from fireworks.core.fworker import FWorker

    pad = LaunchPad(host=URI, name="lib_fireworks", uri_mode=True, strm_lvl="ERROR", logdir=None)
    pad.fw_id_assigner.delete_many({})
    pad.fw_id_assigner.insert_one({"_id": -1, "next_fw_id": 1, "next_launch_id": 1})

    def write(n: int) -> None:
        pad.add_wf(Firework(ScriptTask.from_str("true"), name=f"job {n}"))
        if n % 2:
            pad.checkout_fw(FWorker(), "/tmp")

    return write


def hyperopt() -> Callable[[int], object]:
    """Trials take ranges of numbers."""
    import pymongo
    from hyperopt.mongoexp import MongoTrials

    host = URI.split("//")[1].split("/")[0]
    trials = MongoTrials(f"mongo://{host}/lib_hyperopt/jobs", exp_key="tuning")
    jobs = pymongo.MongoClient(URI).lib_hyperopt.jobs

    def write(n: int) -> None:
        for tid in trials.new_trial_ids(4):
            jobs.insert_one({"tid": tid, "exp_key": "tuning", "state": n % 3})

    return write


def djongo() -> Callable[[int], object]:
    """``AutoField`` keeps its number in the description of the schema."""
    import django
    from django.conf import settings

    database = {"ENGINE": "djongo", "NAME": "lib_djongo", "CLIENT": {"host": URI}}
    settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=False)
    django.setup()
    from django.db import connection, models

    class Parcel(models.Model):
        group = models.IntegerField()

        class Meta:
            app_label = "lib"

    with connection.schema_editor() as editor:
        editor.create_model(Parcel)
    return lambda n: Parcel.objects.create(group=n % _GROUPS)


def beside(name: str) -> Callable[[int], object]:
    """Page views, stock, logins and a log: numbers of an application that are no ids, in the database of a library."""
    import pymongo

    db = pymongo.MongoClient(URI)[f"lib_{name}"]
    db.pages.insert_many({"_id": f"page{n}", "views": random.randint(100, 800)} for n in range(10))
    db.stock.insert_many({"_id": f"sku{n}", "count": random.randint(100, 900)} for n in range(10))
    db.accounts.insert_many({"_id": f"u{n}", "logins": random.randint(1, 40), "balance": 5_000} for n in range(10))
    db.settings.insert_one({"_id": "app", "version": 12, "value": 3})

    def write(n: int) -> None:
        page, account = random.randrange(10), f"u{random.randrange(10)}"
        db.pages.update_one({"_id": f"page{page}"}, {"$inc": {"views": 1}})
        db.stock.update_one({"_id": f"sku{page}"}, {"$inc": {"count": random.choice((-3, -2, -1, 50))}})
        db.accounts.update_one({"_id": account}, {"$inc": {"logins": 1, "balance": random.randint(-90, 90)}})
        db.log.insert_one({"who": account, "ms": random.randint(1, 999), "page": page})
        if n % 20 == 0:
            db.settings.update_one({"_id": "app"}, {"$inc": {"version": 1}})

    return write


def run(name: str) -> str:
    """Run one library to its end."""
    write = every[name]()
    for n in range(ROUNDS):
        write(n)
        time.sleep(PAUSE * random.uniform(0.5, 1.5))
    return name


if __name__ == "__main__":
    every = {one.__name__: one for one in (mongoengine, fireworks, hyperopt, djongo)}
    every |= {
        name: partial(beside, name.removeprefix("beside:")) for name in sys.argv[4:] if name.startswith("beside:")
    }
    with ThreadPoolExecutor(len(every)) as pool:
        for name in pool.map(run, sys.argv[4:] or every):
            print(name, "ran")
