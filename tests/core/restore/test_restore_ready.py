"""The spare is looked at again in the very step that writes it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.moment import Ts, from_seconds
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, DIRECTORY, Contents
from tallyglass.restore.checks.checks import run_checks
from tallyglass.restore.model.plan import Backup, Level, Phase, Plan, Slice
from tallyglass.restore.runbook.commands import commands
from tallyglass.restore.runbook.spec import RunbookSpec
from tallyglass.restore.spare.ready import judge_ready
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.stages import Findings, Inputs, Located
from tallyglass.restore.tools.files import WorkDir
from tallyglass.restore.tools.tool_uri import tool_uri

BACKUP = Backup(Path("/b"), DIRECTORY, False, Ts(5, 1), None, "oplog")
WHOLE = "sha256sum --check --quiet /w/manifest.sha256 && "
PLAN = Plan(Ts(9, 1), Ts(5, 1), Ts(9, 1), BACKUP, "rs", "s:2", from_seconds(99), server_version="6.0.5")
INPUTS = Inputs(Ts(9, 1), Deployment(Kind.REPLICA_SET, version="6.0.5", set_name="rs"), Contents(BACKUP))


def check_ids(found: Findings) -> set[str]:
    return {check.id for check in run_checks(found)}


@pytest.mark.parametrize(
    ("found", "check"),
    [
        (Spare("s:2", "6.0.9", ttl_monitor=False), "spare"),
        (Spare("s:2", "6.0.9", databases=("shop",)), "spare-not-empty"),
        (Spare("s:2", "6.0.9", set_name="rs"), "spare-is-source"),
        (Spare("s:2", "7.0.1"), "spare-version"),
        (Spare("s:2", "6.0.5", ttl_monitor=True), "spare-ttl"),
        (Spare("s:2", trouble="refused"), "spare-unreachable"),
    ],
)
def test_what_the_spare_has_become(found: Spare, check: str) -> None:
    (said,) = judge_ready(PLAN, found).checks
    assert (said.id, said.level is Level.OK) == (check, check == "spare")


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        (DIRECTORY, ["--oplogReplay"]),
        (ARCHIVE, ["--archive=", "--oplogReplay"]),
        (DATA_FILES, ["--oplogReplay"]),
    ],
)
def test_no_write_to_the_spare_without_a_look(form: str, steps: list[str]) -> None:
    backup = Backup(Path("/b"), form, False, Ts(5, 1), None, "oplog", namespaces=("s.c",))
    spec = RunbookSpec(
        WorkDir("/w"), tool_uri("mongodb://h:1/", "rs"), tool_uri("mongodb://u@s:2/"), Contents(backup),
        Ts(5, 1), Ts(9, 1), Slice(3, Ts(5, 1), Ts(9, 1), 100), 2,
    )  # fmt: skip
    if form != ARCHIVE:
        assert any(step.shell.startswith(WHOLE) for step in commands(spec))
    looks = [step for step in commands(spec) if " --empty " in step.shell and step.argv]
    assert [any(word.startswith(wanted) for word in step.argv) for step, wanted in zip(looks, steps, strict=True)] == [
        True for _ in steps
    ]
    for step in looks:
        before = step.shell.removeprefix(WHOLE).partition("mongorestore ")[0]
        look = before[before.rindex("tallyglass restore verify /w/plan.json ") :]
        assert "--password-file=/w/spare.password && " in look
        assert form == DATA_FILES or before.index("emptyMarked(") < before.index(look), "what a killed run left"


def test_a_copy_of_the_data_files_is_not_empty_and_must_not_be_the_source() -> None:
    held, copy = replace(PLAN, backup=replace(BACKUP, form=DATA_FILES)), Spare("s:2", "6.0.9", databases=("shop",))
    assert judge_ready(held, copy).level is Level.OK
    assert judge_ready(held, replace(copy, set_name="rs")).level is Level.BLOCK


@pytest.mark.parametrize(("fcv", "blocked"), [("6.0", False), ("5.0", True)])
def test_a_new_spare_has_the_feature_compatibility_of_its_own_version(fcv: str, blocked: bool) -> None:
    inputs = replace(INPUTS, own_spare=27117)
    assert ("fcv-differs" in check_ids(Findings(inputs, Located(inputs, fcv, None)))) is blocked


@pytest.mark.parametrize(("spare", "level"), [("mongodb://u@s:2/", Level.BLOCK), ("mongodb://s:2/", Level.WARN)])
def test_the_users_of_an_archive_do_not_lock_the_operator_out(spare: str, level: Level) -> None:
    archive = replace(BACKUP, form=ARCHIVE, has_oplog=True)
    inputs = replace(INPUTS, contents=Contents(archive, users=True), spare_uri=tool_uri(spare))
    assert [check.level for check in run_checks(Findings(inputs)) if check.id == "archive-users"] == [level]


@pytest.mark.parametrize("ours", [True, False])
def test_only_the_spare_itself_is_ended(tmp_path: Path, ours: bool) -> None:
    spec = RunbookSpec(
        WorkDir(str(tmp_path)), tool_uri("mongodb://h:1/", "rs"), tool_uri("mongodb://s:2/"), Contents(BACKUP),
        Ts(5, 1), Ts(9, 1), Slice(3, Ts(5, 1), Ts(9, 1), 100), 2, own_spare=27117,
    )  # fmt: skip
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("mongod", "mongodump"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o700)
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    (start,) = [step.shell for step in commands(spec) if step.again and step.phase is Phase.RESTORE]
    subprocess.run(["bash", "-c", start], check=True, env=path)
    assert (tmp_path / "spare.key").stat().st_mode & 0o077 == 0
    word = f"--dbpath={tmp_path}/spare-data" if ours else "--dbpath=/elsewhere"
    other = subprocess.Popen([sys.executable, "-c", "input()", word], stdin=subprocess.PIPE)
    try:
        (tmp_path / "spare.pid").write_text(f"{other.pid}\n")
        clean = commands(spec)[-1].shell
        assert subprocess.run(["bash", "-o", "pipefail", "-c", clean], check=False, env=path).returncode == 0
        assert not (tmp_path / "spare.key").exists()
        if ours:
            assert other.wait(timeout=60) != 0
        else:
            assert other.poll() is None
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize(("uri", "warned"), [("mongodb://s:2/", True), ("mongodb://u@s:2/", False)])
def test_a_spare_without_access_control_is_warned_of(uri: str, warned: bool) -> None:
    spare = Spare("s:2", "6.0.5", ttl_monitor=False, free_to_apply=True)
    assert ("spare-open" in check_ids(Findings(replace(INPUTS, spare=spare, spare_uri=tool_uri(uri))))) is warned
