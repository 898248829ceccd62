"""Real servers for the live and terminal tests; started once where tests can share them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import database_tools
from access_control import GuardedSet, start_guarded
from programs import need
from server_version import since
from tallyglass.demo.server import ReplicaSet, Standalone


def pytest_configure() -> None:
    """Let Ctrl-C and a hang-up mean the same in every run: the children of a background job, or of nohup, inherit that
    they are ignored. What is handled here is not inherited."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the database tools where they are not, unless TALLYGLASS_REQUIRE_TOOLS says they must be."""
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
    with ReplicaSet(1) as servers:
        yield servers


@pytest.fixture(scope="session")
def standalone() -> Iterator[Standalone]:
    """A plain standalone for the whole session."""
    with Standalone() as servers:
        yield servers


@pytest.fixture(scope="session")
def guarded_set() -> Iterator[GuardedSet]:
    """A one-member replica set with access control for the whole session."""
    with start_guarded() as guarded:
        yield guarded


@pytest.fixture
def three_members() -> Iterator[ReplicaSet]:
    """A fresh replica set of three, for tests that kill, freeze or partition members."""
    with ReplicaSet(3) as servers:
        yield servers
