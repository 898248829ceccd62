"""The overview of profiles on real servers: a dead one does not delay the others, and all connections are closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from tallyglass.connection.target import Target
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.demo.server import ReplicaSet, free_port
from tallyglass_tui.profiles.overview import NamedProfile, Overview, ProfileState, watch_profiles
from tallyglass_tui.shell.context import Context

pytestmark = pytest.mark.live

APP = "overview-test"
SECONDS = 60.0


def profile(name: str, uri: str) -> NamedProfile:
    return NamedProfile(name, Context(Target.parse(uri), label=name, watch=WatchSettings()))


def nowhere() -> str:
    return f"mongodb://127.0.0.1:{free_port()}/?replicaSet=x"


async def until(states: AsyncIterator[Overview], name: str, **known: object) -> ProfileState:
    """The first state of a profile with these values; ``...`` matches anything except None."""

    def holds(state: ProfileState) -> bool:
        return all(
            getattr(state, field) is not None if value is ... else getattr(state, field) == value
            for field, value in known.items()
        )

    async with asyncio.timeout(SECONDS):
        async for every in states:
            state = next(one for one in every if one.name == name)
            if holds(state):
                return state
    raise AssertionError(f"{name} never had {known}")


async def test_a_dead_profile_delays_no_other_and_all_clients_are_closed(replica_set: ReplicaSet) -> None:
    silent = [profile(f"silent{n}", f"{nowhere()}&serverSelectionTimeoutMS=60000") for n in range(6)]
    dead = profile("dead", f"{nowhere()}&serverSelectionTimeoutMS=2000")
    alive = profile("alive", f"{replica_set.uri}&appName={APP}")
    async with aclosing(watch_profiles([*silent, dead, alive])) as states:
        state = await until(states, "alive", window=..., searching=False)
        assert state.deployment
        assert state.deployment.members[0].state == "PRIMARY"
        assert not state.problem
        assert "No server listens" in (await until(states, "dead", since=...)).problem
    with replica_set.client() as client:
        pipeline = [{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$match": {"appName": APP}}]
        deadline = time.monotonic() + SECONDS
        while left := list(client.admin.aggregate(pipeline)):
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.1)
