"""``check`` with limits for the oplog: the worse of both levels, in one line with perfdata."""

from __future__ import annotations

import pytest

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass_tui.cli.check_oplog import OplogHours, grade_window

FULL = OplogWindow(Ts(0, 1), Ts(36_000, 1), 100, 100, 10.0, recent_bytes_per_hour=20.0)
YOUNG = OplogWindow(Ts(0, 1), Ts(3_600, 1), 10, 100, 10.0, recent_bytes_per_hour=2.0)


@pytest.mark.parametrize(
    ("window", "limits", "level"),
    [
        (FULL, OplogHours(4, 2), 0),
        (FULL, OplogHours(6, 2), 1),
        (FULL, OplogHours(12, 6), 2),
        (FULL, OplogHours(None, 6), 2),
        (YOUNG, OplogHours(24, 12), 0),
        (OplogWindow(None, None), OplogHours(24, 12), 3),
    ],
)
def test_the_smaller_of_window_and_forecast_is_judged(window: OplogWindow, limits: OplogHours, level: int) -> None:
    found, words, perfdata = grade_window(window, limits)
    assert found == level, words
    assert perfdata.startswith("oplog_hours=") or level == 3


def test_a_shrinking_window_is_reported() -> None:
    _, words, perfdata = grade_window(FULL, OplogHours(6, 2))
    assert words == "oplog reaches 10.0 h back, 5.0 h at the recent rate"
    assert perfdata == "oplog_hours=5.00;6:;2:;0"
    with pytest.raises(InputError):
        OplogHours(2, 6)


def test_a_young_oplog_does_not_claim_to_reach_back_before_it_began() -> None:
    _, words, perfdata = grade_window(YOUNG, OplogHours(24, 12))
    assert words == "oplog reaches 1.0 h back, 50.0 h once it is full"
    assert perfdata == "oplog_hours=50.00;24:;12:;0"
