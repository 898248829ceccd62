"""A run asks, shows how far a tool is, ends one that is silent for too long, and starts no step that it cannot end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from builders.plan_folder import rehearse, step, with_work
from builders.plans import changed
from pseudo_terminal import Terminal
from tallyglass.errors import InputError
from tallyglass.restore.model.step import PlanFile, RunMode
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.run.passwords import passwords_in_place
from tallyglass.restore.run.processes import members
from tallyglass.restore.run.progress import Progress
from tallyglass.restore.run.runner import DONE, STOPPED, RunRequest, run
from tallyglass.restore.spare.own_spare import PROGRAM
from tallyglass.restore.tools.toolset import found_in


class Nobody:
    """Nobody at a terminal; ``told`` is all that was shown."""

    width = 60

    def __init__(self) -> None:
        self.told = ""

    def tell(self, text: str) -> None:
        self.told += f"{text}\n"

    def show_progress(self, text: str) -> None:
        pass

    def agrees(self) -> bool | None:
        return None

    def password(self, prompt: str) -> str | None:
        return None


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that only know their version, on PATH."""
    rehearse(tmp_path, with_work(tmp_path, step("true")), "--until=never")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")


def work(folder: Path, works: Callable[[Path, str], bool]) -> tuple[int, str]:
    nobody = Nobody()
    return run(RunRequest(folder, works, yes=True, max_silence=1), nobody), nobody.told


@pytest.mark.usefixtures("tools")
def test_a_tool_that_prints_nothing_new_is_ended_unless_a_server_works(tmp_path: Path) -> None:
    gate, asked = tmp_path / "gate", []
    os.mkfifo(gate)
    waits = step(f"mongorestore {gate} slice")
    made = changed(with_work(tmp_path, waits), files=(PlanFile("spare.yml", 'uri: "x"\n'),))
    folder = write_folder(made, tmp_path / "silent")
    code, told = work(folder, lambda *_: False)
    assert (code, "[step-silent] Step 1" in told, list((folder / "done").iterdir())) == (STOPPED, True, [])

    def works(server: Path, app: str) -> bool:
        asked.append((server.name, app))
        gate.write_text("x")  # what the server does ends, and with it the step
        return True

    code, told = work(folder, works)
    assert (code, asked) == (DONE, [("spare.yml", "mongorestore")]), told


@pytest.mark.usefixtures("tools")
def test_a_spare_is_started_with_the_mongod_that_is_named_or_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server(name: str, version: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho mongod {version}\n")
        file.chmod(0o755)
        return file

    start = step('"${TALLYGLASS_MONGOD:-mongod}" >>started')
    made = changed(with_work(tmp_path, start), files=(PlanFile(PROGRAM, ""),))
    folder = write_folder(made, tmp_path / "plan")
    monkeypatch.setattr("tallyglass.restore.tools.find_mongod._in_wheel", lambda: None)
    code, told = work(folder, lambda *_: True)
    assert (code, "$TALLYGLASS_MONGOD" in told, "tallyglass[demo]" in told) == (STOPPED, True, True), told
    wheel = server("wheel/mongod", "6.0.5")
    monkeypatch.setattr("tallyglass.restore.tools.find_mongod._in_wheel", lambda: wheel)
    assert str(wheel.parent) in found_in()
    assert work(folder, lambda *_: True)[0] == DONE
    server("tools/mongod", "4.4.2")
    monkeypatch.setenv("TALLYGLASS_MONGOD", str(server("other/mongod-6.0", "6.0.6")))
    (folder / "done" / "1").unlink()
    assert work(folder, lambda *_: True)[0] == DONE
    assert (folder / "started").read_text() == "mongod 6.0.5\nmongod 6.0.6\n"
    monkeypatch.setenv("TALLYGLASS_MONGOD", "/nowhere")
    assert "'/nowhere' is not an executable" in work(folder, lambda *_: True)[1]


@pytest.mark.usefixtures("tools")
def test_a_run_begins_with_what_it_undoes(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    facts = replace(made.facts, incident="deleteMany on shop.carts")
    for n, (plan, said) in enumerate([(made, "Restores to"), (replace(made, facts=facts), "Undoes: deleteMany on")]):
        _, told = work(write_folder(plan, tmp_path / f"plan{n}"), lambda *_: True)
        assert told.startswith(said), told


@pytest.mark.usefixtures("tools")
def test_a_folder_whose_list_of_checksums_is_cut_off_is_not_run(tmp_path: Path) -> None:
    listed = write_folder(with_work(tmp_path, step("true")), tmp_path / "plan") / "checksums"
    whole = listed.read_text()
    for length in (0, 20, 150, len(whole) - 1):
        listed.write_text(whole[:length])
        assert "[edited] Changed since it was written: checksums." in work(listed.parent, lambda *_: True)[1], length


@pytest.mark.usefixtures("tools")
def test_what_a_shell_says_of_its_locale_is_no_other_version(tmp_path: Path) -> None:
    program = tmp_path / "tools" / "tallyglass"
    program.write_text(program.read_text().replace("\n", "\necho 'setlocale: cannot change locale' >&2\n", 1))
    code, told = work(write_folder(with_work(tmp_path, step("true")), tmp_path / "plan"), lambda *_: True)
    assert code == DONE, told


def test_a_folder_that_cannot_be_read_is_not_called_something_else(tmp_path: Path) -> None:
    for name, why in (("x" * 300, "cannot be read: File name too long"), ("none", "is not the folder of a plan")):
        with pytest.raises(InputError, match=why):
            work(tmp_path / name, lambda *_: True)


_NAMED = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
print(flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names of processes are set by prctl")
@pytest.mark.parametrize("name", ["", "a b c"])
def test_a_process_without_a_name_or_with_spaces_in_it_is_a_process_too(name: str) -> None:
    program = [sys.executable, "-c", _NAMED, name]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert members(process.pid) == {process.pid: name}
        finally:
            process.kill()


@pytest.mark.usefixtures("tools")
def test_what_a_run_shows_is_as_wide_as_the_terminal_and_its_log_is_not(tmp_path: Path) -> None:
    why = " ".join(f"word{number}" for number in range(99))
    argv = ("echo", *(f"--option{number}=value" for number in range(99)))
    made = with_work(tmp_path, replace(step(" ".join(argv)), why=why, argv=argv))
    folder = write_folder(made, tmp_path / "wide")
    _, told = work(folder, lambda *_: True)
    assert [line for line in told.splitlines() if len(line) > Nobody.width] == [f"  {folder}."]
    words = " ".join(told.replace(" \\\n", " ").split())
    assert (why in words, f"$ {' '.join(argv)}" in words) == (True, True)
    assert words.count(" ".join(argv[1:])) == 2  # what the step printed too
    log = (folder / "restore.log").read_text().splitlines()
    assert 100 < max(len(line) for line in log if "why:" in line) <= 120


_KILLED = """
import os, sys
from pathlib import Path
from tallyglass.restore.run.step_process import StepProcess
folder = Path(sys.argv[1])
print(StepProcess("touch ran", folder, folder / "log", os.environ).group, flush=True)
os._exit(9)
"""


def test_a_run_that_is_killed_as_a_step_starts_leaves_nothing_running(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    deadline = time.monotonic() + 60
    while members(int(killed.stdout)):
        assert time.monotonic() < deadline
    assert not (tmp_path / "ran").exists()


def has_asked(times: int, shown: bytes) -> bool:
    return shown.count(b"run it? [y/N]") == times


def test_a_person_is_asked_before_each_step(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    made = changed(
        with_work(
            tmp_path,
            step(f"cp source.yml {seen}"),
            replace(step(f"touch {tmp_path}/by-hand"), mode=RunMode.BY_HAND),
            step(f"touch {tmp_path}/last"),
        ),
        source_user="u", passwords=("source",), files=(PlanFile("source.yml", 'uri: "x"\n'),),
    )  # fmt: skip
    rehearse(tmp_path, made, "--until=never")
    env = {"PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "xterm"}
    script = ["bash", str(tmp_path / "work" / "restore.sh")]
    with Terminal(script, env) as terminal:
        terminal.wait("Password of u on the source:")
        terminal.press(" it's \n")
        # The second y is typed before the next question, which it does not answer.
        for number, answer in enumerate(("y\ny\n", "n\n", "\n"), start=1):
            terminal.wait_raw(partial(has_asked, number))
            terminal.press(answer)
        assert terminal.wait_for_exit() == 1
        assert "it's" not in terminal.text
    assert seen.read_text() == "uri: \"x\"\npassword: ' it''s '\n"
    assert (tmp_path / "work" / "source.yml").read_text() == 'uri: "x"\n'
    assert not (tmp_path / "by-hand").exists()
    assert not (tmp_path / "last").exists()
    with Terminal(script, env) as terminal:
        terminal.wait("Password of u on the source:")
        terminal.press("x\n")
        assert b"(done before)" in terminal.wait_raw(partial(has_asked, 1))
        terminal.press("\x03")
        assert terminal.wait_for_exit() == 130


def test_a_password_is_removed_where_nothing_can_be_written(tmp_path: Path) -> None:
    """As on a full disk, which a restore itself may have filled."""
    config, secret = tmp_path / "source.yml", tmp_path / "secret"
    config.write_text('uri: "x"\n')
    secret.write_text("it's\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with passwords_in_place(tmp_path, {"source": "u"}, {"source": secret}, frozenset({"source"}), Nobody()):
            assert "it''s" in config.read_text()
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert config.read_text() == 'uri: "x"\n'


def test_the_progress_of_a_tool_is_that_of_all_its_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    shown = Progress(None)
    stamp = "2026-11-20T18:15:44.000+0000\t"
    now = 110.0
    assert shown.line() == "0:10"
    for line in (
        "[####....................]  shop.orders  10.0MB/50.0MB  (20.0%)",
        "[########################]  shop.carts  10.0MB/10.0MB  (100.0%)",
        "restoring shop.orders from base/shop/orders.bson",
        "[##......................]  shop.a b\tc  5.00MB/40.0MB  (12.5%)",
    ):
        shown.hear(stamp + line)
    assert shown.line() == "0:10, 25 MB at 2.5 MB/s, about 0:30 left"
    counted, expected, long = Progress(None), Progress(60.0), Progress(3_610.0)
    now = 120.0
    counted.hear(f"{stamp}local.oplog.rs  2000")
    assert counted.line() == "0:10, 2,000 documents at 200/s"
    assert expected.line() == "0:10, about 0:50 left"
    assert long.line() == "0:10, about 1:00:00 left"
