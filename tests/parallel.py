"""How ``make test`` distributes tests over its workers: which tests stay together and which start first."""

from __future__ import annotations

from collections.abc import MutableSequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_FIRST = (
    "tests/live/test_fault_matrix.py",  # waits for minutes and needs little of a processor
    "tests/hostile/",  # one unit
    "tests/live/restore/",
    "tests/live/",
    "tests/terminal/",
    "tests/test_run_rules.py",
    "tests/tui/",
    "tests/core/",
)
"""Long units start first, so that no worker is left with one at the end."""

_EACH_ALONE = ("tests/live/restore/", "tests/live/test_fault_matrix.py", "tests/core/oplog/test_oplog_corpus.py")
"""Where each test is a unit: these are long, and share no more than two empty servers."""


def work_unit(nodeid: str) -> str:
    """Return the unit of work of a test. Tests that share an expensive fixture form one unit and run on one worker."""
    file = nodeid.split("::", 1)[0]
    if file.startswith("tests/hostile/"):
        return "tests/hostile"
    return nodeid if file.startswith(_EACH_ALONE) else file


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out work units in the order in which the tests were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return work_unit(nodeid)


def slow_first(items: MutableSequence[pytest.Item]) -> None:
    """Sort tests by folder, slow folders first, keeping the order within a file."""

    def rank(item: pytest.Item) -> int:
        return next((n for n, prefix in enumerate(_FIRST) if item.nodeid.startswith(prefix)), len(_FIRST))

    items[:] = sorted(items, key=rank)


def own_ports(ports: range, config: pytest.Config) -> range:
    """The part of ``ports`` for the servers of this worker: no other takes the port of a server that is killed and
    started again. All of them without workers."""
    about = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    return ports[int(about["workerid"].removeprefix("gw")) :: about["workercount"]]
