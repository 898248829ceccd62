"""The dashboard in a real pseudo-terminal, seen through a terminal emulator, as a person would see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pseudo_terminal import Terminal, dashboard, environment


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start the dashboard on a URI; what is started ends with the test. ``setup`` is Python that runs before it."""
    opened: list[Terminal] = []

    def start(
        uri: str,
        *args: str,
        environ: dict[str, str] | None = None,
        script: Path | None = None,
        setup: str = "",
        **how: Any,
    ) -> Terminal:
        argv = [sys.executable, str(script), uri, *args] if script else dashboard(uri, *args, setup=setup)
        opened.append(Terminal(argv, environment(tmp_path, **environ or {}), **how))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()
