"""What the dashboard's process does about its garbage collector, and nobody else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tallyglass.counters.follow.garbage import LEAVE_ALONE
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell import run
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.session import Session
from tallyglass_tui.terminal.keys_first import Garbage


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as other tests expect it, afterwards."""
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_the_collector_rests_while_many_objects_are_built_and_leaves_them_alone_afterwards() -> None:
    assert gc.isenabled()
    frozen = gc.get_freeze_count()
    with Garbage().building():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.usefixtures("collector")
def test_a_collector_that_was_disabled_stays_so() -> None:
    gc.disable()
    with Garbage().building():
        pass
    assert not gc.isenabled()


def test_only_the_process_of_the_dashboard_has_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Session] = []
    monkeypatch.setattr(run, "put_keys_first", lambda: None)
    monkeypatch.setattr(run, "Feeds", lambda _: SimpleNamespace(close=lambda: None, fatal=None))
    monkeypatch.setattr(Dashboard, "run", lambda app, **_: sessions.append(app.session))
    target = run.Target.parse("mongodb://db1/")
    run.run_dashboard(target, PAGES)
    assert isinstance(sessions[0].garbage, Garbage)
    assert Session(target).garbage is LEAVE_ALONE
