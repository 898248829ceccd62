"""A reader of ``oplog --follow --json`` that pauses: the oplog waits for it, and no entry is dropped."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO

import pytest

from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live

DB = "piped"
BATCH = 1_000
SECONDS = 120.0
"""What never comes is not waited for any longer."""


@pytest.mark.parametrize("count", [20_000, pytest.param(224_000, marks=pytest.mark.soak)])
def test_no_entry_is_dropped_while_the_reader_sleeps(replica_set: ReplicaSet, count: int) -> None:
    words = [sys.executable, "-m", "tallyglass_tui", "oplog", "--follow", "--json", f"--ns={DB}.*", "--op=i"]
    with replica_set.client() as client:
        newest = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
        assert newest is not None
        since = f"--since={newest['ts'].time}:{newest['ts'].inc}"
        with subprocess.Popen(
            [*words, since, replica_set.uri], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            limit = threading.Timer(SECONDS, process.kill)
            limit.start()
            try:
                # The first line proves that it reads; the next is taken only after everything is written.
                client[DB].things.insert_one({"_id": -1})
                ids = [_entry(process.stdout)]
                for start in range(0, count, BATCH):
                    client[DB].things.insert_many([{"_id": n} for n in range(start, start + BATCH)])
                while len(ids) <= count:
                    ids.append(_entry(process.stdout))
            finally:
                limit.cancel()
                process.kill()
        client.drop_database(DB)
    assert ids == list(range(-1, count))


def _entry(lines: IO[str] | None) -> int:
    """The _id of the next entry. Rows that say how far behind the reader is may stand between; a gap may not."""
    assert lines is not None
    while (row := json.loads(lines.readline() or '{"kind": "end"}'))["kind"] == "lag":
        pass
    assert row["kind"] == "entry", row
    return int(row["o"]["_id"])
