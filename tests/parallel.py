"""How the tests are shared out between the workers of ``make test``: which stay together, and which begin."""

from __future__ import annotations

from collections.abc import MutableSequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_FIRST = ("tests/live/restore/", "tests/live/", "tests/hostile/", "tests/terminal/", "tests/tui/", "tests/core/")
"""Slow tests begin, so that no worker is left with one at the end."""


def work_unit(nodeid: str) -> str:
    """The name of what one worker runs by itself: what shares an expensive fixture stays together."""
    file = nodeid.split("::", 1)[0]
    if file.startswith("tests/hostile/"):
        return "tests/hostile"
    # Each of these is long, and all that they share is two empty servers.
    return nodeid if file.startswith("tests/live/restore/") else file


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out work units in the order in which the tests were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return work_unit(nodeid)


def slow_first(items: MutableSequence[pytest.Item]) -> None:
    """Sort the tests by where they are; the order within a file stays."""

    def rank(item: pytest.Item) -> int:
        return next((n for n, prefix in enumerate(_FIRST) if item.nodeid.startswith(prefix)), len(_FIRST))

    items[:] = sorted(items, key=rank)
