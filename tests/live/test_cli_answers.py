"""The command-line contract: option names, JSON fields, exit codes, and values that match a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId, json_util
from click.testing import CliRunner, Result
from pymongo import MongoClient

from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

DB = "answers"
COUNTER_FIELDS = {
    "ns", "id", "shape", "value", "type", "semantics", "ceiling", "ceiling_reason", "used", "rate", "p10", "p50", "p90",
    "history_seconds", "steps", "drift", "flags",
}  # fmt: skip


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert "Traceback" not in result.output
    return result


def answer(*words: str) -> Any:
    return json.loads(run(*words, "--json").stdout)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server with counters and a mass delete after a backup. Returns the URI and the backup."""
    with ReplicaSet(1) as servers, servers.client() as client:
        client[DB].counters.insert_many([{"_id": "orders", "seq": 90}, {"_id": "invoices", "seq": 7.0}])
        client[DB].IDs.insert_one({"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER", "COUNT": 5})
        client[DB].orders.insert_many([{"_id": n, "customer": n % 7} for n in range(200)])
        taken = backup.take(servers.uri, tmp_path_factory.mktemp("answers") / "backup")
        client[DB].counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}})
        client[DB].orders.delete_many({"_id": {"$lt": 150}})
        client[DB].orders.insert_one({"_id": ObjectId()})
        yield servers.uri, taken


def test_counters_json(scene: tuple[str, Path]) -> None:
    rows = {row["id"]: row for row in answer("counters", scene[0]) if row["ns"] == f"{DB}.counters"}
    assert set(rows["orders"]) >= COUNTER_FIELDS
    assert rows["orders"]["value"] == 91
    assert rows["orders"]["type"] in ("int32", "int64")
    assert rows["invoices"]["type"] == "double"
    assert "DOUBLE" in rows["invoices"]["flags"]
    assert rows["invoices"]["ceiling"] == 2**53


def test_check_exit_codes(scene: tuple[str, Path]) -> None:
    warned = run("check", scene[0])
    assert warned.exit_code == 1
    assert warned.stdout.startswith("COUNTERS WARNING - ")
    assert " | " in warned.stdout
    assert warned.stdout.count("\n") == 1
    assert run("check", scene[0], "--crit-used=0", "--warn-used=0").exit_code == 2
    assert run("check", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300").exit_code == 3


@pytest.mark.parametrize("command", ["check", "incidents", "oplog"])
def test_a_short_timeout_does_not_hide_why_nothing_answers(command: str) -> None:
    found = run(command, "mongodb://127.0.0.1:1/", "--timeout", "2")
    assert found.exit_code == 3
    assert "No server listens at that address" in found.output


def test_oplog_output_matches_the_stored_entries(scene: tuple[str, Path]) -> None:
    result = run("oplog", scene[0], "--ns", f"{DB}.orders", "--op", "d", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(row["o"]["_id"] for row in rows) == list(range(150))
    assert {(row["kind"], row["op"]) for row in rows} == {("entry", "d")}
    places = [tuple(row["ts"]["$timestamp"].values()) for row in rows]
    assert places == sorted(places)
    with MongoClient(scene[0]) as client:
        stored = client.local["oplog.rs"].find({"ns": f"{DB}.orders", "op": "d"})
        canonical = run("oplog", scene[0], "--ns", f"{DB}.orders", "--op", "d", "--canonical").stdout.splitlines()
        assert [json_util.loads(line) for line in canonical] == [{"kind": "entry"} | entry for entry in stored]
    last = "{}:{}".format(*places[-1])
    after = run("oplog", scene[0], "--since", last, "--ns", f"{DB}.*", "--op", "id").stdout.splitlines()
    assert [line.split()[2] for line in after] == ["d", "i"]
    assert len(run("oplog", scene[0], "--limit", "3").stdout.splitlines()) == 3
    for words, message in (
        (["--id", "nosuch"], "tallyglass: warning: no entries match.\n"),
        (["--limit", "9" * 20], ""),
    ):
        assert run("oplog", scene[0], *words).stderr == message
    assert len(run("oplog", scene[0], "--follow", "--limit", "4").stdout.splitlines()) == 4


@pytest.mark.smoke
def test_incidents_and_plan_agree(scene: tuple[str, Path], tmp_path: Path) -> None:
    uri, taken = scene
    (found,) = answer("incidents", uri)
    assert {"kind", "ns", "first_ts", "last_ts", "wall", "ops", "documents"} <= set(found)
    assert (found["kind"], found["ns"], found["documents"]) == ("deleteMany", f"{DB}.orders", 150)
    best = run("restore", "plan", uri, f"--backup={taken}", "--incident=1", "--json")
    assert "backup and oplog: possible." in best.stderr
    assert best.exit_code < 2, best.stderr
    by_number = run("restore", "plan", uri, f"--backup={taken}", "--incident=1", "--from=backup", "--json")
    assert by_number.exit_code == 1, by_number.stderr
    plan = json.loads(by_number.stdout)
    first = by_number.stderr.partition("First answer: ")[2]
    assert first.startswith("the oplog reaches from")
    assert "\numask 077; mongodump" in first
    assert plan["limit"] == plan["point"] == found["first_ts"] == found["point"]
    assert {"point", "start", "limit", "checks", "commands", "loss", "reissue"} <= set(plan)
    assert {"id", "level", "title", "advice"} <= set(plan["checks"][0])
    assert {"title", "argv", "shell"} <= set(plan["commands"][0])
    (loss,) = [row for row in plan["loss"] if row["ns"] == f"{DB}.orders"]
    assert {"ns", "inserts", "updates", "deletes"} <= set(loss)
    assert any(f"--oplogLimit={found['point']}" in step["argv"] for step in plan["commands"])
    by_moment = json.loads(
        run("restore", "plan", uri, f"--backup={taken}", f"--before={plan['point']}", "--json").stdout
    )
    assert by_moment["limit"] == plan["limit"]
    script = tmp_path / "run.sh"
    assert run("restore", "plan", uri, f"--backup={taken}", "--incident=1", f"--script={script}").exit_code == 1
    assert script.stat().st_mode & 0o777 == 0o700
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_a_plan_is_written_as_a_folder_where_nothing_is(scene: tuple[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    words = ["restore", "plan", scene[0], f"--backup={scene[1]}", "--incident=1", f"--out={folder}"]
    made = run(*words)
    assert made.exit_code == 1, made.stderr
    assert (made.stdout, f"the plan is in {folder}" in made.stderr) == ("", True)
    assert "Undoes: " in made.stderr.splitlines()[-2]
    subprocess.run(["bash", "-n", str(folder / "restore.sh")], check=True)
    again = run(*words)
    assert (again.exit_code, again.stderr.count("\n")) == (2, 1)
    assert f"{folder} exists already." in again.stderr
    absent = run(*words[:-1], f"--out={tmp_path}/absent/plan")
    assert (absent.exit_code, "its parent is missing or read-only" in absent.stderr) == (2, True)


def test_blocked_plan_writes_no_script(scene: tuple[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    words = ["restore", "plan", scene[0], f"--backup={scene[1]}", "--before=1000000000:1"]
    blocked = run(*words, f"--script={script}")
    assert blocked.exit_code == 2
    assert "blocked:" in blocked.stderr
    assert not script.exists()
    output = run(*words, "--json")
    assert output.exit_code == 2
    assert any(check["level"] == "block" for check in json.loads(output.stdout)["checks"])
    assert not json.loads(output.stdout)["commands"]
    assert run("restore", "plan", scene[0], f"--backup={scene[1]}", "--incident=99").exit_code == 2


def test_prepare_and_verify_exit_codes(scene: tuple[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "next"
    prepared = run("restore", "prepare", scene[0], f"--out={out}")
    assert prepared.exit_code == 0
    assert prepared.stdout.startswith("mongodump ")
    (note,) = out.iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    assert run("restore", "prepare", scene[0], f"--out={out}").exit_code == 2
    plan = tmp_path / "plan.json"
    plan.write_text(
        run("restore", "plan", scene[0], f"--backup={scene[1]}", "--incident=1", "--from=backup", "--json").stdout
    )
    compared = run("restore", "verify", str(plan), f"--spare={scene[0]}")
    assert compared.exit_code == 2
    assert "holds 51 documents; 200 were computed" in compared.stdout
    plan.write_text("{}")
    assert run("restore", "verify", str(plan), f"--spare={scene[0]}").exit_code == 2


def test_doctor_allows_everything_without_access_control(scene: tuple[str, Path]) -> None:
    assert run("doctor", scene[0]).exit_code == 0
    assert {job["state"] for job in answer("doctor", scene[0])["jobs"]} == {"allowed"}


@pytest.mark.parametrize("driver", ["pymongo", "motor"])
def test_following_exits_without_messages(driver: str, scene: tuple[str, Path]) -> None:
    words = [sys.executable, "-m", "tallyglass_tui", "oplog", "--follow", "--json", scene[0]]
    environ = os.environ | {"TALLYGLASS_DRIVER": driver}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, text=True) as child:
        assert child.stdout is not None
        try:
            assert json.loads(child.stdout.readline())["ts"]
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=180)
        finally:
            child.kill()
    assert child.returncode == 130
    assert errors.strip() == ""
    line = f"{' '.join(words)} 2>&1 >/dev/full | cat; {' '.join(words)} | head -n 1 >/dev/null"
    whole = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environ, timeout=120, check=False)
    assert "Traceback" not in whole.stdout + whole.stderr
    assert whole.stdout.count("\n") <= 1
    assert whole.stderr == ""
