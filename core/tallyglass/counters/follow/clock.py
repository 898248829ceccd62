"""The clock by which counters are dated: the server's, and no single reading of it can undo what was seen."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tallyglass.counters.forecast.series import HOUR
from tallyglass.counters.snapshot import CounterTrouble
from tallyglass.text import duration


class Clock:
    """Seconds since 1970, which never go back.

    They advance by the time that passed, and by more only where both clocks did, the server's and this host's: then the
    host slept. One that is set, either way, does not move them.
    """

    def __init__(self) -> None:
        self._readings: tuple[float, float, float] | None = None
        self._now = 0.0

    def read(self, server: float | None) -> float:
        """The time now, where ``server`` is what the server's clock says, None if it says nothing."""
        host, steady = time.time(), time.monotonic()
        server = host if server is None else server
        if self._readings is None:
            self._now = server
        else:
            server_before, host_before, steady_before = self._readings
            self._now += max(steady - steady_before, min(server - server_before, host - host_before))
        self._readings = (server, host, steady)
        return self._now

    @property
    def now(self) -> float:
        """The time now by the last reading; this host's if there was none."""
        return time.time() if self._readings is None else self._now + time.monotonic() - self._readings[2]

    @property
    def ahead(self) -> float:
        """Seconds by which it was ahead of this host's clock at the last reading."""
        return 0.0 if self._readings is None else self._now - self._readings[1]

    def troubles(self) -> Iterator[CounterTrouble]:
        """A note where this host's clock or the server's must be wrong."""
        if self._readings is not None and abs(apart := self._readings[0] - self._readings[1]) >= HOUR:
            order = "behind" if apart > 0 else "ahead of"
            title = f"This host's clock is {duration(abs(apart))} {order} the server's, by which counters are dated."
            yield CounterTrouble("", title, partial=True)
