"""How often the screen is updated: often locally, less over a slow link, never when paused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOCAL_SECONDS = 0.25
"""Between two updates of the screen: what an eye follows."""
SSH_SECONDS = 1.0
"""What a slow link carries at 2 kB/s."""
SLOW_SECONDS = 2.0
"""Half of it, where ticks are late."""
UNFOCUSED_SECONDS = 5.0
"""Enough to see that it lives."""

LAG_SECONDS = 0.3
"""A tick that is this late is a sign that the terminal or the machine cannot keep up."""
_LATE_TICKS = 3
"""Late ticks in a row that slow it down."""
_CALM_TICKS = 10
"""Ticks on time that restore it: more than slow it down, so that it does not go to and fro."""


def over_ssh(environ: Mapping[str, str]) -> bool:
    """Whether this process was started from an SSH session."""
    return bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))


@dataclass(slots=True)
class RefreshRate:
    """The rate of flushes, from what is known of the link. ``interval`` is None while paused.

    :meth:`lag` records how late each tick is: three late ones in a row slow it down, ten on time restore it.
    ``backlog`` says whether the last late one was due to a terminal that did not take the output.
    """

    ssh: bool = False
    focused: bool = True
    paused: bool = False
    slow: bool = False
    backlog: bool = False
    _late: int = 0
    _calm: int = 0

    @property
    def interval(self) -> float | None:
        """Seconds between flushes; None for not at all."""
        if self.paused:
            return None
        if not self.focused:
            return UNFOCUSED_SECONDS
        if self.slow:
            return SLOW_SECONDS
        return SSH_SECONDS if self.ssh else LOCAL_SECONDS

    @property
    def badge(self) -> str:
        """The rate in words where it is not the usual one, for the status line; empty at the usual one."""
        if self.paused:
            return "PAUSED"
        if not self.focused:
            return "0.2 Hz unfocused"
        if self.slow:
            # A late tick alone may come from the machine or from this program's own work: the badge blames neither.
            return "0.5 Hz slow link" if self.backlog else "0.5 Hz busy"
        return "1 Hz ssh" if self.ssh else ""

    @property
    def brief(self) -> str:
        """The badge without its reason, for a narrow screen."""
        return self.badge if self.paused else " ".join(self.badge.split()[:2])

    def lag(self, seconds: float, *, backlog: bool = False) -> None:
        """Record how late a tick came. ``backlog``: the terminal has not taken the output yet, which is late, too."""
        if backlog or seconds > LAG_SECONDS:
            self._late, self._calm = self._late + 1, 0
            self.backlog = backlog
        else:
            self._late, self._calm = 0, self._calm + 1
        if self._late >= _LATE_TICKS:
            self.slow = True
        elif self._calm >= _CALM_TICKS:
            self.slow = False
