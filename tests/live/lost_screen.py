"""Helpers for fault tests: patterns for the dashboard's error banner, and a counter to watch."""

from __future__ import annotations

import re
from collections.abc import Callable

from pseudo_terminal import Terminal
from tallyglass.demo.server import ReplicaSet

Open = Callable[..., Terminal]
"""The type of the fixture ``open_on``. ``setup`` is Python code to run before the dashboard."""

QUICK = "serverSelectionTimeoutMS=1000"
"""A URI option that reports a lost server sooner than the default."""

SINCE = re.compile(r"Since \d\d:\d\d:\d\dZ, trying again")
AGE = re.compile(r"\d+ (?:s|min) old")


def bump(servers: ReplicaSet, index: int | None = None) -> str:
    """Increment a counter on the primary, durably, and return a pattern of its row in the table."""
    index = servers.await_primary() if index is None else index
    with servers.client(index, w="majority", wtimeoutMS=60_000) as client:
        client.faults.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}}, upsert=True)
        return rf"orders +{client.faults.counters.find_one({'_id': 'orders'})['seq']} "


def shown(row: str) -> Callable[[str], object]:
    """Return a condition: the screen shows a row that matches ``row``, and no error banner."""
    return lambda text: re.search(row, text) and not SINCE.search(text)
