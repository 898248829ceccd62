"""Recordings: what was shown comes back, within bounds, and a file from anybody does no harm."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.plans import make_plan
from idle import opened
from tallyglass.connection.target import Target
from tallyglass.counters.snapshot import Ceiling, CountersSnapshot, CounterView, Forecast, NumericType, Semantics
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan, OplogRow, OplogUpdate, RowKind
from tallyglass.restore.model.source import Backup, FromBackup, FromImages
from tallyglass.restore.plan.at_hand import SourcesAtHand
from tallyglass_tui import clock
from tallyglass_tui.oplog.reads import merge
from tallyglass_tui.pages import PAGES
from tallyglass_tui.recorded import KINDS
from tallyglass_tui.restore.draft import Planned
from tallyglass_tui.shell import recording as recording_module
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.difference import changed, difference
from tallyglass_tui.shell.feed import Feed, Feeds, FeedTrouble
from tallyglass_tui.shell.recording import FORMAT, Recorder, Recording
from tallyglass_tui.shell.replay import RecordedFeeds, ReplayDashboard

T0 = 1_795_000_000
AT = datetime.fromtimestamp(T0, UTC)
DEPLOYMENT = Deployment(Kind.REPLICA_SET, "6.0.5", set_name="rs0", primary="db1:27017", me="db1:27017")
COUNTER = CounterView(
    "shop.counters/orders", "shop.counters", "orders", "seq", "f:1", "hand-made", 41_000, NumericType.INT32,
    Semantics.LAST, 0, Ceiling(2**31 - 1, "int32"), 0.2, 3.5, Forecast(early=AT, rate=3.5), at=AT,
    history=((T0 - 60.0, 40_000.0), (float(T0), 41_000.0)),
)  # fmt: skip
SNAPSHOT = CountersSnapshot(AT, (COUNTER, replace(COUNTER, key="b", id="invoices", value=float("inf"))), known=2)
INCIDENT = Incident(
    1, "drop", "drop of shop.carts", "shop.carts", Harm.LOSS, Ts(T0, 1), Ts(T0, 1), AT, AT, 1, 120, samples=("1",)
)
ROW = OplogRow(RowKind.ENTRY, Ts(T0, 5), 1, AT, "i", "shop.orders", "insert a=1", raw=b"\5\0\0\0\0")

SOURCES = SourcesAtHand((Ts(T0, 1),), frozenset({"1:1 shop.orders", "2:1 shop.carts"}))
BACKUP = Backup(Path("/backups/latest"), "directory", False, Ts(T0, 1), Ts(T0, 2), "oplog")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, json_values)
def test_a_change_leads_from_one_value_to_the_next(before: Any, after: Any) -> None:
    change = json.loads(json.dumps(difference(before, after)))
    assert changed(before, change) == after


def test_what_stays_is_not_repeated() -> None:
    rows = [{"id": n, "value": n} for n in range(100)]
    assert difference(rows, [*rows[:7], {"id": 7, "value": 8}, *rows[8:]]) == {"7": {"value": [8]}}
    assert difference([1, 2, 3], [1, 2, 3, 4]) == [3, [4], 0]
    assert difference([1, 2, 3, 4, 5], [1, 9, 8, 4, 5]) == [1, [9, 8], 2]
    assert difference([1, 2, 3], [0, 1, 2, 3]) == [0, [0], 3]
    assert difference({"x": 1, "y": 2}, {"x": 3, "y": 4}) == {"x": [3], "y": [4]}


@pytest.mark.parametrize("change", [[1, 2], [5, [], 0], {"x": [1]}, {"-1": [1]}, {"9": [1]}, "text", [0, [], -4]])
def test_a_change_that_does_not_fit_is_refused(change: Any) -> None:
    with pytest.raises(ValueError, match="fit"):
        changed([1, 2], change)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds since the recorder began; a test sets them."""
    seconds = [0.0]
    monkeypatch.setattr(recording_module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    yield seconds
    clock.show(None)


def record(path: Path, now: list[float], *values: tuple[float, str, str, object]) -> Recorder:
    recorder = Recorder(path, "PROD", KINDS)
    for at, feed, subject, value in values:
        now[0] = at
        recorder.put(feed, subject, value, merge if feed == "oplog" else None)
    recorder.close()
    return recorder


def update(n: int, rows: tuple[OplogRow, ...] = (ROW,)) -> OplogUpdate:
    return OplogUpdate(datetime.fromtimestamp(T0 + n, UTC), rows, n, n, 0, Ts(T0, n))


def test_what_was_recorded_comes_back_at_its_time(tmp_path: Path, now: list[float]) -> None:
    path = tmp_path / "r"
    later = replace(SNAPSHOT, counters=(replace(COUNTER, value=41_007), SNAPSHOT.counters[1]))
    scan = IncidentScan((INCIDENT,), 10, Ts(T0, 0), done=True)
    recorder = record(
        path, now, (1, "counters", "", SNAPSHOT), (1, "incidents", "", scan), (2, "deployment", "", DEPLOYMENT),
        (2, "sources", "", SOURCES),
        (5, "counters", "", later), (6, "counters", "", later), (9, "nobody knows", "", object()),
    )  # fmt: skip
    assert not recorder.lacks
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = Recording(path, KINDS)
    assert (found.label, found.moments()) == ("PROD", [1000, 2000, 5000])
    assert found.value("counters", "", 1) == (5000, later)
    assert found.value("counters", "", 0) == (1000, SNAPSHOT)
    assert found.value("incidents", "", 0) == (1000, scan)
    assert found.value("deployment", "", 0) == (2000, DEPLOYMENT)
    assert found.value("sources", "", 0) == (2000, SOURCES)
    assert found.places("counters", "", -1, 4999) == range(1)


@pytest.mark.parametrize(
    "source", [FromBackup(BACKUP, "localhost:27018"), FromImages(9), FromImages(9, BACKUP)], ids=lambda one: one.form
)
def test_a_plan_comes_back_wherever_its_documents_come_from(
    tmp_path: Path, now: list[float], source: FromBackup | FromImages
) -> None:
    planned = Planned(make_plan(Ts(T0, 1), source, AT))
    record(tmp_path / "r", now, (1, "plan", "", planned))
    assert Recording(tmp_path / "r", KINDS).value("plan", "", 0)[1] == planned


def test_documents_are_left_out_and_rows_are_counted(tmp_path: Path, now: list[float]) -> None:
    rows = tuple(replace(ROW, ts=Ts(T0, n)) for n in range(100))
    record(tmp_path / "r", now, (1, "oplog", "ns:a.*", update(100, rows)))
    assert ROW.raw.hex() not in gzip.decompress((tmp_path / "r").read_bytes()).decode()
    _, value = Recording(tmp_path / "r", KINDS).value("oplog", "ns:a.*", 0)
    assert (len(value.rows), value.dropped, value.rows[-1]) == (40, 60, replace(rows[-1], raw=b""))


def test_fast_values_are_joined_until_one_is_due(tmp_path: Path, now: list[float]) -> None:
    record(tmp_path / "r", now, *((n / 10, "oplog", "", update(n)) for n in range(1, 31)))
    found = Recording(tmp_path / "r", KINDS)
    assert len(found.moments()) == 4
    values = [found.value("oplog", "", place)[1] for place in found.places("oplog", "", -1, 9999)]
    assert sum(len(value.rows) for value in values) == 30


def test_it_ends_at_its_bound_and_says_so(tmp_path: Path, now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "MOST_LINES", 4)
    recorder = record(tmp_path / "r", now, *((n * 2, "oplog", "", update(n)) for n in range(9)))
    assert recorder.lacks[0].startswith("The recording is full: 4 lines")
    assert len(Recording(tmp_path / "r", KINDS).moments()) == 3
    with pytest.raises(InputError, match="exists already"):
        Recorder(tmp_path / "r", "", KINDS)


async def test_the_dashboard_says_that_it_is_not_recorded_any_more(
    screen_at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_module, "MOST_LINES", 1)
    recorder = Recorder(tmp_path / "full", "db1", KINDS)
    async with screen_at() as screen:
        screen.feeds._record = recorder
        screen.app.page.show_state()
        assert "recording" not in screen.text
        recorder.put("counters", "", SNAPSHOT)
        screen.app.page.show_state()
        await screen.pilot.pause()
        assert " ! The recording is full: 1 lines, 0 MB." in screen.text
    recorder.close()


def test_the_command_ends_once_the_disk_is_full(tmp_path: Path) -> None:
    limits = (resource.RLIMIT_FSIZE, (0, 0))
    found = subprocess.run(
        [sys.executable, "-m", "tallyglass_tui", "record", str(tmp_path / "r"), "mongodb://127.0.0.1:1"],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, preexec_fn=lambda: resource.setrlimit(*limits),
        stderr=subprocess.PIPE, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert found.returncode == 3
    assert "The recording cannot be written any more: File too large." in found.stderr
    assert "holds nothing to replay" in found.stderr


def test_a_recording_of_nothing_is_no_success(tmp_path: Path) -> None:
    words = ["record", str(tmp_path / "r"), "mongodb://127.0.0.1:1", "--seconds", "0.1"]
    found = subprocess.run(
        [sys.executable, "-m", "tallyglass_tui", *words], stderr=subprocess.PIPE, text=True, timeout=30, check=False
    )
    assert (found.returncode, "holds nothing to replay" in found.stderr) == (3, True)


def test_a_value_that_cannot_be_written_is_left_out_and_its_feed_goes_on(tmp_path: Path, now: list[float]) -> None:
    odd = replace(SNAPSHOT, counters=(replace(COUNTER, value=object()),))
    recorder = record(
        tmp_path / "r", now, (1, "counters", "", odd), (3, "counters", "", SNAPSHOT), (5, "counters", "", odd),
        (7, "counters", "", replace(SNAPSHOT, known=3)),
    )  # fmt: skip
    assert recorder.lacks == ["Some of this could not be recorded: counters."]
    found = Recording(tmp_path / "r", KINDS)
    assert found.moments() == [3000, 7000]
    assert [found.value("counters", "", place)[1].known for place in (0, 1)] == [2, 3]


def whole(tmp_path: Path, now: list[float]) -> bytes:
    record(tmp_path / "whole", now, *((n * 2, "oplog", "", update(n)) for n in range(9)))
    return (tmp_path / "whole").read_bytes()


def head(**fields: object) -> bytes:
    start = {
        "recording": "tallyglass",
        "format": FORMAT,
        "made_by": "0.1.0",
        "label": "x",
        "began": "2026-11-20T18:06:14Z",
    }
    return json.dumps(start | fields).encode() + b"\n"


def read(tmp_path: Path, content: bytes) -> Recording:
    (tmp_path / "f").write_bytes(content)
    return Recording(tmp_path / "f", KINDS)


def test_a_cut_file_is_read_up_to_the_cut(tmp_path: Path, now: list[float]) -> None:
    content = whole(tmp_path, now)
    found = read(tmp_path, content[:-40])
    assert "cut off" in found.note
    assert 0 < len(found.moments()) < 9
    assert not Recording(tmp_path / "whole", KINDS).note


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a recording"),
        ((b'{"a": 1}\n'), "not a recording"),
        ((head(began="soon")), "not a recording"),
        ((head()), "empty recording"),
        ((head(format=FORMAT + 1, made_by="9.1")), "format 2, and this version reads 1. Replay it with 9"),
        ((head() + b"[]\n"), "damaged"),
        ((head() + b"[" * 100_000 + b"\n"), "damaged"),
        ((head() + b'[5, "a", "", "room", [1]]\n[4, "a", "", "room", [1]]\n'), "not in order"),
        ((head() + b'[1, "a", "", "room", [1]]\n[9000000000000000, "a", "", "room", [1]]\n'), "not end in any year"),
        ((head() + b" " * 9_000_000 + b"\n"), "larger than a recording can be"),
    ],
)  # fmt: skip
def test_another_file_is_refused_with_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, gzip.compress(content))


@pytest.mark.parametrize("content", [b"", b"no gzip at all", b"\x1f\x8b\x08"])
def test_what_is_not_compressed_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="not a recording"):
        read(tmp_path, content)


@pytest.mark.long
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than a recording can be"):
        read(tmp_path, gzip.compress(head() + (b'[1, "a", "", "room", [1]]' + b" " * 1_000_000 + b"\n") * 200))


@pytest.mark.parametrize(
    ("kind", "change"), [("no kind", "[1]"), ("room", '[{"hours": "x"}]'), ("room", '{"hours": [1]}'), ("room", "[1]")]
)
def test_a_line_that_cannot_be_read_names_the_version(tmp_path: Path, kind: str, change: str) -> None:
    line = f'[1, "a", "", "{kind}", {change}]\n'
    found = read(tmp_path, gzip.compress(head() + line.encode()))
    with pytest.raises(InputError, match=r"cannot be read. It was recorded by Tallyglass 0.1.0"):
        found.value("a", "", 0)


def test_text_of_the_file_cannot_control_the_terminal(tmp_path: Path) -> None:
    line = json.dumps(
        [1, "a", "", "trouble", [{"title": "\x1b[2J\u202e", "advice": "", "since": AT.isoformat(), "lost": False}]]
    )
    _, found = read(tmp_path, gzip.compress(head(label="\x1b]0;x\x07") + line.encode() + b"\n")).value("a", "", 0)
    assert found.title == "\\u{1b}[2J\\u{202e}"


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the keys move a replay: on a busy machine it would play on before the first of them."""
    monkeypatch.setattr(ReplayDashboard, "_play", lambda _: None)


@pytest.mark.usefixtures("still")
async def test_a_replay_shows_copies_and_writes_nothing(tmp_path: Path, now: list[float]) -> None:
    later = replace(SNAPSHOT, counters=(replace(COUNTER, value=52_000), SNAPSHOT.counters[1]))
    scan = IncidentScan((INCIDENT,), 10, Ts(T0, 0), done=True)
    record(
        tmp_path / "r", now, (1, "counters", "", SNAPSHOT), (1, "deployment", "", DEPLOYMENT),
        (1, "oplog", "", update(1)),
        (20, "counters", "", later), (20, "oplog", "", update(2, (replace(ROW, what="insert later"),))),
        (25, "incidents", "", scan),
    )  # fmt: skip
    context = Context(Target("mongodb://recorded/"), label="PROD", recorded=True)
    app = ReplayDashboard(Recording(tmp_path / "r", KINDS), PAGES, context, environ={"COLORTERM": "truecolor"})
    async with opened(app, (100, 30)) as pilot:

        async def press(*keys: str) -> str:
            await pilot.press(*keys)
            await pilot.pause()
            return "\n".join(app.lines)

        assert "41,000" in await press("left_square_bracket", "right_square_bracket", "left_square_bracket")
        text = await press("right_square_bracket")
        assert "52,000" in text
        assert "0:20 of 0:25 · paused" in text
        assert "nothing is copied" in await press("y")
        text = await press("3")
        assert "insert a=1" in text
        assert "insert later" in text
        text = await press("left_square_bracket")
        assert "insert a=1" in text
        assert "insert later" not in text
        assert "Not recorded before" in await press("i")
        assert "drop of shop.carts" in await press("right_square_bracket", "right_square_bracket")
        assert "nothing is copied or written" in await press("e")
        assert "Not in this recording: sources" in await press("r")
        text = await press("tab")
        assert "not in this recording at this time" in text
        assert "There is no plan in this recording at this time." in text
        assert "Planning" not in text, "nobody plans in a replay, and nobody stops it"
        assert "Planning" not in await press("escape")
        assert "drop of shop.carts" in await press("escape")
    app.feeds.close()
    assert clock.now().year == datetime.now(UTC).year


@pytest.mark.long
@pytest.mark.usefixtures("still")
async def test_a_step_back_shows_no_row_twice(tmp_path: Path, now: list[float]) -> None:
    rows = [replace(ROW, ts=Ts(T0, n), what=f"insert n{n}") for n in range(5)]
    record(
        tmp_path / "r", now, (1, "oplog", "", update(1, (rows[1],))), (20, "oplog", "", update(2, (rows[2],))),
        (22, "deployment", "", DEPLOYMENT), (25, "oplog", "", update(3, (rows[3],))),
        (30, "oplog", "", update(4, (rows[4],))),
    )  # fmt: skip
    context = Context(Target("mongodb://recorded/"), recorded=True)
    app = ReplayDashboard(Recording(tmp_path / "r", KINDS), PAGES, context, environ={"COLORTERM": "truecolor"})
    async with opened(app, (100, 30)) as pilot:

        async def shown(*keys: str) -> list[int]:
            await pilot.press(*keys)
            await pilot.pause()
            return [n for line in app.lines for n in range(5) if f"insert n{n}" in line]

        back, on = "left_square_bracket", "right_square_bracket"
        assert await shown("3", on, on) == [1, 2]
        assert await shown(back) == [1, 2], "another feed delivered last"
        assert await shown(on, on) == [1, 2, 3]
        assert await shown("1", back, back, on, on, on, "3") == [1, 2, 3, 4], "while another page is shown"
    app.feeds.close()


@pytest.mark.long
@pytest.mark.usefixtures("still")
async def test_before_the_first_value_no_later_one_is_shown(tmp_path: Path, now: list[float]) -> None:
    scan = IncidentScan((INCIDENT,), 10, Ts(T0, 0), done=True)
    record(
        tmp_path / "r", now, (1, "deployment", "", DEPLOYMENT), (12, "counters", "", SNAPSHOT),
        (13, "incidents", "", scan), (14, "oplog", "", update(1)),
    )  # fmt: skip
    context = Context(Target("mongodb://recorded/"), recorded=True)
    app = ReplayDashboard(Recording(tmp_path / "r", KINDS), PAGES, context, environ={"COLORTERM": "truecolor"})
    seen = {"1": "41,000", "3": "insert a=1", "4": "drop of shop.carts"}
    async with opened(app, (100, 30)) as pilot:

        async def shown(*keys: str) -> dict[str, bool]:
            await pilot.press(*keys)
            await app.workers.wait_for_complete()
            found = {}
            for key, value in seen.items():
                await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause()
                found[key] = value in "\n".join(app.lines)
            return found

        assert await shown("p") == dict.fromkeys(seen, True)
        assert await shown("left_curly_bracket") == dict.fromkeys(seen, False)
        assert "Not recorded before" in "\n".join(app.lines)
        assert await shown("right_curly_bracket") == dict.fromkeys(seen, True)
        assert await shown(*["left_square_bracket"] * 2) == {"1": True, "3": False, "4": False}
    app.feeds.close()


class NoGateway:
    async def close(self) -> None:
        """Nothing is open."""


def replayed(path: Path, feed: str) -> tuple[RecordedFeeds, Feed[Any]]:
    feeds = RecordedFeeds(Recording(path, KINDS))
    return feeds, feeds.follow(feed, lambda _: pytest.fail("nothing is read"))


def test_a_problem_is_over_in_a_replay_once_the_feed_delivers_the_same_again(tmp_path: Path) -> None:
    begun: list[int] = []
    again = threading.Event()

    async def shaky(_: Any) -> AsyncIterator[Deployment]:
        begun.append(1)
        yield DEPLOYMENT
        if len(begun) == 1:
            raise ReadError("No server answers.")
        again.set()
        await asyncio.sleep(3600)

    recorder = Recorder(tmp_path / "r", "", KINDS)
    live = Feeds(NoGateway, recorder)  # type: ignore[arg-type]
    live.start()
    live.follow("deployment", shaky)
    assert again.wait(60)
    live.close()
    recorder.close()
    feeds, feed = replayed(tmp_path / "r", "deployment")
    feeds.go(feeds.recording.first("deployment: trouble", ""))
    assert feed.trouble is not None
    assert feed.trouble.title == "No server answers."
    feeds.go(feeds.recording.milliseconds)
    assert feed.trouble is None
    feeds.close()


def test_a_replay_says_why_a_feed_never_delivered(tmp_path: Path, now: list[float]) -> None:
    trouble = FeedTrouble("This user may not read the oplog.", "", AT, lost=False)
    record(tmp_path / "r", now, (1, "deployment", "", DEPLOYMENT), (2, "oplog: trouble", "", trouble))
    feeds, feed = replayed(tmp_path / "r", "oplog")
    assert feed.trouble == trouble
    feeds.go(1_500)
    assert feed.trouble is not None
    assert feed.trouble.title.startswith("Not recorded before ")
    feeds.close()
