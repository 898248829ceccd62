"""The lines of ``tallyglass repair``."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase

from builders.counters import counter
from tallyglass.counters.follow.differences import Difference
from tallyglass.counters.standing import Standing
from tallyglass_tui.cli.repair import _lines


def test_the_check_after_a_repair_matches_its_counter_alone() -> None:
    repaired = counter(1, id="orders[eu]*?", repair="db.counters.updateOne()")
    *_, then = _lines(Difference(repaired, Standing.BEHIND, "", 1, 9, 1, 9, 0, 0, ()))
    pattern = shlex.split(then)[shlex.split(then).index("--match") + 1]
    assert fnmatchcase("shop.counters orders[eu]*?", pattern)
    assert not fnmatchcase("shop.counters orders[eu]xy", pattern)
