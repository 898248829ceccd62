"""The drill with real tools: it proves a backup, only reads the live set, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bson import Timestamp
from click.testing import CliRunner, Result
from restore_scene import Scene

from tallyglass.moment import Ts
from tallyglass.restore.drill import past_drills
from tallyglass.restore.drill.report import PHASES, from_json
from tallyglass.restore.drill.run_folder import PREFIX, users_of
from tallyglass.restore.drill.state import state_folder
from tallyglass.restore.tools.find_mongod import find_mongod
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.tools]


@pytest.fixture
def profiled(scene: Scene) -> Iterator[Scene]:
    """Every operation on the user's databases is recorded by the server."""
    shop = scene.client["shop"]
    shop.command("profile", 2)
    yield scene
    shop.command("profile", 0)


def drill(scene: Scene, backup: Path, *words: str) -> Result:
    """Run the command here; the tools that are here are new enough by the fixture ``tool_path``."""
    return CliRunner(catch_exceptions=False).invoke(
        main, ["restore", "drill", scene.source.uri, "--backup", str(backup), "--nice", "0", *words]
    )


def fill(scene: Scene, count: int = 200) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "v": n} for n in range(count)])
    shop.orders.create_index("v")


def written_since(scene: Scene, ts: Ts) -> list[tuple[str, str]]:
    """What the oplog gained, without the server's own notes."""
    rows = scene.client.local["oplog.rs"].find({"ts": {"$gt": Timestamp(ts.t, ts.i)}})
    return [(row["op"], row["ns"]) for row in rows if row["op"] != "n"]


def left_behind(folder: Path) -> list[str]:
    """Files of drills, and processes that use them."""
    args = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return [str(one) for one in folder.glob(f"{PREFIX}*")] + [
        line for line in args.splitlines() if f"{folder}/{PREFIX}" in line
    ]


def test_a_drill_proves_the_newest_backup_and_only_reads_the_live_set(profiled: Scene, tmp_path: Path) -> None:
    scene = profiled
    fill(scene)
    scene.backup("--oplog", name="daily/monday")
    scene.client["shop"].orders.insert_many([{"_id": n, "v": n} for n in range(200, 250)])
    scene.settle()
    newest = scene.backup("--oplog", "--gzip", name="daily/tuesday")
    (tmp_path / "daily" / "wednesday" / "shop").mkdir(parents=True)
    (tmp_path / "daily" / "wednesday" / "shop" / "orders.bson").write_bytes(b"cut off")
    scene.client["shop"].orders.delete_one({"_id": 7})
    scene.settle()
    since, begun = scene.now(), datetime.now(UTC)
    files = {path: path.stat().st_mtime_ns for path in newest.rglob("*")}
    report, metrics = tmp_path / "report.json", tmp_path / "drill.prom"
    result = drill(scene, tmp_path / "daily", "--report", str(report), "--metrics", str(metrics))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("DRILL OK - tally was restored to just before ")
    made = from_json(report.read_text())
    assert made.backup == str(newest)
    assert made.namespaces["shop.orders"] == 249
    assert set(made.seconds) == {"plan", "secure", "restore", "verify", "clean"}
    assert made.operations
    assert made.rto_seconds == pytest.approx(sum(made.seconds[phase] for phase in PHASES), abs=0.2)
    assert 'tallyglass_restore_drill_status{set="tally"} 0.0' in metrics.read_text()
    assert past_drills.last(made.deployment) == made
    assert left_behind(state_folder()) == []
    assert {path: path.stat().st_mtime_ns for path in newest.rglob("*")} == files, "the backup is as it was"
    assert written_since(scene, since) == []
    scene.client["shop"].orders.find_one({})
    recorded = {row["op"] for row in scene.client["shop"]["system.profile"].find({"ts": {"$gte": begun}})}
    assert "query" in recorded, "the server recorded what was sent"
    assert not recorded & {"insert", "update", "remove"}
    words = ["restore", "plan", scene.source.uri, "--backup", str(tmp_path / "daily"), "--before", str(since)]
    assert f"using the backup {newest}" in CliRunner().invoke(main, words).stderr
    listed = CliRunner().invoke(main, ["restore", "backups", str(tmp_path / "daily"), scene.source.uri, "--json"])
    assert [(Path(one["path"]).name, one["provable"]) for one in json.loads(listed.stdout)] == [
        ("monday", True), ("tuesday", True), ("wednesday", False),
    ]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("phase", ["plan", "secure", "restore", "verify", "clean"])
def test_a_drill_killed_in_any_phase_leaves_nothing(scene: Scene, tmp_path: Path, phase: str) -> None:
    """With its guard, as when the machine goes down: the next drill removes what is left. Alone: its guard does."""
    fill(scene, 20_000)
    backup = scene.backup("--oplog")
    scene.client["shop"].orders.update_many({}, {"$inc": {"n": 1}})
    scene.settle()
    since, drills = scene.now(), tmp_path / "tallyglass" / "drills"
    left: list[str] = []
    for with_guard in (True, False):
        with start_drill(scene, tmp_path, backup) as process:
            await_phase(process, tmp_path, phase)
            for guard in guards_of(tmp_path) if with_guard else ():
                os.kill(guard, signal.SIGKILL)
            process.kill()
        left += left_behind(drills)
    assert left or phase == "clean"
    deadline = time.monotonic() + 30
    while left_behind(drills):
        assert time.monotonic() < deadline, left_behind(drills)
        time.sleep(0.1)
    assert written_since(scene, since) == []
    with start_drill(scene, tmp_path, backup) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
    assert process.returncode == 0, answer
    assert left_behind(drills) == []


def await_phase(process: subprocess.Popen[str], state: Path, phase: str) -> None:
    """Wait until a drill is inside a phase: until the program runs that does most of its work, if there is one."""
    assert process.stderr is not None
    while f"drill: {phase}" not in (line := process.stderr.readline()):
        assert line, "it ended before that phase"
    tool = {"secure": "mongodump", "restore": "mongorestore"}.get(phase)
    while tool and tool not in {name for _, name in programs_of(state)}:
        assert process.poll() is None


def guards_of(state: Path) -> list[int]:
    """The process that removes what a killed drill leaves."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    mine = [line.split()[0] for line in listed.splitlines() if f"tallyglass-guard {state}" in line]
    assert mine
    return [int(pid) for pid in mine]


def command(*words: str) -> list[str]:
    """``tallyglass restore`` with these words, content with the tools that are here."""
    program = "from tallyglass.restore.tools import toolset; toolset.NEEDED = (100, 0); "
    program += "from tallyglass_tui.cli.main import main; main()"
    return [sys.executable, "-c", program, "restore", *words]


def start_drill(scene: Scene, state: Path, backup: Path, *words: str) -> subprocess.Popen[str]:
    """The command as a process of its own, which keeps its files in ``state``."""
    env = dict(scene.environment) | {"XDG_STATE_HOME": str(state)}
    words = ("drill", scene.source.uri, "--backup", str(backup), *words)
    return subprocess.Popen(command(*words), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def programs_of(state: Path) -> Iterator[tuple[int, str]]:
    """The processes of the drill that runs there, with their names."""
    for folder in (state / "tallyglass" / "drills").glob(f"{PREFIX}*"):
        for pid in users_of(folder):
            with contextlib.suppress(OSError):
                yield pid, Path(f"/proc/{pid}/comm").read_text().strip()


def printed(state: Path) -> str:
    """What the script of the drill that runs there has printed."""
    return "".join(log.read_text() for log in (state / "tallyglass" / "drills").glob(f"{PREFIX}*/script.log"))


@pytest.mark.soak
def test_a_tool_that_dies_is_reported_with_what_it_printed(scene: Scene, tmp_path: Path) -> None:
    fill(scene, 60_000)
    backup = scene.backup("--oplog")
    scene.settle()
    with start_drill(scene, tmp_path, backup, "--json", "--limit-rate", "500k") as process:
        while "preparing collections to restore from" not in printed(tmp_path):
            assert process.poll() is None
        (tool,) = (pid for pid, name in programs_of(tmp_path) if name == "mongorestore")
        os.kill(tool, signal.SIGKILL)
        assert process.stdout is not None
        made = from_json(process.stdout.read())
    assert (process.returncode, made.id) == (2, "drill-restore")
    assert "failed; nothing after it was run" in made.title
    assert "preparing collections to restore from" in made.output[0]
    assert left_behind(tmp_path / "tallyglass" / "drills") == []


@pytest.mark.soak
def test_the_priority_and_the_rate_hold_for_the_tools(scene: Scene, tmp_path: Path) -> None:
    scene.client["shop"].orders.insert_many([{"_id": n, "text": "x" * 1_000} for n in range(4_000)])
    backup = scene.backup("--oplog")
    scene.settle()
    nice: dict[str, int] = {}
    with start_drill(scene, tmp_path, backup, "--json", "--limit-rate", "500k", "--nice", "7") as process:
        while process.poll() is None:
            for pid, name in programs_of(tmp_path):
                with contextlib.suppress(OSError):
                    nice[name] = os.getpriority(os.PRIO_PROCESS, pid)
        assert process.stdout is not None
        made = from_json(process.stdout.read())
    assert process.returncode in (0, 1), made.title
    wanted = max(7, os.getpriority(os.PRIO_PROCESS, 0))  # a drill never raises its own priority
    assert {name: nice[name] for name in ("mongod", "mongorestore", "bash")} == dict.fromkeys(
        ("mongod", "mongorestore", "bash"), wanted
    )
    assert (made.nice, made.rate_limit) == (wanted, 500_000)
    size = sum(path.stat().st_size for path in backup.rglob("*.bson"))
    assert made.seconds["restore"] >= size / 500_000


@pytest.mark.soak
def test_refusals_end_with_the_code_and_the_id_of_the_check(scene: Scene, tmp_path: Path) -> None:
    fill(scene)
    backup = scene.backup("--oplog")
    scene.settle()
    late = drill(scene, backup, "--deadline", "1s")
    assert (late.exit_code, "[deadline]" in late.stdout) == (2, True)
    broken = scene.backup("--oplog", name="broken")
    (broken / "shop" / "orders.bson").write_bytes((broken / "shop" / "orders.bson").read_bytes()[:-3])
    cut = drill(scene, broken, "--json")
    assert (cut.exit_code, json.loads(cut.stdout)["id"]) == (2, "backup-broken")
    early = drill(scene, backup, "--to", "1600000000:1")
    assert (early.exit_code, "[backup-after-point]" in early.stdout) == (2, True)
    none = drill(scene, tmp_path / "nothing")
    assert (none.exit_code, "[backup-unreadable]" in none.stdout) == (2, True)
    gone = CliRunner().invoke(main, ["restore", "drill", "mongodb://127.0.0.1:1/", "--backup", str(backup)])
    assert (gone.exit_code, gone.stdout.startswith("DRILL UNKNOWN")) == (3, True)
    assert left_behind(state_folder()) == []


@pytest.mark.soak
def test_a_missing_program_is_named_with_how_to_get_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(scene)
    backup = scene.backup("--oplog")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = drill(scene, backup)
    assert result.exit_code == 3
    assert "[components]" in result.stdout
    assert "install the Database Tools" in result.stdout
    assert "mongosh is missing" in result.stdout


@pytest.mark.soak
def test_the_measured_time_to_restore_is_that_of_a_real_restore(scene: Scene, tmp_path: Path) -> None:
    """Within 30 %, printed phase by phase: the drill against a plan of the same point and its script, up to the
    verification. ``TALLYGLASS_DRILL_MB`` is the size of the set."""
    size = int(os.environ.get("TALLYGLASS_DRILL_MB", "50"))
    shop = scene.client["shop"]
    for first in range(0, size * 100, 2_000):
        rows = [{"_id": n, "v": n, "text": os.urandom(10_000)} for n in range(first, min(first + 2_000, size * 100))]
        shop.orders.insert_many(rows, ordered=False)
    shop.orders.create_index("v")
    backup = scene.backup("--oplog")
    shop.orders.update_many({"_id": {"$lt": 10_000}}, {"$inc": {"v": 1}})
    scene.settle()
    limit = scene.now()
    flush(scene)
    with start_drill(scene, tmp_path, backup, "--json", "--nice", "0", "--to", str(limit)) as process:
        assert process.stdout is not None
        made = from_json(process.stdout.read())
    assert process.returncode in (0, 1), made.title
    flush(scene)
    real = _restore_for_real(scene, backup, limit, tmp_path)
    for phase in PHASES:
        print(f"{phase}: predicted {made.seconds[phase]:.1f} s, real {real[phase]:.1f} s")
    print(f"{size} MB: predicted {made.rto_seconds} s, real {sum(real.values()):.1f} s, load {made.load}")
    assert made.rto_seconds == pytest.approx(sum(real.values()), rel=0.3)


def flush(scene: Scene) -> None:
    """Wait until the disk is idle: what was written before is no part of what is measured next."""
    scene.client.admin.command("fsync")
    os.sync()


def _restore_for_real(scene: Scene, backup: Path, limit: Ts, folder: Path) -> dict[str, float]:
    """Plan and run the script as a person would, up to the verification; the seconds of each phase."""
    begun, seconds, now = time.monotonic(), dict.fromkeys(PHASES, 0.0), PHASES[0]
    words = ["plan", scene.source.uri, "--backup", str(backup), "--before", str(limit)]
    words += ["--work-dir", str(folder / "real"), "--script", str(folder / "real.sh")]
    planned = subprocess.run(command(*words), env=scene.environment, capture_output=True, text=True, check=False)
    assert planned.returncode in (0, 1), planned.stderr
    path = f"{scene.environment['PATH']}:{_mongod_folder(folder)}"
    try:
        with subprocess.Popen(
            ["bash", str(folder / "real.sh"), "--yes", "--until", PHASES[-1]],
            env=dict(scene.environment) | {"PATH": path}, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            printed = ""
            for line in process.stderr:
                printed += line
                step = re.match(r"\[\d+/\d+\] ([a-z]+): ", line)
                if step and step[1] != now and step[1] in PHASES:
                    seconds[now] += time.monotonic() - begun
                    begun, now = time.monotonic(), step[1]
        seconds[now] += time.monotonic() - begun
        assert process.returncode == 0, printed
    finally:
        subprocess.run(["bash", "spare.sh", "stop"], cwd=folder / "real", env=scene.environment, check=False)
    print(printed[printed.index("What was done:") :])
    return seconds


def _mongod_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mongod"
    folder.mkdir()
    (folder / "mongod").symlink_to(find_mongod())
    return folder
