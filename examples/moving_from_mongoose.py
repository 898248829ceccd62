"""Migrate from mongoose-sequence: its plugin and this library take numbers from the same counter.

mongoose-sequence keeps ``{_id: ObjectId, id: "<field>", reference_value, seq}`` in ``counters``, where ``seq`` is the
last number: the layout ``MANUAL_SEQ``, with the document's own ``_id`` as the key. The plugin makes the document when
its model is first used. ``mongoose_writer.js`` is the old application. It needs two packages:
``npm install mongoose@8 mongoose-sequence@6``.

    NODE_PATH=.../node_modules python -m examples.moving_from_mongoose mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import MANUAL_SEQ, Cached, Counter

WRITER = Path(__file__).with_name("mongoose_writer.js")


def main(uri: str, each: int = 200) -> list[int]:
    """Take numbers with both writers concurrently, and return all of them."""
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    counters = client.examples.counters
    with subprocess.Popen(["node", str(WRITER), uri, str(each)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        if not first:
            raise SystemExit(1)  # the writer has said why
        old = [int(first)]
        found = counters.find_one({"id": "number", "reference_value": None})
        if found is None:
            raise SystemExit("mongoose-sequence made no counter.")
        with Cached(Counter(counters, found["_id"], layout=MANUAL_SEQ), step=10) as ids:
            new = [ids.next() for _ in range(each)]
        old += [int(line) for line in writer.stdout]
    numbers = old + new
    overlap = min(max(old), max(new)) > max(min(old), min(new))
    print(f"{len(numbers)} numbers from two writers, {len(numbers) - len(set(numbers))} of them twice.")
    print("The two ran at the same time." if overlap else "The two ran one after the other.")
    client.close()
    return numbers


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
