"""How long a step takes, as a plan adds it up."""

from __future__ import annotations

import pytest

from tallyglass.restore.model.step import Effect, Phase
from tallyglass.restore.plan.steps.making import run


@pytest.mark.parametrize(("seconds", "told"), [(0.06, 1.0), (0.0, 1.0), (90.0, 90.0), (None, None)])
def test_no_step_is_said_to_be_faster_than_the_start_of_its_program(seconds: float | None, told: float | None) -> None:
    steps = run(Phase.RETURN, "Count", Effect.READS_LIVE, ("true",), why="", seconds=seconds)
    assert [step.seconds for step in steps.commands] == [told]
