"""What the commands of a restore say of how long one may take."""

from __future__ import annotations

import pytest

from tallyglass_tui.cli.restore.window import may_take


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (0.015, 1_084.0, "less than a minute to 18 min"),
        (3.0, 50.0, "less than a minute"),
        (300.0, 1_200.0, "5 min to 20 min"),
    ],
)
def test_no_restore_ends_within_milliseconds(least: float, most: float, said: str) -> None:
    assert may_take(least, most) == f"a restore may take {said}"
