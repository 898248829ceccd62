"""Who did it, on real servers: names are right under every damage to the log, and appear in the command's output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evidence_rig import FORMS, Rig, Truth, read_log
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from access_control import PASSWORD, GuardedSet, start_guarded
from tallyglass.demo.server import ReplicaSet
from tallyglass.evidence.book import Book
from tallyglass.evidence.observer import Observer
from tallyglass.evidence.running import running_of
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.authors import Authors, attributed
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.snapshot import Certainty
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

GRADES = ("exact", "unique", "several", "unnamed", "ambiguous", "none", "wrong")


SHARE = 3
"""Of the acts of the long form every so many-th is compared with each damaged log, all with the whole one."""


def table(form: str, counts: Counter[tuple[str, str]]) -> str:
    by = Counter[str]()
    for (_, verdict), count in counts.items():
        by[verdict] += count
    return f"{form:<18}" + "".join(f"{by[grade]:>10}" for grade in GRADES)


@pytest.mark.parametrize(
    ("rounds", "members", "seed"),
    [(3, 1, 1), *(pytest.param(80, 3, seed, marks=pytest.mark.soak, id=f"3,400 acts {seed}") for seed in (1, 2))],
)
async def test_no_name_is_wrong_however_the_log_is_damaged(
    rounds: int, members: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_guarded("--slowms=0", members=members) as guarded:
        rig, servers = Rig(guarded, seed), guarded.servers
        alone = rig.run_alone()
        rig.run_forked()
        rig.run(rounds, (lambda: step_down(guarded)) if members > 1 else None)
        primary = servers.await_primary()
        guarded.admin.admin.command("logRotate", 1)
        rig.close()
        servers.shut_down(primary)
        servers.restart(primary)
        servers.await_primary()
        rig.connect()
        rig.run(rounds)
        truth, logs = Truth(rig.entries(), rig.acts), [read_log(member.log) for member in servers.members]
        rig.close()
    some = rig.acts[:: SHARE if members > 1 else 1]
    told = {
        form: await truth.judge(map(damage, logs), rig.acts if form == "slowms 0" else some)
        for form, damage in FORMS.items()
    }
    with capsys.disabled():
        print(f"\n{len(rig.acts)} acts, {sum(map(len, logs)):,} lines")
        print(f"{'':<18}" + "".join(f"{grade:>10}" for grade in GRADES))
        print("\n".join(table(form, counts) for form, counts in told.items()))
        for kind in sorted({kind for kind, _ in told["slowms 0"]}):
            print(table(f"  {kind}"[:18], Counter({k: n for k, n in told["slowms 0"].items() if k[0] == kind})))
    assert not {form: wrong for form, counts in told.items() if (wrong := [k for k, v in counts if v == "wrong"])}
    if members == 1:
        assert told["other time zone"] == told["slowms 0"]
    undisturbed = await truth.judge(logs, alone)
    assert sum(n for (_, grade), n in undisturbed.items() if grade in ("exact", "unique")) > 0.9 * len(alone)


def step_down(guarded: GuardedSet) -> None:
    """Let another member become primary, again and again if none is ready."""
    guarded.admin.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=5, force=True)


@pytest.fixture(scope="module")
def shop() -> Any:
    with start_guarded("--slowms=0") as guarded:
        for name in ("alice", "bob"):
            roles = ["readWriteAnyDatabase", "dbAdminAnyDatabase"]
            guarded.admin.admin.command("createUser", name, pwd=PASSWORD, roles=roles)
        alice: MongoClient[Any] = MongoClient(guarded.uri("alice"), appname="nightly-cleanup", w="majority")
        bob: MongoClient[Any] = MongoClient(guarded.uri("bob"), appname="mongosh \x1b[2J", w="majority")
        alice.shop.orders.insert_many([{"_id": n, "s": n % 2} for n in range(400)])
        alice.shop.items.insert_many([{"_id": n} for n in range(50)])
        alice.shop.orders.delete_many({"s": 1})
        bob.shop.items.drop()
        alice.close()
        bob.close()
        yield guarded


@pytest.mark.parametrize(("roles", "grades"), [(["clusterMonitor"], ["unique", "exact"]), ([], ["none", "none"])])
def test_the_command_line_names_who_did_it(
    shop: GuardedSet, roles: list[Any], grades: list[str], tmp_path: Any
) -> None:
    user = shop.create_user([*roles, {"role": "read", "db": "local"}])
    told = {}
    for log in ([], [f"--log={shop.servers.members[0].log}"]):
        result = CliRunner().invoke(main, ["incidents", "--json", *log, shop.uri(user)])
        assert result.exit_code == 0, result.output
        assert result.output.isascii()
        rows = {row["title"]: row["evidence"] for row in json.loads(result.stdout)}
        told[bool(log)] = [rows[title] for title in ("deleteMany on shop.orders", "drop shop.items")]
    assert [one["grade"] for one in told[False]] == grades
    assert [one["grade"] for one in told[True]] == ["unique", "exact"], "a file needs no privilege"
    deleted, dropped = told[True]
    assert (deleted["user"], deleted["application"], deleted["documents"]) == ("alice@admin", "nightly-cleanup", 200)
    assert deleted["statement"] == "deleteMany({s: 1})"
    assert (dropped["user"], dropped["application"]) == ("bob@admin", "mongosh \\u{1b}[2J")
    if not roles:
        assert "getLog" in told[False][0]["reason"]
    number = next(row["number"] for row in json.loads(result.stdout) if row["ns"] == "shop.orders" and row["op"] == "d")
    words = ["incidents", "report", str(number), *log, f"--out={tmp_path / 'page.html'}", shop.uri(user)]
    assert CliRunner().invoke(main, words).exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "alice@admin" in page
    assert "deleteMany({s: ?})" in page
    assert CliRunner().invoke(main, words).exit_code == 2, "it replaces no file"


def test_what_only_the_log_names_is_planned_by_its_name(shop: GuardedSet) -> None:
    one: MongoClient[Any] = MongoClient(shop.uri("bob"), appname="mongosh 2.1")
    one.shop.single.insert_one({"_id": 1})
    one.shop.single.delete_many({"_id": {"$gt": 0}})
    one.close()
    uri = shop.uri(shop.create_user([{"role": "read", "db": "local"}, {"role": "read", "db": "shop"}]))
    log = f"--log={shop.servers.members[0].log}"
    rows = json.loads(CliRunner().invoke(main, ["incidents", "--json", log, uri]).stdout)
    (row,) = [row for row in rows if row["ns"] == "shop.single"]
    words = ["restore", "plan", uri, f"--incident={row['point']}", "--from=pre-images", "--json"]
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "There is no incident" in refused.stderr
    planned = CliRunner().invoke(main, [*words, log])
    assert json.loads(planned.stdout)["point"] == row["point"], planned.stderr


def test_the_profile_names_what_the_log_does_not(shop: GuardedSet) -> None:
    user = shop.create_user(["clusterMonitor", {"role": "read", "db": "local"}])
    alice: MongoClient[Any] = MongoClient(shop.uri("alice"), appname="nightly-cleanup")
    alice.profiled.carts.insert_many([{"_id": n, "s": n % 3} for n in range(90)])
    shop.admin.admin.command("profile", 0, slowms=60_000)
    shop.admin.profiled.command("profile", 2, slowms=60_000)
    try:
        alice.profiled.carts.delete_many({"s": 0})
        with alice.start_session() as session:
            session.with_transaction(lambda one: alice.profiled.carts.delete_many({"s": 1}, session=one))
        alice.profiled.carts.find_one_and_delete({"s": 2})
    finally:
        shop.admin.profiled.command("profile", 0)
        shop.admin.admin.command("profile", 0, slowms=0)
        alice.close()
    in_session = {
        (one.documents, one.in_session)
        for one in asyncio.run(profile_of(shop, user)).statements("profiled.carts", "d", 0, 2**50)
    }
    assert in_session == {(30, False), (30, None), (1, True)}, "a lock tells a statement from one of a transaction"
    result = CliRunner().invoke(main, ["incidents", "--json", shop.uri(user)])
    (told,) = [row["evidence"] for row in json.loads(result.stdout) if row["title"] == "deleteMany on profiled.carts"]
    assert (told["grade"], told["source"], told["user"], told["application"], told["statement"]) == (
        "unique", "profile", "alice@admin", "nightly-cleanup", "deleteMany({s: 0})",
    )  # fmt: skip


async def profile_of(shop: GuardedSet, user: str) -> Book:
    gateway = open_gateway(shop.uri(user))
    try:
        observer = Observer(gateway)
        await observer.read()
        return observer.book
    finally:
        await gateway.close()


def test_watch_names_new_incidents_and_keeps_the_evidence(shop: GuardedSet, tmp_path: Path) -> None:
    user = shop.create_user(["clusterMonitor", {"role": "read", "db": "local"}])
    folder = tmp_path / "kept"
    bob: MongoClient[Any] = MongoClient(shop.uri("bob"), appname="tidy")
    bob.shop.carts.insert_many([{"_id": n} for n in range(90)])
    watching = subprocess.Popen(
        [sys.executable, "-m", "tallyglass_tui", "watch", f"--evidence={folder}"],
        env=os.environ | {"TALLYGLASS_URI": shop.uri(user)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert watching.stdout
        assert watching.stderr
        assert "Watching from" in watching.stderr.readline()
        bob.shop.carts.delete_many({})
        lines = [""]
        while not ("by bob, tidy (unique)" in lines[-1] and "goes on" not in lines[-1]):
            lines.append(watching.stdout.readline())
            assert lines[-1], watching.stderr.read()
        assert "deleteMany on shop.carts  90 documents" in lines[-1]
        told = [line for line in lines if "deleteMany on shop.carts" in line]
        assert len(told) <= 4, told  # seen, named, ended
        assert not [line for line in lines if "shop.carts" not in line and line], "before it was started"
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=180)
    bob.close()
    assert watching.returncode == 130
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    # More lines than the server keeps in memory.
    for _ in range(1_200):
        shop.admin.shop.flood.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
    grades = {}
    for more in ([], [f"--evidence={folder}"]):
        result = CliRunner().invoke(main, ["incidents", "--json", *more, shop.uri(user)])
        (found,) = [one["evidence"] for one in json.loads(result.stdout) if one["ns"] == "shop.carts"]
        grades[bool(more)] = (found["grade"], found["user"])
    assert grades[True] == ("unique", "bob@admin")
    folder.chmod(0o755)
    assert CliRunner().invoke(main, ["incidents", f"--evidence={folder}", shop.uri(user)]).exit_code == 2


async def test_what_runs_now_is_shown_with_the_line_that_stops_it(shop: GuardedSet) -> None:
    user = shop.create_user(["clusterMonitor"])
    alice: MongoClient[Any] = MongoClient(shop.uri("alice"), appname="slow")
    alice.shop.slow.insert_many([{"_id": n, "s": 1} for n in range(40)])
    where = {"$where": "var t = Date.now(); while (Date.now() - t < 500); return true", "s": 1}
    gateway = open_gateway(shop.uri(user))
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(alice.shop.slow.delete_many, where)
        try:
            found: tuple[Any, ...] = ()
            async with asyncio.timeout(60):
                while not found:
                    found = running_of(await gateway.inspect("$currentOp", {"allUsers": True}, limit=1_000))
        finally:
            await gateway.close()
        (one,) = found
        assert (one.what, one.ns, one.client.user, one.client.application) == (
            "deleteMany", "shop.slow", "alice@admin", "slow",
        )  # fmt: skip
        assert one.seconds > 1
        assert "s: 1" in one.statement
        number = int(re.fullmatch(r"db\.adminCommand\(\{killOp: 1, op: NumberInt\((\d+)\)\}\)", one.kill)[1])
        shop.admin.admin.command("killOp", 1, op=number)
        with pytest.raises(OperationFailure, match="interrupted"):
            deleting.result()
    alice.close()


async def test_after_a_failover_the_member_that_was_primary_is_asked() -> None:
    with ReplicaSet(3, options=["--slowms=0"]) as servers:
        for name in ("before", "after"):
            with servers.client(appname=name) as client:
                client.shop[name].insert_many([{"_id": n} for n in range(60)])
                client.shop[name].delete_many({})
            if name == "before":
                servers.step_down()
                servers.await_primary()
        gateway = open_gateway(servers.uri)
        try:
            (*_, last) = [one async for one in attributed(scan(gateway), Authors(gateway, Observer(gateway)))]
        finally:
            await gateway.close()
    found = {one.ns: one.evidence for one in last.incidents if one.kind == "deleteMany"}
    assert {ns: told and (told.grade, told.who and told.who.application) for ns, told in found.items()} == {
        "shop.before": (Certainty.UNIQUE, "before"), "shop.after": (Certainty.UNIQUE, "after"),
    }  # fmt: skip
