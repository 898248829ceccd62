"""The overview of profiles: what each row says, what a dead one does to the others, and how to switch."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest

from builders.counters import counter, snapshot
from builders.virtual_time import run
from tallyglass.connection.target import Target
from tallyglass.counters.snapshot import Absence, CountersSnapshot, CounterTrouble, Forecast, Members, MissingCounter
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import SetMember
from tallyglass.errors import ConnectError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.restore.drill.last_window import LastWindow
from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass_tui.profiles import overview, rows
from tallyglass_tui.profiles.overview import NamedProfile, ProfileState, watch_profiles, with_counters
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


FINE = replace(
    WELL,
    level=0,
    deployment=replace(RS, members=RS.members[:1]),
    drill=LastDrill(NOW - timedelta(days=1), True, "restored"),
)
ALONE = replace(
    FINE, deployment=Deployment(Kind.STANDALONE, "6.0.5"), window=None, drill=None, counter=None, counters=0
)
NEW = ProfileState("new", "mongodb://db3/")


def oplog_of(hours: int) -> OplogWindow:
    return OplogWindow(Ts(0, 1), Ts(3_600 * hours, 1))


def text_of(line: list[tuple[str, str]]) -> str:
    return "".join(text for text, _ in line)


@pytest.mark.parametrize(
    ("state", "severity", "words"),
    [
        (
            FINE,
            0,
            "members P*, worst counter shop.counters orders7, ends (80%) 400d..600d, oplog 2 d 2 h, drill 24h ok",
        ),
        (NEW, 0, "members ..., worst counter ..., ends (80%) ..., oplog ..., drill ..."),
        (ALONE, 0, "members standalone, worst counter none, ends (80%) ?, oplog none, drill ?"),
        (replace(ALONE, counters=None), 0, "worst counter ?, "),
        (replace(ALONE, searching=True), 0, "worst counter searching, ends (80%) ?, oplog ?"),
        (replace(ALONE, lacking=("find on local",)), 0, "oplog ?"),
        (replace(FINE, level=1), 1, "orders7"),
        (replace(FINE, deployment=RS), 1, "members P*S +40s"),
        (replace(FINE, gone=("shop.counters carts",)), 1, "worst counter shop.counters carts, ends (80%) gone, "),
        (replace(ALONE, gone=("shop.counters carts",)), 1, "worst counter shop.counters carts, ends (80%) gone, "),
        (replace(FINE, gone=("shop.counters carts",), level=2), 2, "worst counter shop.counters orders7, ends (80%) 4"),
        (replace(FINE, drill=LastDrill(None, False, "")), 0, "drill none"),
        (replace(FINE, drill=LastDrill(NOW, True, "", window=LastWindow(NOW, 0, None, None, 0))), 0, "drill 0s ok"),
        (replace(FINE, drill=LastDrill(NOW, True, "", window=LastWindow(NOW, 2, None, None, 1))), 1, "drill 0s ok"),
        (replace(FINE, drill=LastDrill(NOW - timedelta(days=1), False, "failed")), 1, "drill 24h bad"),
        (replace(FINE, drill=LastDrill(NOW - timedelta(days=8), True, "restored")), 1, "drill 8.0d ok"),
        (replace(FINE, window=oplog_of(23)), 1, "oplog 23 h"),
        (replace(FINE, window=oplog_of(24)), 0, "oplog 24 h"),
        (DEAD, 2, "No server listens on db9:27017."),
    ],
)
def test_a_row_says_what_is_known_and_whether_it_needs_somebody(state: ProfileState, severity: int, words: str) -> None:
    assert words in rows.in_words(state, NOW)
    assert rows.severity(state, NOW) == severity


def test_the_summary_names_those_that_need_somebody() -> None:
    soon = replace(FINE, name="soon", level=1)
    assert text_of(rows.summary(None, NOW)) == " Reading all profiles ..."
    assert text_of(rows.summary((FINE,), NOW)) == " 1 profile · all well"
    partly = replace(FINE, lacking=("find on local",))
    assert text_of(rows.summary((partly,), NOW)) == f" 1 profile · unknown in part: {FINE.name}"
    assert text_of(rows.summary((FINE, WELL, soon, DEAD, NEW), NOW)) == (
        " 5 profiles · cannot be read: east · urgent: prod · look at: soon · 1 still being read"
    )


def test_the_facts_name_the_lag_the_oplog_and_what_is_lacking() -> None:
    late = replace(RS, members=(replace(RS.members[1], lag_seconds=1.0),))
    facts = "\n".join(map(text_of, rows.facts(replace(FINE, deployment=late, lacking=("find",)), NOW, 80)))
    assert " server   replica set rs1 6.0.5: b:1 secondary 1s behind\n" in facts
    assert " counter  first of 3: shop.counters orders7, <0.1% used, ends (80%): 400d..600d\n" in facts
    assert facts.endswith("\n drill    24 h ago: restored\n unknown  find")
    for gone, level, said in (
        (("s.c carts",), 1, "s.c carts is gone: the next use repeats ids"),
        (("s.c carts", "s.c users"), 0, "s.c carts (and 1 more) is gone: the next use repeats ids"),
        (("s.c carts",), 2, "first of 3 (1 gone): shop.counters orders7, <0.1% used"),
    ):
        lines = [text_of(line) for line in rows.facts(replace(FINE, gone=gone, level=level), NOW, 80)]
        assert f" counter  {said}" in lines
    alone = [text_of(line) for line in rows.facts(replace(ALONE, lacking=("a", "b", "c")), NOW, 80)]
    assert alone[2].startswith(" oplog    A standalone has no oplog.")
    assert alone[3:] == [" unknown  a (and 2 more)"]
    for state, said in ((NEW, "not read yet"), (FINE, "not readable")):
        lines = [text_of(line) for line in rows.facts(replace(state, deployment=RS, window=None), NOW, 80)]
        assert f" oplog    {said}" in lines


def test_the_counters_of_a_profile_that_are_not_there_are_gone_or_not_read() -> None:
    gone = MissingCounter("shop.counters", "carts", Absence.GONE, since=NOW)
    unread = MissingCounter("shop.counters", "users", Absence.NOT_READ)
    found = replace(snapshot(counter(7)), at=NOW, missing=(gone, replace(gone, routine=True), unread, unread))
    state = with_counters(FINE, found)
    assert (state.gone, state.lacking) == (("shop.counters carts",), ("shop.counters users is not read.",))
    assert with_counters(FINE, replace(found, discovering=True)).lacking == (), "it is not read yet"
    denied = replace(found, troubles=(CounterTrouble("", "Not allowed."), CounterTrouble("", "Slow.", partial=True)))
    assert with_counters(replace(FINE, lacking=("Oplog.",)), denied).lacking == ("Oplog.", "Counters: Not allowed.")
    group = replace(found, counters=(counter(7), replace(counter(8), members=Members(3_000, (counter(8),)))))
    assert with_counters(FINE, group).counters == 3_001, "as on the page of the counters"
    none = (with_counters(FINE, replace(found, counters=(), missing=rows)).counters for rows in ((), (unread,)))
    assert [*none] == [0, None]


def test_a_profile_that_waits_for_its_turn_is_not_said_not_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowWatcher:
        def __init__(self, *_: Any) -> None:
            self.close = AsyncMock()

        async def refresh(self, _: float) -> CountersSnapshot:
            await asyncio.sleep(30)
            return snapshot(counter(7))

    async def overviews() -> list[ProfileState]:
        context = Context(Target.parse("mongodb://db1/"))
        async with aclosing(watch_profiles([NamedProfile(f"p{n}", context) for n in range(9)])) as states:
            async for every in states:
                if all(one.counters or one.problem for one in every):
                    return [*every]
        raise AssertionError("it never ends")

    for name, value in (("look_at", RS), ("_shortest_window", oplog_of(50))):
        monkeypatch.setattr(overview, name, AsyncMock(return_value=value))
    monkeypatch.setattr("tallyglass.restore.drill.past_drills.last_of", AsyncMock(return_value=None))
    monkeypatch.setattr(overview, "open_target", lambda *_, **__: AsyncMock())
    monkeypatch.setattr("tallyglass.counters.follow.watch.Watcher", SlowWatcher)
    assert [one.problem for one in run(overviews())] == [""] * 9


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
        young = replace(WELL, counter=counter(8, forecast=Forecast()), counters=1, searching=True, window=None)
        await screen.put("profiles", (young, replace(young, name="other", where="mongodb://db2/")))
        prod, other = (next(line for line in screen.lines if name in line[:20]) for name in ("prod", "other"))
        assert ("orders9" in prod, "orders8" in other) == (True, True)
        assert (" oplog    not read yet" in screen.text, "2 still being read" in screen.text) == (True, True)
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
