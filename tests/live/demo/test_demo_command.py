"""``tallyglass demo`` as its own process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

pytestmark = pytest.mark.live

COMMAND = [sys.executable, "-m", "tallyglass_tui", "demo"]


@pytest.fixture
def headless() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "--headless"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        yield running
        running.kill()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ],
)
def test_headless_prints_a_uri_that_works_and_leaves_nothing(
    headless: subprocess.Popen[str], number: signal.Signals
) -> None:
    demo = headless
    assert demo.stdout is not None
    assert demo.stderr is not None
    uri = demo.stdout.readline().strip()
    backup = Path(demo.stderr.readline().split(" is in ")[1].split(";")[0])
    with MongoClient(uri) as client:
        assert client.shop.orders.find_one()
    assert (backup / "shop" / "orders.bson").exists()
    demo.send_signal(number)
    assert demo.wait(timeout=180) == 0
    assert demo.stdout.read() == ""
    assert not backup.parent.exists()


def test_headless_ends_after_its_seconds() -> None:
    done = subprocess.run(
        [*COMMAND, "--headless", "--seconds", "0.1"], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("mongodb://127.0.0.1:")


@pytest.mark.since(5, 0)
def test_without_a_terminal_it_reports_on_all_four_jobs() -> None:
    done = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    counters, object_ids, oplog, plan = done.stdout.split("\n== ")[1:]
    assert "crm.IDs" in counters
    assert "identifierPool" in counters
    assert '"$lt": ObjectId(' in object_ids
    # A deleteMany that the report caught midway has fewer documents, and no plan.
    deletes = re.findall(r"deleteMany on (blog.comments|shop.orders) +(\d+) .* (\d+:\d+)", oplog)
    planned = [int(documents) for _, documents, point in deletes if f"--oplogLimit={point}" in plan]
    assert len(planned) == 1, done.stdout
    assert planned[0] > 100
    assert "warning" in plan
    assert "blocked" not in plan
    assert len(done.stdout.splitlines()) < 72
    folder = Path(re.findall(r"folder is (\S+/plan):", plan)[0])
    assert (folder / "restore.sh").exists()
    shutil.rmtree(folder.parent)


def test_a_blocked_plan_is_reported_without_a_folder(tmp_path: Path) -> None:
    for name in ("mongodump", "mongorestore"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} version: 100.3.0\n")
        (tmp_path / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    assert "blocked: The tools here are too old" in done.stdout
    assert "folder is" not in done.stdout


def test_a_port_that_is_taken_is_one_sentence_and_no_traceback() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--headless", "--port", port], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 3
    assert done.stderr.startswith(f"tallyglass: Port {port} on 127.0.0.1 cannot be used:")
    assert done.stderr.count("\n") == 1
