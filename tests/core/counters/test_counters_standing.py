"""The decision that check, the page and repair share, and the number that a repair moves a counter to."""

from __future__ import annotations

import pytest

from tallyglass.counters.standing import _WHY, IdSpan, Movement, Standing, moved_to, spacing, standing_of

ROUND = IdSpan(1, 100, below=49, above=51)


@pytest.mark.parametrize(
    ("movement", "issued", "ids", "standing"),
    [
        (Movement.RISES, 100, ROUND, Standing.AGREES),
        (Movement.RISES, 99, ROUND, Standing.BEHIND),
        (Movement.DESCENDS, 1, ROUND, Standing.AGREES),
        (Movement.DESCENDS, 50, ROUND, Standing.UNCLEAR),
        (Movement.DESCENDS, 50, IdSpan(1, 100, until_smallest=30), Standing.BEHIND),
        (Movement.DESCENDS, 50, IdSpan(1, 100, until_smallest=2), Standing.UNCLEAR),
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
        (Movement.RISES, 9, IdSpan(1, 5_000, later=1_010), Standing.UNCLEAR),
        (Movement.RISES, 9, IdSpan(9, 5_000, later=1_010), Standing.UNCLEAR),
        (Movement.RISES, 9, IdSpan(1, 5_000, soon=1_009, later=1_010), Standing.BEHIND),
        (Movement.RISES, 9, IdSpan(1, 5_000, soon=10, later=1_010), Standing.BEHIND),
        (Movement.RISES, 9, IdSpan(1, 1_009, soon=10), Standing.BEHIND),
        # So may all of them be imported.
        (Movement.RISES, 9, IdSpan(1_010, 5_000), Standing.UNCLEAR),
        (Movement.RISES, 9, IdSpan(1_009, 5_000), Standing.BEHIND),
        # It has passed some of them since they were read.
        (Movement.RISES, 9, IdSpan(1, 5_000, soon=9, later=1_005), Standing.UNCLEAR),
        (Movement.RISES, 1_005, IdSpan(1, 5_000, soon=9, later=1_005), Standing.UNCLEAR),
        (Movement.UNSEEN, 9, IdSpan(1, 5_000, below=8, above=5_000, later=5_000), Standing.UNCLEAR),
        (Movement.UNSEEN, 9, IdSpan(1, 5_000, below=8, above=10, soon=10, later=5_000), Standing.BEHIND),
    ],
)
def test_standing(movement: Movement, issued: int, ids: IdSpan, standing: Standing) -> None:
    assert standing_of(movement, issued, 0, ids, 1)[0] is standing


@pytest.mark.parametrize(
    ("largest", "documents", "known", "apart"),
    [
        *[(100, 5, False, 10), (100, 10, False, 10), (100, 11, True, 1), (100, 91, False, 1)],
        *[(93, 5, False, 1), (93, 5, True, 10)],
    ],
)
def test_ids_are_a_step_apart_unless_there_are_more_documents_or_ids_between_the_steps_of_one_that_was_found(
    largest: int, documents: int, known: bool, apart: int
) -> None:
    ids = IdSpan(10, largest)
    found = [spacing(10, 100, step, ids, documents, known=known) for step in (10, -10)]
    assert found == [apart] * 2


@pytest.mark.parametrize(
    ("issued", "ids", "step", "why"),
    [
        (9, IdSpan(1, 10_010, later=5_010), 5, "but the nearest is 5,001 further on: they may not be its own."),
        (9, IdSpan(1, 10_010, later=9), 5, "but the nearest is 10,001 further on: they may not be its own."),
        (9, IdSpan(10_010, 10_010), 10, "but the nearest is 10,001 further on: they may not be its own."),
        (10, IdSpan(10_010, 10_010), 10, f"so the next insert collides. {_WHY}"),
    ],
)  # fmt: skip
def test_what_is_said_of_ids_that_a_counter_does_not_reach_soon(issued: int, ids: IdSpan, step: int, why: str) -> None:
    found = standing_of(Movement.RISES, issued, 0, ids, step)[1]
    assert found == f"{10_010 - issued:,} behind: ids up to 10010 exist, {why}"


@pytest.mark.parametrize("ids", [IdSpan(5_000, 6_000), IdSpan(1, 6_000, later=5_000)])
@pytest.mark.parametrize(("high", "standing"), [(4_999, Standing.UNCLEAR), (5_000, Standing.BEHIND)])
def test_ids_far_away_are_its_own_if_it_was_there_before(ids: IdSpan, high: int, standing: Standing) -> None:
    assert standing_of(Movement.RISES, 9, 0, ids, 1, high)[0] is standing


def test_ids_as_far_apart_as_the_step_are_no_strays() -> None:
    ids = IdSpan(0, 1_000, until_smallest=45)
    assert standing_of(Movement.DESCENDS, 500, 0, ids, -10)[0] is Standing.BEHIND
    assert standing_of(Movement.DESCENDS, 500, 0, ids, -1)[0] is Standing.UNCLEAR


@pytest.mark.parametrize(
    ("stored", "step", "past", "number"),
    [
        *[(7, 1, 20, 20), (100, 10, 115, 120), (100, 10, 120, 120), (30, 1, 20, 30)],
        *[(20, -1, 7, 7), (120, -10, 105, 100), (20, -1, 30, 20)],
    ],
)
def test_a_counter_is_moved_by_whole_steps_and_never_back(stored: int, step: int, past: int, number: int) -> None:
    assert moved_to(stored, step, past) == number
