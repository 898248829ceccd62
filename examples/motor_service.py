"""Motor: the asynchronous classes take its collections as they take PyMongo's own, on the event loop of the client.

python -m examples.motor_service mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient

from tallyglass.allocate import AsyncCached, AsyncCounter


async def run(uri: str, tasks: int = 20, each: int = 50) -> list[int]:
    """Many tasks insert documents at the same time; their numbers."""
    client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(uri)
    db = client.examples
    counter = AsyncCounter(db.counters, "motor")
    await counter.create()
    async with AsyncCached(counter, patience=5) as numbers:

        async def insert() -> list[int]:
            inserted = []
            for _ in range(each):
                number = await numbers.next()
                await db.motor_orders.insert_one({"_id": number})
                inserted.append(number)
            return inserted

        found = [number for part in await asyncio.gather(*(insert() for _ in range(tasks))) for number in part]
    client.close()
    print(f"{len(found)} documents, {len(found) - len(set(found))} of them twice.")
    return found


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017"))
