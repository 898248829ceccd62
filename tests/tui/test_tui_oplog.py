"""The oplog page: following and stopping, gaps, filter, one entry, incidents, jumps, saving, the way to a restore."""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson import Timestamp
from rich.cells import cell_len

from tallyglass.errors import DeploymentError, PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents import incident
from tallyglass.oplog.read import shard_tail, tail
from tallyglass.oplog.read.collect import Collector
from tallyglass.oplog.snapshot import (
    Authorship,
    Candidate,
    Certainty,
    Harm,
    Incident,
    IncidentScan,
    NamespaceRate,
    OplogRow,
    OplogUpdate,
    OplogWindow,
    RowKind,
)
from tallyglass.restore.pre_images.before_after import BeforeAfterText
from tallyglass_tui import clock
from tallyglass_tui.incidents.filter import IncidentFilter
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog import row_ring
from tallyglass_tui.oplog.following import Following
from tallyglass_tui.oplog.state import scan_lines, state_lines
from tallyglass_tui.restore.page import RestorePage
from tallyglass_tui.shell.incidents import incidents
from tallyglass_tui.shell.messages import OplogRequested

NOW = datetime.now(UTC)
BASE = int(NOW.timestamp()) - 100


def entry(n: int, op: str = "i", **o: Any) -> OplogRow:
    document = {"ts": Timestamp(BASE + n, 1), "t": 1, "op": op, "ns": "shop.orders", "o": {"_id": n} | o}
    return row(bson.encode(document))


def update(*rows: OplogRow, seen: int = 0, **more: Any) -> OplogUpdate:
    return OplogUpdate(
        NOW, rows, seen=seen or len(rows), matched=len(rows), dropped=more.pop("dropped", 0),
        last=rows[-1].ts if rows else None, window=OplogWindow(Ts(BASE - 7200, 1), Ts(BASE, 1), 5_000_000, 9_000_000),
        **more,
    )  # fmt: skip


INCIDENT = Incident(
    1, "deleteMany", "deleteMany on shop.orders", "shop.orders", Harm.LOSS, Ts(BASE, 3), Ts(BASE + 1, 4), NOW, NOW,
    ops=200, documents=200, samples=("6ace94f875482e4e4744b5bb",), point=Ts(BASE, 3),
)  # fmt: skip


async def open_oplog(screen: Any, count: int = 40) -> None:
    await screen.press("3")
    await screen.put("oplog", update(*(entry(n) for n in range(count)), connected_to="db1:27017"))


async def test_nothing_is_followed_in_a_pause(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("p")
        assert "following" not in screen.text
        assert screen.lines[2].startswith(" paused")
        await screen.press("p")
        assert "following" in screen.text


async def test_it_follows_stops_on_the_way_up_and_counts_what_is_new(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        assert "following" in screen.text
        assert "2 h 00 back to" in screen.text
        assert "from db1:27017" in screen.text
        await screen.press("up", "up")
        before = [line for line in screen.lines if "shop.orders" in line]
        await screen.put("oplog", update(*(entry(n) for n in range(40, 60)), dropped=5))
        assert "stopped, +25 new" in screen.text
        assert [line for line in screen.lines if "shop.orders" in line] == before
        await screen.press("end")
        assert "following" in screen.text
        assert "5 too fast to show" in screen.text
        assert screen.lines[-2].split()[-2:] == ["59", "insert"]


async def test_a_second_of_a_thousand_entries_leaves_out_no_row_not_even_after_the_backlog(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}

    async def followed(gateway: Any, wanted: Any, **options: Any) -> AsyncIterator[OplogUpdate]:
        asked.update(options)
        yield update()

    monkeypatch.setattr(tail, "follow", followed)
    await anext(oplog_reads.follow(None, OplogFilter()))  # type: ignore[arg-type]
    second = b"".join(entry(n).raw for n in range(1000))
    backlog = b"".join(entry(n).raw for n in range(500))
    collector = Collector(OplogFilter(), asked["room"], backlog=500)
    collector.add(backlog)
    for count in (1500, 1000, 1000):
        collector.add(second)
        rows, dropped = collector.rows(None)
        assert (len(rows), dropped) == (count, 0)
    collector.add(second + entry(1000).raw)
    assert collector.rows(None)[1] == 1, "the room is bounded"


async def test_a_tail_that_is_begun_again_goes_on_after_the_last_entry_it_handed_out(monkeypatch: Any) -> None:
    begun: list[Ts | None] = []

    async def followed(_: Any, wanted: OplogFilter, **__: Any) -> AsyncIterator[OplogUpdate]:
        begun.append(wanted.since)
        yield update(entry(1), entry(7))
        yield update()

    monkeypatch.setattr(tail, "follow", followed)
    place = oplog_reads.Place()
    for _ in range(2):
        async for _ in oplog_reads.follow(None, OplogFilter(), place):  # type: ignore[arg-type]
            pass
    assert begun == [None, entry(7).ts.next]


async def test_a_clock_that_was_set_back_takes_no_row_from_the_tail(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("up", "up")
        await screen.put("oplog", replace(update(entry(40)), at=NOW - timedelta(hours=1)))
        assert "stopped, +1 new" in screen.text
        assert len(screen.app.screen.tail.rows) == 40


async def test_a_jump_to_the_newest_row_stops_there(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3")
        await screen.put("oplog", update(entry(1), entry(2, "d")))
        await screen.press("exclamation_mark")
        await screen.put("oplog", update(entry(3)))
        assert "stopped, +1 new" in screen.text
        await screen.press("end", "I")
        await screen.put("incidents", IncidentScan((replace(INCIDENT, first=entry(3).ts),), 9, None, done=True))
        await screen.put("oplog", update(entry(4)))
        assert "stopped, +1 new" in screen.text


async def test_a_jump_with_a_filter_says_that_only_what_matches_was_looked_for(
    screen_at: Any, monkeypatch: Any
) -> None:
    asked: list[tuple[Ts | None, Ts | None]] = []

    async def read(_: Any, wanted: OplogFilter, limit: int) -> AsyncIterator[Any]:
        asked.append((wanted.since, wanted.until))
        for none in ():
            yield none

    async def alone(_: Any) -> None:
        return None

    monkeypatch.setattr("tallyglass.deployment.shards.shards_of", alone)
    monkeypatch.setattr(tail, "read", read)
    until = Ts(BASE + 50, 0)
    async with screen_at((120, 24)) as screen:
        screen.feeds.answer = []
        await screen.press("3", "ampersand", *f"ns:shop.carts until:{until}", "enter")
        await screen.press("t", *"now-1h", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert f"No entry that matches 'ns:shop.carts until:{until}' at or after" in screen.text
        page = screen.app.screen
        await oplog_reads.read_from(None, page.following.wanted, Ts(BASE, 0))  # type: ignore[arg-type]
        assert asked == [(Ts(BASE, 0), until)]


async def test_an_outage_claims_nothing_about_what_was_written(screen_at: Any) -> None:
    async with screen_at((120, 24)) as screen:
        await screen.press("3")
        lost = update(trouble="db1:27017 has not answered for 40 s.", since=NOW, answered_seconds=40.0)
        await screen.put("oplog", lost)
        assert "what was written meanwhile is unknown" in screen.text
        assert "40 s old" in screen.text
        await screen.put("oplog", update())
        assert "not known" not in screen.text
        assert " old" not in screen.text


async def test_gaps_rollbacks_and_trouble_stand_in_the_list(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen, 2)
        gap = replace(entry(3), kind=RowKind.GAP, what="3 s of oplog are missing", raw=b"")
        await screen.put("oplog", update(gap, gaps=1, trouble="db1:27017 has not answered for 5 s.", since=NOW))
        assert "-- gap -- 3 s of oplog are missing" in screen.text
        assert "1 gap" in screen.text
        assert "has not answered for 5 s" in screen.text
        await screen.press("up", "down", "enter")
        assert "3 s of oplog are missing" in screen.text


async def test_one_entry_in_full_copied_and_saved(screen_at: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    async with screen_at((100, 30)) as screen:
        await open_oplog(screen)
        await screen.press("up", "up", "enter")
        assert '"_id": 37' in screen.text
        assert f"--oplogLimit={BASE + 37}:1" in screen.text
        await screen.press("y")
        assert '"_id": 37' in screen.app.clipboard
        await screen.press("escape", "v", "up", "up", "y")
        assert len(screen.app.clipboard.splitlines()) == 3
        await screen.press("w")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "Saved 3 entries" in screen.text
        assert saved_ids(tmp_path) == [{"$numberInt": str(n)} for n in (35, 36, 37)]


def test_a_full_disk_leaves_no_part_of_what_was_selected(tmp_path: Path, monkeypatch: Any) -> None:
    def full(raw: bytes) -> str:
        if raw == entry(2).raw:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "{}"

    monkeypatch.setattr("tallyglass.oplog.entry.json.to_json", full)
    with pytest.raises(OSError, match="No space left"):
        oplog_reads.save([entry(1), entry(2)], tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_all_selected_rows_are_copied(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen, 1_020)
        await screen.press("v", "g", "y")
        assert len(screen.app.clipboard.splitlines()) == 1_020


async def test_an_entry_is_shown_with_what_was_read_of_its_document(screen_at: Any) -> None:
    async with screen_at((100, 30)) as screen:
        await screen.press("3")
        await screen.put("oplog", update(entry(1, "u"), entry(2, "d"), majority=Ts(BASE, 1)))
        screen.feeds.answer = BeforeAfterText(("before, from its pre-image:", "{...}"), ("kept as long as the oplog",))
        await screen.press("up", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "not majority-committed yet" in screen.text
        await screen.put("oplog", update(entry(3), majority=Ts(BASE + 3, 1)))
        screen.app.page.on_tick(None)
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "not majority-committed yet" not in screen.text
        order = ("majority-committed", "--oplogLimit", "before, from", '"op": ', "kept as long as")
        places = [screen.text.index(one) for one in order]
        assert places == sorted(places)
        screen.feeds.answer = DeploymentError("No \x1b[2J answer.")
        await screen.press("escape", "up", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "before: unknown. No \\u{1b}[2J answer." in screen.text
        opened = screen.app.page.opened
        opened.add(entry(9), ("of another entry",), ())
        assert "of another entry" not in opened.text


def saved_ids(folder: Path) -> list[object]:
    (path,) = folder.glob("oplog-*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    return [json.loads(line)["o"]["_id"] for line in path.read_text().splitlines()]


async def test_a_filter_goes_to_core_and_a_refused_filter_stays_open(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        first, long = screen.feeds.named["oplog"], "txn:b27a9f53c8534df7a747233659045052:33872"
        await screen.press("ampersand", *"op:z", "enter")
        assert "is not an operation" in screen.text
        assert screen.feeds.named["oplog"] is first
        assert "op:z" in (line.strip() for line in screen.lines), "it stays open to be corrected"
        await screen.press("end", "ctrl+u", *"ns:shop.* [/x]", "enter")
        assert screen.feeds.named["oplog"] is not first
        await screen.put("oplog", update(seen=500, partial=True))
        assert "0 matched 'ns:shop.* [/x]' · Esc" in screen.text
        await screen.put("oplog", update(seen=500, partial=True, older_unread=True))
        assert "0 matched 'ns:shop.* [/x]' · older ones not read · Esc" in screen.text
        screen.app.page.set_filter(long)
        host = "cluster0-shard-00-02.ab1cd.mongodb.net:27017"
        await screen.put("oplog", update(seen=500_000_000, per_second=12_300, connected_to=host))
        assert f"0 matched '{long}' · Esc clears it" in screen.text
        assert "from cluster0-" in screen.text
        assert "net:27017" in screen.text, "both ends of a long name stay"
        assert "Nothing that matches" in screen.text
        await screen.press("escape")
        assert "matched" not in screen.text


def numbers(screen: Any) -> list[int]:
    """The _ids of the rows on the screen."""
    return [int(line.split(" shop.orders ")[1].split()[0]) for line in screen.lines if " shop.orders " in line]


def found(screen: Any) -> list[str]:
    """The texts that are highlighted in the tail."""
    tail = screen.app.page.tail
    style = tail.style_of("tail--found")
    return [
        segment.text
        for y in range(tail.size.height)
        for segment in tail.render_line(y)
        if style.bgcolor and segment.style and segment.style.bgcolor == style.bgcolor
    ]


async def test_a_search_highlights_and_goes_from_match_to_match(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3")
        await screen.put("oplog", update(*(entry(n, name=f"Box{n % 10}") for n in range(60))))
        tail, feed = screen.app.page.tail, screen.feeds.named["oplog"]
        await screen.press("slash", *"box3")
        assert found(screen) == ["Box3", "Box3"], "while it is typed"
        await screen.press("enter")
        assert tail.rows[tail.cursor].id == "53"
        assert not tail.following
        await screen.press("n")
        assert "No more matches below" in screen.text
        await screen.press("N", "N")
        assert tail.rows[tail.cursor].id == "33"
        await screen.press("n")
        assert tail.rows[tail.cursor].id == "43"
        await screen.press("slash", "ctrl+u", *"nowhere", "enter")
        assert "No match among these rows" in screen.text
        assert screen.feeds.named["oplog"] is feed, "a search asks the server nothing"
        await screen.press("slash", "ctrl+u", *"box3", "enter", "escape")
        assert found(screen) == []
        await screen.press("G")
        assert "following" in screen.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_long_rows_are_wrapped_whole_and_the_cursor_stays_in_view(screen_at: Any, size: tuple[int, int]) -> None:
    async with screen_at(size=size) as screen:
        await screen.press("3")
        long = [entry(n, text=" ".join(f"word{n}-{k}" for k in range(30)), end=f"end{n}") for n in range(30)]
        await screen.put("oplog", update(*long))
        tail = screen.app.page.tail
        whole = long[29].what.replace(" ", "")
        last = whole[-12:]
        assert last not in screen.text.replace(" ", "")
        await screen.press("ctrl+w")
        shown = ["".join(line.split()) for line in screen.text.splitlines()]
        at = next(n for n, line in enumerate(shown) if "word29-0" in line)
        first, *rest = shown[at : at + len(tail._wrapped(29, size[0]))]
        assert "".join([first[first.index(whole[:8]) :], *rest]) == whole
        await screen.press("k", "k", "k")
        for _ in range(2):
            assert long[tail.cursor].what[:12] in screen.text
            await screen.press("pageup")
        await screen.press("G")
        assert tail.following
        assert last[-6:] in screen.text.replace(" ", "")
        await screen.press("ctrl+w")
        assert len([line for line in screen.text.splitlines() if " ins " in line]) > 10


async def test_a_filter_shows_what_it_does_while_it_is_typed(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        feed = screen.feeds.named["oplog"]
        await screen.press("ampersand", *"id:3")
        assert numbers(screen) == [3]
        await screen.put("oplog", update(entry(50), entry(3, "d")))
        assert numbers(screen) == [3, 3]
        await screen.press("7", "x", ":")
        await screen.press("escape")
        await screen.press("ampersand", *"id:900")
        screen.app.page.tail.say(("No entry has arrived.",))
        assert "None of the newest 42 rows matches." in screen.text, "not that none has arrived"
        await screen.press("escape")
        assert numbers(screen)[-2:] == [50, 3], "all rows are back, with those that came meanwhile"
        assert screen.feeds.named["oplog"] is feed
        await screen.press("home", "down", "ampersand", *"id:3", "escape")
        assert (screen.app.page.tail.cursor, numbers(screen)[0]) == (1, 0), "who stood still stands there again"
        await screen.press("ampersand", *"id:37", "enter")
        assert screen.feeds.named["oplog"] is not feed


async def test_a_filter_on_the_incidents_filters_the_list(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        feed = screen.feeds.named["oplog"]
        dropped = replace(
            INCIDENT, kind="drop", title="drop a.b", ns="a.b", first=Ts(BASE - 90, 1), last=Ts(BASE - 90, 1)
        )
        await screen.press("i")
        await screen.put("incidents", IncidentScan((INCIDENT, dropped), 9, None, done=True))
        await screen.press("slash", *"ns:a.*")
        assert "drop a.b" in screen.text
        assert "deleteMany on shop.orders" not in screen.text, "while it is typed"
        await screen.press("escape")
        assert "deleteMany on shop.orders" in screen.text
        await screen.press("ampersand", *f"since:{BASE - 50}", "enter")
        assert "1 match" in screen.text
        assert "drop a.b" not in screen.text
        assert screen.app.page.incidents.selected is INCIDENT
        await screen.press("slash", "ctrl+u", *"id:4", "enter")
        assert "That filter works only on entries" in screen.text
        await screen.press("escape")
        assert "1 match" in screen.text, "the one before is back"
        assert screen.feeds.named["oplog"] is feed
        await screen.press("escape")
        assert "drop a.b" in screen.text
        await screen.press("escape")
        assert "following" in screen.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", True), ("ns:shop.*", True), ("ns:!shop.*", False), ("ns:other", False), ("op:d", True), ("op:u", False),
        ("DELETEMANY", True), ("!deletemany", False), ("/^many/", False), ("/ORDERS$/", True),
        pytest.param(f"until:{BASE}", False, id="until"),
        pytest.param(f"since:{BASE + 1}", True, id="since"),
        pytest.param(f"since:{BASE + 2}", False, id="since the next second"),
    ],
)  # fmt: skip
def test_which_incidents_a_filter_shows(text: str, shown: bool) -> None:
    assert IncidentFilter.parse(text).shows(replace(INCIDENT, op="d")) is shown


def test_what_is_recent_in_a_recording_is_recent_at_the_moment_that_is_shown() -> None:
    clock.show(INCIDENT.last.time + timedelta(minutes=1))
    try:
        assert IncidentFilter.parse("since:now-2m").shows(INCIDENT)
        assert not IncidentFilter.parse("since:now-30s").shows(INCIDENT)
        following = Following(SimpleNamespace())  # type: ignore[arg-type]
        following.set_filter("until:now-1m")
        assert following.wanted == OplogFilter(until=Ts(INCIDENT.last.t, 0))
    finally:
        clock.show(None)


def test_a_dropped_database_is_in_the_namespace_of_all_its_collections() -> None:
    dropped = replace(INCIDENT, kind="dropDatabase", ns="shop")
    assert IncidentFilter.parse("ns:shop.*").shows(dropped)
    assert not IncidentFilter.parse("ns:shopping.*").shows(dropped)


async def test_the_members_to_read_from_are_those_of_the_connection_string(screen_at: Any) -> None:
    async with screen_at((120, 24), uri="mongodb://db1/?readPreference=nearest") as screen:
        await open_oplog(screen)
        assert "from db1:27017 (nearest)" in screen.text


async def test_rows_of_several_shards_name_theirs(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3")
        gap = replace(entry(2), kind=RowKind.GAP, what="GAP: 4 s of entries are missing", shard="s1")
        await screen.put("oplog", update(replace(entry(1), shard="s0"), gap, trouble="s1: No server answers."))
        assert "s0 shop.orders" in screen.text
        assert "s1: GAP: 4 s of entries are missing" in screen.text
        assert "s1: No server answers." in screen.text
        await screen.press("up", "up", "enter")
        assert "on shop.orders of shard s0" in screen.text


async def test_the_end_of_an_entry_is_there_after_the_window_was_enlarged(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("3")
        await screen.put("oplog", update(entry(1, **{f"f{n}": "x" * 150 for n in range(60)})))
        await screen.press("enter", "end")
        assert '"f59"' in screen.text
        await screen.pilot.resize_terminal(200, 50)
        await screen.pilot.pause()
        assert '"f59"' in screen.text


async def test_changes_that_are_not_sure_are_one_row_that_enter_unfolds(screen_at: Any) -> None:
    unsure = [
        replace(INCIDENT, harm=Harm.CHANGE, confidence="low", ns=ns, title=f"deleteMany on {ns}", first=Ts(BASE + n, 1))
        for n, ns in enumerate(("shop.a", "shop.b"), 1)
    ]
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("i")
        await screen.put("incidents", IncidentScan((INCIDENT, *unsure), 9, None, done=True))
        assert "1 loss · 2 not sure" in screen.text
        (line,) = [line for line in screen.lines if "shop.a" in line]
        assert line.startswith("?  not sure: 2 rows of deleteMany on shop.b, shop.a")
        await screen.press("j")
        assert screen.app.page.incidents.selected is None
        await screen.press("enter", "j")
        assert [line[:2] for line in screen.lines if "deleteMany on shop." in line] == ["!!", "? ", "? ", "? "]
        assert screen.app.page.incidents.selected is unsure[1]
        await screen.press("enter")
        assert "200 documents in 200 oplog entries" in screen.text
        await screen.press("escape", "k", "enter")
        assert "Enter shows them" in screen.text
        await screen.press("/", *"shop.a", "enter")
        assert "1 match" in screen.text
        assert "not sure: 2 rows" not in screen.text


@pytest.mark.parametrize("view", [("i", "j"), ("a",)], ids=["a line of several incidents", "rates"])
async def test_where_no_entry_is_shown_none_is_copied_or_restored(screen_at: Any, view: Sequence[str]) -> None:
    unsure = [replace(INCIDENT, confidence="low", harm=Harm.CHANGE, first=Ts(BASE + n, 1)) for n in (1, 2)]
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("i")
        await screen.put("incidents", IncidentScan((INCIDENT, *unsure), 9, None, done=True))
        await screen.press("escape", *view, "y", "r", "e")
        assert not screen.app.clipboard
        assert screen.app.current_mode == "oplog"
        assert "Nothing is selected here." in screen.text


async def test_incidents_worst_first_and_the_way_to_the_restore(screen_at: Any, monkeypatch: Any) -> None:
    visits: list[Any] = []
    monkeypatch.setattr(RestorePage, "visit", lambda self, message: visits.append(message))
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("i")
        assert "Reading the oplog back" in screen.text
        trim = replace(INCIDENT, kind="ttl", title="TTL passes on shop.carts", first=Ts(BASE + 9, 1))
        await screen.put("incidents", IncidentScan((trim, INCIDENT), 4000, Ts(BASE - 50, 1), done=True))
        assert "1 loss · 1 routine (hidden, a shows)" in screen.text
        assert "TTL passes" not in screen.text
        await screen.press("a")
        (mistake,) = [line for line in screen.lines if "deleteMany on shop.orders" in line]
        (routine,) = [line for line in screen.lines if "TTL passes on shop.carts" in line]
        assert mistake.startswith("!!")
        assert "!" not in routine, "routine has no alarm"
        assert screen.lines.index(mistake) < screen.lines.index(routine), "it comes last, however late"
        assert not screen.app.page.check_action("save", ()), "what is selected is no entry"
        await screen.press("enter")
        assert "200 documents in 200 oplog entries" in screen.text
        assert "Who: User unknown" in screen.text
        assert screen.text.index("Who: ") < screen.text.index("--oplogLimit"), "a small screen shows who did it"
        assert "One command, or several" in screen.text
        assert f"--oplogLimit={BASE}:3" in screen.text
        grown = replace(INCIDENT, ops=300, documents=300)
        await screen.put("incidents", IncidentScan((trim, grown), 4100, Ts(BASE - 50, 1), done=True))
        monkeypatch.setattr(clock, "now", lambda: NOW + timedelta(hours=3))
        screen.app.page.on_tick(None)
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "300 documents in 300 oplog entries" in screen.text
        assert "3 h 0" in screen.text
        await screen.press("r")
        await screen.pilot.pause(0.2)
        assert visits[0].incident is grown
        assert visits[0].before == Ts(BASE, 3)
        assert screen.app.current_mode == "restore"


class Blind:
    """A gateway to a server of which nothing but the oplog may be read."""

    async def command(self, *_: Any, **__: Any) -> Any:
        raise PrivilegeError("not authorized")

    async def inspect(self, *_: Any, **__: Any) -> Any:
        raise PrivilegeError("not authorized")

    async def list_databases(self) -> list[str]:
        raise PrivilegeError("not authorized")

    def members(self) -> tuple[str, ...]:
        return ("a:1", "b:1")


async def test_the_chain_of_evidence_is_shown(screen_at: Any) -> None:
    ann = Candidate(
        "ann@admin", "nightly 3.2", ("10.0.4.7:5000",), "PyMongo 4.20", "conn9", 200, "deleteMany({s: 1})", 1,
        "COLLSCAN", NOW, NOW + timedelta(milliseconds=3), ("05:00:00 shop.carts deleteMany({}): 7 documents",),
    )  # fmt: skip
    two = (ann, replace(ann, user="bob@admin", documents=90))
    sure = ["ann, nightly 3.2", "account ann@admin, application", "10.0.4.7:5000", "deleteMany({s: 1})"]
    told = {
        Certainty.UNIQUE: ((ann,), [*sure, "200 documents, in 3 ms, COLLSCAN", "unique. because", "shop.carts"]),
        Certainty.AMBIGUOUS: (two, ["2 possible", "not one account", "account ann@admin", "account bob@admin"]),
        Certainty.NONE: ((), ["none. because", "User unknown"]),
    }
    for grade, (candidates, words) in told.items():
        async with screen_at() as screen:
            await open_oplog(screen)
            shown = replace(INCIDENT, evidence=Authorship(grade, candidates, "log", "because"))
            await screen.press("i")
            await screen.put("incidents", IncidentScan((shown,), 4100, Ts(BASE - 50, 1), done=True))
            listed = screen.text
            await screen.press("enter")
            assert not [word for word in words if word not in listed + screen.text], screen.text
            assert ("ann" in listed) is (grade is Certainty.UNIQUE)


async def test_known_incidents_stay_while_the_oplog_is_read_again(monkeypatch: Any) -> None:
    whole = IncidentScan((INCIDENT,), 9, None, done=True)
    begun, lost = replace(whole, incidents=(), done=False), replace(whole, incidents=(), done=False, trouble="Lost.")

    async def watch(gateway: Any) -> Any:
        for scan in (begun, whole, lost, begun, replace(whole, incidents=())):
            yield scan

    monkeypatch.setattr(incident, "watch", watch)
    told = [(len(scan.incidents), scan.trouble) async for scan in incidents(Blind())]  # type: ignore[arg-type]
    assert told == [(0, ""), (1, ""), (1, "Lost."), (1, "The oplog is read again."), (0, "")]


async def test_a_jump_shows_the_past_and_the_end_returns(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        screen.feeds.answer = [entry(n, "d") for n in range(5)]
        await screen.press("t", *"now-1h", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "the past from" in screen.text
        assert "! " in screen.text
        assert "End returns to the live tail." in screen.lines[-1]
        await screen.press("end")
        assert "following" in screen.text
        assert "returns to the live tail" not in screen.text, "it has returned"
        await screen.press("t", *"now-1h", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.press("x")
        assert "ns:" in screen.text
        assert "returns to the live tail" not in screen.text, "the history of a document is no past"
        await screen.press("escape")
        await screen.press("t", *"yesterday", "enter")
        assert "is not a time" in screen.text


async def test_a_jump_among_large_entries_begins_where_it_was_asked_to(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        screen.feeds.answer = [entry(n, text="x" * 100_000) for n in range(200)]
        await screen.press("t", *"now-1h", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        shown = screen.app.screen.tail.rows
        assert shown[0] is screen.feeds.answer[0]
        assert f", {len(shown)} entries" in screen.text


async def test_a_jump_reads_no_more_large_entries_than_can_be_shown(monkeypatch: Any) -> None:
    async def alone(_: Any) -> None:
        return None

    async def read(_: Any, wanted: OplogFilter, limit: int) -> AsyncIterator[OplogRow]:
        for n in range(limit):
            given.append(n)
            yield replace(entry(1), raw=b"x" * 100_000)

    given: list[int] = []
    monkeypatch.setattr("tallyglass.deployment.shards.shards_of", alone)
    monkeypatch.setattr(tail, "read", read)
    rows = await oplog_reads.read_from(None, OplogFilter(), Ts(BASE, 1))  # type: ignore[arg-type]
    assert len(rows) == len(given) == row_ring.BYTES // 100_000 + 1


async def test_a_shard_that_cannot_be_read_may_hold_the_next_destructive_operation(monkeypatch: Any) -> None:
    async def shards(_: Any) -> Any:
        return SimpleNamespace(gateways={"s1": None})

    async def lost(_: Any, wanted: OplogFilter, limit: int) -> list[OplogRow]:
        return [OplogRow(RowKind.NOTE, Ts(BASE, 1), None, None, "", "", "s1 is not read: No server answers.")]

    monkeypatch.setattr("tallyglass.deployment.shards.shards_of", shards)
    monkeypatch.setattr(shard_tail, "read_shards", lost)
    with pytest.raises(ReadError, match="s1 is not read"):
        await oplog_reads.next_destructive(None, OplogFilter(), Ts(BASE, 1))  # type: ignore[arg-type]


async def test_a_jump_to_before_the_oplog_says_so_and_shows_no_other_entries(screen_at: Any, monkeypatch: Any) -> None:
    class Ends:
        async def find_one(self, *_: Any, sort: Any, **__: Any) -> dict[str, Any]:
            return {"ts": Timestamp(BASE if sort[0][1] == 1 else BASE + 9, 1)}

    async def none(_: Any) -> None:
        return None

    async def read(_: Any, wanted: OplogFilter, limit: int) -> AsyncIterator[Any]:
        yield entry(0)

    monkeypatch.setattr("tallyglass.deployment.shards.shards_of", none)
    monkeypatch.setattr(tail, "read", read)
    async with screen_at((120, 24)) as screen:
        monkeypatch.setattr(screen.feeds, "ask", lambda make, seconds=30.0: make(Ends()))
        await open_oplog(screen)
        for at, said in ((Ts(BASE, 1), "the past from"), (Ts(BASE - 1, 0), "is before the oplog begins")):
            await screen.press("end")
            screen.app.visit(OplogRequested(at))
            await screen.app.workers.wait_for_complete()
            await screen.pilot.pause()
            assert said in screen.text
            assert ("the past from" in screen.text) is (at.t == BASE)


@pytest.mark.parametrize("error", [None, pytest.param(ReadError("No answer within 30 s."), marks=pytest.mark.long)])
@pytest.mark.parametrize("destructive", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_what_comes_late_for_another_filter_is_not_shown_as_of_this_one(
    screen_at: Any, monkeypatch: Any, error: ReadError | None, destructive: bool
) -> None:
    async with screen_at((120, 24)) as screen:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def late(*_: Any) -> Any:
            asked.set()
            await answered.wait()
            if error:
                raise error
            return entry(1) if destructive else [entry(n) for n in range(5)]

        monkeypatch.setattr(screen.feeds, "ask", late)
        await open_oplog(screen)
        await screen.press("up")
        if destructive:
            screen.app.screen.action_destructive()
        else:
            screen.app.visit(OplogRequested(Ts(BASE, 1)))
        await asked.wait()
        screen.app.screen.set_filter("op:d")
        answered.set()
        await screen.pilot.pause()
        await screen.put("oplog", update(entry(7, "d")))
        assert "op:d" in screen.text
        assert "following" in screen.text
        assert not error or error.title not in screen.text


async def test_esc_goes_back_to_the_page_that_led_here_until_something_else_is_looked_for(screen_at: Any) -> None:
    async with screen_at() as screen:
        screen.feeds.answer = [entry(n) for n in range(5)]

        async def visit() -> None:
            await screen.press("4")
            screen.app.visit(OplogRequested(Ts(BASE, 1)))
            await screen.pilot.pause()
            await screen.app.workers.wait_for_complete()
            await screen.pilot.pause()
            assert "the past from" in screen.text

        await visit()
        await screen.press("down", "enter", "escape")
        assert screen.app.current_mode == "oplog"
        await screen.press("escape")
        assert screen.app.current_mode == "restore"
        await visit()
        await screen.press("end")
        await screen.put("oplog", update(*(entry(n) for n in range(5))))
        await screen.press("up", "escape")
        assert screen.app.current_mode == "oplog"
        assert "following" in screen.text
        await screen.press("escape")
        assert screen.app.current_mode == "restore"
        await visit()
        await screen.press("3", "escape")
        assert "following" in screen.text
        screen.app.visit(OplogRequested(Ts(BASE, 1)))
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "the past from" in screen.text
        await screen.press("escape")
        assert "following" in screen.text, "the palette led here from this page"


async def test_the_next_incident_is_the_newest_from_the_live_tail_and_else_the_first_after_the_entry(
    screen_at: Any,
) -> None:
    at = {n: replace(INCIDENT, first=Ts(BASE + n, 1), title=f"incident {n}") for n in (-50, 10, 30)}
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("I")
        assert "Reading the oplog back for incidents" in screen.text
        await screen.put("incidents", IncidentScan((at[30],), 9, None, done=False))
        assert "following" in screen.text
        await screen.put("incidents", IncidentScan((at[30], at[-50], at[10]), 9, None, done=True))
        assert "incident 30." in screen.text
        assert "stopped" in screen.text
        await screen.press("I")
        assert "No incident after this entry" in screen.text
        await screen.press("home", "I", "enter")
        assert f"--oplogLimit={BASE + 10}:1" in screen.text
        screen.feeds.answer = [entry(-60)]
        await screen.press("escape", "t", *"now-1h", "enter")
        await screen.app.workers.wait_for_complete()
        screen.feeds.answer = [entry(-50, "d")]
        await screen.press("I")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "incident -50." in screen.text
        assert "the past from" in screen.text


async def test_a_report_can_be_written_though_the_present_folder_was_removed(
    screen_at: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("i")
        await screen.put("incidents", IncidentScan((INCIDENT,), 9, None, done=True))
        (tmp_path / "gone").rmdir()
        await screen.press("e")
        line = screen.app.screen.query_one("#input")
        assert line.value == str(tmp_path / f"incident-{INCIDENT.first.time:%Y%m%d-%H%M%S}.html")
        line.value = "inc"
        await screen.press("tab", "enter")
        assert "was removed" in screen.text


async def test_the_next_incident_may_be_newer_than_a_list_that_holds_still(screen_at: Any) -> None:
    at = {n: replace(INCIDENT, first=Ts(BASE + n, 1), title=f"incident {n}") for n in (10, 30)}
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("i")
        await screen.put("incidents", IncidentScan((at[10],), 9, None, done=True))
        await screen.press("down", "escape")
        await screen.put("incidents", IncidentScan((at[10], at[30]), 9, None, done=True))
        await screen.press("I")
        assert "incident 30." in screen.text
        await screen.press("end")
        screen.app.screen.incidents.set_filter("ns:a")
        await screen.press("I")
        assert "No incident that matches 'ns:a'." in screen.text


async def test_the_same_transaction_is_a_filter(screen_at: Any) -> None:
    session = bytes(range(16))
    in_transaction = row(
        bson.encode(
            bson.decode(entry(3).raw)
            | {"lsid": {"id": bson.Binary(session, 4), "uid": b""}, "txnNumber": bson.Int64(7)}
        )
    )
    async with screen_at((140, 30)) as screen:
        await screen.press("3")
        await screen.put("oplog", update(replace(in_transaction, raw=b""), entry(1), in_transaction))
        await screen.press("up", "X")
        assert "belongs to no transaction" in screen.text
        await screen.press("up", "X", "down")
        assert "its transaction is not known" in screen.text
        before = screen.feeds.named["oplog"]
        await screen.press("down", "X")
        assert screen.feeds.named["oplog"] is not before
        assert screen.app.screen.following.wanted.transaction == f"{session.hex()}:7"
        await screen.press("escape")
        assert not screen.app.screen.following.wanted.transaction
        await screen.put("oplog", update(in_transaction))
        await screen.press("up", "enter", "X")
        assert screen.app.screen.following.wanted.transaction == f"{session.hex()}:7", "also of the opened entry"
        assert screen.app.screen.view == "tail"


async def test_a_search_before_the_first_entry_finds_nothing(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3", "slash", "a", "enter")
        assert "No match among these rows" in screen.text


async def test_activity_by_namespace(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        await screen.press("a")
        await screen.put("oplog", update(rates=(NamespaceRate("shop.[/x]", 3.0, 0.0, 1.0, 0.0),)))
        line = next(line for line in screen.lines if "shop.[/x]" in line)
        assert "3.0/s" in line
        assert "·" in line


async def test_without_an_oplog_the_panel_says_why(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3")
        screen.feeds.named["oplog"].fail(DeploymentError("A standalone has no oplog.", "Restart it with --replSet."))
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "A standalone has no oplog. Restart it with --replSet." in screen.text
        await screen.press("1")
        assert "standalone" not in screen.text


async def test_what_may_not_be_read_is_neither_followed_nor_being_read(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3", "i")
        assert "Reading the oplog back ..." in screen.text
        for name in ("oplog", "incidents"):
            screen.feeds.named[name].fail(PrivilegeError("This user may not run find on it.", "Ask for a role."))
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "Reading the oplog" not in screen.text
        assert " The oplog cannot be read." in screen.lines
        assert screen.text.count("This user may not run find on it. Ask for a role.") == 2, "the banner and the list"
        await screen.press("escape")
        assert "following" not in screen.text
        assert " the oplog cannot be read: nothing to follow" in screen.lines


@pytest.mark.parametrize(
    "what",
    [
        "[/x]",
        *(pytest.param(other, marks=pytest.mark.long) for other in ("[@click=app.quit]x", "x" * 5000, "宽" * 100)),
    ],
)
async def test_texts_from_the_server_are_only_text(screen_at: Any, what: str) -> None:
    async with screen_at() as screen:
        await screen.press("3")
        bad = replace(entry(1), ns=what, what=what, id=what, op=what[:8])
        await screen.put("oplog", update(bad, replace(bad, kind=RowKind.NOTE), connected_to=what))
        assert what[:3] in screen.text
        await screen.press("up", "up", "enter", "escape", "i")
        incident = replace(INCIDENT, title=what, ns=what, samples=(what,), note=what)
        await screen.put("incidents", IncidentScan((incident,), 1, None, done=True, trouble=what))
        await screen.press("enter")
        assert screen.app.is_running
        assert all(len(line) <= 80 for line in screen.lines)


@pytest.mark.parametrize("width", [60, 80])
def test_the_lines_above_a_view_leave_out_what_does_not_fit(width: int) -> None:
    full = OplogWindow(Ts(BASE - 108_000, 1), Ts(BASE, 1), 11_800_000, 1_000_000_000, 4e5, recent_bytes_per_hour=1e8)
    scan = IncidentScan((INCIDENT,), 12_345, Ts(BASE, 3), False)
    state = state_lines(replace(update(), window=full), "", "", 0, width)
    lines = ["".join(text for text, _ in line) for line in (*state, *scan_lines(scan, width))]
    assert all(cell_len(line) <= width for line in lines)
    assert lines[-1].startswith(" so far · 1 loss"), "what is not read yet may hold more"
    assert width < 80 or "shrinks to about 10 h" in lines[0]


async def test_a_tail_that_scrolls_is_drawn_twice_a_second_and_never_later(screen_at: Any) -> None:
    async with screen_at() as screen:
        await open_oplog(screen)
        tail = screen.app.screen.tail
        tail._drawn_at = time.monotonic() + 3_600
        await screen.put("oplog", update(entry(90, name="late")))
        assert "late" not in screen.text, "it was drawn a moment ago"
        tail._drawn_at = 0.0
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "late" in screen.text
