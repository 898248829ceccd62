"""A client survives readers that are cancelled while no server answers, and a client that stops working is replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from pymongo.errors import PyMongoError

from tallyglass.demo.server import ReplicaSet
from tallyglass.errors import ConnectError, ReadError
from tallyglass.mongo.client import Driver, open_gateway
from tallyglass.mongo.gateway import OPLOG, Namespace, closing
from tallyglass.mongo.mongo_gateway import MongoGateway

pytestmark = pytest.mark.live

NS = Namespace("link", "things")
READERS = 8
ANSWER_SECONDS = 30.0


@asynccontextmanager
async def opened(servers: ReplicaSet, driver: Driver = Driver.PYMONGO) -> AsyncIterator[MongoGateway]:
    gateway = open_gateway(servers.uri, driver=driver)
    try:
        yield gateway
    finally:
        await gateway.close()


async def cancel_twice_in_server_selection(read: Callable[[], Awaitable[object]], lost: Callable[[], bool]) -> None:
    """Cancel readers twice, one turn of the event loop apart, while they wait for a server."""

    async def reader() -> None:
        while True:
            try:
                await read()
            except (ReadError, ConnectError):
                await asyncio.sleep(0)

    async with asyncio.timeout(ANSWER_SECONDS):
        while not lost():
            with suppress(ReadError, ConnectError, PyMongoError):
                await read()
    tasks = [asyncio.ensure_future(reader()) for _ in range(READERS)]
    # Each reader has started and waits, since no server answers.
    for _ in range(20):
        await asyncio.sleep(0)
    for _ in range(2):
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait(tasks, timeout=1.0)


def knows_no_server(gateway: MongoGateway) -> Callable[[], bool]:
    return lambda: not gateway.link.session.client.topology_description.has_readable_server()


@pytest.mark.parametrize("driver", Driver)
async def test_client_survives_readers_cancelled_twice(driver: Driver) -> None:
    with ReplicaSet(1) as servers:
        async with opened(servers, driver) as gateway:
            assert await gateway.find_one(NS, {}) is None
            servers.freeze(0)
            try:
                await cancel_twice_in_server_selection(lambda: gateway.find_one(NS, {}), knows_no_server(gateway))
            finally:
                servers.thaw(0)
            before = gateway.link.session
            async with asyncio.timeout(ANSWER_SECONDS):
                while not await answers(gateway):
                    pass
            assert gateway.link.session is before


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="only asyncio before 3.12 can break a client in this way")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_broken_client_is_replaced_and_the_tail_continues() -> None:
    # Use a separate loop and close it without waiting for its tasks: those of the broken client never finish.
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    try:
        with ReplicaSet(1) as servers:
            loop.run_until_complete(check_replacement(servers))
    finally:
        loop.close()


async def check_replacement(servers: ReplicaSet) -> None:
    async with opened(servers) as gateway:
        assert await gateway.find_one(NS, {}) is None
        broken = gateway.link.session
        servers.freeze(0)
        try:
            # Call the driver directly and cancel it, which the gateway never does.
            await cancel_twice_in_server_selection(
                lambda: broken.client.link.things.find_one({}), knows_no_server(gateway)
            )
        finally:
            servers.thaw(0)
        with servers.client() as writer:
            writer.link.things.insert_one({"_id": 1})
        async with asyncio.timeout(ANSWER_SECONDS):
            while not await answers(gateway):
                pass
        assert gateway.link.session is not broken
        assert gateway.link.replacements == 1
        assert await gateway.find_one(NS, {}) == {"_id": 1}
        async with closing(gateway.tail_raw(OPLOG, {}, await_ms=100)) as batches:
            assert await anext(batches)


async def answers(gateway: MongoGateway) -> bool:
    try:
        await gateway.find_one(NS, {})
    except (ReadError, ConnectError):
        return False
    return True
