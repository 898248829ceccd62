"""The clock by which counters are dated, on hosts and servers whose clocks are set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tallyglass.counters.follow import clock as module
from tallyglass.counters.follow.clock import Clock
from tallyglass.counters.snapshot import CounterTrouble

START, MONTHS, HOUR = 1_790_000_000.0, 61 * 86_400.0, 3_600.0


@pytest.mark.parametrize(
    ("host", "server", "expected", "note"),
    [
        ([0, 10, 20], [5, 15, 25], [5, 15, 25], ""),
        ([0, 10, 20], [None, None, None], [0, 10, 20], ""),
        ([0, 10 + MONTHS, 20], [5, 15, 25], [5, 15, 25], ""),
        ([0, 10 + MONTHS, 20 + MONTHS], [5, 15, 25], [5, 15, 25], "61 d ahead of"),
        ([0, 10 - MONTHS, 20 - MONTHS], [5, 15, 25], [5, 15, 25], "61 d behind"),
        ([0, 10, 20], [5, 15 - MONTHS, 25], [5, 15, 25], ""),
        ([0, 10, 20], [5, 15 + MONTHS, 25 + MONTHS], [5, 15, 25], "61 d behind"),
        ([0, 10 + HOUR, 20 + HOUR], [5, 15 + HOUR, 25 + HOUR], [5, 15 + HOUR, 25 + HOUR], ""),
        ([0, 10 + HOUR, 20 + HOUR], [5, 15 + MONTHS, 25 + HOUR], [5, 15 + HOUR, 25 + HOUR], ""),
        ([0, 10 - HOUR, 20 - HOUR], [5, 15 - HOUR, 25 - HOUR], [5, 15, 25], ""),
        ([0, 10, 20], [HOUR, HOUR + 10, HOUR + 20], [HOUR, HOUR + 10, HOUR + 20], "60 min behind"),
        ([0, 10, 20], [HOUR - 1, HOUR + 9, HOUR + 19], [HOUR - 1, HOUR + 9, HOUR + 19], ""),
    ],
    ids=[
        "together", "none of the server", "the host jumps and is set right", "the host is ahead", "the host is behind",
        "the server goes back once", "the server jumps", "the host slept", "it slept and the server jumped",
        "both are set back", "apart", "hardly apart",
    ],
)  # fmt: skip
def test_no_clock_that_is_set_moves_the_time_of_counters(
    monkeypatch: pytest.MonkeyPatch, host: list[float], server: list[float | None], expected: list[float], note: str
) -> None:
    here = SimpleNamespace(time=lambda: START + host[n], monotonic=lambda: 10.0 * n)
    monkeypatch.setattr(module, "time", here)
    n, clock = 0, Clock()
    assert (clock.now, clock.ahead, list(clock.troubles())) == (START + host[0], 0.0, [])
    for n, one in enumerate(server):
        assert clock.read(None if one is None else START + one) == pytest.approx(START + expected[n])
        assert clock.ahead == pytest.approx(expected[n] - host[n])
    here.monotonic = lambda: 20.0 + 3
    assert clock.now == pytest.approx(START + expected[-1] + 3)
    title = f"This host's clock is {note} the server's, by which counters are dated."
    assert list(clock.troubles()) == [CounterTrouble("", title, partial=True)] * bool(note)
