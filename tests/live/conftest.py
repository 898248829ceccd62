"""Dashboards on servers that will fail, and counters whose past is read whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lost_screen import Open

from pseudo_terminal import Terminal, dashboard, environment
from tallyglass.counters.follow import watch
from tallyglass.counters.history import oplog_samples as history


@pytest.fixture
def open_on(tmp_path: Path) -> Iterator[Open]:
    """Start dashboards at 120x40. At the end they must quit with status 0 and restore the terminal."""
    opened: list[Terminal] = []

    def start(uri: str, setup: str = "") -> Terminal:
        env = environment(tmp_path, TALLYGLASS_URI=uri)
        opened.append(Terminal(dashboard(setup=setup), env, size=(120, 40), frames=True))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.press("q")
    for terminal in opened:
        assert terminal.wait_for_exit() == 0
        assert terminal.wait_restored()
        terminal.close()


@pytest.fixture
def all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first look read all that it may, however busy the machine is; bench/counters.py shows what it takes."""
    monkeypatch.setattr(history, "SLICE_MS", 60_000)
    for name in ("_FIRST_SECONDS", "_PAST_SECONDS", "_FORECAST_SECONDS", "_IDLE_SECONDS"):
        monkeypatch.setattr(watch, name, 60.0)
