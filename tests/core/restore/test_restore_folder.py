"""A plan's folder: small, whole or not there, and never run after somebody changed it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.plan_folder import LIMIT, begin, rehearse, restored, step, with_work
from builders.plans import changed
from tallyglass import __version__
from tallyglass.errors import InputError
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.document import from_json
from tallyglass.restore.model.expiry import loaded_without_expiry
from tallyglass.restore.model.indexes import buildable
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace, Loss
from tallyglass.restore.model.source import FromBackup
from tallyglass.restore.model.step import PlanFile
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.plan.folder import checksums, folder_files, run_line, write_folder
from tallyglass.restore.plan.self_extracting import script
from tallyglass.restore.run.stop import RunStopped
from tallyglass.restore.run.written import read_written
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import PLAN, fold_json

COUNT = 200
INDEX = '{"key": {"_id": 1}, "name": "_id_"}'


def large(merged: int = 0) -> Plan:
    """A plan for a database of 200 collections that was dropped. The application made some of them again: these are
    merged, the others come back whole."""
    names = [f"shop.collection_{n:03}" for n in range(COUNT)]
    expected = tuple(ExpectedNamespace(ns, "collection", 12_345 + n, (INDEX,)) for n, ns in enumerate(names))
    returns = tuple(
        Return(ns, Strategy.MERGE if n < merged else Strategy.WHOLE, f"{ns}_pitr_20261122T084100", recreated=n < merged)
        for n, ns in enumerate(names)
    )
    made = restored(expected=expected, returns=returns)
    return changed(
        made, work_dir="/home/dba/tallyglass-20261122",
        source=FromBackup(replace(made.from_backup.backup, namespaces=tuple(names)), "s:2"),
        checks=tuple(Check("return", Level.WARN, f"{ns}: What is live stays as it is.") for ns in names),
        loss=tuple(Loss(ns, n, 2 * n, 3 * n) for n, ns in enumerate(names)),
    )  # fmt: skip


@pytest.mark.parametrize("merged", [0, 5])
def test_a_restore_of_200_collections_is_short_and_has_short_lines(merged: int) -> None:
    made = large(merged)
    files = folder_files(made) | {"the script": script(made)}
    longest = {name: max(map(len, text.splitlines())) for name, text in files.items()}
    assert max(longest.values()) < 200, longest
    sizes = {name: len(text.encode()) for name, text in files.items() if name != "the script"}
    assert sum(sizes.values()) < 72_000, sizes
    assert from_json(files[PLAN]).undo.returns == made.undo.returns
    assert len(made.steps.commands) < 20
    listed = json.loads(files[PLAN])["commands"]
    assert [one["title"] for one in listed] == [one.title for one in made.steps.commands], "one object for each step"


@pytest.mark.long
def test_collections_that_come_back_alike_share_their_steps() -> None:
    made = large()
    lines = [step.shell for step in made.steps.commands]
    assert "mongodump --config=spare.yml --db=shop --out=back/1" in lines
    (back,) = [step.argv for step in made.steps.commands if "--dir=back/1" in step.argv]
    assert {"--nsFrom=shop.*", "--nsTo=shop.*_pitr_20261122T084100"} <= set(back)
    (write,) = [file.text for file in made.steps.files if file.name == "write-live.js"]
    assert write.count("takeNames(") == 1
    mixed = [step.shell for step in large(2).steps.commands if step.argv[0] == "mongodump"]
    left_out = "--excludeCollection=collection_000 --excludeCollection=collection_001"
    assert f"mongodump --config=spare.yml --db=shop {left_out} --out=back/1" in mixed
    part = restored(expected=made.proof.expected, returns=made.undo.returns[:2])
    dumps = next(file.text for file in part.steps.files if file.name == "dump-1.sh")
    assert dumps.count("--collection=collection_00") == 2, "one by one where others of the database do not come back"


def test_a_name_with_a_line_break_has_a_step_of_its_own() -> None:
    """The * of mongorestore's patterns does not match it."""
    returns = tuple(Return(ns, Strategy.WHOLE, f"{ns}_pitr") for ns in ("shop.a", "shop.b\nc", "shop.d"))
    expected = tuple(ExpectedNamespace(row.ns, "collection", 1, (INDEX,)) for row in returns)
    steps = restored(expected=expected, returns=returns).steps
    loads = [step.argv for step in steps.commands if any(word.startswith("--dir=back/") for word in step.argv)]
    assert ["--nsFrom=shop.*" in argv for argv in loads] == [True, False]
    assert "--nsFrom=shop.b\nc" in loads[1]


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.COPY, Strategy.REPLACE, Strategy.BESIDE])
@pytest.mark.parametrize("expires", [True, False])
def test_what_comes_back_is_not_removed_by_a_ttl_index_of_its_own(strategy: Strategy, expires: bool) -> None:
    """It is built once the copy was counted. From then on what expires is removed, as it is in a live collection."""
    at = {"key": {"at": 1}, "name": "at_1"} | ({"expireAfterSeconds": 60} if expires else {})
    expected = (ExpectedNamespace("shop.visits", "collection", 3, (INDEX, json.dumps(at))),)
    row = Return("shop.visits", strategy, "shop.visits_pitr", away="shop.visits_away")
    steps = restored(expected=expected, returns=(row,)).steps
    (load,) = [step.argv for step in steps.commands if "--dir=back/1" in step.argv]
    assert ("--noIndexRestore" in load) == (expires or strategy is Strategy.BESIDE)
    programs = {file.name: file.text for file in steps.files if file.name.endswith(".js")}
    counted, names = None if expires else 3, ("shop.visits", "shop.visits_pitr", "shop.visits_away")
    built = mongosh.build_indexes("shop.visits_pitr", [buildable(at)], 3)
    wanted = {
        Strategy.WHOLE: [("write-live.js", mongosh.take_names("_pitr", {"shop.visits": counted}))],
        Strategy.REPLACE: [
            ("merge.js", mongosh.carry_over(*names, counted, row.repairs)),
            ("write-live.js", mongosh.replace_by(*names, counted, (), "history/1.seen")),
        ],
    }.get(strategy, [])
    assert [fold_json(text) in programs[name] for name, text in wanted] == [True] * len(wanted)
    early = [] if strategy is Strategy.BESIDE or not expires else ["indexes.js"]
    where = ["write-live.js"] if strategy is Strategy.WHOLE and expires else early
    assert [name for name, text in programs.items() if fold_json(built) in text] == where


@pytest.mark.parametrize(
    ("strategy", "options", "kept"),
    [
        (Strategy.COPY, '{"expireAfterSeconds": 60}', True),
        (Strategy.BESIDE, '{"expireAfterSeconds": 60}', True),
        (Strategy.COPY, "{}", False),
        (Strategy.WHOLE, '{"expireAfterSeconds": 60}', True),
        (Strategy.REPLACE, '{"expireAfterSeconds": 60}', True),
        (Strategy.MERGE, '{"expireAfterSeconds": 60}', False),
    ],
)
@pytest.mark.parametrize("beside", ["shop.visits_pitr", ""])
def test_what_is_loaded_is_not_removed_by_the_expiry_of_its_collection(
    strategy: Strategy, options: str, kept: bool, beside: str
) -> None:
    """That of a clustered collection, which needs no index. What is no copy for a person expires again later."""
    expected = (ExpectedNamespace("shop.visits", "collection", 3, (), options),)
    row = Return("shop.visits", strategy, beside, away="shop.visits_away")
    kept = kept and bool(beside or strategy is Strategy.WHOLE)
    made = restored(expected=expected, returns=(row,))
    assert loaded_without_expiry(made) == ({"shop.visits": 60} if kept else {})
    steps = made.steps
    told = [step.title for step in steps.commands if step.title.startswith("Turn")]
    assert told == ["Turn off the expiry of shop.visits on the spare"] * kept
    (written,) = [" ".join(file.text.split()) for file in steps.files if file.name == "keep-copies.js"] or [""]
    change = '{"collMod": "visits", "expireAfterSeconds": "off", "writeConcern": {"w": "majority"}}'
    assert (f'must(await db.getSiblingDB("shop").runCommand({change}));' in written) is kept
    assert ("db = await onSpare(" in written) is kept
    again = mongosh.expire_again(beside or "shop.visits", 60, 3 if beside else None)
    where = [file.name for file in steps.files if file.name.endswith(".js") and again in file.text]
    live = kept and strategy in (Strategy.WHOLE, Strategy.REPLACE)
    assert where == ([] if not live else ["write-live.js" if strategy is Strategy.WHOLE and beside else "indexes.js"])
    title = f"Build the indexes and turn on the expiry of {beside or 'shop.visits'}"
    assert [step.title for step in steps.commands if step.title.startswith("Build")] == [title] * (
        "indexes.js" in where
    )


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.COPY, Strategy.REPLACE, Strategy.BESIDE])
def test_a_copy_is_counted_once_before_anything_may_expire(strategy: Strategy) -> None:
    at = {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}
    item = ExpectedNamespace("shop.visits", "collection", 3, (INDEX, json.dumps(at)), '{"expireAfterSeconds": 90}')
    row = Return("shop.visits", strategy, "shop.visits_pitr", away="shop.visits_away")
    text = " ".join(file.text for file in restored(expected=(item,), returns=(row,)).steps.files)
    again = mongosh.expire_again("shop.visits_pitr", 90, 3)
    first, second = (
        fold_json(mongosh.build_indexes("shop.visits_pitr", [buildable(at)], count)) for count in (3, None)
    )
    live = strategy in (Strategy.WHOLE, Strategy.REPLACE)
    assert (f"{again}\n{second}" in text, again in text) == (live, live)
    assert (first in text) is (strategy is Strategy.COPY)


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("collection", Return("shop.visits", Strategy.WHOLE)),
        ("timeseries", Return("shop.visits", Strategy.WHOLE)),
        ("timeseries", Return("shop.visits", Strategy.COPY, "shop.copy")),
    ],
)
def test_what_is_loaded_under_its_own_name_is_not_removed_by_its_ttl_index(kind: str, row: Return) -> None:
    """Such as a collection with a name that is too long for a staging collection, or a time series, which has none: it
    is counted by its buckets, and takes no collation beside a partial filter."""
    at: dict[str, Any] = {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}
    at |= {"partialFilterExpression": {"kind": "new"}}
    plain: dict[str, Any] = {"key": {"kind": 1}, "name": "kind_1"}
    expected = (ExpectedNamespace("shop.visits", kind, 3, (INDEX, json.dumps(at), json.dumps(plain))),)
    steps = restored(expected=expected, returns=(row,)).steps
    assert ["--noIndexRestore" in step.argv for step in steps.commands if "--dir=back/1" in step.argv] == [True]
    made = [at | ({} if kind == "timeseries" else {"collation": {"locale": "simple"}}), buildable(plain)]
    built = fold_json(mongosh.build_indexes(row.beside or row.ns, made, None))
    assert [file.name for file in steps.files if built in file.text] == ["indexes.js"]


def test_a_folder_is_for_its_owner_alone_and_written_once(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    folder = write_folder(made, tmp_path / "plan")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) & 0o077 for file in folder.iterdir()} == {0}
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert write_folder(made, folder) == folder
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["plan"], "no draft is left"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    folder = tmp_path / "plan"
    folder.mkdir()
    write_folder(made, folder)
    for change, message in (
        (lambda: (folder / "restore.sh").write_text("echo"), "restore.sh in .* was changed since it was written"),
        (lambda: (folder / "checksums").write_text("x"), f"holds another plan: to just before {LIMIT}"),
        (lambda: (folder / "plan.json").write_text('{"format": 1, "limit": "1:1"}'), "a plan of another version"),
        (lambda: (folder / "plan.json").unlink(), "is not the folder of a plan"),
    ):
        change()
        held = {file.name: file.read_bytes() for file in folder.iterdir()}
        with pytest.raises(InputError, match=message) as error:
            write_folder(made, folder)
        assert "\n" not in str(error.value)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == held
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match="is not the folder of a plan"):
        write_folder(made, file)


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_work(tmp_path, step("true"))
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        write_folder(made, tmp_path / "absent" / "plan")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_folder(made, tmp_path / "plan")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["steps.txt", *(pytest.param(one, marks=pytest.mark.long) for one in ("helper.js", "source.yml", "plan.json"))],
)
def test_nothing_is_run_from_a_folder_that_was_edited(tmp_path: Path, name: str) -> None:
    made = changed(
        with_work(tmp_path, step(f"touch {tmp_path}/ran")),
        files=(PlanFile("helper.js", "1;\n"), PlanFile("source.yml", 'uri: "x"\n')),
    )
    folder = write_folder(made, tmp_path / "work")
    with (folder / name).open("a") as file:
        file.write(f"touch {tmp_path}/ran\n")
    done = rehearse(tmp_path, made, "--yes")
    assert (done.returncode, f"[edited] Changed since it was written: {name}." in done.stderr) == (1, True)
    listed = (folder / "checksums").read_text().splitlines(keepends=True)
    (folder / "checksums").write_text("".join(line for line in listed if not line.endswith(f"  {name}\n")))
    for shell in ("sh", "bash", "zsh"):
        if shutil.which(shell):
            again = [shell, str(folder / "restore.sh"), "--yes"]
            env = {"PATH": f"{tmp_path}/tools:/usr/bin:/bin", "HOME": str(tmp_path)}
            said = subprocess.run(
                again, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=env
            ).stderr
            assert "[edited] Changed since it was written: checksums." in said, shell
    assert not (tmp_path / "ran").exists()


def test_the_script_calls_only_the_version_that_made_the_plan(tmp_path: Path) -> None:
    made = changed(with_work(tmp_path, step(f"touch {tmp_path}/ran")), made_by="0.0.2")
    done = rehearse(tmp_path, made, "--yes")
    assert (
        done.returncode,
        f"made by tallyglass 0.0.2; the version here is: tallyglass {__version__}" in done.stderr,
    ) == (
        1,
        True,
    )
    assert not (tmp_path / "ran").exists()


def test_a_plan_of_another_version_and_form_is_named_by_its_version(tmp_path: Path) -> None:
    folder = write_folder(with_work(tmp_path, step("true")), tmp_path / "work")
    document = json.loads((folder / "plan.json").read_text()) | {"made_by": "0.0.2", "new": 1}
    (folder / "plan.json").write_text(json.dumps(document))
    named = [file for file in folder.iterdir() if file.name != "checksums"]
    (folder / "checksums").write_text(checksums({x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in named}))
    with pytest.raises(RunStopped, match=r"made by tallyglass 0\.0\.2"):
        read_written(folder)


def test_the_script_unpacks_its_folder_whole_or_not_at_all(tmp_path: Path) -> None:
    made = with_work(tmp_path, step("true"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").touch()
    other = rehearse(tmp_path, made, "--yes")
    assert (other.returncode, "[other-plan]" in other.stderr) == (1, True)
    (tmp_path / "work" / "mine").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "tools").mkdir(exist_ok=True)
    (tmp_path / "tools" / "chmod").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "tools" / "chmod").chmod(0o755)
    full = rehearse(tmp_path, made, "--yes")
    assert (full.returncode, "[folder]" in full.stderr, full.stderr.count("\n")) == (1, True, 1)
    assert list((tmp_path / "work").iterdir()) == []
    assert not list(tmp_path.glob("work.new*"))
    (tmp_path / "tools" / "chmod").unlink()
    assert rehearse(tmp_path, made, "--yes").returncode == 0
    assert set(folder_files(made)) <= {file.name for file in (tmp_path / "work").iterdir()}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_stop_ends_the_step_that_runs_first(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The run waits for it, and then says how it ended."""
    for name in ("release", "trapped"):
        os.mkfifo(tmp_path / name)
    trap = "echo x >trapped; read -r x <release; touch ended; exit"
    made = with_work(tmp_path, step(f"cd {tmp_path}; trap '{trap}' TERM; sleep 600 & touch begun; wait"))
    running = begin(tmp_path, made, "--yes")
    while not (tmp_path / "begun").exists():
        assert running.poll() is None
    running.send_signal(number)
    (tmp_path / "trapped").read_text()
    assert running.poll() is None
    (tmp_path / "release").write_text("x\n")
    _, said = running.communicate(timeout=180)
    assert (running.returncode, "Stopped at your request. Run it again to resume." in said) == (code, True)
    assert (tmp_path / "ended").exists()
    assert not (tmp_path / "work" / "running").exists()


def test_a_hang_up_that_a_run_was_started_to_ignore_ends_nothing(tmp_path: Path) -> None:
    """As with nohup."""
    os.mkfifo(tmp_path / "release")
    made = with_work(tmp_path, step(f"cd {tmp_path}; touch begun; read -r x <release"))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = begin(tmp_path, made, "--yes")
    finally:
        signal.signal(signal.SIGHUP, before)
    while not (tmp_path / "begun").exists():
        assert running.poll() is None
    running.send_signal(signal.SIGHUP)
    (tmp_path / "release").write_text("x\n")
    _, said = running.communicate(timeout=180)
    assert (running.returncode, "Stopped" in said) == (0, False)


def test_zsh_and_bash_run_a_folded_line_alike(tmp_path: Path) -> None:
    made = large()
    steps = (write_folder(made, tmp_path / "plan") / "README.md").read_text()
    block = steps.partition("```sh\n")[2].partition("```")[0]
    tools = "".join(f"{name}() {{ printf '%s\\n' \"$@\"; }}\n" for name in ("mongodump", "bash"))
    shells = [name for name in ("bash", "zsh") if shutil.which(name)]
    commands = {
        subprocess.run([name, "-c", tools + block], capture_output=True, check=True, cwd=os.sep).stdout
        for name in shells
    }
    assert len(commands) == 1
    assert commands.pop().splitlines()[:2] == [b"--config=source.yml", b"--db=local"]


def test_the_line_that_runs_a_folder_works_in_another_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a virtual environment its folder may be on PATH of this process alone."""
    for name in ("venv", "installed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tallyglass").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    by_path = f"{tmp_path}/venv/tallyglass restore run '/a b'"
    for path, line in (("", by_path), ("venv", by_path), ("installed", "tallyglass restore run '/a b'")):
        monkeypatch.setenv("PATH", str(tmp_path / path) if path else "/nowhere")
        assert run_line(Path("/a b")) == line
