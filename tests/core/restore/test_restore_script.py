"""Commands mean the same in the script and pasted, whatever the names hold; and nothing is run that was not asked."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bson import Int64
from bson.datetime_ms import DatetimeMS
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass.errors import InputError
from tallyglass.moment import Ts, from_seconds
from tallyglass.restore.backup.backup import DATA_FILES, Contents
from tallyglass.restore.model.document import from_json, to_json
from tallyglass.restore.model.plan import (
    Backup,
    Check,
    Command,
    Level,
    Phase,
    Plan,
    Return,
    Slice,
    Strategy,
)
from tallyglass.restore.replay.oplog_query import oplog_query
from tallyglass.restore.runbook.commands import commands
from tallyglass.restore.runbook.runbook import script
from tallyglass.restore.runbook.spec import RunbookSpec, escape_pattern
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import WorkDir
from tallyglass.restore.tools.tool_uri import tool_uri

LIMIT = Ts(1_795_197_974, 14)
NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


def spec(work: str = "/w", db: str = "shop", name: str = "orders") -> RunbookSpec:
    ns = f"{db}.{name}"
    backup = Backup(Path("/backups/to day"), "directory", False, Ts(5, 1), Ts(6, 1), "oplog")
    return RunbookSpec(
        work=WorkDir(work),
        source=tool_uri("mongodb://h:1/", "rs"),
        spare=tool_uri("mongodb://s:2/"),
        contents=Contents(backup, databases=(db,)),
        start=Ts(5, 1),
        limit=LIMIT,
        slice=Slice(3, Ts(5, 1), LIMIT, 100),
        applied=2,
        returns=(Return(ns, Strategy.MERGE, f"{ns}_pitr"),),
        merges={ns: [mongosh.must(db, {"aggregate": name, "pipeline": [], "cursor": {}})]},
        fixes=(mongosh.call(ns, "updateOne", {"_id": name}, {"$max": {"seq": Int64(5)}}) + ";",),
    )


def plan(*steps: Command) -> Plan:
    made = from_seconds(1_795_197_999)
    backup = Backup(Path("/b"), "directory", False, Ts(5, 1), None, "oplog")
    return Plan(LIMIT, Ts(5, 1), LIMIT, backup, "rs", "s:2", made, commands=steps, server_version="6.0.5")


@settings(max_examples=25, deadline=None)
@given(db=NAME, name=NAME)
def test_every_argument_arrives_byte_for_byte(db: str, name: str) -> None:
    made = [step for step in commands(spec("/tmp/a b", db, name)) if step.argv]
    lines = [step.shell for step in made]
    assert all(line.isascii() and line.isprintable() for line in lines), "one line of printable ASCII"
    # Each tool becomes a function that prints what it was given.
    tools = "".join(f"{tool}() {{ printf '%s\\0' {tool} \"$@\"; }}\n" for tool in {step.argv[0] for step in made})
    text = tools + "\n".join(line.rpartition(" && ")[2].partition(" 2>&1 |")[0] for line in lines)
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for step in made for word in step.argv)
    assert all(not word.startswith("-") or "=" in word or word.isascii() for step in made for word in step.argv)


def test_patterns_and_limits() -> None:
    assert escape_pattern("a*b\\c") == "a\\*b\\\\c"
    restore = next(step for step in commands(spec()) if "--oplogReplay" in step.argv)
    assert f"--oplogLimit={LIMIT}" in restore.argv
    assert {"--drop", "--stopOnError", "--bypassDocumentValidation"} <= set(restore.argv)
    assert "--preserveUUID" not in restore.argv
    spare = next(step for step in commands(replace(spec(), set_name="rs")) if "counters-spare.js" in step.shell)
    assert spare.shell.index('mustNotBeSet("rs")') < spare.shell.rindex("updateOne(")
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


def step(shell: str, proof: str = "", phase: Phase = Phase.SECURE) -> Command:
    return Command(phase, "A step", (), shell, proof=proof)


def begin(tmp_path: Path, made: Plan, *options: str) -> subprocess.Popen[str]:
    """The script with tools that only know their version; mongodump copies its last argument but one to its last."""
    tools = tmp_path / "tools"
    if not tools.exists():
        tools.mkdir()
        for name in ("mongodump", "mongorestore", "bsondump", "tallyglass"):
            (tools / name).write_text(
                f'#!/bin/sh\n[ "$1" != --version ] || exec echo \'{name} version: 100.18.0\'\ncat "$1" >"$2"\n'
            )
            (tools / name).chmod(0o755)
    path = tmp_path / f"{hashlib.sha256(script(made).encode()).hexdigest()[:8]}.sh"
    # What is running cannot be written.
    if not path.exists():
        path.write_text(script(made))
        path.chmod(0o700)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path)}
    return subprocess.Popen(
        ["setsid", str(path), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def rehearse(tmp_path: Path, made: Plan, *options: str) -> subprocess.CompletedProcess[str]:
    running = begin(tmp_path, made, *options)
    _, said = running.communicate(timeout=120)
    return subprocess.CompletedProcess(running.args, running.returncode, None, said)


def with_work(tmp_path: Path, *steps: Command) -> Plan:
    return replace(plan(*steps), work_dir=str(tmp_path / "work"), tools_needed="100.15")


def test_the_script_stops_at_the_first_doubt_and_goes_on_there(tmp_path: Path) -> None:
    log = shlex.quote(str(tmp_path / "log"))
    gate = shlex.quote(str(tmp_path / "gate"))
    made = with_work(
        tmp_path,
        step(f"echo one >> {log}"),
        step(f"echo two >> {log}", proof=f"test -e {gate}"),
        step(f"false | cat; echo three >> {log}", phase=Phase.RESTORE),
    )
    stopped = rehearse(tmp_path, made, "--yes", "--until", "secure")
    assert (stopped.returncode, "[check-failed] Step 2" in stopped.stderr) == (1, True)
    (tmp_path / "gate").touch()
    assert rehearse(tmp_path, made, "--yes", "--until=secure").returncode == 0
    assert (tmp_path / "log").read_text() == "one\ntwo\ntwo\n"
    assert rehearse(tmp_path, made, "--yes").returncode == 0
    other = with_work(tmp_path, step("true"))
    assert "[other-plan]" in rehearse(tmp_path, other, "--yes").stderr


def test_the_script_asks_and_takes_silence_for_no(tmp_path: Path) -> None:
    made = with_work(tmp_path, step(f"touch {shlex.quote(str(tmp_path / 'ran'))}"))
    silent = rehearse(tmp_path, made)
    assert (silent.returncode, "[no-terminal]" in silent.stderr) == (1, True)
    assert not (tmp_path / "ran").exists()
    assert rehearse(tmp_path, made, "--until", "never").returncode == 2


def test_what_is_for_a_person_is_not_run_by_yes(tmp_path: Path) -> None:
    asked = replace(step(f"touch {tmp_path}/by-hand"), by_hand=True)
    made = with_work(tmp_path, asked, step(f"touch {tmp_path}/after"))
    done = rehearse(tmp_path, made, "--yes")
    assert (done.returncode, "needs a decision" in done.stderr) == (0, True)
    assert (tmp_path / "after").exists()
    assert not (tmp_path / "by-hand").exists()


def test_a_password_reaches_the_tools_as_it_is_and_is_gone_afterwards(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", " it's & \\' \"so\" "
    steps = (step(f"printf 'uri: x\\n' > {work}/source.yml"), step(f"cp {work}/source.yml {tmp_path}/seen"))
    made = replace(with_work(tmp_path, *steps), source_user="u", passwords=("source",))
    (tmp_path / "p").write_text(secret + "\r\nand a note\n")
    assert rehearse(tmp_path, made, "--yes", f"--source-password-file={tmp_path}/p").returncode == 0
    quoted = secret.replace("'", "''")
    assert (tmp_path / "seen").read_text() == f"uri: x\npassword: '{quoted}'\n"
    assert (work / "source.yml").read_text() == "uri: x\n"
    assert not (work / "source.password").exists()
    assert "\n    IFS= read -rs " in script(made), "a typed password keeps its outer spaces"


def test_only_what_is_needed_is_asked_for(tmp_path: Path) -> None:
    """There is no terminal here, so that asking ends the script."""
    steps = with_work(tmp_path, step("true"), step("true", phase=Phase.RESTORE))
    made = replace(steps, spare_user="u", passwords=("spare",))
    assert rehearse(tmp_path, made, "--yes", "--until=secure").returncode == 0
    assert "[password] No terminal" in rehearse(tmp_path, made, "--yes", "--until=restore").stderr
    (tmp_path / "empty").touch()
    assert "is empty" in rehearse(tmp_path, made, "--yes", f"--spare-password-file={tmp_path}/empty").stderr


def test_mongod_is_needed_where_a_spare_is_started_and_not_for_what_a_folder_is_called() -> None:
    assert "USES_MONGOD=0" in script(plan(step("cp -a '/backups/mongod 6.0' /w")))
    assert "USES_MONGOD=1" in script(plan(*commands(replace(spec(), own_spare=27117))))


def test_two_runs_of_one_script_do_not_meet(tmp_path: Path) -> None:
    gate, work = tmp_path / "gate", tmp_path / "work"
    os.mkfifo(gate)
    made = with_work(tmp_path, step(f"touch {tmp_path}/begun && mongodump {gate} {work}/slice"))
    first = begin(tmp_path, made, "--yes")
    wait_for(tmp_path / "begun")
    again = rehearse(tmp_path, made, "--yes")
    assert (again.returncode, "[locked] Another run" in again.stderr) == (1, True)
    os.kill(int((work / "lock" / "pid").read_text().split()[0]), signal.SIGKILL)
    first.wait(timeout=60)
    killed = rehearse(tmp_path, made, "--yes")
    assert (killed.returncode, "[stale-lock]" in killed.stderr) == (1, True)
    shutil.rmtree(work / "lock")
    orphan = rehearse(tmp_path, made, "--yes")
    assert (orphan.returncode, "[still-running]" in orphan.stderr) == (1, True)
    assert not (work / "lock").exists(), "a run that stops by itself lets go"
    with gate.open("w") as end:
        end.write("x")
    first.communicate(timeout=60)
    gate.unlink()
    gate.write_text("y")
    assert rehearse(tmp_path, made, "--yes").returncode == 0


def test_a_run_on_another_machine_and_one_that_only_begins_are_respected(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    lock = tmp_path / "work" / "lock"
    lock.mkdir(parents=True)
    assert "does not name its owner" in rehearse(tmp_path, made, "--yes").stderr
    (lock / "pid").write_text("1\nlong ago\nelsewhere\n")
    assert "A run on elsewhere" in rehearse(tmp_path, made, "--yes").stderr
    (lock / "pid").write_text(f"{os.getpid()}\nlong ago\n{os.uname().nodename}\n")
    assert "[stale-lock]" in rehearse(tmp_path, made, "--yes").stderr, "the number belongs to another process by now"


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def test_an_oplog_copy_that_changed_is_not_replayed(tmp_path: Path) -> None:
    steps = commands(spec(str(tmp_path)))
    (apart,) = [made for made in steps if "manifest" in made.shell and not made.argv]
    (replay,) = [made for made in steps if "--oplogReplay" in made.argv]
    check = replay.shell.partition(" && ")[0]
    (tmp_path / "slice" / "local").mkdir(parents=True)
    (tmp_path / "slice" / "local" / "oplog.rs.bson").write_text("entries")
    assert subprocess.run(["bash", "-c", apart.shell], check=False).returncode == 0
    assert subprocess.run(["bash", "-c", check], check=False, capture_output=True).returncode == 0
    (tmp_path / "oplog" / "oplog.bson").write_text("entriez")
    assert subprocess.run(["bash", "-c", check], check=False, capture_output=True).returncode != 0


def test_data_files_are_replayed_on_once(tmp_path: Path) -> None:
    held = spec(str(tmp_path))
    held = replace(held, contents=Contents(replace(held.contents.backup, form=DATA_FILES)))
    (replay,) = [made for made in commands(held) if "--oplogReplay" in made.argv]
    whole, looked, once = replay.shell.rpartition(" && mongorestore")[0].split(" && ", 2)
    assert (whole.split()[0], looked.split()[:3], "--empty" in looked) == (
        "sha256sum", ["tallyglass", "restore", "verify"], True)  # fmt: skip
    first, again = (subprocess.run(["bash", "-c", once], check=False, capture_output=True) for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 1)
    assert b"a fresh copy" in again.stderr


def test_a_plan_survives_json(tmp_path: Path) -> None:
    made = with_work(tmp_path, *commands(spec()))
    assert from_json(to_json(made)) == made
    assert to_json(made).isascii()
    for other in ("[]", "5", '"plan"', to_json(made).replace('"checks": []', '"checks": ["x"]'), "{}", "no JSON"):
        with pytest.raises(InputError):
            from_json(other)
    blocked = Plan(LIMIT, None, LIMIT, made.backup, "rs", "", made.made, checks=(Check("x", Level.BLOCK, "No."),))
    with pytest.raises(ValueError, match="blocked"):
        script(blocked)
