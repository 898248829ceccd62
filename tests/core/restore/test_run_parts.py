"""The parts of a run by themselves: what proves a step, its progress, silence, programs, passwords, the lock."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from builders.plan_folder import plan, step
from builders.plans import changed
from tallyglass import __version__
from tallyglass.errors import EmbeddedServerError
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import Phase, PlanFile, Proof, RunMode
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.run import programs, silence
from tallyglass.restore.run.folder_lock import LOCK, sole_run
from tallyglass.restore.run.journal import Journal, LogTail
from tallyglass.restore.run.passwords import passwords_in_place
from tallyglass.restore.run.printed import Printed
from tallyglass.restore.run.processes import birth, is_connected, members
from tallyglass.restore.run.programs import check_programs, environment
from tallyglass.restore.run.progress import Progress
from tallyglass.restore.run.runner import RunRequest, run
from tallyglass.restore.run.silence import Silence
from tallyglass.restore.run.step_process import RUNNING, StepProcess, left_running
from tallyglass.restore.run.stop import Interrupted, RunStopped, interruptible
from tallyglass.restore.spare import own_spare
from tallyglass.restore.tools.files import read_config
from tallyglass.restore.tools.find_mongod import VARIABLE, find_mongod
from tallyglass.signals import ending_signals

STAMP = "2026-11-20T18:15:44.000+0000\t"
RESTORED = f"{STAMP}{{}} document(s) restored successfully. {{}} document(s) failed to restore."


@pytest.mark.parametrize(
    ("proof", "lines", "right"),
    [
        (Proof(), [], True),
        (Proof(applied=2), ["1", "2"], True),
        (Proof(applied=2), ["12", "22"], False),
        (Proof(applied=0), [], False),
        (Proof(restored=2), [RESTORED.format(2, 0)], True),
        (Proof(restored=2), [RESTORED.format(1, 0)], False),
        (Proof(restored=0), [RESTORED.format(0, 1)], False),
        (Proof(restored=0), [], False),
        (Proof(file="made"), [], True),
        (Proof(file="empty"), [], False),
        (Proof(file="none"), [], False),
        (Proof(file="."), [], False),
    ],
)
def test_a_step_is_done_where_all_that_proves_it_is_there(
    tmp_path: Path, proof: Proof, lines: list[str], right: bool
) -> None:
    (tmp_path / "made").write_text("x")
    (tmp_path / "empty").touch()
    printed = Printed()
    for line in lines:
        printed.hear(f"{STAMP}applied {line} oplog entries" if line.isdigit() else line)
    assert printed.proves(proof, tmp_path) is right


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["applyOps had one or more errors", "1", "2", "3", "4"], "Likely a validator does not take a document"),
        (["applyOps had one or more errors", "1", "2", "3", "4", "5"], ""),
        (["not authorized on admin", "to execute command { applyOps: ["], "The user on the spare needs a role"),
        (["applyOps", "not authorized on admin"], ""),
        (["(Unauthorized) not authorized on local to execute command { listIndexes: "],
         "The user on the live set may not run listIndexes on local:"),
        (["write x: No space left on device"], "The disk is full: make room, and run it again."),
        (["Failed: applyOps: connection(h:1[-3]) socket was unexpectedly closed: EOF", "1 document(s) restored"],
         "The server ended, or cannot be reached: "),
        (["could not connect to server: server selection error: server selection timeout"], "The server ended"),
        (["oplog: applyOps: (Location50810) KeyString format error: x", "1"], "An entry inserts a document"),
        (["oplog: applyOps: (Overflow) buffer size too small to read (1) bytes", "1"], "An entry inserts a document"),
        (["KeyString format error: x"], ""),
        (["Failed"], ""),
    ],
)  # fmt: skip
def test_the_last_lines_of_a_tool_name_the_cause(lines: list[str], cause: str) -> None:
    printed = Printed()
    for line in lines:
        printed.hear(line)
    found = printed.likely_cause()
    assert (found.startswith(cause), bool(found)) == (True, bool(cause))


def test_progress_counts_what_is_done_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def shown(estimate: float | None, seconds: float, *lines: str) -> tuple[str, str]:
        nonlocal now
        now = 100.0
        found = Progress(estimate)
        for line in lines:
            found.hear(STAMP + line)
        now += seconds
        return found.so_far(), found.line()

    assert shown(None, 0.5, "s.c  1023B") == ("0:00, 1023 B at 1023 B/s",) * 2
    assert shown(None, 2, "s.c  1.00KB") == ("0:02, 1 KB at 512 B/s",) * 2
    for unit, smaller in (("MB", "KB"), ("GB", "MB"), ("TB", "GB")):
        assert shown(None, 2, f"s.c  1.00{unit}")[0] == f"0:02, 1 {unit} at 512 {smaller}/s"
    assert shown(3_661, 0) == ("0:00", "0:00, about 1:01:01 left")
    assert shown(60, 60) == ("1:00", "1:00")
    assert shown(60, 59) == ("0:59", "0:59, about 0:01 left")
    half = "[##..]  s.c  20/40  (50.0%)"
    assert shown(99, 10, half) == ("0:10, 20 documents at 2/s", "0:10, 20 documents at 2/s, about 0:10 left")
    assert shown(99, 10, half, "s.d  5")[1] == "0:10, 25 documents at 2/s, about 1:29 left", "the end is not known"
    assert shown(None, 10, "[####]  s.c  40/40  (100.0%)")[1] == "0:10, 40 documents at 4/s"
    assert shown(None, 1, "s.c  1.2.3", "s.c  1.2.3MB", "s.c") == ("0:01", "0:01")
    both = shown(None, 1, "[##..]  s.c  1.00GB/4.00GB  (25.0%)", "s.d  5")
    assert both[1] == "0:01, 1 GB at 1 GB/s, 5 documents at 5/s, about 0:03 left"


def test_a_silent_tool_is_named_once_no_server_works_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, running, asked, works = 100.0, {1: "bash", 2: "mongodump"}, list[str](), True
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(silence, "members", lambda group: running if group == 7 else {})

    def answer(tool: str) -> bool:
        asked.append(tool)
        return works

    def at(seconds: float, *lines: str) -> str:
        nonlocal now
        now = 100.0 + seconds
        for line in lines:
            watch.hear(line)
        return watch.broken()

    watch = Silence(7, 10, answer)
    assert [at(2.9), at(3, "t1 a"), at(12.9), asked] == ["", "", "", []]
    assert (at(13, "t2 a", "t3"), asked) == ("", []), "a word alone is new"
    assert (at(22.9, "t4 a"), at(26), asked) == ("", "", ["mongodump"]), "it repeats itself, and a server works"
    works = False
    assert (at(35.9), at(36), at(40)) == ("", "", "mongodump"), "a look is at most every three seconds"
    watch, running = Silence(7, 10, answer), {1: "bash"}
    assert (at(60), at(100)) == ("", ""), "nothing that is watched runs"
    running = {1: "mongorestore"}
    assert (at(109.9), at(113)) == ("", "mongorestore")
    watch = Silence(7, 0, answer)
    assert at(10_000) == ""
    watch = Silence(7, 1, answer)
    assert (at(10_000.9), at(10_001)) == ("", "mongorestore")


def test_a_mongosh_that_has_no_connection_for_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now, connected = 100.0, {2: True}
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(silence, "members", lambda _: {1: "bash", 2: "mongosh "})
    monkeypatch.setattr(silence, "is_connected", connected.__getitem__)

    def at(seconds: float) -> str:
        nonlocal now
        now = 100.0 + seconds
        return watch.broken()

    for limit in (10, 200):
        watch, most = Silence(7, limit, lambda _: False), max(limit, 120)
        connected[2], began = True, now - 100
        assert [at(began + 3), at(began + 500)] == ["", ""], "it prints nothing while it works"
        connected[2] = False
        assert [at(began + 503), at(began + 499.9 + most)] == ["", ""], "it starts, or connects again"
        connected[2] = True
        assert at(began + 503 + most) == ""
        connected[2] = False
        assert [at(began + 502.9 + 2 * most), at(began + 506 + 2 * most)] == ["", "mongosh"]


def test_a_process_is_connected_while_it_has_a_socket() -> None:
    with socket.socket() as held:
        for sockets in ([held.fileno()], []):
            with subprocess.Popen(["sleep", "60"], pass_fds=sockets) as process:
                assert is_connected(process.pid) is bool(sockets)
                process.kill()
    assert is_connected(process.pid), "it is gone"


class Shelf:
    """Programs that say their versions, on a PATH of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("mongodump", "mongorestore"):
            self.put(name, f"{name} version: 100.15.0")
        self.put("tallyglass", f"tallyglass {__version__}")

    def put(self, name: str, says: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (self.folder / name).chmod(0o700)


def test_the_programs_of_the_steps_are_checked_first(tmp_path: Path) -> None:
    shelf, made = Shelf(tmp_path / "shelf"), changed(plan(step("true")), tools_needed="100.15")
    env = {"PATH": f"{shelf.folder}:/usr/bin:/bin"}

    def stops(path: str = env["PATH"], of: Plan = made) -> tuple[str, str, str] | None:
        try:
            check_programs(of, tmp_path, env | {"PATH": path})
        except RunStopped as stop:
            return stop.check, stop.title, stop.advice
        return None

    assert stops() is None
    needed = "The Database Tools 100.15 or newer are needed."
    assert stops("/usr/bin:/bin") == ("tool-missing", "mongodump is not installed here.", needed)
    assert stops(str(shelf.folder)) == ("tool-missing", "bash is not installed here.", "")
    newer = changed(made, tools_needed="100.16")
    assert stops(of=newer) == ("tool-version", "mongodump is 100.15.0; 100.16 or newer is needed.", "")
    other = "This plan was made by tallyglass 0.0.1; the version here is: tallyglass "
    assert stops(of=changed(made, made_by="0.0.1")) == ("tallyglass-version", f"{other}{__version__}.", "Plan again.")
    shelf.put("mongorestore", "version: 100.16.0")
    mixed = "The Database Tools are of different versions."
    assert stops() == ("tool-mixed", mixed, "Install them as one package.")
    shelf.put("mongorestore", "odd")
    assert stops() == ("tool-version", "The version of mongorestore cannot be read.", "")
    shelf.put("mongorestore", "version: 100.15.0")
    (tmp_path / "helpers.js").touch()
    assert stops() == ("tool-missing", "mongosh is not installed here.", "")
    shelf.put("mongosh", "2")
    (tmp_path / own_spare.PROGRAM).touch()
    shelf.put("mongod", "db version v5.0.9")
    assert stops() == ("spare-version", "mongod is 5.0.9 here, the source is 6.0.5.", "")
    shelf.put("mongod", "db version v6.0.9")
    assert stops() is None
    shelf.put("mongod-5", "db version v5.0.8")
    env[VARIABLE] = str(shelf.folder / "mongod-5")
    assert stops() == ("spare-version", "mongod is 5.0.8 here, the source is 6.0.5.", "")
    env[VARIABLE] = str(tmp_path / "none")
    found = stops()
    assert found is not None
    assert (found[0], found[2].split(",")[0]) == ("tool-missing", "Put mongod 6.0 on PATH")


def test_the_places_of_the_plan_come_after_those_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/a:/b")
    mongod = tmp_path / "my-mongod"
    mongod.touch(0o700)
    made = changed(plan(step("true")), found_in=("/b", "/c"))
    monkeypatch.setattr(programs, "find_mongod", lambda: mongod)
    assert environment(made) == os.environ | {"PATH": "/a:/b:/c", VARIABLE: str(mongod)}
    mongod.rename(tmp_path / "mongod")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment(made) == os.environ | {"PATH": f"{tmp_path}:/b:/c"}
    monkeypatch.setenv(VARIABLE, "named")
    assert environment(made) == os.environ | {"PATH": f"{tmp_path}:/b:/c", VARIABLE: str(mongod)}
    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, "none")
    assert environment(made)[VARIABLE] == "none", "the check of the programs names it"


def test_the_mongod_of_the_wheel_is_made_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    places: list[str] | None = [str(tmp_path / "none"), str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=places))
    (tmp_path / "bin").mkdir()
    with pytest.raises(EmbeddedServerError, match="No mongod was found"):
        find_mongod()
    for name in ("mongod.exe", "mongod"):
        path = tmp_path / "bin" / name
        path.touch(0o600)
        assert (find_mongod(), stat.S_IMODE(path.stat().st_mode)) == (path, 0o755)
    path.chmod(0o500)
    assert (find_mongod(), stat.S_IMODE(path.stat().st_mode)) == (path, 0o500)
    places = None
    with pytest.raises(EmbeddedServerError, match="No mongod was found"):
        find_mongod()
    (tmp_path / "mongod").symlink_to(path)
    assert find_mongod() == path
    assert find_mongod(str(tmp_path / "bin" / "mongod.exe")).name == "mongod.exe"
    for named in (str(tmp_path), str(tmp_path / "none")):
        with pytest.raises(EmbeddedServerError, match="is not an executable file"):
            find_mongod(named)


def test_a_guard_is_repeated_with_each_attempt_at_the_step_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path / "shelf")
    monkeypatch.setenv("PATH", f"{shelf.folder}:/usr/bin:/bin")
    gate = tmp_path / "gate"
    modes = [RunMode.ONCE, RunMode.GUARD, RunMode.ONCE, RunMode.AGAIN, RunMode.PREVIEW, RunMode.ONCE]
    ends = ["", "", f"; test -e {gate}", "", "", f"; test -s {gate}"]
    steps = [
        replace(step(f"echo {n} >>{tmp_path}/ran{end}"), mode=mode, seconds=60.0)
        for n, (mode, end) in enumerate(zip(modes, ends, strict=True))
    ]
    folder = write_folder(changed(plan(*steps), tools_needed="100.15"), tmp_path / "plan")
    request = RunRequest(folder, lambda *_: True, yes=True)
    person, codes, told = Asked(None), list[int](), list[str]()
    monkeypatch.setattr(person, "tell", told.append)
    for text in (None, "", "x", "x"):
        if text is not None:
            gate.write_text(text)
        codes.append(run(request, person))
        with (tmp_path / "ran").open("a") as ran:
            ran.write("-")
    assert (tmp_path / "ran").read_text().replace("\n", "") == "012-1235-35--"
    assert codes == [1, 1, 0, 0]
    lines = "\n".join(told)
    assert re.findall(r"left:  about (.*), with", lines) == [
        "6 min", "4 min", "4 min", "3 min", "2 min", "60 s", "2 min", "60 s", "60 s"
    ]  # fmt: skip
    assert re.findall(r"\[(\d)/6\].*\(done before\)", lines) == [*"1", *"1234", *"12346"]


def test_a_guard_may_be_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Shelf(tmp_path / 'shelf').folder}:/usr/bin:/bin")
    steps = [replace(step(f"echo {n} >>{tmp_path}/ran"), mode=mode) for n, mode in enumerate(RunMode) if n < 2]
    steps = [replace(steps[0], mode=RunMode.GUARD), replace(steps[1], mode=RunMode.ONCE)]
    folder = write_folder(changed(plan(*steps), tools_needed="100.15"), tmp_path / "plan")
    assert run(RunRequest(folder, lambda *_: True, yes=True), Asked(None)) == 0
    assert (tmp_path / "ran").read_text() == "0\n1\n"


def test_a_folder_that_can_still_restore_something_is_not_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Shelf(tmp_path / 'shelf').folder}:/usr/bin:/bin")
    steps = step("touch incomplete", phase=Phase.VERIFY), step("touch cleaned", phase=Phase.CLEAN)
    folder = write_folder(changed(plan(*steps), tools_needed="100.15"), tmp_path / "plan")
    person, told = Asked(None), list[str]()
    monkeypatch.setattr(person, "tell", told.append)
    request = RunRequest(folder, lambda *_: True, yes=True)
    assert (run(request, person), (folder / "cleaned").exists()) == (3, False)
    assert [text.split(":")[0] for text in told[-4:]] == ["Not cleaned up", "", "What was done", told[-1]]
    assert told[-1] == f"NOT COMPLETE. Files are in {folder}."
    (folder / "incomplete").unlink()
    assert (run(request, person), (folder / "cleaned").exists()) == (0, True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_stops_a_run_once_and_those_after_it_are_ignored(number: signal.Signals, code: int) -> None:
    handlers = [signal.getsignal(one) for one in ending_signals()]

    def stopped() -> int:
        try:
            with interruptible():
                try:
                    signal.raise_signal(number)
                finally:
                    for other in ending_signals():
                        signal.raise_signal(other)
        except Interrupted as stop:
            return stop.code
        return 0

    assert stopped() == code
    assert [signal.getsignal(one) for one in ending_signals()] == handlers


class Asked:
    """A person who types ``answer``."""

    width = None
    prompts: tuple[str, ...] = ()

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    def tell(self, text: str) -> None:
        pass

    show_progress = tell

    def agrees(self) -> bool | None:
        return None

    def password(self, prompt: str) -> str | None:
        self.prompts = (*self.prompts, prompt)
        return self.answer


def test_a_no_leaves_out_what_needs_a_decision_and_stops_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, told, answers = Shelf(tmp_path / "shelf"), list[str](), [True, False, False]
    monkeypatch.setenv("PATH", f"{shelf.folder}:/usr/bin:/bin")
    modes = (RunMode.ONCE, RunMode.BY_HAND, RunMode.ONCE)
    steps = [replace(step(f"echo {mode} >>{tmp_path}/ran"), mode=mode, seconds=60.0) for mode in modes]
    folder = write_folder(changed(plan(*steps), tools_needed="100.15"), tmp_path / "plan")
    person = Asked(None)
    monkeypatch.setattr(person, "agrees", lambda: answers.pop(0))
    monkeypatch.setattr(person, "tell", told.append)
    assert run(RunRequest(folder, lambda *_: True), person) == 1
    assert (tmp_path / "ran").read_text() == "once\n"
    left = [line for text in told for line in text.split("\n") if line.startswith(("  left:", "  skipped", "STOPPED"))]
    assert left == [
        "  left:  about 3 min, with this step", "  left:  about 2 min, with this step", "  skipped",
        "  left:  about 60 s, with this step",
        "STOPPED: [declined] Before step 3, at your request. Run it again to resume.",
    ]  # fmt: skip
    answers.append(False)
    answers.append(True)
    assert run(RunRequest(folder, lambda *_: True), person) == 0, "a person decided"
    assert (tmp_path / "ran").read_text() == "once\nonce\n"


def test_a_password_is_in_its_file_alone_and_only_while_it_is_needed(tmp_path: Path) -> None:
    source, spare, secret = (tmp_path / name for name in ("source.yml", "spare.yml", "secret"))
    source.write_text("uri: x\npassword: 'left'\n")
    spare.write_text("uri: y\n")
    (tmp_path / "spare.yml.new").write_text("password: 'left'\n")
    secret.write_text("it's\r\nmore\n")
    odd = "ty\rp\x0be\x85d\u2028"  # each ends a line for somebody
    users, person = {"source": "ann", "spare": "bob"}, Asked(odd)
    with passwords_in_place(tmp_path, users, {"source": secret}, frozenset({"source", "spare"}), person):
        assert source.read_text() == "uri: x\npassword: 'it''s'\n"
        assert read_config(spare.read_text().replace("uri: y", 'uri: "y"')) == ("y", odd)
        assert spare.read_text().splitlines()[2:] == []
        assert [stat.S_IMODE(one.stat().st_mode) for one in (source, spare)] == [0o600, 0o600]
    assert person.prompts == ("Password of bob on the spare: ",)
    with passwords_in_place(tmp_path, users, {}, frozenset(), person):
        assert (source.read_text(), spare.read_text()) == ("uri: x\n", "uri: y\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["secret", "source.yml", "spare.yml"]
    secret.write_text("\nmore\n")
    for files, answer, title in (
        ({"source": secret}, "x", f"{secret} is empty."),
        ({"source": tmp_path / "none"}, "x", f"{tmp_path / 'none'} cannot be read: No such file or directory."),
        ({}, None, "There is no terminal to ask on: give --source-password-file."),
    ):
        with (
            pytest.raises(RunStopped) as stop,
            passwords_in_place(tmp_path, users, files, frozenset(users), Asked(answer)),
        ):
            pass
        assert (stop.value.check, stop.value.title, source.read_text()) == ("password", title, "uri: x\n")


@pytest.mark.parametrize(
    ("until", "roles", "asked"),
    [
        (Phase.SECURE, ("source", "spare"), ["source"]),
        (Phase.RESTORE, ("source", "spare"), ["source", "spare"]),
        (Phase.CLEAN, ("spare",), ["spare"]),
        (Phase.SECURE, ("spare",), []),
        (Phase.CLEAN, (), []),
    ],
)
def test_only_passwords_that_the_steps_need_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Phase, roles: tuple[str, ...], asked: list[str]
) -> None:
    monkeypatch.setenv("PATH", f"{Shelf(tmp_path / 'shelf').folder}:/usr/bin:/bin")
    files = tuple(PlanFile(f"{role}.yml", 'uri: "x"\n') for role in ("source", "spare"))
    made = changed(
        plan(step("true")), tools_needed="100.15", files=files, source_user="a", spare_user="b", passwords=roles
    )  # fmt: skip
    person = Asked("secret")
    request = RunRequest(write_folder(made, tmp_path / "plan"), lambda *_: True, yes=True, until=until)
    assert run(request, person) == 0
    users = {"source": "a", "spare": "b"}
    assert list(person.prompts) == [f"Password of {users[role]} on the {role}: " for role in asked]


def test_a_folder_is_used_by_one_run_at_a_time_and_on_one_machine(tmp_path: Path) -> None:
    lock, here = tmp_path / LOCK, os.uname().nodename
    with sole_run(tmp_path):
        assert lock.read_text() == f"{os.getpid()} {here}\n"
        with pytest.raises(RunStopped, match=rf"in progress \(process {os.getpid()}\)"), sole_run(tmp_path):
            pass
    assert lock.read_text() == ""
    lock.write_text(f"7 {here}\n")
    with sole_run(tmp_path):
        pass
    lock.write_text("7 other\n")
    with pytest.raises(RunStopped, match=r"A run on other \(process 7\) uses .* rm "), sole_run(tmp_path):
        pass
    assert lock.read_text() == "7 other\n"
    with pytest.raises(RunStopped, match="cannot be written to: No such file"), sole_run(tmp_path / "none"):
        pass


def test_a_step_that_a_killed_run_left_is_known_by_number_and_birth(tmp_path: Path) -> None:
    assert left_running(tmp_path) == []
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            pid = process.pid
            for text, left in (
                (f"{pid}\n{birth(pid)}\n", [pid]),
                (f"{pid}\nanother time\n", []),
                ("none\n\n", []),
                (f"{pid}\n", []),
                (f"{pid}\n{birth(pid)}\nmore\n", []),
            ):
                (tmp_path / RUNNING).write_text(text)
                assert left_running(tmp_path) == left
            assert members(pid) == {pid: "sleep"}
        finally:
            process.kill()
    assert birth(pid) == ""


def test_a_step_ends_where_a_signal_left_the_lock_of_its_process_locked(tmp_path: Path) -> None:
    """As one does that comes while subprocess takes it: a run that was stopped then never ended."""
    with StepProcess("sleep 60", tmp_path, tmp_path / "log", os.environ) as process:
        ending = Thread(target=process.end)
        with process._process._waitpid_lock:  # type: ignore[attr-defined]
            ending.start()
            ending.join(60)
            stuck = ending.is_alive()
    assert not stuck
    assert process.wait(0) == -signal.SIGTERM


def test_a_step_prints_into_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.size() == 0
    journal.note("shown")
    tail = LogTail(journal.path, journal.size())
    with StepProcess("umask; pwd; exit 3", tmp_path, journal.path, os.environ) as process:
        named = (tmp_path / RUNNING).read_text().splitlines()
        assert process.wait(60) == 3
        assert process.wait(0) == 3
    assert named[0] == str(process.group)
    assert tail.new_lines() == ["0077", str(tmp_path)]
    assert (tail.remainder(), journal.path.read_text()) == ([], f"shown\n0077\n{tmp_path}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["restore.log"]
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    with suppress(KeyError), StepProcess("printf half; sleep 60", tmp_path, journal.path, os.environ) as process:
        assert process.wait(0) is None
        raise KeyError
    assert (members(process.group), (tmp_path / RUNNING).exists()) == ({}, False)
    journal.path.unlink()
    journal.path.mkdir()
    journal.note("a disk that is full")
