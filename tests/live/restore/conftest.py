"""The live set, the spare and the tools of the restore scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from restore_scene import Scene, State, record

import database_tools
from shared_servers import shared
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.moment import Ts
from tallyglass.restore.drill import drill, result
from tallyglass.restore.drill.report import Report
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.tools import toolset


@pytest.fixture(autouse=True)
def own_drills(own_folders: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the last drill of one scenario from the next: all of them drill the same deployment."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="package")
def live_set() -> Iterator[ReplicaSet]:
    """A live set of these scenarios' own: every one of them restores the whole server.

    It writes nothing by itself: neither what expires, nor its sessions, which a server stores every five minutes.
    """
    parameters = (
        "ttlMonitorSleepSecs=3600",
        "disableLogicalSessionCacheRefresh=true",
        "maxNumberOfTransactionOperationsInSingleOplogEntry=10",
    )
    options = [word for one in parameters for word in ("--setParameter", one)]
    # A few documents of 16 MB fill what a smaller cache may hold unwritten, and a busy machine then waits for minutes.
    with ReplicaSet(1, options=options, cache_gb=1.0) as servers, shared("live_set", servers):
        yield servers


@pytest.fixture(scope="package")
def spare() -> Iterator[Standalone]:
    with Standalone(cache_gb=1.0) as servers, shared("spare", servers):
        yield servers


@pytest.fixture
def tool_path(monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with the database tools and mongosh.

    A plan asks for newer tools than could be built everywhere. What the newer ones mend (validators that stop a replay,
    some changes of indexes) these scenarios do without, so they take what is here.
    """
    path = database_tools.search_path()
    if not path:
        pytest.fail("the MongoDB Database Tools and mongosh are required and not here: run make tools")
    monkeypatch.setenv("PATH", path, prepend=":")
    oldest = toolset.installed().oldest
    assert oldest
    monkeypatch.setattr(toolset, "NEEDED", min(toolset.NEEDED, oldest[:2]))
    return path


@pytest.fixture
def scene(live_set: ReplicaSet, spare: Standalone, tmp_path: Path, tool_path: str) -> Iterator[Scene]:
    scene = Scene(live_set, spare, tmp_path, tool_path)
    yield scene
    scene.close()


@pytest.fixture
def expiring(spare: Standalone, tmp_path: Path, tool_path: str) -> Iterator[Scene]:
    """A set of its own, which looks every second for what expired."""
    with ReplicaSet(1, options=["--setParameter", "ttlMonitorSleepSecs=1"]) as source:
        scene = Scene(source, spare, tmp_path, tool_path)
        yield scene
        scene.close()


@pytest.fixture
def drilled(monkeypatch: pytest.MonkeyPatch) -> dict[Ts, State]:
    """What the spare of each drill held when it was verified, by the limit of the drill."""
    restored: dict[Ts, State] = {}
    measured = result.measured

    def remember(known: Report, plan: Plan) -> Report:
        key = (Path(plan.steps.work_dir) / "spare.key").read_text().strip()
        with MongoClient[Any](
            f"mongodb://{plan.from_backup.spare}/", directConnection=True, username="__system", password=key,
            authSource="local", authMechanism="SCRAM-SHA-256",
        ) as spare:  # fmt: skip
            restored[plan.facts.limit] = record(spare)
        return measured(known, plan)

    monkeypatch.setattr(drill, "measured", remember)
    return restored
