"""What runs beside the acts of a person: the TTL monitor, an application that deletes, and slow scripts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from incident_acts import Client, Done, entry

from server_version import major
from tallyglass.oplog.snapshot import Harm

TTL, APP, SLOW = "noise_ttl", "noise_app", "noise_slow"
TTL_SECONDS = 11
TTL_OPTIONS = ["--setParameter", f"ttlMonitorSleepSecs={TTL_SECONDS}"]
PASSES = 3
LOGS = [f"log{n}" for n in range(30)]
SERIES = "system.buckets.series"
OLD = datetime(2020, 1, 1, tzinfo=UTC)
TEN_A_SECOND = 0.1


def ttl_collections() -> list[str]:
    """The names of the collections whose documents expire, of all kinds that the server has."""
    return LOGS + ["clustered"] * (major() >= (5, 3)) + [SERIES] * (major() >= (5, 0))


@contextmanager
def noise(client: Client) -> Iterator[list[Done]]:
    """Run all of it beside the block. The list holds what was done once the block has ended."""
    done: list[Done] = []
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        application = pool.submit(_application, client, stop)
        acts = [pool.submit(act, client) for act in (_expire, _one_at_a_time, _delete_with_a_pause)]
        try:
            yield done
            done += [act.result(timeout=300) for act in acts]
            client[APP].queue.delete_many({"_id": {"$gte": 1_000_000}})
        finally:
            stop.set()
            application.result(timeout=300)


def _application(client: Client, stop: threading.Event) -> None:
    """Delete ten documents a second with statements that leave no session."""
    queue, n = client[APP].queue, 0
    queue.insert_many([{"_id": 1_000_000 + n} for n in range(3_000)])
    while not stop.wait(TEN_A_SECOND):
        queue.insert_one({"_id": n})
        queue.delete_many({"_id": n})
        n += 1


def _expire(client: Client) -> Done:
    """Have the TTL monitor empty all kinds of collections; between two passes a person deletes in one of them."""
    db = client[TTL]
    for name in LOGS:
        db[name].create_index("at", expireAfterSeconds=3_600)
    kinds = ttl_collections()
    if "clustered" in kinds:
        key = {"key": {"_id": 1}, "unique": True}
        db.create_collection("clustered", clusteredIndex=key, expireAfterSeconds=3_600)
    if SERIES in kinds:
        db.create_collection("series", timeseries={"timeField": "at", "metaField": "of"}, expireAfterSeconds=3_600)
    db[LOGS[0]].insert_many([{"_id": n} for n in range(300)])
    for number in range(PASSES):
        for name in LOGS:
            db[name].insert_many([{"at": OLD} for _ in range(10)])
        if "clustered" in kinds:
            db.clustered.insert_many([{"_id": OLD + timedelta(seconds=n)} for n in range(10)])
        for n in range(30 if SERIES in kinds else 0):
            db.series.insert_one({"at": OLD, "of": n % 10})
        while any(db[name].count_documents({"at": OLD}, limit=1) for name in (*LOGS, "series")) or (
            db.clustered.count_documents({}, limit=1)
        ):
            time.sleep(0.1)
        if number == 0:
            time.sleep(4.7)  # out of step, and longer than what the test takes for one pass
            db[LOGS[0]].delete_many({})
    mark = entry(f"{TTL}.{LOGS[0]}", op="d", o___id={"$type": "int"})
    return Done("deleteMany", f"{TTL}.{LOGS[0]}", mark, mark, 300, Harm.LOSS)


def _one_at_a_time(client: Client) -> Done:
    things = client[SLOW].things
    things.insert_many([{"_id": n} for n in range(22)])
    with client.start_session() as session:
        for n in range(22):
            things.delete_one({"_id": n}, session=session)
            time.sleep(0.6)
    mark = entry(f"{SLOW}.things", op="d")
    return Done("deletes", f"{SLOW}.things", mark, mark, 22, Harm.LOSS)


def _delete_with_a_pause(client: Client) -> Done:
    """One deleteMany that stands still for four seconds in the middle."""
    client[SLOW].paused.insert_many([{"_id": n} for n in range(200)])
    client[SLOW].paused.delete_many({"$where": "if (this._id == 100) sleep(4000); return true"})
    mark = entry(f"{SLOW}.paused", op="d")
    return Done("deleteMany", f"{SLOW}.paused", mark, mark, 200, Harm.LOSS)
