"""The palette finds counters, collections, incidents, times, ObjectIds and profiles, and says what each will do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widgets import Input, OptionList

from builders.counters import counter, snapshot
from builders.incidents import SCAN
from tallyglass.moment import Ts
from tallyglass.objectid import decode
from tallyglass_tui import clock
from tallyglass_tui.counters.page import CountersPage
from tallyglass_tui.objectids.page import ObjectIdsPage
from tallyglass_tui.oplog.page import OplogPage
from tallyglass_tui.restore.page import RestorePage
from tallyglass_tui.shell import run
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context

HEX = "656b5e7d0f3c2a1b9d8e7f60"
HOSTILE = "[/x] \\u{1b}[2J [@click=app.quit]"


async def test_the_palette_of_themes_blinks_and_draws_as_little_as_the_other(screen_at: Any) -> None:
    async with screen_at() as screen:
        before = screen.app.theme
        await screen.press("colon")
        await screen.press("escape")
        screen.app.action_change_theme()
        await screen.pilot.pause()
        assert (screen.app.screen.query_one(Input).cursor_blink, "  :  A theme" in screen.text) == (False, True)
        await screen.press("escape")
        assert screen.app.theme == before


async def find(screen: Any, query: str, expected: str) -> str:
    """Type into the palette until a hit shows ``expected``; the screen then."""
    await screen.press("colon")
    screen.app.screen.query_one(Input).value = query
    for _ in range(200):
        await screen.pilot.pause(0.01)
        options = screen.app.screen.query_one(OptionList)
        if expected in screen.text and options.option_count:
            return str(screen.text)
    raise AssertionError(screen.text)


@pytest.mark.parametrize(
    ("query", "title", "does", "page"),
    [
        ("orders7", "Counter shop.counters orders7", "Open it; ends (80%): 400d..600d", CountersPage),
        pytest.param(
            "collection counters", "Collection shop.counters", "Follow its entries", OplogPage, marks=pytest.mark.long
        ),
        pytest.param(
            "incident deletemany", "Incident deleteMany", "plan a restore", RestorePage, marks=pytest.mark.long
        ),
        ("2026-11-20T18:06:14Z", "Oplog at 2026-11-20 18:06:14Z = ", "Show the entries", OplogPage),
        (HEX, f"ObjectId {HEX}", f"Created {decode(HEX).time:%Y-%m-%d %H:%M:%SZ}", ObjectIdsPage),
    ],
)
async def test_each_kind_is_found_and_opened(screen_at: Any, query: str, title: str, does: str, page: type) -> None:
    async with screen_at((120, 40)) as screen:
        await screen.press("4")
        await screen.put("incidents", SCAN)
        await screen.press("1")
        hostile = counter(3, ns=f"shop.{HOSTILE}", id=HOSTILE)
        await screen.put("counters", snapshot(counter(1), counter(7), hostile))
        screen.feeds.answer = []
        text = await find(screen, query, title)
        assert does in text
        await screen.press("enter")
        await screen.pilot.pause()
        assert isinstance(screen.app.screen, page)
        if page is CountersPage:
            assert screen.app.page._opened == "k7"


async def test_incidents_of_one_name_are_found_the_newest_first(screen_at: Any) -> None:
    one = SCAN.incidents[0]
    times = [replace(one, first=Ts(one.first.t + hours * 3600, 1)) for hours in (1, 3, 2)]
    async with screen_at((120, 40)) as screen:
        await screen.press("4")
        await screen.put("incidents", replace(SCAN, incidents=tuple(times)))
        text = await find(screen, f"incident {one.title}", "plan a restore")
    shown = [line.split(": plan")[0].strip() for line in text.splitlines() if ": plan a restore" in line]
    assert len(shown) == 3
    assert shown == sorted(shown, reverse=True)


async def test_hostile_names_are_found_as_text(screen_at: Any) -> None:
    async with screen_at((120, 40)) as screen:
        await screen.put("counters", snapshot(counter(1), counter(3, ns=f"shop.{HOSTILE}", id=HOSTILE)))
        assert HOSTILE in await find(screen, "counter click", "app.quit")


async def test_a_profile_is_switched_to(screen_at: Any) -> None:
    async with screen_at() as screen:
        screen.app.profiles = ("prod", "staging")
        await find(screen, "ctx stag", "ctx staging")
        await screen.press("enter")
        await screen.pilot.pause()
        assert screen.app.next_profile == "staging"


async def test_a_time_of_day_is_one_of_the_day_that_is_replayed(screen_at: Any) -> None:
    clock.show(datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC))
    five = Ts(int(datetime(2026, 11, 20, 17, tzinfo=UTC).timestamp()), 0)
    try:
        async with screen_at((120, 40)) as screen:
            await screen.press("3")
            assert screen.app.screen.following.time("17:00Z") == five
            await screen.press("4", "t", *"17:00Z", "enter")
            assert screen.app.screen.draft.limit == five
            await screen.press("escape", "1")
            assert "Oplog at 2026-11-20 17:00:00Z" in await find(screen, "17:00Z", "Oplog at")
    finally:
        clock.show(None)


def test_what_is_wrong_comes_before_what_a_new_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[str]:
        raise run.TallyglassError("profiles.toml is not TOML.")

    told: list[str] = []
    monkeypatch.setattr(run, "tune_interpreter", lambda: None)
    monkeypatch.setattr(run, "_questions", lambda _: "1 what runs out first")
    monkeypatch.setattr(run, "profile_names", refuse)
    monkeypatch.setattr(run, "Feeds", lambda *_: SimpleNamespace(close=lambda: None, fatal=None))
    monkeypatch.setattr(Dashboard, "run", lambda app, **_: told.append(app.notice))
    run.run_dashboard(run.Target.parse("mongodb://db1/"), [], open_profile=lambda name, *, ask=True: pytest.fail(name))
    assert told == ["profiles.toml is not TOML."]


def test_the_dashboard_goes_on_with_the_profile_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str]] = []
    choices = iter(["prod", "broken", None])
    monkeypatch.setattr(run, "tune_interpreter", lambda: None)
    monkeypatch.setattr(run, "_questions", lambda _: "")
    monkeypatch.setattr(run, "Feeds", lambda *_: SimpleNamespace(close=lambda: None, fatal=None))

    def play(app: Dashboard, **_: object) -> None:
        ran.append((app.context.label, app.notice))
        app.next_profile = next(choices)

    def open_profile(name: str) -> Context:
        if name == "broken":
            raise run.TallyglassError("Profile 'broken' has no uri.")
        return replace(Context(run.Target.parse("mongodb://db2/")), label=name)

    monkeypatch.setattr(Dashboard, "run", play)
    run.run_dashboard(run.Target.parse("mongodb://db1/"), [], label="first", open_profile=open_profile)
    assert ran == [("first", ""), ("prod", ""), ("prod", "Profile 'broken' has no uri.")]
