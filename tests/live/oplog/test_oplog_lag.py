"""A secondary that lags is waited for: the newest entries are in the oplog of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from oplog_rig import DB, in_thread
from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.read.tail import read

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


async def test_what_a_majority_has_is_read_from_a_secondary_that_does_not_have_it_yet() -> None:
    with ReplicaSet(3, options=["--setParameter", "enableTestCommands=1"]) as servers:
        primary = servers.await_primary()
        late, other = [index for index in range(3) if index != primary]
        gateway = open_gateway(f"{servers.uri}&readPreference=secondary")
        with servers.client(late) as lagging, servers.client(primary, w="majority") as client:
            client[DB].things.insert_one({"_id": "early"})
            _apply(lagging, "alwaysOn")
            client[DB].things.insert_one({"_id": "late"})
            client[DB].things.drop()
            servers.kill(other)  # the only secondary lags
            rows = asyncio.ensure_future(_ids(gateway))
            scans = asyncio.ensure_future(_incidents(gateway))
            await in_thread(_both_wait, lagging, lambda: rows.done() and scans.done())
            _apply(lagging, "off")
            assert await rows == ["early", "late"]
            assert await scans == [("drop", f"{DB}.things")]
        await gateway.close()


async def _ids(gateway: Any) -> list[str]:
    return [row.id async for row in read(gateway, OplogFilter.parse(f"ns:{DB}.things op:i"))]


async def _incidents(gateway: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.ns) for one in [found async for found in scan(gateway)][-1].incidents]


def _apply(member: MongoClient[Any], mode: str) -> None:
    """Have a member stop to apply entries with the mode alwaysOn."""
    member.admin.command("configureFailPoint", "rsSyncApplyStop", mode=mode)


def _both_wait(member: MongoClient[Any], ended: Callable[[], bool]) -> None:
    """Wait until a member has two finds on the oplog that it has not answered, or they have ``ended`` without that."""
    find = {"$match": {"command.find": "oplog.rs"}}
    while not ended() and len(list(member.admin.aggregate([{"$currentOp": {}}, find]))) < 2:
        time.sleep(0.05)
