"""gunicorn with ``--preload``: client and cache are made and used once, before the workers are forked.

Each worker starts with an empty cache of its own over the same counter; the ids in memory stay with the parent.

    TALLYGLASS_URI=mongodb://... gunicorn --preload --workers 4 examples.preloaded_workers:app

As a program this file starts gunicorn and sends it some requests:

    python -m examples.preloaded_workers mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pymongo import MongoClient

from examples._gunicorn import post, served, summary
from tallyglass.allocate import Cached, Counter


def make_ids(uri: str) -> Cached:
    """What an application has at module level: a client and a cache, filled before the fork."""
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    counter = Counter(client.examples.counters, "requests")
    counter.create()
    ids = Cached(counter, step=100)
    ids.next()
    return ids


if __name__ != "__main__":
    ids = make_ids(os.environ.get("TALLYGLASS_URI", "mongodb://127.0.0.1:27017"))
    preloaded_in = os.getpid()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A WSGI application: the number of this request, the process, and the process that made the cache."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d %d %d" % (ids.next(), os.getpid(), preloaded_in)]


def main(uri: str, requests: int = 400) -> list[int]:
    """Start gunicorn, and send some requests; the numbers that they got."""
    with served("examples.preloaded_workers:app", uri, "--preload", workers=4) as address:
        answers = [[int(word) for word in body.split()] for body in post(address, requests)]
    workers, parents = {answer[1] for answer in answers}, {answer[2] for answer in answers}
    if workers & parents or len(parents) != 1:
        raise SystemExit("The cache was not made before the fork.")
    numbers = [answer[0] for answer in answers]
    print(summary("numbers", numbers, len(workers)))
    return numbers


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
