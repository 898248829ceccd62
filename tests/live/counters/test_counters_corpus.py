"""Recognition on databases of applications under live writes, and of libraries that really ran."""

from __future__ import annotations

import pytest
from tests.corpus import library_runs
from tests.corpus.applications import HELD_OUT, HELD_OUT_AGAIN, UNUSUAL
from tests.corpus.confusion import measure

pytestmark = pytest.mark.live


def test_counters_of_unknown_databases_are_recognised_by_their_use() -> None:
    result = measure((*HELD_OUT, *HELD_OUT_AGAIN, *UNUSUAL), rounds=50)
    assert result.collections >= 140
    assert result.precision >= 0.95, sorted(result.sure - result.true)
    assert result.recall >= 0.9, sorted(result.true - result.sure)


@pytest.mark.since(6, 0)
async def test_counters_of_libraries_that_really_ran_are_recognised() -> None:
    result = await library_runs.measure()
    assert len(result.true) >= 25
    assert result.precision >= 0.95, sorted(result.sure - result.true)
    assert result.recall >= 0.95, sorted(result.true - result.sure)
