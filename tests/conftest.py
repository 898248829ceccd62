"""Real servers for the live and terminal tests, shared between tests where possible."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

import database_tools
import parallel
import run_rules
from access_control import GuardedSet, start_guarded
from programs import require_programs
from server_version import since
from shared_servers import shared
from tallyglass.demo import mongod_process
from tallyglass.demo.server import ReplicaSet, Standalone


def pytest_configure(config: pytest.Config) -> None:
    """Register the rules of a test run. Hooks in a conftest do not see session fixtures; those of a plugin do."""
    # Textual's trees of widgets and styles are large: at the default thresholds, collecting takes a fifth of a test.
    gc.set_threshold(100_000, 50, 50)
    # An example that waits for the processor is not a failure.
    settings.register_profile("busy-machine", deadline=None)
    settings.load_profile("busy-machine")
    # Programs under test keep their output back as they do for a person.
    os.environ.pop("PYTHONUNBUFFERED", None)
    mongod_process._PORTS = parallel.own_ports(mongod_process._PORTS, config)
    run_rules.begin()
    config.pluginmanager.register(run_rules)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Use the project's scheduler when tests run in several workers."""
    return parallel.Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked ``tools`` if the database tools are missing, unless TALLYGLASS_REQUIRE_TOOLS is set."""
    if hasattr(config, "workerinput"):
        parallel.slow_first(items)
    if database_tools.search_path() or os.environ.get("TALLYGLASS_REQUIRE_TOOLS"):
        return
    skip = pytest.mark.skip(reason="needs the MongoDB Database Tools and mongosh: see `make tools`")
    for item in items:
        if item.get_closest_marker("tools"):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check a test's requirements before any of its servers starts."""
    for mark in item.iter_markers("needs"):
        require_programs(*mark.args)
    for mark in item.iter_markers("since"):
        since(*mark.args)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the profiles and samples of the user who runs them."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.getbasetemp() / name))


@pytest.fixture(scope="session")
def replica_set() -> Iterator[ReplicaSet]:
    """A one-member replica set for the whole session. Each test uses its own database and drops only that."""
    with ReplicaSet(1) as servers, shared("replica_set", servers):
        yield servers


@pytest.fixture(scope="session")
def standalone() -> Iterator[Standalone]:
    """A plain standalone for the whole session."""
    with Standalone() as servers, shared("standalone", servers):
        yield servers


@pytest.fixture(scope="session")
def guarded_set() -> Iterator[GuardedSet]:
    """A one-member replica set with access control for the whole session."""
    with start_guarded() as guarded, shared("guarded_set", guarded.servers):
        yield guarded


@pytest.fixture
def three_members() -> Iterator[ReplicaSet]:
    """A fresh replica set of three, for tests that kill, freeze or partition members."""
    with ReplicaSet(3) as servers:
        yield servers
