"""The kit of each driver, with its own database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from allocate_kit import ASYNC, MOTOR, SYNC, Kit, client_of, done

from tallyglass.demo.server import ReplicaSet


@pytest.fixture(params=[SYNC, ASYNC, MOTOR])
async def kit(request: pytest.FixtureRequest, replica_set: ReplicaSet) -> AsyncIterator[Kit]:
    name = f"allocate_{uuid.uuid4().hex[:12]}"
    client = client_of(request.param, replica_set.uri)
    with replica_set.client() as plain:
        yield Kit(request.param, client, client[name], plain[name])
        plain.drop_database(name)
    await done(client.close())
