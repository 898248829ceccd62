"""``check`` with limits for the oplog: the worse of both levels, in one line with perfdata."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.doctor import Diagnosis
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.restore.catalogue import window
from tallyglass.text import clean_name
from tallyglass_tui.cli import doctor
from tallyglass_tui.cli.check import command
from tallyglass_tui.cli.check_oplog import OplogHours, grade_window, with_restore, worse_of
from tallyglass_tui.cli.options import ConnectionOptions
from tallyglass_tui.cli.restore.window import WindowOptions

FULL = OplogWindow(Ts(0, 1), Ts(36_000, 1), 100, 100, 10.0, recent_bytes_per_hour=20.0)
YOUNG = OplogWindow(Ts(0, 1), Ts(3_600, 1), 10, 100, 10.0, recent_bytes_per_hour=2.0)


def test_a_small_rate_of_the_oplog_is_not_shown_as_none() -> None:
    found = Diagnosis(Deployment(Kind.REPLICA_SET, "6.0.5"), False, "", (), (), (), (), FULL)
    assert "recently 20 B an hour" in "\n".join(doctor._lines(found))


@pytest.mark.parametrize(
    ("ahead", "said"), [(3600.0, "60 min ahead of"), (-31.0, "31 s behind"), (-29.0, ""), (None, "")]
)
def test_a_clock_that_is_another_is_told(ahead: float | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Diagnosis(Deployment(Kind.REPLICA_SET, "6.0.5"), False, "", (), (), (), (), FULL, seconds_ahead=ahead)
    monkeypatch.setattr(doctor, "ask", lambda *_: found)
    lines = CliRunner().invoke(doctor.command, [], standalone_mode=False).output.splitlines()
    told = [line for line in lines if line.startswith("clock")]
    assert [f"{said} the one here" in line for line in told] == [True] * bool(said)
    facts = CliRunner().invoke(doctor.command, ["--json"], standalone_mode=False)
    assert json.loads(facts.output)["clock_ahead_seconds"] == ahead


@pytest.mark.parametrize(
    ("listed", "asked", "absent"),
    [
        (("admin", "shop"), ("shop", "shpo", "Shop"), ["shpo", "Shop"]),
        (("admin", "shop"), (), []),
        ((clean_name("a\x1b"),), ("a\x1b",), []),
        ((), ("shop",), []),
    ],
)
def test_a_database_that_the_server_does_not_list_is_not_all_well(
    listed: tuple[str, ...], asked: tuple[str, ...], absent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Diagnosis(Deployment(Kind.REPLICA_SET, "6.0.5"), False, "", (), listed, asked, (), FULL)
    monkeypatch.setattr(doctor, "ask", lambda *_: found)
    outcome = CliRunner().invoke(doctor.command, [*(f"--db={name}" for name in asked)], standalone_mode=False)
    words = f"not there    {', '.join(absent)}: misspelled, without data yet, or hidden from this user"
    assert (outcome.return_value, words in outcome.output) == (int(bool(absent)), bool(absent))
    facts = CliRunner().invoke(doctor.command, [*(f"--db={name}" for name in asked), "--json"], standalone_mode=False)
    assert (facts.return_value, json.loads(facts.output)["not_there"]) == (int(bool(absent)), absent)


@pytest.mark.parametrize(
    ("window", "limits", "level"),
    [
        (FULL, OplogHours(4, 2), 0),
        (FULL, OplogHours(6, 2), 1),
        (FULL, OplogHours(12, 6), 2),
        (FULL, OplogHours(None, 6), 2),
        (YOUNG, OplogHours(24, 12), 0),
        (OplogWindow(None, None), OplogHours(24, 12), 3),
    ],
)
def test_the_smaller_of_window_and_forecast_is_judged(window: OplogWindow, limits: OplogHours, level: int) -> None:
    found, words, perfdata = grade_window(window, limits)
    assert found == level, words
    assert perfdata.startswith("oplog_hours=") or level == 3


def test_a_shrinking_window_is_reported() -> None:
    _, words, perfdata = grade_window(FULL, OplogHours(6, 2))
    assert words == "oplog reaches 10.0 h back, 5.0 h at the recent rate"
    assert perfdata == "oplog_hours=5.00;6:;2:;0"
    with pytest.raises(InputError):
        OplogHours(2, 6)


def test_a_young_oplog_does_not_claim_to_reach_back_before_it_began() -> None:
    _, words, perfdata = grade_window(YOUNG, OplogHours(24, 12))
    assert words == "oplog reaches 1.0 h back, 50.0 h once it is full"
    assert perfdata == "oplog_hours=50.00;24:;12:;0"


def test_of_a_full_oplog_that_will_grow_only_what_it_is_counts() -> None:
    calm = replace(FULL, recent_bytes_per_hour=5.0)
    assert grade_window(calm, OplogHours(10, 10)) == (0, "oplog reaches 10.0 h back", "oplog_hours=10.00;10:;10:;0")
    assert grade_window(replace(calm, max_bytes=None), OplogHours(11)) == (
        1, "oplog reaches 10.0 h back", "oplog_hours=10.00;11:;;0"
    )  # fmt: skip


def test_backups_that_are_not_read_in_the_time_that_is_left_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_window(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(window, "find_window", find_window)
    given = ConnectionOptions("mongodb://127.0.0.1:1/")
    options = WindowOptions((Path("/b"),))
    with click.Context(command):
        line = with_restore("COUNTERS OK - 3 counters | used=1", 0, given, options, 0.01)
    late = "restore: The backups and slices were not read in time. Raise --timeout, or run restore window."
    assert line == (f"COUNTERS UNKNOWN - {late}; 3 counters | used=1", 3)


@pytest.mark.parametrize(
    ("level", "own", "worse", "name"),
    [
        (0, 0, 0, "OK"),
        (0, 1, 1, "WARNING"),
        (1, 3, 1, "WARNING"),
        (3, 1, 1, "WARNING"),
        (2, 3, 2, "CRITICAL"),
        (3, 2, 2, "CRITICAL"),
    ],
)
def test_what_is_unknown_hides_no_warning_and_no_alarm(level: int, own: int, worse: int, name: str) -> None:
    line = worse_of("COUNTERS OLD - 3 counters | used=1", level, own, "oplog 5 h", "oplog_hours=5")
    assert line == (f"COUNTERS {name} - oplog 5 h; 3 counters | used=1 oplog_hours=5", worse)
    assert worse_of("COUNTERS OK - none", 0, 0, "oplog 5 h", "")[0] == "COUNTERS OK - oplog 5 h; none"
