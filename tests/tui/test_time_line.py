"""The recoverable window as a picture: every cell true, within the given size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from tallyglass.moment import Ts
from tallyglass.restore.backup.archive import MAGIC
from tallyglass.restore.catalogue.backups import Listed
from tallyglass.restore.catalogue.window import RecoverableWindow, Stretch
from tallyglass.restore.drill import state
from tallyglass.restore.drill.last_window import last_window
from tallyglass.restore.model.source import Backup
from tallyglass_tui.cli.main import main
from tallyglass_tui.cli.restore import window
from tallyglass_tui.cli.restore.time_line import KEY, picture

T = 1_795_414_200


def base(name: str, start: int, end: int, why: str = "") -> Listed:
    ends = Ts(T + start, 1), Ts(T + end, 1)
    return Listed(Path("/b") / name, Backup(Path("/b") / name, "directory", False, *ends, "oplog"), why, True)


def stretch(first: int, last: int) -> Stretch:
    return Stretch(Ts(T + first, 1), Ts(T + last, 1))


def test_every_base_stretch_and_hole_has_its_place() -> None:
    unread = Listed(Path("/b/broken"), None, "It is damaged.")
    window = RecoverableWindow(
        (base("monday\x1b", 10, 12), base("tuesday", 60, 60), base("partly", 70, 71, "It is selective."), unread),
        (stretch(0, 30), stretch(50, 100)), (stretch(12, 30), stretch(60, 100)), Ts(T + 100, 1),
    )  # fmt: skip
    lines = picture(window, 25 + 101, 24)
    assert lines[0].split() == ["11-23", "06:10:00Z", "11-23", "06:11:40Z"]
    assert lines[1][25:] == "|" + "now".rjust(100)
    assert [line[25:] for line in lines[2:-1]] == [
        "-" * 31 + " " * 19 + "-" * 51,
        " " * 10 + "BBB",
        " " * 60 + "B",
        " " * 70 + "!!",
        "",
        " " * 12 + "=" * 18 + "x" * 31 + "=" * 40,
    ]
    assert lines[-1] == KEY
    assert "\x1b" not in "".join(lines)


def test_a_hole_of_a_second_in_a_month_is_seen() -> None:
    halves = (stretch(0, 1_000_000), stretch(1_000_001, 2_600_000))
    lines = picture(RecoverableWindow((), halves, halves), 80, 24)
    assert lines[-2].startswith("restorable")
    assert lines[-2].count("x") == 1


def test_a_window_that_cannot_be_read_is_unknown_and_no_alarm(tmp_path: Path) -> None:
    for words in ([f"--backups={tmp_path / 'none'}"], ["--backups"]):
        done = CliRunner().invoke(main, ["restore", "window", *words])
        assert (done.exit_code, done.stdout.startswith("WINDOW UNKNOWN - ")) == (3, True), done.output


def test_reasons_that_are_left_out_of_the_line_are_counted(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.archive").write_bytes(MAGIC + b"\x01")
    done = CliRunner().invoke(main, ["restore", "window", f"--backups={tmp_path}"])
    assert (done.exit_code, "; and 3 more; 7 backups |" in done.stdout) == (2, True), done.stdout


def test_a_window_that_cannot_be_noted_for_the_dashboard_is_judged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(state, "user_state_path", lambda *_, **__: tmp_path / "file")
    monkeypatch.setattr(window, "ask", lambda *_: (RecoverableWindow((), (), ()), None, "d1"))
    done = CliRunner().invoke(main, ["restore", "window", "mongodb://h/", f"--backups={tmp_path}"])
    assert (done.exit_code, done.stdout.startswith("WINDOW CRITICAL - nothing can be restored")) == (2, True)
    assert "cannot be written" in done.stderr


def test_why_nothing_can_be_restored_is_noted_for_the_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "user_state_path", lambda *_, **__: tmp_path / "state")
    unfit = base("daily", 1, 2, "No oplog reaches to 2.")
    monkeypatch.setattr(window, "ask", lambda *_: (RecoverableWindow((unfit,), (), ()), None, "d1"))
    done = CliRunner().invoke(main, ["restore", "window", "mongodb://h/", f"--backups={tmp_path}"])
    why = "nothing can be restored; the newest base, daily, cannot be proven: No oplog reaches to 2"
    assert done.stdout.startswith(f"WINDOW CRITICAL - {why}; 1 backup |")
    found = last_window("d1")
    assert found is not None
    assert found.line == f"{why}."


def test_with_json_what_is_unknown_is_json_too(tmp_path: Path) -> None:
    drill = ["restore", "drill", "--to", "2026-01-01T00:00:00Z", "--at", "random"]
    for words in (["restore", "window", f"--backups={tmp_path / 'none'}"], ["restore", "window", "--backup"], drill):
        done = CliRunner().invoke(main, [*words, "--json"])
        assert (done.exit_code, json.loads(done.stdout)["status"]) == (3, 3), "2 would be an alarm"


def test_a_picture_stays_within_its_size() -> None:
    many = [base(f"backup {n}", n, n + 1) for n in reversed(range(60))]
    unread = Listed(Path("/b/broken"), None, "It is damaged.")
    window = RecoverableWindow((*many, unread), (stretch(0, 90),), (stretch(1, 90),), None)
    assert "60 older bases" in picture(window, 80, 8), "no more than there are"
    for width, height in ((80, 24), (120, 40), (40, 10)):
        lines = picture(window, width, height)
        assert max(map(len, lines)) <= width
        assert len(lines) == height - 2, "room for the line above it and for the prompt, and no more is lost"
        assert any(line.startswith("backup 59") for line in lines), "the newest stay"
        shown = sum(line.startswith("backup") for line in lines)
        assert f"{60 - shown} older bases" in lines
        assert "1 without a time" in lines, "one that records no start can be read"
    assert picture(RecoverableWindow((), (), ()), 80, 24) == []


@pytest.mark.parametrize(("room", "ends"), [(31, 4), (30, 2)])
def test_both_ends_are_dated_where_there_is_room(room: int, ends: int) -> None:
    window = RecoverableWindow((), (stretch(0, 90),), ())
    assert len(picture(window, 25 + room, 24)[0].split()) == ends


def test_a_base_that_records_no_start_lies_where_it_ends() -> None:
    dated = base("monday", 10, 50)
    assert dated.backup is not None
    bases = (replace(dated, backup=replace(dated.backup, start=None)),)
    lines = picture(RecoverableWindow(bases, (stretch(0, 100),), ()), 25 + 101, 24)
    assert lines[3][25:] == " " * 50 + "B"


def test_a_window_of_one_second_has_a_picture() -> None:
    lines = picture(RecoverableWindow((), (stretch(0, 0),), (stretch(0, 0),)), 80, 24)
    assert [line.split() for line in lines[2:4]] == [["oplog", "-"], ["restorable", "="]]


def test_a_lane_begins_in_its_column_after_a_name_of_wide_characters() -> None:
    bases = (base("月曜日の夜の退避先その一とその二", 10, 12), base("tuesday", 10, 12))
    lines = picture(RecoverableWindow(bases, (stretch(0, 100),), (stretch(12, 100),)), 25 + 101, 24)
    assert [cell_len(line) for line in lines if line.endswith("BBB")] == [25 + 13] * 2
