"""A fork: the child begins empty, whatever was in memory and whoever held a lock; by os.fork and by multiprocessing.

The process that forks is a separate interpreter (:mod:`forking`): a test must not fork the test process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forking
import pytest

from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live


@pytest.fixture
def uri(replica_set: ReplicaSet) -> Iterator[str]:
    """A server where nothing is allocated yet."""
    yield replica_set.uri
    with replica_set.client() as client:
        client.drop_database(forking.DB)


def run(*words: str) -> Any:
    """What a function of :mod:`forking` returns in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, forking.__file__, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.smoke
@pytest.mark.parametrize("source", ["counter", "pool"])
def test_parent_and_children_never_share_an_id(uri: str, source: str) -> None:
    found = run(source, uri)
    before, mine = found["parent"]
    ids = [one for part in (before, mine, *found["children"]) for one in part]
    assert len(set(ids)) == len(ids) == 260
    assert found["fresh"] == [0, 0]
    assert found["issued"] == 70
    assert mine[0] == before[-1] + 1, "the parent keeps what it holds"


def test_a_lock_held_at_the_fork_does_not_stop_the_child() -> None:
    """The fetching thread is inside the allocator when the process forks."""
    assert run("lock_held") == 0


def test_random_ids_differ_after_a_fork() -> None:
    parent, child = run("random_ids")
    assert not set(parent) & set(child)


@pytest.mark.parametrize("what", ["next", "take", "new_uuid", "new_object_id"])
def test_a_signal_handler_that_forks_within_a_call_repeats_no_id(tmp_path: Path, what: str) -> None:
    found = run("signals", str(tmp_path), what)
    taken = [one for ids in found for one in ids]
    assert len(found) > 10
    assert len(set(taken)) == len(taken) > 100


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(uri: str, method: str) -> None:
    ids = [one for part in run(method, uri) for one in part]
    assert len(set(ids)) == 400
