"""Accidents of the demo: mistakes that a person makes, and their repair some time later."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pymongo import UpdateOne

from tallyglass.demo import goods
from tallyglass.demo.numbering import Client
from tallyglass.demo.seed import INDEXES, STAGING, staging_rows
from tallyglass.demo.streams import Stream

SLOW_DOCUMENTS, SLOW_MILLIS = 600, 50
"""A delete of so many documents that waits so long at each, in milliseconds: it is seen while it still runs."""


@dataclass(frozen=True, slots=True)
class DemoAccident:
    """``happen`` makes the mistake in one command; ``repair`` restores enough data for the next one to matter."""

    title: str
    happen: Callable[[], Awaitable[object]]
    repair: Callable[[], Awaitable[object]]


def all_accidents(client: Client, streams: Mapping[str, Stream], rng: random.Random) -> list[DemoAccident]:
    """The accidents in the order in which they happen."""
    shop = client.shop
    orders = streams["orders"]

    async def refill_orders() -> None:
        await orders.add(client, rng, 250)

    async def reprice() -> None:
        await shop.products.bulk_write(
            [
                UpdateOne({"_id": goods.product(rng, n)["_id"]}, {"$set": {"price": round(rng.uniform(9, 300), 2)}})
                for n in range(goods.PRODUCTS)
            ]
        )

    async def refill_carts() -> None:
        await _indexes(client, "shop", "carts")

    async def forget_points() -> None:
        await shop.customers.update_many({}, {"$unset": {"points": ""}})

    async def regrant_points() -> None:
        rows = [row["_id"] async for row in shop.customers.find({"points": None}, {"_id": 1}).limit(2_000)]
        if rows:
            await shop.customers.bulk_write(
                [UpdateOne({"_id": _id}, {"$set": {"points": rng.randint(0, 400)}}) for _id in rows]
            )

    async def set_back_tickets() -> None:
        await client.support.counters.update_one({"id": "ticket_no"}, {"$inc": {"seq": -500}})

    async def bring_tickets_forward() -> None:
        newest = await client.support.tickets.find_one({}, sort=[("ticket_no", -1)])
        if newest:
            await client.support.counters.update_one({"id": "ticket_no"}, {"$max": {"seq": newest["ticket_no"]}})

    async def purge_slowly() -> None:
        await client.staging.archive.insert_many([{"row": n} for n in range(SLOW_DOCUMENTS)])
        await client.staging.archive.delete_many({"$where": f"sleep({SLOW_MILLIS}) || true"})

    async def leave_as_it_is() -> None:
        pass

    async def refill_staging() -> None:
        for name in STAGING:
            await client.staging[name].insert_many(staging_rows(name))

    return [
        DemoAccident(
            "a cleanup without its date filter deletes every shipped order",
            lambda: shop.orders.delete_many({"status": "shipped"}),
            refill_orders,
        ),
        DemoAccident(
            "a price update without its filter sets every price to 0",
            lambda: shop.products.update_many({}, {"$set": {"price": 0.0}}),
            reprice,
        ),
        DemoAccident("someone drops the carts", shop.carts.drop, refill_carts),
        DemoAccident("a migration forgets every customer's points", forget_points, regrant_points),
        DemoAccident("someone drops the wrong database", lambda: client.drop_database("staging"), refill_staging),
        DemoAccident(
            "a test fixture sets the ticket counter back, and the next tickets collide",
            set_back_tickets,
            bring_tickets_forward,
        ),
        DemoAccident(
            "a delete without an index goes on for half a minute, and can be stopped", purge_slowly, leave_as_it_is
        ),
    ]


async def _indexes(client: Client, db: str, collection: str) -> None:
    for name, unique in INDEXES[db, collection]:
        await client[db][collection].create_index(name, unique=unique)
