"""The limit on silence: mongodump and mongorestore print every three seconds how far they are, so lines that repeat
mean that they wait. For a server that works, such as at an index, they wait for as long as it takes; for nothing at
all, not for ever. mongosh prints nothing while it works, but its driver keeps connections to the server meanwhile, or
opens one every few seconds: without any for as long, it waits for an answer that cannot come."""

from __future__ import annotations

import time
from collections.abc import Callable

from tallyglass.restore.run.processes import is_connected, members

_WATCHED = frozenset({"mongodump", "mongorestore"})
_SHELL = "mongosh"
_START_SECONDS = 120.0
"""mongosh may be without a connection for as long, whatever the limit: it starts, and its driver looks for a server for
30 s."""
_LOOK_SECONDS = 3.0
"""Between two questions to the servers: the interval at which the tools print."""


class Silence:
    """Watches one step, whose processes are of ``group``. ``limit`` is in seconds, 0 for none; ``works`` tells whether
    a server works for the program of that name."""

    def __init__(self, group: int, limit: float, works: Callable[[str], bool]) -> None:
        self._group, self._limit, self._works = group, limit, works
        self._since = self._looked = time.monotonic()
        self._heard: set[int] = set()

    def hear(self, line: str) -> None:
        """Take a line that the step printed. Its first word is the time, which is always new."""
        known = len(self._heard)
        self._heard.add(hash(line.partition(line.split(maxsplit=1)[0])[2] if line.strip() else line))
        if len(self._heard) > known:
            self._since = time.monotonic()

    def broken(self) -> str:
        """The program that printed nothing new for too long while no server worked for it; empty if there is none.
        Asks the servers at most once for each such time."""
        now = time.monotonic()
        if not self._limit or now - self._looked < min(_LOOK_SECONDS, self._limit):
            return ""
        self._looked = now
        running = members(self._group)
        tool = next((name for name in running.values() if name in _WATCHED), "")
        # Its title follows its name.
        shells = [pid for pid, name in running.items() if name.partition(" ")[0] == _SHELL]
        if any(map(is_connected, shells)):
            self._since = now
        if (tool or shells) and now - self._since < max(self._limit, _START_SECONDS * bool(shells)):
            return ""
        if tool and not self._works(tool):
            return tool
        if shells:
            return _SHELL
        self._since = now
        return ""
