"""One suite for three drivers: a kit holds the classes and a database of one of them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient, MongoClient

from tallyglass import allocate

SYNC, ASYNC, MOTOR = "MongoClient", "AsyncMongoClient", "Motor"


async def done(value: Any) -> Any:
    """The result of a call of either kind."""
    return await value if inspect.isawaitable(value) else value


@dataclass
class Kit:
    """The classes of one driver, its database, and the same database for looking at."""

    driver: str
    client: Any
    db: Any
    plain: Any

    @property
    def sync(self) -> bool:
        return self.driver == SYNC

    def __getattr__(self, name: str) -> Any:
        """The class (AsyncX) or function (x_async) of the library that fits the driver."""
        if self.sync:
            return getattr(allocate, name)
        return getattr(allocate, f"Async{name}" if name[0].isupper() else f"{name}_async")


def client_of(driver: str, uri: str, **options: Any) -> Any:
    if driver == SYNC:
        return MongoClient(uri, **options)
    if driver == ASYNC:
        return AsyncMongoClient(uri, **options)
    from motor.motor_asyncio import AsyncIOMotorClient

    return AsyncIOMotorClient(uri, **options)
