"""The recoverable window as it was last computed, kept for the dashboard: computing it reads every backup."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.drill.state import keep, kept
from tallyglass.text import clean
from tallyglass.typed_json import Misfit, built, plain

if TYPE_CHECKING:
    from tallyglass.restore.catalogue.window import RecoverableWindow


@dataclass(frozen=True, slots=True)
class LastWindow:
    """A summary of one window; safe to show. ``made`` is when it was computed, ``status`` the exit code of the check,
    ``first`` and ``last`` bound the newest stretch without a hole, None where nothing can be restored. ``why`` is the
    worst that speaks against it, ``seconds`` the band in which a restore of the newest base may end."""

    made: datetime
    status: int
    first: Ts | None
    last: Ts | None
    holes: int
    why: str = ""
    seconds: tuple[float, float] | None = None

    @property
    def line(self) -> str:
        """One line without the time at which it was computed. What speaks against it comes first, as in the output of
        the check: a narrow screen cuts the end."""
        if self.first is None or self.last is None:
            return self.why or "nothing can be restored"
        span = f"every second from {self.first.time:%Y-%m-%d %H:%M}Z to {self.last.time:%m-%d %H:%M}Z"
        return f"{self.why}; {span}" if self.why else span


def summary(
    window: RecoverableWindow, status: int, why: str = "", seconds: tuple[float, float] | None = None
) -> LastWindow:
    """The summary of a window that was just computed, to be stored: what is read from there is safe to show."""
    newest = window.restorable[-1] if window.restorable else None
    made = datetime.now(UTC).replace(microsecond=0)
    first, last = (newest.first, newest.last) if newest else (None, None)
    return LastWindow(made, status, first, last, len(window.holes), why, seconds)


def store_window(deployment: str, found: LastWindow) -> None:
    """Store it as the last one of a deployment. Raises InputError if that fails."""
    keep(_name(deployment), json.dumps(plain(found)))


def last_window(deployment: str) -> LastWindow | None:
    """The last window of a deployment; None if there is none, or it cannot be read."""
    try:
        found: LastWindow = built(LastWindow, json.loads(kept(_name(deployment))), "window")
        return replace(found, why=clean(found.why, 200))
    except (OSError, ValueError, TypeError, InputError, Misfit):
        return None


def _name(deployment: str) -> str:
    return f"{deployment}-window.json"
