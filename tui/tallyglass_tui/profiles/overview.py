"""All profiles at a glance, read in parallel: a slow or dead one does not delay the others.

Each profile has its own client: at most two connections to a member, plus one for monitoring. They are opened when the
overview begins and closed when it ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tallyglass.counters.check_line import vanished
from tallyglass.counters.snapshot import Absence, CountersSnapshot, CounterView
from tallyglass.counters.verdict import CRITICAL, WARNING, Thresholds, grade, name_of
from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.errors import ConnectError, DeploymentError, PrivilegeError, ServerError, TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass.tasks import cancel_all
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import open_target

if TYPE_CHECKING:
    from tallyglass.counters.follow.watch import Watcher
    from tallyglass.oplog.snapshot import OplogWindow
    from tallyglass.restore.drill.past_drills import LastDrill

CLIENT: dict[str, Any] = {"maxPoolSize": 2, "serverMonitoringMode": "poll", "heartbeatFrequencyMS": 10_000}
PAUSE_SECONDS = 30.0
"""Seconds between two reads of a profile."""
NO_END = math.inf
"""How many seconds :func:`watch_profiles` may yield nothing: each of its reads has its own deadline."""
_SEARCHING_SECONDS = 3.0
"""Seconds between two reads while the search for counters still runs."""
_DEADLINE_SECONDS = 45.0
"""Seconds after which a deployment is said not to answer: a first connection over a slow link takes some of them."""
_FIRST_SEARCH, _LATER_SEARCH = 3.0, 0.5
"""Seconds that a search for counters may read, until all are known and from then on."""
_AT_ONCE = 3
"""How many searches for counters run at a time: they use CPU on this host. Only profiles that answer take a turn."""
_CLOSE_SECONDS = 0.4
"""Seconds for closing a connection when the page is left: nobody waits for more."""
_GRADED = 200
"""Counters, the most urgent first, that are graded: the worst is among them."""


@dataclass(frozen=True, slots=True)
class ProfileState:
    """One profile in the overview, safe to show. None means unknown, or not known yet.

    ``problem`` says why its state has been unknown since ``since``; earlier facts are then discarded. ``counter`` is
    the most urgent of ``counters`` counters, ``level`` its verdict (0 ok, 1 warning, 2 critical). ``gone`` names the
    counters that vanished lately, ``lacking`` says what could not be read.
    """

    name: str
    where: str = ""
    at: datetime | None = None
    problem: str = ""
    since: datetime | None = None
    deployment: Deployment | None = None
    window: OplogWindow | None = None
    drill: LastDrill | None = None
    counter: CounterView | None = None
    counters: int | None = None
    level: int = 0
    gone: tuple[str, ...] = ()
    searching: bool = True
    lacking: tuple[str, ...] = ()


Overview = tuple[ProfileState, ...]


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """A profile to read: its context, or the reason why there is none."""

    name: str
    context: Context | None
    problem: str = ""


async def watch_profiles(profiles: Sequence[NamedProfile]) -> AsyncIterator[Overview]:
    """Yields the state of all profiles whenever one of them changes. Never ends."""
    states = {one.name: ProfileState(one.name, problem=one.problem) for one in profiles}
    changed = asyncio.Event()
    changed.set()
    turns = asyncio.Semaphore(_AT_ONCE)

    def put(state: ProfileState) -> None:
        states[state.name] = state
        changed.set()

    tasks = [asyncio.create_task(_follow(one.name, one.context, put, turns)) for one in profiles if one.context]
    for task in tasks:
        task.add_done_callback(lambda _: changed.set())
    try:
        while True:
            await changed.wait()
            changed.clear()
            for task in tasks:
                if task.done():
                    task.result()
            yield tuple(states.values())
    finally:
        await cancel_all(tasks)


async def _follow(name: str, context: Context, put: Callable[[ProfileState], None], turns: asyncio.Semaphore) -> None:
    """Read one profile repeatedly."""
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.follow.watch import Watcher

    state = ProfileState(name, where=str(context.target))
    try:
        gateway = open_target(context.target, **CLIENT)
    except ConnectError as error:
        put(replace(state, problem=str(error), since=datetime.now(UTC)))
        return
    watcher = Watcher(gateway, context.watch or WatchSettings())
    look = _ProfileReads(gateway, watcher, put, turns)
    try:
        while True:
            try:
                async with asyncio.timeout(_DEADLINE_SECONDS) as deadline:
                    state = await look.at(state, deadline)
            except TallyglassError as error:
                state = _lost(state, str(error))
            except TimeoutError:
                state = _lost(state, f"No answer within {_DEADLINE_SECONDS:.0f} s.")
            put(state)
            busy = state.searching and not state.problem
            await asyncio.sleep(_SEARCHING_SECONDS if busy else PAUSE_SECONDS)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await watcher.close()
                await gateway.close()


def _lost(state: ProfileState, problem: str) -> ProfileState:
    since = state.since if state.problem and state.since else datetime.now(UTC)
    return ProfileState(state.name, state.where, state.at, problem=problem, since=since)


@dataclass(slots=True)
class _ProfileReads:
    """The reads of one profile; each part is published as soon as it is known."""

    gateway: Gateway
    watcher: Watcher
    put: Callable[[ProfileState], None]
    turns: asyncio.Semaphore

    async def at(self, state: ProfileState, deadline: asyncio.Timeout) -> ProfileState:
        """The state now. Raises ConnectError or ReadError if no member answers."""
        from tallyglass.restore.drill.past_drills import last_of

        deployment = await look_at(self.gateway)
        state = replace(state, deployment=deployment, at=datetime.now(UTC), problem="", since=None, lacking=())
        self.put(state)
        try:
            state = replace(state, window=await _shortest_window(self.gateway, deployment))
        except PrivilegeError as error:
            state = replace(state, window=None, lacking=(*state.lacking, str(error)))
        except (DeploymentError, ServerError) as error:
            state = replace(state, window=None, lacking=(*state.lacking, f"Oplog: {error}"))
        state = replace(state, drill=await last_of(self.gateway))
        self.put(state)
        deadline.reschedule(None)  # how long the others take says nothing about this server
        async with self.turns:
            deadline.reschedule(asyncio.get_running_loop().time() + _DEADLINE_SECONDS)
            snapshot = await self.watcher.refresh(_FIRST_SEARCH if state.searching else _LATER_SEARCH)
        return with_counters(state, snapshot)


async def _shortest_window(gateway: Gateway, deployment: Deployment) -> OplogWindow | None:
    """The window of the oplog; for a sharded cluster, the shortest one of its shards."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.oplog.read.window import window

    shards = await shards_of(gateway)
    if shards is None:
        return await window(gateway, recent=True) if deployment.has_oplog else None
    found = await asyncio.gather(*(window(shard, recent=True) for shard in shards.gateways.values()))
    return min(found, key=hours_left, default=None)


def hours_left(window: OplogWindow) -> float:
    """How many hours back the oplog reaches, or will reach at the recent rate; infinite if unknown."""
    known = [hours for hours in (window.reach_hours, window.hours) if hours is not None]
    return known[0] if known else math.inf


def with_counters(state: ProfileState, snapshot: CountersSnapshot) -> ProfileState:
    """The state with the worst counter of a snapshot, and what it says of those that are not there."""
    counters = [counter for counter in snapshot.counters if counter.may_warn]
    graded = [(grade(counter, Thresholds(), snapshot.at)[0], counter) for counter in counters[:_GRADED]]
    level, worst = max(graded, key=lambda row: row[0] if row[0] <= CRITICAL else WARNING, default=(0, None))
    unread = [f"Counters: {one.title}" for one in snapshot.troubles if not one.partial]
    if not snapshot.discovering:
        unread += [f"{name_of(one)} is not read." for one in snapshot.missing if one.absence is Absence.NOT_READ]
    return replace(
        state,
        counter=worst,
        counters=sum(one.number for one in counters) if counters or not (unread or snapshot.discovering) else None,
        level=level if level <= CRITICAL else WARNING,
        gone=tuple(map(name_of, vanished(snapshot))),
        searching=snapshot.discovering,
        lacking=tuple(dict.fromkeys((*state.lacking, *unread[:1]))),
    )
