"""The alarm: silent unless switched on, and for what was red before or was already reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders.counters import NOW, counter, snapshot
from builders.incidents import SCAN
from tallyglass.counters.snapshot import Absence, Forecast, MissingCounter
from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm
from tallyglass_tui.shell.alarm import Alarm, AlarmKind
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.incidents import share_incidents

WELL = replace(counter(7), used=0.1)
FULL = replace(counter(8), used=0.97)


def test_a_counter_that_turns_red_is_reported_once() -> None:
    alarm = Alarm()
    assert alarm.news(replace(snapshot(FULL), discovering=True), None) == ""
    assert alarm.news(snapshot(FULL, WELL), SCAN) == "", "all of it was so before"
    red = snapshot(FULL, replace(WELL, used=0.97))
    assert alarm.news(red, SCAN).startswith("Urgent: shop.counters orders7, ends (80%) ")
    assert alarm.news(snapshot(FULL, WELL), SCAN) == ""
    assert alarm.news(snapshot(*red.counters), SCAN) == ""


def test_a_counter_whose_document_vanishes_is_reported_each_time() -> None:
    alarm, at = Alarm(), snapshot().at

    def news(*missing: MissingCounter) -> str:
        return alarm.news(replace(snapshot(WELL), missing=missing), None)

    gone = MissingCounter("shop.counters", "users", Absence.GONE, since=at - timedelta(hours=1))
    assert news(gone) == "", "it was so before"
    orders = replace(gone, id="orders")
    text = "shop.counters orders: its number is gone: the next use begins at the start and repeats ids."
    assert [news(gone, orders), news(gone, orders), news(gone), news(replace(orders, since=at))] == [text, "", "", text]
    for quiet in ({"routine": True}, {"since": at - timedelta(days=8)}, {"since": None, "absence": Absence.NOT_READ}):
        assert news(gone, replace(orders, id="carts", **quiet)) == ""


def test_a_counter_whose_history_is_only_read_after_the_first_reading_was_red_before() -> None:
    young = replace(WELL, forecast=Forecast())
    soon = replace(WELL, forecast=replace(WELL.forecast, early=NOW + timedelta(days=3)))
    for minutes, told in ((9, ""), (11, "Urgent: shop.counters orders7")):
        alarm = Alarm()
        assert alarm.news(snapshot(young), None) == ""
        assert alarm.news(snapshot(young, later=60), None) == ""
        assert alarm.news(snapshot(soon, later=60 * minutes), None).startswith(told)
        assert alarm.news(snapshot(soon, later=60 * minutes + 60), None) == ""
    alarm = Alarm()
    assert [alarm.news(snapshot(one), None)[:6] for one in (WELL, soon)] == ["", "Urgent"], "it had a date"


def test_an_incident_is_reported_if_it_removed_data_and_is_not_routine() -> None:
    alarm, one = Alarm(), next(one for one in SCAN.incidents if one.harm is Harm.LOSS)
    later = Ts(one.first.t + 99, 1)
    assert alarm.news(None, replace(SCAN, done=False)) == ""
    assert alarm.news(None, SCAN) == ""
    for quiet in (replace(one, first=later, reason="TTL"), replace(one, first=later, harm=Harm.DEFINITION)):
        assert alarm.news(None, replace(SCAN, incidents=(*SCAN.incidents, quiet))) == ""
    loud = replace(one, first=later, ops=10)
    assert alarm.news(None, replace(SCAN, incidents=(*SCAN.incidents, loud))).startswith(one.title)
    grown = replace(loud, ops=500)
    assert alarm.news(None, replace(SCAN, incidents=(*SCAN.incidents, grown))) == ""


@pytest.mark.parametrize("kind", list(AlarmKind))
async def test_it_sounds_as_configured_also_in_a_pause(
    screen_at: Any, kind: AlarmKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(Dashboard, "bell", lambda _: heard.append("bell"))
    monkeypatch.setattr(Dashboard, "send_notification", lambda _, text: heard.append(text))
    async with screen_at(alarm=kind) as screen:
        if kind is AlarmKind.OFF:
            assert "incidents" not in screen.feeds.named, "the oplog is not read for an alarm that is off"
            share_incidents(screen.feeds)
        await screen.put("counters", snapshot(WELL))
        await screen.press("p")
        screen.app._on_alarm_due()
        screen.feeds.named["counters"].put(snapshot(replace(WELL, used=0.97)))
        screen.app._on_alarm_due()
        assert [text[:6] for text in heard] == {"off": [], "bell": ["bell"], "notify": ["Tallyg"]}[kind]


async def test_what_it_sounds_for_under_the_help_is_said_once_that_is_closed(screen_at: Any) -> None:
    async with screen_at(alarm=AlarmKind.BELL) as screen:
        await screen.put("counters", snapshot(WELL))
        screen.app._on_alarm_due()
        await screen.press("question_mark")
        screen.feeds.named["counters"].put(snapshot(replace(WELL, used=0.97)))
        screen.app._on_alarm_due()
        await screen.press("escape")
        screen.app._on_alarm_due()
        await screen.pilot.pause()
        assert "Urgent: shop.counters orders7" in screen.text


async def test_an_alarm_that_cannot_hear_of_incidents_says_so_on_every_page(screen_at: Any) -> None:
    async with screen_at(alarm=AlarmKind.BELL) as screen:
        await screen.put("counters", snapshot(WELL))
        screen.feeds.named["incidents"].fail(PrivilegeError("This user may not read the oplog."))
        await screen.put("counters", snapshot(WELL))
        assert " ! No alarm for incidents: This user may not read the oplog." in screen.text
        await screen.put("incidents", SCAN)
        assert "No alarm" not in screen.text
