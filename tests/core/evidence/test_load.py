"""Watching costs a set at most two commands a second, with all that the driver sends; counted in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from builders.evidence import AT, Server, profiled, remove
from builders.virtual_time import run
from tallyglass.connection.target import Target
from tallyglass.evidence.observer import MOST_PAUSE, Observer
from tallyglass.moment import Ts, from_seconds
from tallyglass.mongo.client import open_gateway, seldom_monitored
from tallyglass.oplog.incidents.authors import Authors, attributed
from tallyglass.oplog.read.stream import SELDOM_SECONDS, OplogStream
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan

SECONDS = 600
LIMIT = 2 * SECONDS
BEGIN = 1_795_409_595


class Watched(Server):
    """A server that also has an oplog: it counts what is read of it."""

    async def tail_raw(self, *_: Any, await_ms: int, least_seconds: float, on_open: Any, **__: Any) -> Any:
        """Entries come all the time, but no answer is full."""
        on_open("a:1")
        while True:
            self.asked.append("getMore")
            await asyncio.sleep(max(least_seconds, await_ms / 1_000 if self.idle else 0))
            yield b""

    idle = True

    async def find_raw(self, *_: Any, **__: Any) -> Any:
        self.asked.append("find")
        for none in ():
            yield none


def logged(second: int, number: int) -> str:
    """A line of that second, unlike the one before."""
    date = f"{from_seconds(second):%Y-%m-%dT%H:%M:%S}.{number % 1_000:03d}+00:00"
    return remove(0, number).replace(AT.format(0), date)


def incident(first: int, last: int) -> Incident:
    return Incident(
        1, "deleteMany", "", "shop.orders", Harm.LOSS, Ts(first, 1), Ts(last, 1), from_seconds(first),
        from_seconds(last), last - first + 1, last - first + 1, op="d", open=True,
    )  # fmt: skip


async def growing(server: Watched, lines_a_second: int) -> AsyncIterator[IncidentScan]:
    """A deleteMany every minute, which grows for half of it, and lines in the log."""
    for now in range(BEGIN, BEGIN + SECONDS, 2):
        await asyncio.sleep(2)
        server.lines += [logged(now + n % 2, len(server.lines) + n) for n in range(2 * lines_a_second)]
        found = incident(now - now % 60, min(now, now - now % 60 + 30))
        yield IncidentScan(() if server.idle else (found,), 0, None, done=True)


def sent(server: Watched, members: int, lines_a_second: int = 0) -> Counter[str]:
    """What is sent to a set in :data:`SECONDS`, by command, and the driver's own ``hello`` to each member."""
    server.names = tuple(f"{name}:1" for name in "abcdefg"[:members])
    server.idle = not lines_a_second
    stream = OplogStream(server, Ts(BEGIN, 1), seldom=True)  # type: ignore[arg-type]

    async def follow() -> None:
        async for _ in stream.events():
            pass

    async def work() -> None:
        following = asyncio.ensure_future(follow())
        authors = Authors(server, Observer(server))  # type: ignore[arg-type]
        async for _ in attributed(growing(server, lines_a_second), authors):
            pass
        following.cancel()

    run(work())
    options = seldom_monitored(Target.parse("mongodb://a/"))
    assert options["serverMonitoringMode"] == "poll", "a stream is measured by a second connection, which asks too"
    return Counter(server.asked) + Counter(hello=members * SECONDS * 1_000 // options["heartbeatFrequencyMS"])


@pytest.mark.long
@pytest.mark.parametrize("members", [1, 3, 7])
def test_watching_costs_two_commands_a_second_at_most(members: int) -> None:
    idle = sent(Watched(remove(1, 1)), members)
    assert idle.total() <= LIMIT
    assert idle["getLog"] <= members * (SECONDS / MOST_PAUSE + 2)
    server = Watched(remove(1, 1), kept=1_024)
    server.profile["shop.system.profile"] = [profiled(1)]
    busy = sent(server, members, 20)
    assert busy.total() <= LIMIT, busy
    assert all(busy[name] > 3 for name in ("getLog", "find", "shop.system.profile", "$currentOp")), busy
    assert busy["getMore"] <= SECONDS / SELDOM_SECONDS + 1


async def test_the_monitoring_is_what_the_user_says_or_seldom() -> None:
    for uri, seconds in (("mongodb://a/", 10), ("mongodb://a/?heartbeatfrequencyms=3000", 3)):
        target = Target.parse(uri)
        gateway = open_gateway(target, **seldom_monitored(target))
        try:
            settings = gateway.link.session.client._topology._settings
            assert (settings.heartbeat_frequency, settings.server_monitoring_mode) == (seconds, "poll")
        finally:
            await gateway.close()
