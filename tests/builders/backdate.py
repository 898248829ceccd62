"""Give a replica set that was started a moment ago an oplog that holds hours of history."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from bson import Int64, Timestamp
from pymongo import MongoClient

from server_version import since
from tallyglass.demo.server import ReplicaSet


def write_past(servers: ReplicaSet, entries: Iterable[dict[str, Any]]) -> None:
    """Put entries with times of the past into the oplog of a one-member set.

    A set refuses writes to its oplog; the same data opened as a standalone takes them, and orders them by ``ts``.
    Each entry needs ``at`` (seconds since 1970), ``ns``, ``op`` and ``o``. A server before 6.0 ends at such a write:
    the test is skipped.
    """
    since(6, 0)
    servers.shut_down(0)
    name, servers.set_name = servers.set_name, None
    servers.restart(0)
    with MongoClient[dict[str, Any]](servers.direct_uri()) as client:
        rows = [_entry(dict(entry), number) for number, entry in enumerate(entries)]
        client.local["oplog.rs"].insert_many(rows)
    servers.shut_down(0)
    servers.set_name = name
    servers.restart(0)
    servers.await_primary()


def _entry(entry: dict[str, Any], number: int) -> dict[str, Any]:
    at = entry.pop("at")
    moment = datetime.fromtimestamp(at, UTC)
    return {"ts": Timestamp(int(at), number + 1), "t": Int64(1), "v": Int64(2), "wall": moment, **entry}


def hours_ago(hours: float) -> float:
    """Seconds since 1970, some hours before now."""
    return time.time() - hours * 3600
