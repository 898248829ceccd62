"""The dashboard in a real pseudo-terminal with a terminal emulator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pseudo_terminal import Terminal, dashboard, environment


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start dashboards on a URI and close them after the test. ``setup`` is Python code to run before the dashboard."""
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
