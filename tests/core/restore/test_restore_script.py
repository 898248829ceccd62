"""Commands mean the same in the script and when pasted, whatever the names contain; nothing else is run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bson import Int64
from bson.datetime_ms import DatetimeMS
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.plan_folder import BACKUP, LIMIT, begin, rehearse, restored, step, with_work
from builders.plans import changed, make_plan
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.document import from_json, to_json
from tallyglass.restore.model.step import Phase, PlanFile, Proof, RunMode
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.plan.self_extracting import script
from tallyglass.restore.plan.step_text import fold_line
from tallyglass.restore.plan.steps.making import escape_pattern
from tallyglass.restore.proof.oplog_query import oplog_query
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import read_config

NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=25, deadline=None)
@given(db=NAME, name=NAME)
def test_every_argument_arrives_byte_for_byte(db: str, name: str) -> None:
    made = restored(db, name).steps.commands
    assert all(step.shell.isascii() and step.shell.isprintable() for step in made), "one line of printable ASCII"
    # Each tool becomes a function that prints what it was given.
    tools = "".join(f"{tool}() {{ printf '%s\\0' {tool} \"$@\"; }}\n" for tool in {step.argv[0] for step in made})
    for lines in ([one.shell for one in made], [fold_line(one) for one in made]):
        done = subprocess.run(["bash", "--norc", "-c", tools + "\n".join(lines)], capture_output=True, check=True)
        assert done.stdout == b"".join(word.encode() + b"\0" for step in made for word in step.argv)


def test_patterns_and_limits() -> None:
    assert escape_pattern("a*b\\c") == "a\\*b\\\\c"
    steps = restored().steps
    restore = next(step for step in steps.commands if "--oplogReplay" in step.argv)
    assert f"--oplogLimit={LIMIT}" in restore.argv
    assert {"--drop", "--stopOnError", "--bypassDocumentValidation"} <= set(restore.argv)
    assert "--preserveUUID" not in restore.argv
    (spare,) = [file.text for file in steps.files if file.name == "raise-spare.js"]
    assert spare.index('onSpare("rs")') < spare.rindex("updateOne(")
    query = json.loads(oplog_query(Ts(5, 1), LIMIT, (Ts(7, 2),)))
    assert query["ts"]["$lte"] == {"$timestamp": {"t": LIMIT.t, "i": LIMIT.i}}
    assert query["ts"]["$nin"] == [{"$timestamp": {"t": 7, "i": 2}}]


def test_mongosh_text_means_one_thing() -> None:
    assert mongosh.literal(5) == "NumberInt(5)"
    assert mongosh.literal(2**40) == f'NumberLong("{2**40}")'
    assert mongosh.literal(Int64(5)) == 'NumberLong("5")'
    assert mongosh.literal("\u2028'\"`${x}\x1b") == '"\\u2028\'\\"`${x}\\u001b"'
    assert not mongosh.has_literal([{"at": DatetimeMS(2**62)}])
    assert not mongosh.has_literal({"bytes that were not UTF-8: \ufffd": 1})


def test_the_script_stops_at_the_first_doubt_and_goes_on_there(tmp_path: Path) -> None:
    log = shlex.quote(str(tmp_path / "log"))
    gate = shlex.quote(str(tmp_path / "gate"))
    made = with_work(
        tmp_path,
        step(f"echo one >> {log}"),
        step(f"echo two >> {log}; cat {gate} > made || true", proof=Proof(file="made")),
        step(f"false | cat; echo three >> {log}", phase=Phase.RESTORE),
    )
    stopped = rehearse(tmp_path, made, "--yes", "--until", "secure")
    assert (stopped.returncode, "[check-failed] Step 2" in stopped.stderr) == (1, True)
    (tmp_path / "gate").write_text("x")
    assert rehearse(tmp_path, made, "--yes", "--until=secure").returncode == 0
    assert (tmp_path / "log").read_text() == "one\ntwo\ntwo\n"
    assert rehearse(tmp_path, made, "--yes").returncode == 0
    other = with_work(tmp_path, step("true"))
    assert "[other-plan]" in rehearse(tmp_path, other, "--yes").stderr


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("Failed: applyOps: (UnknownError) applyOps had one or more errors applying ops", "Tools before 100.15"),
        ("Failed: applyOps: (Unauthorized) not authorized on admin to execute command { applyOps: [", "anyAction"),
        ("write base/s/c.bson: no space left on device", "make room"),
        ("Failed: something else", "failed; nothing after it was run. What it printed"),
    ],
)
def test_a_stop_names_the_likely_cause(tmp_path: Path, printed: str, cause: str) -> None:
    made = with_work(tmp_path, step(f"echo {shlex.quote(printed)} >&2; false"))
    (said,) = [line for line in rehearse(tmp_path, made, "--yes").stderr.splitlines() if line.startswith("STOPPED")]
    assert cause in said


def test_the_script_asks_and_takes_silence_for_no(tmp_path: Path) -> None:
    made = with_work(tmp_path, step(f"touch {shlex.quote(str(tmp_path / 'ran'))}"))
    silent = rehearse(tmp_path, made)
    assert (silent.returncode, "[no-terminal]" in silent.stderr) == (1, True)
    assert not (tmp_path / "ran").exists()
    assert rehearse(tmp_path, made, "--until", "never").returncode == 2


def test_steps_that_need_a_decision_are_not_run_with_yes(tmp_path: Path) -> None:
    asked = replace(step(f"touch {tmp_path}/by-hand", phase=Phase.RETURN), mode=RunMode.BY_HAND)
    preview = replace(step(f"touch {tmp_path}/preview"), mode=RunMode.PREVIEW)
    made = with_work(tmp_path, preview, asked, step(f"touch {tmp_path}/after", phase=Phase.CLEAN))
    assert rehearse(tmp_path, made, "--yes", "--until=verify").returncode == 0
    done = rehearse(tmp_path, made, "--yes")
    assert (done.returncode, "needs a decision" in done.stderr) == (3, True)
    assert [line for line in done.stderr.splitlines() if line.startswith("Not")] == [
        "Not decided, and not done: [2/3] return: A step. Run it again without --yes."
    ]
    assert [(tmp_path / name).exists() for name in ("preview", "by-hand", "after")] == [False, False, True]


@pytest.mark.parametrize("differs", [True, False])
def test_what_is_as_it_was_needs_no_decision(tmp_path: Path, *, differs: bool) -> None:
    asked = replace(step("true", phase=Phase.RETURN), mode=RunMode.BY_HAND)
    account = step("echo account >outcome.txt" + "; echo one is missing >undecided.txt" * differs, phase=Phase.RETURN)
    made = with_work(tmp_path, asked, account)
    done = rehearse(tmp_path, made, "--yes")
    ends = ["one is missing", "Not decided, and not done", "NOT COMPLETE"] if differs else ["Nothing to decide", "Done"]
    lines = done.stderr.splitlines()[-len(ends) - 1 :]
    assert (done.returncode, lines[0]) == (3 * differs, "account")
    assert all(line.startswith(end) for line, end in zip(lines[1:], ends, strict=True))
    again = rehearse(tmp_path, made, "--yes")
    assert again.returncode == 3 * differs
    assert again.stderr.splitlines()[-len(ends) - 2].startswith("By the account of an earlier run, 2")


def test_a_password_reaches_the_tools_as_it_is_and_is_removed_afterwards(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", " it's & \\' \"so\" "
    made = changed(
        with_work(tmp_path, step(f"cp source.yml {tmp_path}/seen")),
        source_user="u", passwords=("source",), files=(PlanFile("source.yml", "uri: \"x\"\n"),),
    )  # fmt: skip
    (tmp_path / "p").write_text(secret + "\r\nand a note\n")
    assert rehearse(tmp_path, made, "--yes", f"--source-password-file={tmp_path}/p").returncode == 0
    quoted = secret.replace("'", "''")
    assert (tmp_path / "seen").read_text() == f"uri: \"x\"\npassword: '{quoted}'\n"
    assert read_config((tmp_path / "seen").read_text()) == ("x", secret)
    assert (work / "source.yml").read_text() == 'uri: "x"\n'


def test_only_the_passwords_that_are_needed_are_requested(tmp_path: Path) -> None:
    """There is no terminal here, so that asking ends the script."""
    steps = with_work(tmp_path, step("true"), step("true", phase=Phase.RESTORE))
    made = changed(steps, spare_user="u", passwords=("spare",), files=(PlanFile("spare.yml", 'uri: "x"\n'),))
    assert rehearse(tmp_path, made, "--yes", "--until=secure").returncode == 0
    assert "[password] There is no terminal" in rehearse(tmp_path, made, "--yes", "--until=restore").stderr
    (tmp_path / "empty").touch()
    assert "is empty" in rehearse(tmp_path, made, "--yes", f"--spare-password-file={tmp_path}/empty").stderr


def test_mongosh_is_needed_where_a_step_calls_it(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    assert rehearse(tmp_path, made, "--yes").returncode == 0
    needs = changed(made, files=(PlanFile("helpers.js", ""),), work_dir=str(tmp_path / "work2"))
    assert "[tool-missing] mongosh is not installed here" in rehearse(tmp_path, needs, "--yes").stderr


def test_two_runs_of_one_folder_do_not_meet_and_one_that_was_killed_is_resumed(tmp_path: Path) -> None:
    gate, work = tmp_path / "gate", tmp_path / "work"
    os.mkfifo(gate)
    made = with_work(tmp_path, step("touch first"), step(f"touch {tmp_path}/begun && mongodump {gate} slice"))
    first = begin(tmp_path, made, "--yes")
    wait_for(tmp_path / "begun")
    again = rehearse(tmp_path, made, "--yes")
    assert (again.returncode, "[locked] Another run" in again.stderr) == (1, True)
    first.kill()
    first.wait(timeout=180)
    orphan = rehearse(tmp_path, made, "--yes")
    assert (orphan.returncode, "[still-running]" in orphan.stderr) == (1, True)
    with gate.open("w") as end:
        end.write("x")
    first.communicate(timeout=180)
    gate.unlink()
    gate.write_text("y")
    while "[still-running]" in (resumed := rehearse(tmp_path, made, "--yes")).stderr:
        pass
    assert (resumed.returncode, "A step (done before)" in resumed.stderr) == (0, True)
    assert (work / "slice").read_text() == "y", "what was half done is done again"


def test_a_run_on_another_machine_is_respected(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    write_folder(made, tmp_path / "work")
    lock = tmp_path / "work" / "lock"
    lock.write_text("1 elsewhere\n")
    assert "[locked] A run on elsewhere (process 1)" in rehearse(tmp_path, made, "--yes").stderr
    lock.write_text(f"{os.getpid()} {os.uname().nodename}\n")
    assert rehearse(tmp_path, made, "--yes").returncode == 0, "of this machine the kernel knows whether it still runs"


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def test_an_oplog_copy_that_changed_is_not_replayed(tmp_path: Path) -> None:
    made = restored(own_spare=27117)
    folder = write_folder(made, tmp_path / "plan")
    (folder / "spare.sh").write_text("exit 0")
    (folder / "oplog").mkdir()
    (folder / "oplog" / "oplog.bson").write_text("entries")
    (folder / "manifest.sha256").write_text(f"{hashlib.sha256(b'entries').hexdigest()}  oplog/oplog.bson\n")
    assert subprocess.run(["bash", "guard.sh"], check=False, cwd=folder).returncode == 0
    (folder / "oplog" / "oplog.bson").write_text("entriez")
    assert subprocess.run(["bash", "guard.sh"], check=False, capture_output=True, cwd=folder).returncode != 0


def test_data_files_are_replayed_on_once(tmp_path: Path) -> None:
    folder = write_folder(restored(backup=replace(BACKUP, form=DATA_FILES)), tmp_path / "plan")
    for name in ("tallyglass", "sha256sum"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >>calls\n')
        (folder / name).chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    first, again = (
        subprocess.run(["bash", "guard.sh"], check=False, capture_output=True, cwd=folder, env=path) for _ in range(2)
    )
    assert (first.returncode, again.returncode) == (0, 1)
    assert b"a fresh copy" in again.stderr
    assert "--empty" in (folder / "calls").read_text()


def test_a_plan_survives_json(tmp_path: Path) -> None:
    made = with_work(tmp_path, *restored().steps.commands)
    assert from_json(to_json(made)) == made
    assert from_json(to_json(made, packed=True)) == made
    assert to_json(made).isascii()
    for other in ("[]", "5", '"plan"', to_json(made).replace('"checks": []', '"checks": ["x"]'), "{}", "no JSON"):
        with pytest.raises(InputError):
            from_json(other)
    blocked = make_plan(LIMIT, made.source, made.facts.made, checks=(Check("x", Level.BLOCK, "No."),))
    for write in (script, lambda one: write_folder(one, tmp_path / "blocked")):
        with pytest.raises(InputError, match="blocked"):
            write(blocked)
    assert not (tmp_path / "blocked").exists()
