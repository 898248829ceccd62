"""The dashboard on a server that is about to be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lost_screen import Open

from pseudo_terminal import Terminal, dashboard, environment


@pytest.fixture
def open_on(tmp_path: Path) -> Iterator[Open]:
    """Start the dashboard on a URI, at 120x40. It must leave in order at the end."""
    opened: list[Terminal] = []

    def start(uri: str, setup: str = "") -> Terminal:
        env = environment(tmp_path, TALLYGLASS_URI=uri)
        opened.append(Terminal(dashboard(setup=setup), env, size=(120, 40), frames=True))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.press("q")
    for terminal in opened:
        assert terminal.ended() == 0
        assert terminal.restored()
        terminal.close()
