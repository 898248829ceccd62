"""Celery: prefork workers share one module-level cache, and soft time limits interrupt tasks that take ids.

Celery raises the soft limit from a signal handler, at any point in a task. The cache created in the parent starts empty
in each worker process, and keeps working after an interrupted call.

    TALLYGLASS_URI=mongodb://... celery -A examples.celery_tasks worker

Run as a program, it starts such a worker with a file-based broker and runs tasks into their limit:

    python -m examples.celery_tasks mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from pymongo import MongoClient

from tallyglass.allocate import Cached, Counter

_BROKER = os.environ.get("EXAMPLE_BROKER_FOLDER", "")
app: Any = Celery("examples", broker="filesystem://" if _BROKER else None)
if _BROKER:
    app.conf.broker_transport_options = {
        "data_folder_in": _BROKER,
        "data_folder_out": _BROKER,
        "control_folder": f"{_BROKER}/control",
    }
    app.conf.result_backend = f"file://{_BROKER}/results"

client: MongoClient[dict[str, Any]] = MongoClient(
    os.environ.get("TALLYGLASS_URI", "mongodb://127.0.0.1:27017"), connect=False
)
ids = Cached(Counter(client.examples.counters, "celery"), step=20)


@app.task(soft_time_limit=1)  # type: ignore[misc, untyped-decorator, unused-ignore]
def take_until_the_limit() -> list[int]:
    """Take ids until the soft time limit, then one more to show that the cache still works."""
    taken: list[int] = []
    try:
        while True:
            taken.append(ids.next())
    except SoftTimeLimitExceeded:
        taken.append(ids.next())
    return taken


def main(uri: str, tasks: int = 4) -> list[int]:
    """Start a worker with two processes, run tasks into their limit, stop it, and return the ids that they took."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "results").mkdir()
        environment = {**os.environ, "TALLYGLASS_URI": uri, "EXAMPLE_BROKER_FOLDER": folder}
        Counter(MongoClient[dict[str, Any]](uri).examples.counters, "celery").create()
        worker = [sys.executable, "-m", "celery", "-A", "examples.celery_tasks", "worker", "-c", "2", "-P", "prefork"]
        caller = f"from examples.celery_tasks import ask; ask({tasks})"
        with subprocess.Popen(
            [*worker, "--loglevel=ERROR"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            try:
                output = subprocess.run(
                    [sys.executable, "-c", caller], env=environment, check=True, capture_output=True, text=True
                ).stdout
            finally:
                running.terminate()
    taken = [int(word) for word in output.split()]
    print(f"{tasks} tasks took {len(taken)} ids, {len(taken) - len(set(taken))} of them twice.")
    return taken


def ask(tasks: int) -> None:
    """Send the tasks, and print all ids that they took."""
    task: Any = take_until_the_limit
    results = [task.delay() for _ in range(tasks)]
    print(*(number for result in results for number in result.get(timeout=60)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
