"""At 60x15 and 80x24 nothing is cut that says what to do, where one is, or which collection it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual import events
from textual.widgets import Input

from builders.counters import counter, snapshot
from builders.incidents import incident
from builders.plans import make_plan
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.evidence.facts import Client, RunningOperation
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, IncidentScan, OplogUpdate, OplogWindow
from tallyglass.restore.drill.last_window import LastWindow
from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass.restore.model.source import Backup, FromImages
from tallyglass.restore.model.step import Command, Phase
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, WITHOUT_SPARE, Way
from tallyglass_tui import clock
from tallyglass_tui.incidents.cells import INCIDENT_COLUMNS, about, incident_cell
from tallyglass_tui.oplog.state import scan_lines
from tallyglass_tui.profiles.overview import ProfileState
from tallyglass_tui.profiles.rows import FACTS, facts
from tallyglass_tui.restore.draft import Draft
from tallyglass_tui.restore.head import head_lines, parts_line
from tallyglass_tui.restore.items import command_items
from tallyglass_tui.widgets.cells import wrap, wrap_words

NOW = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)
MANY = tuple(incident(number, 1795197974 + number) for number in range(1, 22))


def test_a_number_stays_with_what_it_counts() -> None:
    text = "it was read 24 h ago, in 3 parts of 1 2 3 4"
    for width in range(9, 40):
        for lines in (wrap(text, width, indent=""), wrap_words(text, width)):
            shown = [line.rstrip() for line in lines]
            assert (" ".join(shown), "24" in {line[-2:] for line in shown}, "in 3" in shown) == (text, False, False)


def test_a_paragraph_keeps_its_indent() -> None:
    assert wrap_words("  12:00 a very-long\n\n    \n    x", 8) == [
        "  12:00",
        "  a",
        "  very-l",
        "  ong",
        "",
        "",
        "    x",
    ]
    assert wrap_words("      abc", 4) == ["  ab", "  c"]


def test_of_a_long_title_the_collection_stays() -> None:
    (column,) = (one for one in INCIDENT_COLUMNS if one.key == "title")

    def shown(title: str, width: int) -> str:
        ((text, _),) = incident_cell(replace(MANY[0], title=title), NOW, column, width)
        assert cell_len(text) == width
        return text.rstrip()

    assert shown("findAndModify updates on shop.counters", 32) == "findAndModify … on shop.counters"
    assert shown("updates by many sessions at once on shop.counters", 33) == "updates by many on shop.counters"
    assert shown("deleteMany on a.very.long.name.of.a.collection", 24).startswith("deleteMany")
    assert shown("findAndModify updates on shop.宽宽宽宽", 36) == "findAndModify upda… on shop.宽宽宽宽"


@pytest.mark.parametrize("size", [(60, 15), (80, 24)])
async def test_a_list_that_scrolls_says_where_one_is(screen_at: Any, size: tuple[int, int]) -> None:
    async with screen_at(size) as screen:
        await screen.press("4")
        await screen.put("incidents", IncidentScan(MANY, 1000, Ts(1, 1), done=True))
        await screen.press("j", "j")
        assert "what happened · 3/21" in screen.text
        await screen.press("G")
        assert "what happened · 21/21" in screen.text
        await screen.put("incidents", IncidentScan(MANY[:3], 1000, Ts(1, 1), done=True))
        await screen.press("g")
        assert "what happened · " not in screen.text, "all are in view"


@pytest.mark.parametrize("key", ["1", *(pytest.param(key, marks=pytest.mark.long) for key in "2345")])
async def test_a_page_that_is_held_still_fits_each_size_of_the_window(
    screen_at: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    window = OplogWindow(Ts(1, 1), Ts(700_000, 1), 2**30, 2**31, 1e6)
    profile = ProfileState("production", "mongodb://db1.example.com:27017/", NOW, "No server listens there.", NOW)
    values = {
        "counters": replace(snapshot(*map(counter, range(3))), at=NOW),
        "oplog": OplogUpdate(NOW, (), 9, 9, 0, None, window, connected_to="db1.example.com:27017"),
        "incidents": IncidentScan(MANY, 1000, Ts(1, 1), done=True),
        "profiles": (profile, replace(profile, name="staging")),
    }

    async def shown(*sizes: tuple[int, int]) -> list[str]:
        async with screen_at(sizes[0]) as screen:
            screen.app.profiles = ("production", "staging")
            await screen.press(key, *"i507f1f77bcf86cd799439011" * (key == "2"), "enter" * (key == "2"))
            for name, value in values.items():
                if name in screen.feeds.named:
                    await screen.put(name, value)
            await screen.press("p")
            for size in sizes[1:]:
                await screen.pilot.resize_terminal(*size)
                await screen.pilot.pause()
            return screen.lines

    narrow, wide = (70, 16), (130, 40)
    assert await shown(narrow, wide) == await shown(wide)
    assert await shown(wide, narrow) == await shown(narrow)


async def test_the_losses_above_the_opened_one_are_in_view_when_one_comes_back(screen_at: Any) -> None:
    scan = IncidentScan(MANY[:4], 1000, Ts(1, 1), done=True)
    async with screen_at((80, 24)) as screen:
        await screen.press("3", "i")
        await screen.put("incidents", scan)
        before = [line for line in screen.lines if line.startswith("!!")]
        await screen.press("j", "j", "enter")
        await screen.put("incidents", replace(scan, scanned=1001))
        await screen.press("escape")
        assert [line for line in screen.lines if line.startswith("!!")] == before


async def test_the_row_under_the_cursor_stays_in_view_in_a_smaller_window(screen_at: Any) -> None:
    scan = IncidentScan(MANY, 1000, Ts(1, 1), done=True)
    async with screen_at((80, 40)) as screen:
        await screen.press("3", "i")
        await screen.put("incidents", scan)
        await screen.press("p", *("j" for _ in MANY))
        last = next(line for line in reversed(screen.lines) if line.startswith("!!"))
        await screen.pilot.resize_terminal(80, 15)
        await screen.pilot.pause()
        assert "what happened · 21/21" in screen.text
        assert screen.lines[-3] == last


def test_the_parts_fit_and_say_where_one_is_in_them() -> None:
    for width, shown in ((50, "Incidents 21 Checks 3/18 Loss Counters Commands"), (80, " Checks 3/18 ")):
        text = "".join(piece for piece, _ in parts_line(Draft(), 21, "checks", "3/18", width))
        assert (shown in text, len(text) <= width, "…" in text) == (True, True, False)


def test_a_long_path_leaves_room_for_the_other_way() -> None:
    draft = Draft(backup="/var/backups/mongodb/production/2026-11-23T04:00:00Z/dump", spare="127.0.0.1:27117")
    (line,) = [row for row in head_lines(draft, 60) if row[0][0].startswith(" backup")]
    text = "".join(piece for piece, _ in line)
    assert (len(text) <= 60, "…" in text, text.endswith("/dump  onto 127.0.0.1:27117")) == (True, True, True)


def test_the_source_and_the_other_way_stay_whole_beside_a_long_path() -> None:
    ways = (Way(FROM_IMAGES, True, "It keeps none.", label=WITHOUT_SPARE), Way(FROM_BACKUP, True, "A spare."))
    path = Path("/var/backups/mongodb/production/2026-11-23T04:00:00Z/dump")
    made = make_plan(Ts(9, 1), FromImages(1, Backup(path, "directory", False, None, None, "oplog")), NOW)
    (line,) = [row for row in head_lines(Draft(plan=made, way=FROM_IMAGES, ways=ways), 60) if " from " in row[0][0]]
    text = "".join(piece for piece, _ in line)
    assert text.startswith(" from     /var/")
    assert text.endswith("/dump, no spare  f: backup and oplog")
    assert len(text) <= 60


def test_what_runs_names_its_collection_and_the_line_that_stops_it_is_whole() -> None:
    kill = "db.adminCommand({killOp: 1, op: NumberInt(29225)})"
    runs = RunningOperation("remove", "shop.orders", Client("ann@admin"), 3.0, "deleteMany({$where: 'slow()'})", kill)
    for width, label in ((60, " stop: "), (80, " to stop it: ")):
        scan = IncidentScan((), 1, Ts(1, 1), done=True, running=(runs,))
        what, stop = ("".join(text for text, _ in line).rstrip() for line in scan_lines(scan, width)[1:])
        assert what.startswith(" RUNNING for 3 s: deleteMany")
        assert " on shop.orders, by ann" in what
        assert stop == f"{label}{kill}"
        assert max(len(what), len(stop)) <= width


def test_while_something_runs_the_filter_and_what_is_missing_are_said_too() -> None:
    runs = RunningOperation("remove", "shop.orders", Client("ann@admin"), 3.0, "deleteMany({})", "db.killOp(1)")
    scan = IncidentScan((), 1, Ts(1, 1), done=True, trouble="s1: No server answers.", running=(runs,) * 5)
    shown = ["".join(text for text, _ in line) for line in scan_lines(scan, 60, "carts", 0)]
    assert shown[1:3] == [" 0 match 'carts' · Esc clears it", " s1: No server answers."]
    assert len(shown) == 8, "fifteen rows must do"
    assert shown[-1] == " and 3 more: tallyglass incidents names them"


def test_no_number_is_cut_in_what_is_said_of_a_profile() -> None:
    state = ProfileState("prod", "db1", NOW, counter=counter(7), counters=3, window=OplogWindow(Ts(1, 0), Ts(99, 0)))
    for width in range(60, 100):
        shown = ["".join(text for text, _ in line) for line in facts(state, NOW, width)]
        told = next(line for line in shown if line.startswith(" counter"))
        assert "…" not in told


def test_what_may_not_be_read_of_a_profile_is_said_below_all_else() -> None:
    window = LastWindow(NOW, 1, None, None, 2)
    state = ProfileState(
        "prod", "db1", NOW, deployment=Deployment(Kind.REPLICA_SET, "8.0.1"), counter=counter(7), counters=3,
        window=OplogWindow(Ts(1, 0), Ts(99, 0)), drill=LastDrill(NOW, True, "Proved.", window=window),
        lacking=("Oplog: needs read on local.", "Counters: needs read on shop."),
    )  # fmt: skip
    shown = ["".join(text for text, _ in line) for line in facts(state, NOW, 80)]
    assert len(shown) == FACTS
    assert shown[-1] == " unknown  Oplog: needs read on local. (and 1 more)"


def test_a_profile_that_cannot_be_read_says_why_or_that_there_is_more() -> None:
    state = ProfileState("prod", "db1", problem="no server answers at db1 " * 30, since=NOW)
    assert "".join(text for text, _ in facts(state, NOW, 60)[-1]).endswith("…")


def test_the_step_under_the_cursor_has_its_whole_title() -> None:
    words = "Work out what was lost in shop.orders, or written there since"
    (item,) = command_items([Command(Phase.RETURN, words, ("tallyglass",), "tallyglass")])
    for width in (60, 80):
        shown = ["".join(text for text, _ in line) for line in item.lines(width)]
        assert words in " ".join(" ".join(line[11 : width - 13].strip() for line in shown[:2]).split())
        assert max(map(len, shown)) <= width


async def test_the_line_that_is_typed_is_seen_below_ids_and_a_moment(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("2")
        screen.app.post_message(events.Paste("656b5e7d0f3c2a1b9d8e7f60 6acec319ea45308b0bdac3e7"))
        await screen.pilot.pause()
        await screen.press("m", "enter", "i", *"65a0")
        assert isinstance(screen.app.screen.focused, Input)
        assert any(line.strip() == "65a0" for line in screen.lines), screen.text


async def test_the_help_keeps_its_columns(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("question_mark")
        rows = [line.partition("│")[2].rpartition("│")[0] for line in screen.lines]
        where = next(number for number, row in enumerate(rows) if "1  Counters" in row)
        assert rows[where + 1].startswith(" " * 17)
        assert rows[where + 1].strip()
        first = {row[:3].strip() for row in rows[where + 1 : where + 9]}
        assert not any(word.isalpha() for word in first), f"no line is broken into the column of keys: {rows}"


@pytest.mark.parametrize("width", [60, 80])
def test_how_sure_a_statement_is_stays_whole(width: int) -> None:
    one = Candidate("ann", statement=f"deleteMany({{status: '{'shipped' * 9}'}})")
    named = replace(MANY[0], evidence=Authorship(Certainty.UNIQUE, (one,), "log", "because"))
    line = "".join(text for text, _ in about(named, width))
    assert (len(line), line.endswith("…, unique match; r plans it")) == (width, True)
