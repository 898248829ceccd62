"""One drill at a time, and it leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tallyglass.errors import InputError, TallyglassError
from tallyglass.restore.drill import load
from tallyglass.restore.drill.run_folder import MARK, PREFIX, DrillRunning, remove, sole_run, users_of
from tallyglass.restore.tools.schedule import DRILL, cron, save_oplog, systemd

_STARTED = "import sys, time; print('started', flush=True); time.sleep(600)"

_A_DRILL = """
import os, subprocess, sys, time
from pathlib import Path
from tallyglass.restore.drill.run_folder import MARK, sole_run
with sole_run(Path(sys.argv[1]), Path(sys.argv[1])) as folder:
    (folder / "data").write_text("x")
    env = os.environ | {MARK: str(folder)}
    subprocess.Popen([sys.executable, "-c", sys.argv[2]], env=env, stdout=sys.stdout, start_new_session=True)
    time.sleep(600)
"""


def await_gone(folder: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while list(folder.glob(f"{PREFIX}*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_one_runs_and_its_folder_goes_with_it(tmp_path: Path) -> None:
    with sole_run(tmp_path, tmp_path / "other") as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path / "other", 0o700)
        with pytest.raises(DrillRunning), sole_run(tmp_path, tmp_path):
            pass
    assert not folder.exists()
    with sole_run(tmp_path, tmp_path):
        pass


def test_a_killed_drill_leaves_neither_processes_nor_files(tmp_path: Path) -> None:
    """Its guard removes both; whatever the folder is called."""
    tmp_path = tmp_path / "disk [a] *"
    tmp_path.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", _A_DRILL, str(tmp_path), _STARTED], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "started\n"
        (folder,) = tmp_path.glob(f"{PREFIX}*")
        assert len(users_of(folder)) == 1
        killed.kill()
    await_gone(tmp_path)
    assert users_of(folder) == []


def test_what_is_left_where_the_guard_was_killed_too_goes_with_the_next_drill(tmp_path: Path) -> None:
    left = tmp_path / "elsewhere" / f"{PREFIX}left"
    left.mkdir(parents=True)
    (left / "data").write_text("x")
    (tmp_path / "lock").write_text(str(left))
    with subprocess.Popen(
        [sys.executable, "-c", _STARTED], env=os.environ | {MARK: str(left)}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        with sole_run(tmp_path, tmp_path):
            assert not left.exists()
    assert process.returncode == -signal.SIGKILL


def test_files_that_cannot_be_removed_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_text("x")
    monkeypatch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError))
    with pytest.raises(TallyglassError, match="cannot be removed"):
        remove(tmp_path)


def test_a_lock_that_names_any_other_folder_removes_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "backup"
    kept.mkdir()
    (tmp_path / "lock").write_text(str(kept))
    with sole_run(tmp_path, tmp_path):
        assert kept.exists()


def test_a_program_that_only_shows_a_file_of_a_drill_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "drill"
    folder.mkdir()
    (folder / "log").write_text("shown\n")
    with subprocess.Popen(["tail", "-f", f"{folder}/log"], stdout=subprocess.PIPE, text=True) as pager:
        try:
            assert pager.stdout is not None
            assert pager.stdout.readline() == "shown\n"
            remove(folder)
            assert pager.poll() is None
        finally:
            pager.kill()
    assert not folder.exists()


@pytest.mark.parametrize(("text", "rate"), [("20M", 2e7), ("500k", 5e5), ("1.5GB/s", 1.5e9), ("2000000", 2e6)])
def test_rates(text: str, rate: float) -> None:
    assert load.parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1M", "0", "1k s", "10"])
def test_an_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        load.parse_rate(text)


def test_a_budget_makes_a_reader_wait_for_what_it_is_ahead() -> None:
    budget = load.Budget(1_000)
    assert budget.spend(1) == pytest.approx(0, abs=0.01)
    assert budget.spend(10_000) == pytest.approx(10, abs=0.1)


def test_too_little_memory_is_no_cache() -> None:
    assert load.cache_for(500 * 2**20) is None
    assert load.cache_for(800 * 2**20) == load.LEAST_CACHE
    assert load.cache_for(2**40) == 2**30
    assert load.cache_for(None) == load.LEAST_CACHE


def test_schedules_keep_every_word(tmp_path: Path) -> None:
    words = ["/bin/printf", "%s\\n", "a b", "50%", "it's", "$HOME", 'say "x"']
    line = next(line for line in cron(DRILL, words, "/usr/bin").splitlines() if line.startswith("30 "))
    command = line.removeprefix("30 3 * * 0  ").replace("\\%", "%")
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == words[2:]
    unit = systemd(DRILL, words, "/usr/bin")
    assert "OnUnitActiveSec=420s" in systemd(save_oplog(420), words, "")
    assert "*/10 * * * *  /bin/printf" in cron(save_oplog(600), words, "")
    for seconds, fields in ((3_600, "0 *"), (7_200, "0 */2"), (86_400, "0 0")):
        assert f"\n{fields} * * *  /bin/printf" in cron(save_oplog(seconds), words, "")
    with pytest.raises(InputError, match="cron cannot run it every 7 min"):
        cron(save_oplog(420), words, "")
    with pytest.raises(InputError, match="cron cannot run it every 90 min"):
        cron(save_oplog(5_400), words, "")
    with pytest.raises(InputError, match="cron cannot run it every 300 min"):
        cron(save_oplog(18_000), words, "")
    assert 'ExecStart="/bin/printf" "%%s\\\\n" "a b" "50%%" "it\'s" "$$HOME" "say \\"x\\""' in unit
