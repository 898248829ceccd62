"""Dashboards on servers that will fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateways import gateway_to
from lost_screen import Open

from pseudo_terminal import Terminal, dashboard, environment

__all__ = ["gateway_to", "open_on"]


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
