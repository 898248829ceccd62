"""The overview of profiles: what each row says, what a dead one does to the others, and how to switch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders.counters import counter, snapshot
from tallyglass.connection.target import Target
from tallyglass.counters.snapshot import Forecast
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import SetMember
from tallyglass.errors import ConnectError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass_tui.profiles.overview import ProfileState
from tallyglass_tui.shell.context import Context

NOW = datetime.now(UTC)
RS = Deployment(
    Kind.REPLICA_SET,
    "6.0.5",
    "rs1",
    members=(SetMember("a:1", "PRIMARY", me=True), SetMember("b:1", "SECONDARY", lag_seconds=40.0)),
)
WELL = ProfileState(
    "prod",
    "mongodb://db1/",
    NOW,
    deployment=RS,
    window=OplogWindow(Ts(1_000_000, 0), Ts(1_000_000 + 50 * 3600, 0)),
    drill=LastDrill(NOW - timedelta(days=30), True, "restored"),
    counter=counter(7),
    counters=3,
    level=2,
    searching=False,
)
DEAD = ProfileState("east", "mongodb://db9/", None, "No server listens on db9:27017.", NOW)


async def open_page(screen: Any) -> None:
    """Show the page, with two profiles of which the second needs a password."""

    def open_profile(name: str, *, ask: bool = True) -> Context:
        assert not ask, "the screen is in use: nothing can be asked for"
        if name == "east":
            raise ConnectError("User monitor needs a password.")
        return Context(Target.parse("mongodb://db1/"), label=name)

    screen.app.profiles, screen.app._open_profile = ("prod", "east"), open_profile
    await screen.press("5")


async def test_every_profile_has_its_row_and_a_dead_one_is_named(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_page(screen)
        assert "Reading all profiles" in screen.text
        assert " Enter " not in screen.lines[-1], "there is no row to open"
        await screen.put("profiles", (WELL, DEAD))
        prod, east = (next(line for line in screen.lines if line[3:].startswith(name)) for name in ("prod", "east"))
        assert prod.startswith("!!")
        assert " Enter " in screen.lines[-1]
        for shown in ("P*S +40s", "orders7", "400d..600d", "2 d 2 h", "30d ok"):
            assert shown in prod
        assert "No server l" in east
        assert "cannot be read: east" in screen.text
        assert "b:1 secondary 40s behind" in screen.text
        await screen.press("down")
        assert "No server listens on db9:27017." in screen.text


async def test_the_deployment_of_the_other_pages_has_their_first_counter_at_once(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(9, used=0.95)))
        await open_page(screen)
        young = replace(WELL, counter=counter(8, forecast=Forecast()), counters=1, searching=True)
        await screen.put("profiles", (young, replace(young, name="other", where="mongodb://db2/")))
        prod, other = (next(line for line in screen.lines if name in line[:20]) for name in ("prod", "other"))
        assert ("orders9" in prod, "orders8" in other) == (True, True)
        looked_at_once = replace(young, searching=False)
        await screen.put("profiles", (looked_at_once,))
        assert "orders9" in screen.text
        await screen.put("profiles", (replace(looked_at_once, counter=counter(8)),))
        assert "orders8" in screen.text, "its own search has ended"


async def test_a_young_oplog_reaches_back_to_its_beginning_only(screen_at: Any) -> None:
    young = OplogWindow(Ts(0, 1), Ts(3_600, 1), 10, 100, 10.0, recent_bytes_per_hour=0.1)
    async with screen_at() as screen:
        await open_page(screen)
        await screen.put("profiles", (replace(WELL, window=young),))
        assert " 60 min " in next(line for line in screen.lines if "orders7" in line)
        assert "reaches 60 min back, about 42 d once it is full" in screen.text


async def test_on_the_smallest_screen_the_answers_stay(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await open_page(screen)
        await screen.put("profiles", (WELL, DEAD))
        header = next(line for line in screen.lines if "profile  " in line)
        for title in ("members", "ends (80%)", "oplog"):
            assert title in header
        assert "400d..600d" in screen.text


async def test_enter_switches_and_leaving_ends_the_reads(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_page(screen)
        feed = screen.feeds.named["profiles"]
        await screen.put("profiles", (WELL, DEAD))
        await screen.press("question_mark", "escape")
        assert not feed.stopped, "the help only covers the page"
        await screen.press("1")
        assert feed.stopped
        await screen.press("5")
        again = screen.feeds.named["profiles"]
        assert again is not feed
        await screen.put("profiles", (WELL, DEAD))
        await screen.press("down", "enter")
        assert screen.app.next_profile == "east"


@pytest.mark.parametrize("size", [(60, 15), (80, 24)])
async def test_without_profiles_it_says_how_to_make_one(screen_at: Any, size: tuple[int, int]) -> None:
    async with screen_at(size=size) as screen:
        await screen.press("5")
        assert "A profile is a section of" in screen.text
        assert '[prod]\n     uri = "mongodb://monitor@db1.example.com"\n' in screen.text
        assert "Enter switches to one." in screen.text
        assert "profiles" not in screen.feeds.named
