"""Reading the oplog for how numbers are used: what is damaged costs only itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import bson
from bson import Timestamp

from tallyglass.counters.pacer import Pacer
from tallyglass.counters.recognise.usage_reader import UsageReader
from tallyglass.mongo.gateway import Gateway, Namespace


def update(second: int, value: int) -> bytes:
    return bson.encode(
        {
            "op": "u",
            "ns": "shop.sequences",
            "o": {"$v": 2, "diff": {"u": {"value": value}}},
            "o2": {"_id": "orders"},
            "ts": Timestamp(second, 1),
        }
    )


class OplogGateway:
    """Answers each search with one batch."""

    def __init__(self, batch: bytes) -> None:
        self._batch = batch

    async def find_raw(self, ns: Namespace, query: dict[str, Any], **_: object) -> AsyncIterator[bytes]:
        if "u" in query["op"]["$in"] and query["ts"]["$lt"] > Timestamp(1_000, 0):
            yield self._batch


async def test_an_entry_that_cannot_be_decoded_is_left_out() -> None:
    damaged = update(1_001, 2).replace(b"\x03diff\x00", b"\x7ddiff\x00")
    gateway = OplogGateway(update(1_000, 1) + damaged + update(1_002, 3))
    reader = UsageReader(cast("Gateway", gateway), Pacer())
    evidence = await reader.read(Timestamp(1_000, 0), Timestamp(1_003, 0), 5.0)
    found = evidence.updates[Namespace("shop", "sequences"), "value"]
    assert [one.value for updates in found.values() for one in updates] == [1, 3]
