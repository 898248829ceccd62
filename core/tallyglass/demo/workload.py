"""The demo's workload: many small writers at uneven rates, and now and then an accident among them."""

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
from tallyglass.demo.accidents import Accident, all_accidents
from tallyglass.demo.numbering import Client, Document
from tallyglass.demo.seed import cart_ids, seed
from tallyglass.demo.streams import Stream, all_streams

_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """When accidents happen, in seconds: the first, the time between two, and the time until one is mended.

    ``speed`` multiplies the rate of the steady writes; 1 is about 150 writes a second.
    """

    first: float = 6.0
    between: float = 60.0
    mend_after: float = 20.0
    speed: float = 1.0


class Workload:
    """The state that seeding leaves for running: who writes what, and which documents exist."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self.streams: dict[str, Stream] = all_streams(self._rng)

    def seed(self, uri: str) -> None:
        """Write what is there before the first write of the workload, and wait until a majority holds it."""
        with MongoClient[Document](uri, appName="tallyglass demo", w=1) as client:
            seed(client, self.streams, self._rng)
            # The last write alone waits, and so for all before it.
            client.shop.get_collection("carts", write_concern=WriteConcern("majority")).update_one(
                {}, {"$inc": {"count": 1}}
            )

    async def run(self, uri: str, stop: asyncio.Event | None = None, pace: Pace | None = None) -> None:
        """Write until ``stop`` is set. A lost server is waited for; nothing is written in the meantime."""
        stop, pace = stop or asyncio.Event(), pace or Pace()
        async with AsyncMongoClient[Document](uri, appName="tallyglass demo", w=1) as client:
            writers = [
                *(self._new_documents(client, stream, stop, pace) for stream in self.streams.values()),
                self._order_updates(client, stop, pace),
                self._cart_updates(client, stop, pace),
                self._accidents(all_accidents(client, self.streams, self._rng), stop, pace),
            ]
            async with asyncio.TaskGroup() as group:
                for writer in writers:
                    group.create_task(writer)

    async def _new_documents(self, client: Client, stream: Stream, stop: asyncio.Event, pace: Pace) -> None:
        while not await _ends(stop, stream.wait(self._rng, time.monotonic()) / pace.speed):
            await _attempt(stop, stream.step(client, self._rng))

    async def _order_updates(self, client: Client, stop: asyncio.Event, pace: Pace) -> None:
        known = self.streams["orders"].ids
        while not await _ends(stop, self._rng.expovariate(6 * pace.speed)):
            _id = known[self._rng.randrange(len(known))]
            status = self._rng.choice(goods.STATUSES)
            await _attempt(stop, client.shop.orders.update_one({"_id": _id}, {"$set": {"status": status}}))

    async def _cart_updates(self, client: Client, stop: asyncio.Event, pace: Pace) -> None:
        carts = cart_ids()
        while not await _ends(stop, self._rng.expovariate(8 * pace.speed)):
            document = goods.cart(self._rng, self._rng.randrange(len(carts)))
            await _attempt(stop, client.shop.carts.replace_one({"_id": document["_id"]}, document, upsert=True))

    async def _accidents(self, accidents: list[Accident], stop: asyncio.Event, pace: Pace) -> None:
        wait, turn = pace.first, 0
        while not await _ends(stop, wait):
            accident = accidents[turn % len(accidents)]
            await _attempt(stop, accident.happen())
            if await _ends(stop, pace.mend_after):
                return
            await _attempt(stop, accident.mend())
            wait, turn = max(1.0, pace.between - pace.mend_after), turn + 1


async def run(uri: str, stop: asyncio.Event | None = None, pace: Pace | None = None) -> None:
    """Seed an empty replica set and keep writing to it until ``stop`` is set."""
    workload = Workload()
    await asyncio.to_thread(workload.seed, uri)
    await workload.run(uri, stop, pace)


async def _ends(stop: asyncio.Event, seconds: float) -> bool:
    """Wait that long; true as soon as the end has come."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


async def _attempt(stop: asyncio.Event, write: Awaitable[object]) -> None:
    """One write. A server that does not take it now is given time, as every service would."""
    try:
        await write
    except PyMongoError:
        await _ends(stop, _RETRY_SECONDS)
