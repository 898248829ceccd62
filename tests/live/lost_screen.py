"""What the tests of faults look for on the dashboard's screen, and the counter that they watch there."""

from __future__ import annotations

import re
from collections.abc import Callable

from pseudo_terminal import Terminal
from tallyglass.demo.server import ReplicaSet

Open = Callable[..., Terminal]
"""``open_on``: the dashboard on a URI, at 120x40; ``setup`` is Python that runs before it."""

QUICK = "serverSelectionTimeoutMS=1000"
"""An option that has a lost server told sooner than by default."""

SINCE = re.compile(r"Since \d\d:\d\d:\d\dZ, trying again")
AGE = re.compile(r"\d+ (?:s|min) old")


def bump(servers: ReplicaSet, index: int | None = None) -> str:
    """Count one order where the primary is, durably; how the table shows its row."""
    index = servers.await_primary() if index is None else index
    with servers.client(index, w="majority", wtimeoutMS=60_000) as client:
        client.faults.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}}, upsert=True)
        return rf"orders +{client.faults.counters.find_one({'_id': 'orders'})['seq']} "


def shown(row: str) -> Callable[[str], object]:
    """Whether that row is on the screen, and no trouble."""
    return lambda text: re.search(row, text) and not SINCE.search(text)
