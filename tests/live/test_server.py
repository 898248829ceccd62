"""The embedded servers start, fail over, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.errors import EmbeddedServerError

pytestmark = pytest.mark.live


def test_replica_set_accepts_majority_writes(replica_set: ReplicaSet) -> None:
    with replica_set.client(w="majority") as client:
        client.server_check.things.insert_one({"_id": 1})
        assert client.server_check.things.count_documents({}) == 1
        client.drop_database("server_check")


def test_fails_over_to_another_primary(three_members: ReplicaSet) -> None:
    first = three_members.await_primary()
    three_members.kill(first)
    second = three_members.await_primary()
    assert second != first
    three_members.restart(first)
    with three_members.client(w="majority") as client:
        client.server_check.things.insert_one({"_id": 2})


def test_stop_ends_processes_and_removes_the_folder() -> None:
    servers = Standalone()
    process, folder = servers.members[0].process, servers.folder
    assert process is not None
    servers.stop()
    assert process.poll() is not None
    assert not folder.exists()


def test_guard_cleans_up_after_its_starter_is_killed() -> None:
    code = (
        "from tallyglass.demo.server import Standalone; s = Standalone();"
        "print(s.folder, s.members[0].process.pid, flush=True); import signal; signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        folder, pid = starter.stdout.readline().split()
        starter.kill()
    deadline = time.monotonic() + 60
    while (Path(folder).exists() or _alive(int(pid))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not _alive(int(pid))


def test_missing_mongod_is_one_sentence() -> None:
    with pytest.raises(EmbeddedServerError, match="not an executable file") as caught:
        Standalone(mongod="/nowhere/mongod")
    assert "demo extra" in caught.value.advice


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")
