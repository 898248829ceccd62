"""The decision that check, the page and repair share, and the number that a repair moves a counter to."""

from __future__ import annotations

import pytest

from tallyglass.counters.standing import IdSpan, Movement, Standing, moved_to, standing_of

ROUND = IdSpan(1, 100, below=49, above=51)


@pytest.mark.parametrize(
    ("movement", "issued", "ids", "standing"),
    [
        (Movement.RISES, 100, ROUND, Standing.AGREES),
        (Movement.RISES, 99, ROUND, Standing.BEHIND),
        (Movement.DESCENDS, 50, ROUND, Standing.NOT_COMPARED),
        (Movement.CYCLES, 50, ROUND, Standing.NOT_COMPARED),
        (Movement.MIXED, 50, ROUND, Standing.UNCLEAR),
        (Movement.MIXED, 100, ROUND, Standing.AGREES),
        (Movement.UNSEEN, 50, ROUND, Standing.BEHIND),
        (Movement.UNSEEN, 50, IdSpan(39, 100, below=40, above=51), Standing.BEHIND),
        (Movement.UNSEEN, 50, IdSpan(1, 100, below=1, above=51), Standing.UNCLEAR),
        (Movement.UNSEEN, 50, IdSpan(50, 100), Standing.UNCLEAR),
        (Movement.UNSEEN, 0, IdSpan(1, 100), Standing.BEHIND),
        (Movement.UNSEEN, 0, IdSpan(0, 100), Standing.UNCLEAR),
        (Movement.UNSEEN, -50, IdSpan(-50, -1), Standing.UNCLEAR),
    ],
)
def test_standing(movement: Movement, issued: int, ids: IdSpan, standing: Standing) -> None:
    assert standing_of(movement, issued, 0, ids)[0] is standing


@pytest.mark.parametrize(
    ("stored", "step", "least", "number"), [(7, 1, 20, 20), (100, 10, 115, 120), (100, 10, 120, 120), (30, 1, 20, 30)]
)
def test_a_counter_is_moved_by_whole_steps_and_never_back(stored: int, step: int, least: int, number: int) -> None:
    assert moved_to(stored, step, least) == number
