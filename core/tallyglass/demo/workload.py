"""The workload of the demo: many small writers at uneven rates, and an occasional accident."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from tallyglass.demo import goods
from tallyglass.demo.accidents import DemoAccident, all_accidents
from tallyglass.demo.numbering import Client, Document
from tallyglass.demo.seed import seed
from tallyglass.demo.streams import Stream, all_streams

PERSON = "nightly-cleanup 3.2"
"""The application by which accidents happen."""

_ACTIVE_CARTS = 12  # of 120: the others come back after a drop, as nobody has inserted them again
_RETRY_SECONDS = 1.0  # a service pauses about so long; an election takes several


@dataclass(frozen=True, slots=True)
class Schedule:
    """When accidents happen, in seconds: until the first, between two on average, and until one is repaired.

    ``accidents`` is how many happen, None for all. Each happens once: what recurs is no accident, and is listed as
    routine. ``speed`` multiplies the rate of the regular writes; 1 is about 150 writes a second.
    """

    first: float = 6.0
    between: float = 60.0
    repair_after: float = 20.0
    speed: float = 1.0
    accidents: int | None = None


class Workload:
    """The write streams of the demo and the documents that exist so far."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self.streams: dict[str, Stream] = all_streams(self._rng)

    def seed(self, uri: str) -> None:
        """Write the initial data and wait until it is majority-committed."""
        with MongoClient[Document](uri, appName="tallyglass demo", w=1) as client:
            seed(client, self.streams, self._rng)
            # A majority acknowledgement of the last write covers all writes before it.
            client.shop.get_collection("carts", write_concern=WriteConcern("majority")).update_one(
                {}, {"$inc": {"count": 1}}
            )

    async def run(self, uri: str, stop: asyncio.Event | None = None, schedule: Schedule | None = None) -> None:
        """Write until ``stop`` is set. While the server is unavailable, writers wait and retry."""
        stop, schedule = stop or asyncio.Event(), schedule or Schedule()
        async with (
            AsyncMongoClient[Document](uri, appName="tallyglass demo", w=1) as client,
            AsyncMongoClient[Document](uri, appName=PERSON, w=1) as person,
        ):
            writers = [
                *(self._new_documents(client, stream, stop, schedule) for stream in self.streams.values()),
                self._order_updates(client, stop, schedule),
                self._cart_updates(client, stop, schedule),
                self._accidents(all_accidents(person, self.streams, self._rng), stop, schedule),
            ]
            async with asyncio.TaskGroup() as group:
                for writer in writers:
                    group.create_task(writer)

    async def _new_documents(self, client: Client, stream: Stream, stop: asyncio.Event, schedule: Schedule) -> None:
        while not await _stopped_within(stop, stream.wait(self._rng, time.monotonic()) / schedule.speed):
            await _attempt(stop, stream.step(client, self._rng))

    async def _order_updates(self, client: Client, stop: asyncio.Event, schedule: Schedule) -> None:
        known = self.streams["orders"].ids
        while not await _stopped_within(stop, self._rng.expovariate(6 * schedule.speed)):
            _id = known[self._rng.randrange(len(known))]
            status = self._rng.choice(goods.STATUSES)
            await _attempt(stop, client.shop.orders.update_one({"_id": _id}, {"$set": {"status": status}}))

    async def _cart_updates(self, client: Client, stop: asyncio.Event, schedule: Schedule) -> None:
        while not await _stopped_within(stop, self._rng.expovariate(8 * schedule.speed)):
            document = goods.cart(self._rng, self._rng.randrange(_ACTIVE_CARTS))
            await _attempt(stop, client.shop.carts.replace_one({"_id": document["_id"]}, document, upsert=True))

    async def _accidents(self, accidents: list[DemoAccident], stop: asyncio.Event, schedule: Schedule) -> None:
        wait = schedule.first
        for accident in accidents[: schedule.accidents]:
            if await _stopped_within(stop, wait):
                return
            await _attempt(stop, accident.happen())
            if await _stopped_within(stop, schedule.repair_after):
                return
            await _attempt(stop, accident.repair())
            # Not on the minute: what comes at a fixed interval counts as a job.
            pause = (schedule.between - schedule.repair_after) * self._rng.uniform(0.5, 1.5)
            wait = max(1.0, pause)


async def run(uri: str, stop: asyncio.Event | None = None, schedule: Schedule | None = None) -> None:
    """Seed an empty replica set and keep writing to it until ``stop`` is set."""
    workload = Workload()
    await asyncio.to_thread(workload.seed, uri)
    await workload.run(uri, stop, schedule)


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait up to ``seconds``; True as soon as ``stop`` is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


async def _attempt(stop: asyncio.Event, write: Awaitable[object]) -> None:
    """One write. After an error, wait a moment, as a service would."""
    try:
        await write
    except PyMongoError:
        await _stopped_within(stop, _RETRY_SECONDS)
