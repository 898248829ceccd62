"""gunicorn with ``--preload``: the allocator is made once, before the workers are forked, and no id comes twice.

As an application for gunicorn (the cache is filled in the master, on purpose):

    TALLYGLASS_URI=mongodb://... gunicorn --preload --workers 4 examples.preloaded_workers:app

As a program of its own it does what gunicorn does: preload, fork four workers, ask each for numbers.

    python -m examples.preloaded_workers mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import Cached, Counter


def make_ids(uri: str) -> Cached:
    """What an application has at module level: a client and a cache, filled before the fork."""
    client: MongoClient[Any] = MongoClient(uri)
    counter = Counter(client.examples.counters, "requests")
    counter.create()
    ids = Cached(counter, step=100)
    ids.next()
    return ids


_ids: Cached | None = None


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A WSGI application: one number a request."""
    global _ids
    if _ids is None:
        _ids = make_ids(os.environ["TALLYGLASS_URI"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d\n" % _ids.next()]


if os.environ.get("TALLYGLASS_URI"):
    _ids = make_ids(os.environ["TALLYGLASS_URI"])


def fork_workers(uri: str, workers: int = 4, requests: int = 250) -> list[list[int]]:
    """Preload, fork, and let each worker answer some requests; the numbers each gave out, the master's last."""
    ids = make_ids(uri)
    pipes = []
    for _ in range(workers):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                out.writelines(f"{ids.next()}\n" for _ in range(requests))
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    answers = []
    for reader in pipes:
        with os.fdopen(reader) as lines:
            answers.append([int(line) for line in lines])
    for _ in range(workers):
        os.wait()
    answers.append(ids.take(requests))
    given = [one for each in answers for one in each]
    print(
        f"{len(given)} numbers from {workers} workers and their master, {len(given) - len(set(given))} of them twice."
    )
    ids.close()
    return answers


if __name__ == "__main__":
    fork_workers(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
