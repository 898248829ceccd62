"""Gateways that are closed after a test, also where it fails: one that is left open makes another test fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.mongo_gateway import MongoGateway

OpenGateway = Callable[..., MongoGateway]


@pytest.fixture
async def gateway_to() -> AsyncIterator[OpenGateway]:
    """Open gateways as :func:`open_gateway` does."""
    async with AsyncExitStack() as stack:

        def open_and_note(*target: Any, **how: Any) -> MongoGateway:
            gateway = open_gateway(*target, **how)
            stack.push_async_callback(gateway.close)
            return gateway

        yield open_and_note
