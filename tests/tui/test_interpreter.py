"""What the dashboard's process does about its garbage collector, and nobody else."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell import run
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.terminal import interpreter
from tallyglass_tui.terminal.interpreter import GarbageCollection, collector_held


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
    with collector_held():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.usefixtures("collector")
def test_a_collector_that_was_disabled_stays_so() -> None:
    gc.disable()
    with collector_held():
        pass
    assert not gc.isenabled()


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def test_a_collection_returns_the_memory_of_what_was_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_COLLECT_SECONDS", -1.0)
    batches = [bytes(60_000) for _ in range(2_000)]
    del batches[:-1]  # the last one keeps the heap from shrinking at its end
    before = resident_mb()
    GarbageCollection().collect_if_due()
    assert before - resident_mb() > 60


def test_only_the_process_of_the_dashboard_holds_its_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[Context] = []
    monkeypatch.setattr(run, "tune_interpreter", lambda: None)
    monkeypatch.setattr(run, "Feeds", lambda *_: SimpleNamespace(close=lambda: None, fatal=None))
    monkeypatch.setattr(Dashboard, "run", lambda app, **_: contexts.append(app.context))
    target = run.Target.parse("mongodb://db1/")
    run.run_dashboard(target, PAGES)
    assert contexts[0].building is collector_held
    assert Context(target).building is nullcontext
