"""The header shows what is known about the members in the available room, and nothing about them during an outage."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import LEAST_LAG, SetMember
from tallyglass_tui.shell.refresh_rate import RefreshRate
from tallyglass_tui.shell.status_line import is_unwell, member_letters, status_pieces
from tallyglass_tui.widgets.text_line import TextLines

NOW = datetime(2026, 11, 22, 3, 7, 59, tzinfo=UTC)
MEMBERS = (
    SetMember("db1:27017", "PRIMARY", lag_seconds=0.0),
    SetMember("db2:27017", "SECONDARY", me=True, lag_seconds=12.0),
    SetMember("db3:27017", "(not reachable/healthy)"),
)
RS0 = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0", primary="db1:27017", me="db2:27017", members=MEMBERS)


WELL = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0", members=(MEMBERS[0], SetMember("db2:1", "SECONDARY")))
SLOW = RefreshRate(slow=True, backlog=True)


def header(
    room: int,
    label: str = "",
    *,
    of: Deployment = RS0,
    age: float | None = None,
    rate: RefreshRate | None = None,
    **lost: bool,
) -> str:
    pieces = status_pieces(label, of, age, rate or RefreshRate(), room, now=NOW, **lost)
    return "".join(text for text, _ in pieces)


@pytest.mark.parametrize(
    ("room", "label", "expected"),
    [
        (120, "", "replica set rs0 · 6.0.5 · primary db1:27017, secondary db2:27017 +12s (read), down db3:27017"),
        (75, "", "replica set rs0 · 6.0.5 · PS*D +12s · primary db1:27017 · 03:07Z "),
        (63, "", "rs rs0 6.0.5 PS*D +12s · primary db1:27017 · 03:07Z "),
        (29, "", "rs rs0 PS*D +12s · 03:07Z "),
        (24, "", "rs0 PS*D +12s · 03:07Z "),
        (20, "", "rs rs0 PS*D +12s "),
        (28, "PROD", " PROD  PS*D +12s · 03:07Z "),
        (18, "PROD", " PROD  PS*D +12s "),
        (11, "", "PS*D +12s "),
        (15, "PROD", " PROD PS*D +12s"),
    ],
)
def test_the_members_fit_whatever_the_room(room: int, label: str, expected: str) -> None:
    text = header(room, label)
    assert text.startswith(expected)
    assert cell_len(text) <= room


@pytest.mark.parametrize(
    ("room", "label", "of", "expected"),
    [
        (40, "", WELL, "rs rs0 PS · 03:07Z · 0.5 Hz slow link "),
        (22, "", WELL, "rs rs0 PS · 0.5 Hz "),
        (16, "", WELL, "rs0 PS · 0.5 Hz "),
        (16, "demo", WELL, " demo PS 0.5 Hz"),
        (16, "demo", RS0, " demo PS*D +12s"),
        (16, "production", RS0, "PS*D +12s 0.5 Hz"),
    ],
)
def test_a_slow_rate_never_hides_the_members(room: int, label: str, of: Deployment, expected: str) -> None:
    assert header(room, label, of=of, rate=SLOW) == expected


@pytest.mark.parametrize(
    ("room", "label", "expected"),
    [
        (44, "", "rs production-… 6.0.5 PS · 03:07Z "),
        (27, "", "production-… PS · 03:07Z "),
        (24, "", "product… PS · 03:07Z "),
        (18, "", "prod… PS · 03:07Z "),
        (12, "", "product… PS "),
        (9, "", "prod… PS "),
        (27, "east", " east  PS · 03:07Z "),  # a profile names it already
    ],
)
def test_a_long_name_gives_way_step_by_step(room: int, label: str, expected: str) -> None:
    assert header(room, label, of=replace(WELL, set_name="production-east")) == expected


@pytest.mark.parametrize(
    ("room", "expected"),
    [(40, "standalone · 6.0.5 · 03:07Z "), (24, "standalone · 03:07Z "), (18, "standalone 6.0.5 "), (10, "standalone")],
)
def test_of_a_server_without_members_the_kind_stays(room: int, expected: str) -> None:
    assert header(room, of=Deployment(Kind.STANDALONE, "6.0.5")) == expected


@pytest.mark.parametrize(
    ("age", "rate", "said"),
    [
        (5.0, RefreshRate(), ""),
        (5.6, RefreshRate(), " · 6 s old"),
        (10.0, RefreshRate(focused=False), ""),  # read every few seconds now, so ten are as usual
        (10.6, RefreshRate(focused=False), " · 11 s old"),
        (5.6, RefreshRate(paused=True), " · 6 s old"),
    ],
)
def test_the_age_is_named_once_it_is_unusual(age: float, rate: RefreshRate, said: str) -> None:
    assert f" PS{said} · 03:07Z " in header(60, of=WELL, age=age, rate=rate)


def test_old_data_of_a_profile_say_so_where_nothing_else_fits() -> None:
    assert header(22, "PROD", of=WELL, age=9.0) == " PROD  PS · 9 s old "
    assert header(18, "PROD", of=WELL, age=9.0) == " PROD  · 9 s old "


def test_members_are_unknown_while_no_server_answers() -> None:
    for room in (120, 75, 35, 20):
        text = header(room, lost=True)
        assert "P" not in text
        assert "lag" not in text
        assert "?" in text or "members unknown" in text
    assert "nav--alert" in {style for _, style in status_pieces("", RS0, None, RefreshRate(), 35, lost=True)}


def test_an_unhealthy_deployment_is_marked() -> None:
    assert not is_unwell(WELL)
    assert is_unwell(WELL, lost=True)
    assert is_unwell(RS0)
    assert is_unwell(Deployment(Kind.REPLICA_SET, "6.0.5", "rs0", members=MEMBERS[1:2])), "no primary"
    behind = SetMember("db2:1", "SECONDARY", lag_seconds=LEAST_LAG)
    assert is_unwell(replace(WELL, members=(MEMBERS[0], behind)))
    assert member_letters((behind,)) == "S +11s"
    assert member_letters((replace(behind, lag_seconds=LEAST_LAG - 0.5),)) == "S"


def test_many_members_are_counted() -> None:
    many = (*MEMBERS[:1] * 3, *MEMBERS[2:] * 6)
    assert member_letters(many) == "6D 3P"
    assert member_letters((*MEMBERS[:1], *MEMBERS[2:] * 6)) == "PDDDDDD"


@pytest.mark.parametrize(("columns", "named"), [(80, 5), pytest.param(60, 4, marks=pytest.mark.long)])
async def test_every_page_is_on_the_line_beside_the_rate(screen_at: Any, columns: int, named: int) -> None:
    titles = ["Counters", "ObjectIds", "Oplog", "Restore", "Profiles"]
    async with screen_at((columns, 24)) as screen:
        screen.app.rate.focused = False
        for key, here in enumerate(titles, 1):
            await screen.press(str(key))
            screen.app.page.show_state()
            await screen.pilot.pause()
            words = [f"{number} {title}" for number, title in enumerate(titles, 1)]
            shown = words if named == len(titles) else [*words[:named], "5"]
            if here not in titles[:named]:
                shown = ["1", "2", "3", "4", "5 Profiles"]
            assert screen.lines[0].startswith(" " + " ".join(shown) + " ")
            assert "0.2 Hz" in screen.lines[0]


async def test_on_a_narrow_screen_what_is_cut_says_so(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("4")
        screen.app.screen.query_one("#head", TextLines).show([(" word" * 20, "")])
        await screen.pilot.pause()
        assert screen.lines[1].endswith("word wor…")
