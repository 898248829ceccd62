"""FastAPI: create the client and the cache at startup, on the application's event loop, and close them at shutdown.

    TALLYGLASS_URI=mongodb://... uvicorn examples.fastapi_service:app

Each worker process of uvicorn or gunicorn has its own cache over the same counter. Run as a program, it places some
orders with FastAPI's test client:

    python -m examples.fastapi_service mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from pymongo import AsyncMongoClient

from tallyglass.allocate import AsyncCached, AsyncCounter


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Create the client and the cache, and close them when the application stops."""
    uri = os.environ.get("TALLYGLASS_URI", "mongodb://127.0.0.1:27017")
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        counter = AsyncCounter(client.examples.counters, "fastapi")
        await counter.create()
        async with AsyncCached(counter, patience=5) as numbers:
            app.state.numbers = numbers
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def place_order(request: Request) -> dict[str, int]:
    """Place an order and return its number."""
    numbers: AsyncCached = request.app.state.numbers
    return {"number": await numbers.next()}


def main(uri: str, orders: int = 50) -> list[int]:
    """Place some orders and return their numbers."""
    from fastapi.testclient import TestClient

    os.environ["TALLYGLASS_URI"] = uri
    with TestClient(app) as browser:
        placed = [int(browser.post("/orders").json()["number"]) for _ in range(orders)]
    print(f"{len(placed)} orders, {len(placed) - len(set(placed))} of them twice.")
    return placed


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
