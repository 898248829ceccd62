"""How many operations of an accident the steps name, and how many of others."""

from __future__ import annotations

import pytest

from tallyglass.moment import Ts
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.plan.steps.return_work import Damage


@pytest.mark.parametrize(
    ("ns", "entries", "known"),
    [("s.c", 4, Damage(4, 5)), ("s.c", 7, Damage(7, 2)), ("s.c", 0, Damage(7, 2)), ("s.d", 4, Damage(7, 2))],
)
def test_what_was_selected_with_the_accident_but_is_not_its_own_counts_as_others(
    ns: str, entries: int, known: Damage
) -> None:
    found = Damage(by_accident=7, by_others=2)
    assert found.of(Accident("updates", ns, Ts(1, 1), None, entries=entries), "s.c") == known
    assert found.of(None, "s.c") == found
