"""Order numbers in an asynchronous service: ids come from memory, and the next range is fetched ahead.

This uses only asyncio: each connection is one order and receives its number. With a web framework, create the client
and the cache at startup on its event loop, and close the cache at shutdown.

    python -m examples.order_numbers mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pymongo import AsyncMongoClient

from tallyglass.allocate import Adaptive, AsyncCached, AsyncCounter


async def serve(uri: str, customers: int = 50, each: int = 10) -> list[int]:
    """Start the service, place orders from many customers concurrently, stop it, and return the order numbers."""
    client: AsyncMongoClient[Any] = AsyncMongoClient(uri)
    counter = AsyncCounter(client.examples.counters, "orders")
    await counter.create(first=10_000)
    async with AsyncCached(counter, step=Adaptive(seconds=1.0, least=50, most=10_000), patience=5) as numbers:

        async def order(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number = await numbers.next()
            writer.write(f"{number}\n".encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(order, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def customer() -> list[int]:
            got = []
            for _ in range(each):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                got.append(int(await reader.readline()))
                writer.close()
            return got

        placed = [one for got in await asyncio.gather(*(customer() for _ in range(customers))) for one in got]
        server.close()
        stats = numbers.stats()
        print(f"{stats.issued} orders, {stats.fetches} fetches, the slowest in {stats.fetch_p99 or 0:.3f} s.")
    await client.close()
    return placed


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017"))
