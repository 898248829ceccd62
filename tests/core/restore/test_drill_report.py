"""The output of a drill: its line, its report, and the differences from the last one."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from bson import Timestamp

from builders.plans import changed, make_plan
from builders.virtual_time import run
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.report.html import to_html
from tallyglass.report.markdown import to_markdown
from tallyglass.restore.catalogue.window import RecoverableWindow, Stretch
from tallyglass.restore.drill import drill, past_drills
from tallyglass.restore.drill.components import check_components
from tallyglass.restore.drill.last_window import last_window, store_window, summary
from tallyglass.restore.drill.metrics import families
from tallyglass.restore.drill.past_drills import LastDrill, restore_seconds
from tallyglass.restore.drill.point import _newest
from tallyglass.restore.drill.report import (
    PHASES,
    Report,
    compare,
    document_of,
    from_json,
    sealed,
    to_json,
)
from tallyglass.restore.drill.request import DrillRequest
from tallyglass.restore.drill.result import comparable, measured, succeeded
from tallyglass.restore.drill.state import state_folder
from tallyglass.restore.drill.stopped import Failed, why_stopped
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.text import clean


def report(level: str = "ok", **more: object) -> Report:
    made = Report("2026-11-22T08:55:07Z", level, "rs0", "d1", "/b", "It was restored.", namespaces={"shop.a": 10})
    return sealed(replace(made, **more))  # type: ignore[arg-type]


def test_a_report_is_read_back_whole_and_any_change_is_noticed() -> None:
    made = report(
        findings=(Check("disk", Level.OK, "Room."),), output=("a", "b"), seconds={"plan": 1.25}, rto_seconds=3.5
    )
    assert from_json(to_json(made)) == made
    for broken in (to_json(made).replace('"shop.a": 10', '"shop.a": 11'), to_json(made)[:-1], "[]", "{}"):
        with pytest.raises(InputError):
            from_json(broken)


def _written(content: dict[str, object]) -> str:
    """A report as another version wrote it."""
    content.pop("checksum")
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps(content | {"checksum": seal})


def test_a_report_is_ascii_whatever_the_names_are() -> None:
    made = report(namespaces={"shop.\xe4": 10})
    text = to_json(made)
    assert text.isascii()
    assert from_json(text) == made
    assert json.loads(_written(json.loads(text)))["checksum"] == made.checksum


def test_a_report_of_an_earlier_format_is_read_and_a_later_one_is_named() -> None:
    made = report(rto_seconds=3.5)
    earlier = json.loads(to_json(made)) | {"format": 1}
    for name in ("rate_limit", "nice", "load", "output"):
        del earlier[name]
    text = _written(earlier)
    assert replace(from_json(text), checksum=made.checksum) == replace(made, format=1)
    with pytest.raises(InputError, match="not a whole report"):
        from_json(text.replace("3.5", "2.5"))
    with pytest.raises(InputError, match="has format 9; this version reads 3"):
        from_json(_written(json.loads(to_json(made)) | {"format": 9, "more": "unknown"}))


def test_what_is_gone_or_halved_since_the_last_drill_is_named() -> None:
    before = report(namespaces={"a.gone": 5, "a.half": 10, "a.more": 10, "a.uncounted": 7, "a.empty": 0})
    now = {"a.half": 5, "a.more": 6, "a.uncounted": None, "a.empty": 0, "a.new": 1}
    assert [(one.id, one.title.split()[0]) for one in compare(before, now)] == [
        ("collection-gone", "a.gone"),
        ("documents-halved", "a.half"),
    ]
    assert compare(None, now) == ()


def test_a_drill_to_an_earlier_point_is_not_compared_with_a_later_one() -> None:
    before = report(point="100:5")
    assert comparable(before, Ts(100, 5)) is before
    assert comparable(before, Ts(100, 4)) is None
    assert comparable(report(), Ts(100, 5)) is None


@pytest.mark.parametrize(("level", "code", "word"), [("ok", 0, "OK"), ("warn", 1, "WARNING"), ("block", 2, "CRITICAL"),
                                                     ("unknown", 3, "UNKNOWN")])  # fmt: skip
def test_the_line_and_the_exit_code_are_those_of_a_monitoring_plugin(level: str, code: int, word: str) -> None:
    made = report(level, id="deadline", title="Too | late.", rto_seconds=61.5)
    assert made.code == code
    assert made.line == f"DRILL {word} - [deadline] Too / late. | rto=61.5s"
    old = report(backup_age=1_234_567.8, documents=123_456_789)
    assert old.line.endswith(" | backup_age=1234567.8s documents=123456789"), "monitoring systems read no exponents"


def test_names_of_the_data_do_nothing_in_the_markdown() -> None:
    hostile = "shop.<img src=x>|*b*\x1b[31m[link](http://x)"
    text = to_markdown(document_of(report(namespaces={hostile: None})))
    row = next(line for line in text.splitlines() if "img" in line)
    assert "\x1b" not in text
    assert "<img" not in row
    assert "\\[link" in row
    assert row.count("|") - row.count("\\|") == 3
    assert report().checksum in to_html(document_of(report()))


def test_the_last_drill_and_the_last_that_succeeded_are_kept_apart() -> None:
    assert past_drills.last("d1") is None
    good, bad = report(), report("block", id="coverage")
    past_drills.store(good)
    past_drills.store(bad)
    past_drills.store(report(deployment="d2", level="unknown"))
    assert past_drills.last("d1") == bad
    assert past_drills.last("d1", proved=True) == good
    assert past_drills.last("d2", proved=True) is None
    (state_folder() / "d1-last.json").write_text("broken")
    assert past_drills.last("d1") is None


async def test_the_last_drill_of_a_deployment_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, name = AsyncMock(), AsyncMock(return_value="d3")
    monkeypatch.setattr(past_drills, "identify", name)
    assert await past_drills.last_of(gateway) == LastDrill()
    past_drills.store(report("warn", deployment="d3", id="disk", rto_seconds=3.5, backup_bytes=9))
    store_window("d3", summary(RecoverableWindow((), (), ()), 2, "no base"))
    made = datetime(2026, 11, 22, 8, 55, 7, tzinfo=UTC)
    found = LastDrill(made, True, "disk: It was restored.", 3.5, 9, last_window("d3"))
    assert found.window is not None
    assert await past_drills.last_of(gateway) == found
    name.return_value = ""
    assert await past_drills.last_of(gateway) == LastDrill(), "it has no name"


def test_drills_at_random_points_are_counted_apart_from_those_that_could_not_be_run() -> None:
    assert past_drills.with_random(report()).random_drills is None, "it was not at a random point"
    levels = ["ok", "warn", "unknown", "block", "ok"]
    found = [past_drills.with_random(report(level, seed=7, made=f"2026-11-2{n}")) for n, level in enumerate(levels)]
    assert [(one.random_identical, one.random_drills) for one in found] == [(1, 1), (2, 2), (2, 2), (2, 3), (3, 4)]
    assert "3 of 4 drills at random points were identical to what was computed, since 2026-11-20." in found[-1].line
    assert "3 of 4" in to_html(document_of(found[-1]))
    assert past_drills.with_random(report(seed=7, deployment="d2")).random_drills == 1
    assert from_json(to_json(sealed(found[-1]))) == sealed(found[-1])


def test_the_last_window_is_kept_and_named_in_one_line() -> None:
    now = Ts(1_795_337_707, 4)
    whole = RecoverableWindow((), (), (Stretch(Ts(now.t - 3_600, 1), now),), now)
    assert last_window("d1") is None
    store_window("d1", summary(whole, 0, "", (10.0, 20.0)))
    found = last_window("d1")
    assert found is not None
    assert (found.status, found.holes, found.seconds) == (0, 0, (10.0, 20.0))
    assert found.line == "every second from 2026-11-22 07:55Z to 11-22 08:55Z"
    why = "the newest base\x1b cannot be proven" + "!" * 200
    store_window("d1", summary(RecoverableWindow((), (), ()), 2, why))
    found = last_window("d1")
    assert found is not None
    assert found.line == clean(why, 200)
    store_window("d1", summary(RecoverableWindow((), (), ()), 2))
    found = last_window("d1")
    assert found is not None
    assert found.line == "nothing can be restored"
    (state_folder() / "d1-window.json").write_text("{")
    assert last_window("d1") is None


@pytest.mark.parametrize(
    "keep",
    [
        lambda: past_drills.store(report()),
        lambda: past_drills.with_random(report(seed=7)),
        lambda: store_window("d1", summary(RecoverableWindow((), (), ()), 2)),
    ],
)
def test_a_state_folder_that_cannot_be_made_is_named(
    keep: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="drills cannot be written"):
        keep()


def test_the_band_of_a_restore_follows_size_and_drill() -> None:
    drilled = LastDrill(proved=True, rto_seconds=60.0, backup_bytes=10**9)
    assert restore_seconds(3 * 10**8, None) is None
    assert restore_seconds(3 * 10**8, drilled) == (10.0, 60.0), "a smaller backup may not be quicker"
    assert restore_seconds(3 * 10**9, drilled) == (60.0, 180.0)
    assert restore_seconds(3 * 10**9, replace(drilled, proved=False)) is None


def test_a_backup_without_a_collection_proves_nothing(tmp_path: Path) -> None:
    at = Ts(1, 1)
    backup = Backup(tmp_path, "directory", False, at, at, "oplog")
    empty = make_plan(at, FromBackup(backup, ""), datetime.now(UTC), work_dir=str(tmp_path), expected_applied=0)
    with pytest.raises(Failed, match="nothing was proved") as failed:
        measured(report(), empty)
    assert failed.value.check == "nothing-verified"
    held = changed(empty, expected=(ExpectedNamespace("shop.orders", "collection", 0),))
    assert measured(report(), held).documents == 0


def test_metrics_leave_out_what_is_not_known() -> None:
    names = {one.name: one.rows for one in families(report("block"), report())}
    assert names["tallyglass_restore_drill_status"] == ((("rs0",), 2.0),)
    assert "tallyglass_restore_drill_last_success_timestamp_seconds" in names
    assert "tallyglass_restore_drill_rto_seconds" not in names
    assert "tallyglass_restore_drill_last_success_timestamp_seconds" not in {
        one.name for one in families(report("block"), None)
    }


_RUNNING = """\
[3/7] restore: Restore the data
  $ mongorestore --config=spare.yml
  left:  about 2 s, with this step
"""


@pytest.mark.parametrize(
    ("printed", "status", "check", "level", "title", "last"),
    [
        # A tool that is killed leaves its last line without an end.
        ("one\nhalf a liSTOPPED: [step-failed] Step 3 failed.\n", 1, "drill-restore", "block", "Step 3 failed.",
         ("one", "half a li")),
        ("STOPPED: [step-failed] Step 3 failed.\n", 1, "drill-restore", "block", "Step 3 failed.", ()),
        ("x\nSTOPPED: [still-running] Wait.\n", 1, "still-running", "block", "Wait.", ("x",)),
        ("12%\n", -9, "killed", "unknown", "SIGKILL", ("12%",)),
        ("", 143, "killed", "unknown", "SIGTERM", ()),
        ("odd\x1b[2J\n", 7, "drill-restore", "block", "ended with status 7", (r"odd\u{1b}[2J",)),
    ],
)  # fmt: skip
def test_a_script_that_stopped_is_told_with_the_last_lines_of_its_step(
    tmp_path: Path, printed: str, status: int, check: str, level: str, title: str, last: tuple[str, ...]
) -> None:
    log = tmp_path / "script.log"
    log.write_text("earlier\n" + _RUNNING + printed)
    found = why_stopped(log, "restore", status)
    assert (found.check, found.level, found.output) == (check, level, last)
    assert title in found.title


async def test_a_full_disk_ends_a_drill_with_a_report(tmp_path: Path) -> None:
    """Metrics of the drill before would go on saying that all is well."""
    gateway: Any = AsyncMock()
    gateway.command.side_effect = OSError(errno.ENOSPC, "No space left on device", "/work\x1b/x")
    found = await drill.drill(gateway, DrillRequest(tmp_path, "mongodb://a/", tmp_path, None, ("tallyglass",)))
    assert (found.level, found.id, found.code) == ("unknown", "disk", 3)
    assert found.title.startswith(r"/work\u{1b}/x cannot be used: No space left on device. Give another folder")


def test_the_newest_point_of_a_drill_lies_after_the_end_of_its_backup() -> None:
    gateway: Any = AsyncMock()

    def shows(*seconds: int) -> None:
        ends = ({"lastWrite": {"majorityOpTime": {"ts": Timestamp(one, 1)}}} for one in seconds)
        gateway.command.side_effect = [*ends, {}]

    shows(10)
    assert run(_newest(gateway)) == Ts(10, 1)
    shows(9, 10, 11)
    assert run(_newest(gateway, after=Ts(10, 1))) == Ts(11, 1)
    shows(10)
    with pytest.raises(ReadError, match="does not say which entries a majority"):
        run(_newest(gateway, after=Ts(10, 1)))


async def test_a_drill_without_a_folder_says_nothing_of_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drill, "_identified", AsyncMock())
    monkeypatch.setattr(drill, "check_components", lambda *_: {})
    (tmp_path / "file").touch()
    for root, why in ((tmp_path / "file", "File exists"), (Path("/proc"), "No such file or directory")):
        request = DrillRequest(Path("/b"), "", root, Path("/mongod"), ())
        made = await drill.drill(AsyncMock(), request)
        assert (made.level, made.id) == ("unknown", "disk")
        assert made.title.startswith(str(root))
        assert f"cannot be used: {why}. Give another folder" in made.title


async def test_a_drill_on_a_shard_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Deployment(Kind.REPLICA_SET, "6.0.5", "s0", sharded=True)
    monkeypatch.setattr(drill, "look_at", AsyncMock(return_value=shard))
    monkeypatch.setattr(drill, "check_components", lambda *_: {})
    made = await drill.drill(AsyncMock(), DrillRequest(Path("/b"), "", tmp_path, Path("/mongod"), ()))
    assert (made.level, made.id, "part of a sharded cluster" in made.line) == ("unknown", "unreadable", True)


def test_a_program_that_is_there_and_says_no_version_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "mongodump"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed) as error:
        check_components("6.0.5", broken)
    assert "mongodump is of an unknown version, mongorestore is missing" in error.value.title
    assert f"{broken} does not say its version" in error.value.title
    assert "mongod 6.0 is missing" not in error.value.title


def test_the_time_to_restore_is_that_of_all_phases() -> None:
    first, *_, last = PHASES
    run: Any = SimpleNamespace(known=report(documents=10), seconds={first: 1.0, last: 20.26, "wait": 300.0})
    done = succeeded(run, None)
    assert (done.rto_seconds, done.level, done.id, done.previous) == (21.3, "ok", "", "")
    assert done.title.endswith("1 namespace, 10 documents, in 21 s.")
    weak = Check("loss", Level.WARN, "Much was lost.")
    run.known = replace(run.known, findings=(weak,), namespaces={"a.b": 1, "a.c": 1})
    done = succeeded(run, report())
    assert (done.level, done.id, done.previous.split()[0]) == ("warn", done.differences[0].id, "2026-11-22T08:55:07Z")
