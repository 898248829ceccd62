"""The live set, the spare and the tools of the restore scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from restore_scene import Scene, make_stand_ins, real_tools

from tallyglass.demo.server import ReplicaSet, Standalone


@pytest.fixture(scope="package")
def live_set() -> Iterator[ReplicaSet]:
    """A live set of these scenarios' own: every one of them restores the whole server."""
    parameters = ("ttlMonitorSleepSecs=3600", "maxNumberOfTransactionOperationsInSingleOplogEntry=10")
    with ReplicaSet(1, options=[word for one in parameters for word in ("--setParameter", one)]) as servers:
        yield servers


@pytest.fixture(scope="package")
def spare() -> Iterator[Standalone]:
    with Standalone() as servers:
        yield servers


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.tools)])
def tool_path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A PATH with the database tools: the real ones, or programs that only stand in for them."""
    if request.param == "stand-in":
        return str(make_stand_ins(tmp_path / "stand-ins"))
    real = real_tools()
    if real is None:
        pytest.fail("the MongoDB Database Tools are required and not here: run make tools")
    return f"{real}:{make_stand_ins(tmp_path / 'stand-ins', ('mongosh',))}"


@pytest.fixture
def scene(live_set: ReplicaSet, spare: Standalone, tmp_path: Path, tool_path: str) -> Iterator[Scene]:
    scene = Scene(live_set, spare, tmp_path, tool_path)
    yield scene
    scene.close()
