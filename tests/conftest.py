"""Real servers for the live and terminal tests; started once where tests can share them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import database_tools
import parallel
import run_rules
from access_control import GuardedSet, start_guarded
from programs import need
from server_version import since
from shared_servers import shared
from tallyglass.demo.server import ReplicaSet, Standalone


def pytest_configure(config: pytest.Config) -> None:
    """Hold every test to the rules; a hook of a conftest does not see the fixtures of the session."""
    run_rules.begin()
    config.pluginmanager.register(run_rules)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Share out the tests between workers, where there are several."""
    return parallel.Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs the database tools where they are not, unless TALLYGLASS_REQUIRE_TOOLS says they must be."""
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
    """Before any server of a test is started, look whether what it needs is here."""
    for mark in item.iter_markers("needs"):
        need(*mark.args)
    for mark in item.iter_markers("since"):
        since(*mark.args)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the profiles of whoever runs it, or adds to the samples kept for them."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.getbasetemp() / name))


@pytest.fixture(scope="session")
def replica_set() -> Iterator[ReplicaSet]:
    """A one-member replica set for the whole session: use a database of your own, drop nothing else's."""
    with shared("replica_set", ReplicaSet(1)) as servers:
        yield servers


@pytest.fixture(scope="session")
def standalone() -> Iterator[Standalone]:
    """A plain standalone for the whole session."""
    with shared("standalone", Standalone()) as servers:
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
