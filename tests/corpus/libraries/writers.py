"""Let libraries for Python hand out ids: ``python writers.py URI ROUNDS PAUSE_SECONDS [NAME...]``.

Each writes into a database of its own. Those that need a PyMongo below 4 (djongo, hyperopt) run in another environment.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def run(prepare: Callable[[], Callable[[int], object]]) -> str:
    """Run one library to its end."""
    write = prepare()
    for n in range(ROUNDS):
        write(n)
        time.sleep(PAUSE * random.uniform(0.5, 1.5))
    return f"{prepare.__name__} ran"


if __name__ == "__main__":
    every = {one.__name__: one for one in (mongoengine, fireworks, hyperopt, djongo)}
    with ThreadPoolExecutor(len(every)) as pool:
        for line in pool.map(run, [every[name] for name in sys.argv[4:] or every]):
            print(line)
