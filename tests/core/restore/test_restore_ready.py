"""The spare is looked at again in the very step that writes it."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import bson
import pytest

from builders.plan_folder import restored
from builders.plans import changed, make_plan
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import PrivilegeError, ReadError, RefusedError
from tallyglass.moment import Ts, from_seconds
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, DIRECTORY, Contents
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.model.step import Effect, Phase, RunMode
from tallyglass.restore.proof.findings import Findings, Located
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.ready import check_ready, ready
from tallyglass.restore.spare.spare import Spare, feature_version, inspect_spare, may_do_anything
from tallyglass.restore.spare.working import works_for
from tallyglass.restore.tools.tool_uri import tool_uri

BACKUP = Backup(Path("/b"), DIRECTORY, False, Ts(5, 1), None, "oplog")
PLAN = make_plan(Ts(9, 1), FromBackup(BACKUP, "s:2"), from_seconds(99), start=Ts(5, 1), server_version="6.0.5")
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
def test_the_spare_is_checked_again_before_it_is_written(found: Spare, check: str) -> None:
    (check_found,) = check_ready(PLAN, found).checks
    assert (check_found.id, check_found.level is Level.OK) == (check, check == "spare")


@pytest.mark.parametrize("form", [DIRECTORY, ARCHIVE, DATA_FILES])
def test_no_write_to_the_spare_without_a_guard(form: str) -> None:
    steps = restored(backup=Backup(Path("/b"), form, False, Ts(5, 1), None, "oplog", namespaces=("s.c",))).steps
    writes = [at for at, step in enumerate(steps.commands) if step.argv[:2] == ("mongorestore", "--config=spare.yml")]
    assert len(writes) == (2 if form == ARCHIVE else 1)
    assert all(steps.commands[at - 1].mode is RunMode.GUARD for at in writes)
    (guard,) = [file.text for file in steps.files if file.name == "guard.sh"]
    assert "tallyglass restore verify plan.json --spare=spare.yml --empty" in guard
    assert "sha256sum --check --quiet manifest.sha256" in guard


@pytest.mark.parametrize(
    ("resource", "actions", "users", "may"),
    [
        ({"anyResource": True}, ["anyAction"], ["root"], True),
        ({"anyResource": True}, ["find", "insert"], ["root"], False),
        ({"db": "s", "collection": ""}, ["anyAction"], ["root"], False),
        ({}, [], [], None),
    ],
)
async def test_a_spare_needs_a_user_who_may_do_anything(
    resource: dict[str, Any], actions: list[str], users: list[str], may: bool | None
) -> None:
    class Server:
        async def command(self, name: str, **_: Any) -> dict[str, Any]:
            if name != "connectionStatus":
                raise ReadError("unknown")
            privileges = [{"resource": resource, "actions": actions}]
            return {"authInfo": {"authenticatedUsers": users, "authenticatedUserPrivileges": privileges}}

    assert await may_do_anything(cast(Gateway, Server())) is may


class Held:
    """A server that holds these collections; what is refused ends in this error."""

    def __init__(self, *names: str, refused: Exception | None = None, mark: str = "") -> None:
        self.names, self.refused, self.mark = names, refused, mark

    async def command(self, name: str, **of: Any) -> dict[str, Any]:
        if name == "hello":
            return {"isWritablePrimary": True, "me": "s:2"}
        if name == "buildInfo":
            return {"version": "6.0.5"}
        if self.refused is not None:
            raise self.refused
        if name == "getParameter":
            assert list(of.values()) == [1]
            return {"ttlMonitorEnabled": False, "featureCompatibilityVersion": {"version": "6.0"}}
        if name == "connectionStatus":
            assert of == {"showPrivileges": True}
            return {"authInfo": {"authenticatedUsers": []}}
        if name == "getCmdLineOpts":
            return {}
        raise RefusedError("no", code=59)

    async def list_databases(self) -> list[str]:
        return sorted({name.partition(".")[0] for name in self.names})

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace.parse(ns), "collection") for ns in self.names if ns.startswith(f"{db}.")]

    async def find_one(self, ns: Namespace, query: dict[str, Any]) -> dict[str, Any] | None:
        assert str(ns) == "admin.tallyglass_spare"
        return query if query["_id"] == self.mark else None


async def test_all_that_is_read_of_a_spare() -> None:
    held = cast("Gateway", Held("admin.x", "config.x", "local.x", "shop.x"))
    assert await inspect_spare(held, "s:2") == Spare(
        "s:2", "6.0.5", "6.0", Kind.STANDALONE, members=("s:2",), databases=("shop",), ttl_monitor=False,
        free_to_apply=True,
    )  # fmt: skip
    refused = cast("Gateway", Held(refused=PrivilegeError("No.")))
    assert (await inspect_spare(refused, "s:2")).trouble == "No."
    assert await feature_version(refused) is None


@pytest.mark.parametrize(
    ("names", "marked", "level"),
    [
        ((), False, Level.OK),
        (("shop.tallyglass_view_opener", "shop.system.views"), False, Level.OK),
        (("shop.tallyglass_view_opener", "shop.orders"), False, Level.BLOCK),
        (("shop.orders",), False, Level.BLOCK),
        (("shop.orders",), True, Level.WARN),
    ],
)
async def test_a_spare_is_empty_but_for_what_the_commands_made(
    names: tuple[str, ...], marked: bool, level: Level
) -> None:
    held = cast("Gateway", Held(*names, mark=PLAN.mark if marked else "another"))
    assert (await ready(PLAN, held)).level is level


@pytest.mark.parametrize(
    ("operations", "works"),
    [
        ([], False),
        ([{"command": {"hello": 1}}, {"command": {"isMaster": 1}}, {"command": {"ismaster": 1}}], False),
        ([{"command": {"hello": 1}}, {"command": {"createIndexes": "c"}}], True),
        ([{"command": {}}], True),
        ([{"command": None}], True),
        ([{}], True),
    ],
)
async def test_a_server_works_for_a_program_whose_connections_do_not_only_wait(
    operations: list[dict[str, Any]], works: bool
) -> None:
    class Server:
        async def command(self, name: str, **query: Any) -> dict[str, Any]:
            assert (name, query) == ("currentOp", {"$ownOps": True, "active": True, "appName": "mongorestore"})
            return {"inprog": operations} if operations else {}

    assert await works_for(cast("Gateway", Server()), "mongorestore") is works


def test_what_an_earlier_attempt_left_on_the_spare_may_be_dropped() -> None:
    held = Spare("s:2", "6.0.9", databases=("shop",))
    assert check_ready(PLAN, held).level is Level.BLOCK
    assert check_ready(PLAN, held, marked=True).level is Level.WARN
    assert check_ready(PLAN, replace(held, set_name="rs"), marked=True).level is Level.BLOCK


def test_the_mark_of_a_spare_is_a_document(tmp_path: Path) -> None:
    made = restored()
    (guard,) = [file.text for file in made.steps.files if file.name == "guard.sh"]
    lines = [line for line in guard.splitlines() if "printf" in line or "mkdir" in line]
    subprocess.run(["bash", "-c", "\n".join(lines)], check=True, cwd=tmp_path)
    data = (tmp_path / "mark" / "admin" / "tallyglass_spare.bson").read_bytes()
    assert bson.decode(data) == {"_id": made.mark}


def test_a_copy_of_the_data_files_is_not_empty_and_must_not_be_the_source() -> None:
    held, copy = changed(PLAN, backup=replace(BACKUP, form=DATA_FILES)), Spare("s:2", "6.0.9", databases=("shop",))
    assert check_ready(held, copy).level is Level.OK
    assert check_ready(held, replace(copy, set_name="rs")).level is Level.BLOCK


@pytest.mark.parametrize(("fcv", "blocked"), [("6.0", False), ("5.0", True)])
def test_a_new_spare_has_the_feature_compatibility_of_its_own_version(fcv: str, blocked: bool) -> None:
    inputs = replace(INPUTS, own_spare=27117)
    assert ("fcv-differs" in check_ids(Findings(inputs, Located(inputs, fcv, None)))) is blocked


@pytest.mark.parametrize(
    ("spare", "users", "oplog", "levels"),
    [
        ("mongodb://u@s:2/", True, True, [Level.BLOCK]),
        ("mongodb://s:2/", True, True, [Level.WARN]),
        ("mongodb://u@s:2/", True, False, []),
        ("mongodb://u@s:2/", False, True, []),
    ],
)
def test_the_users_of_an_archive_do_not_lock_the_operator_out(
    spare: str, users: bool, oplog: bool, levels: list[Level]
) -> None:
    archive = replace(BACKUP, form=ARCHIVE, has_oplog=oplog)
    inputs = replace(INPUTS, contents=Contents(archive, users=users), spare_uri=tool_uri(spare))
    assert [check.level for check in run_checks(Findings(inputs)) if check.id == "archive-users"] == levels


@pytest.mark.parametrize("ours", [True, False])
def test_only_the_spare_itself_is_ended(tmp_path: Path, ours: bool) -> None:
    steps = restored(own_spare=27117).steps
    (program,) = [file.text for file in steps.files if file.name == "spare.sh"]
    (tmp_path / "spare.sh").write_text(program)
    tools = tmp_path / "tools"
    tools.mkdir()
    named = "mongod of 6.0" if ours else "mongod"
    for name in (named, "mongodump"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o700)
    path = {"PATH": f"{tools}:/usr/bin:/bin"} | ({"TALLYGLASS_MONGOD": str(tools / named)} if ours else {})
    (start,) = [step.argv for step in steps.commands if step.mode is RunMode.AGAIN and step.phase is Phase.RESTORE]
    subprocess.run(start, check=True, env=path, cwd=tmp_path)
    assert (tmp_path / "spare.key").stat().st_mode & 0o077 == 0
    word = f"--dbpath={tmp_path}/spare-data" if ours else "--dbpath=/elsewhere"
    other = subprocess.Popen([sys.executable, "-c", "input()", word], stdin=subprocess.PIPE)
    try:
        (tmp_path / "spare.pid").write_text(f"{other.pid}\n")
        stop = next(step.argv for step in steps.commands if step.phase is Phase.CLEAN)
        assert subprocess.run(stop, check=False, env=path, cwd=tmp_path).returncode == 0
        assert not (tmp_path / "spare.key").exists()
        if ours:
            assert other.wait(timeout=180) != 0
        else:
            assert other.poll() is None
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize(("uri", "warned"), [("mongodb://s:2/", True), ("mongodb://u@s:2/", False)])
def test_a_spare_without_access_control_is_warned_of(uri: str, warned: bool) -> None:
    spare = Spare("s:2", "6.0.5", ttl_monitor=False, free_to_apply=True)
    assert ("spare-open" in check_ids(Findings(replace(INPUTS, spare=spare, spare_uri=tool_uri(uri))))) is warned


def test_a_spare_of_its_own_gets_a_port_that_nothing_uses() -> None:
    """A second restore on the host takes another port than the first."""
    port = own_spare.free_port()
    with socket.socket() as other, patch.object(own_spare, "SPARE_PORT", port):
        other.bind(("127.0.0.1", port))
        other.listen()
        assert own_spare.free_port() not in (0, port)
    with patch.object(own_spare, "SPARE_PORT", port):
        assert own_spare.free_port() == port


def test_indexes_that_a_rename_loses_are_built_on_the_spare_and_only_there() -> None:
    lost = ('{"key": {"a": 1}, "name": "a_1"}',)
    for repair in (lost, ()):
        made = restored(expected=(ExpectedNamespace("shop.orders", "collection", 2, repair=repair),))
        texts = [file.text for file in made.steps.files if file.name == "repair-spare.js"]
        assert [text.count('"createIndexes": "orders"') for text in texts] == [1] * len(repair)
        steps = [step for step in made.steps.commands if step.title == "Repair what the tools leave"]
        assert [step.effect for step in steps] == [Effect.WRITES_SPARE] * len(repair)


def test_a_replay_whose_list_of_indexes_does_not_fit_builds_none() -> None:
    for builds in (True, False):
        (step,) = [step for step in restored(builds_indexes=builds).steps.commands if "--oplogReplay" in step.argv]
        assert [step.argv.count("--noIndexRestore"), "with the repair" in step.why] == [not builds, not builds]
