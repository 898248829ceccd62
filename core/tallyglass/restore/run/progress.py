"""How far and how fast a step is, from the lines that mongodump and mongorestore print every three seconds."""

from __future__ import annotations

import re
import time

# The time, a bar where the end is known, the namespace, how much is done, and of how much.
_LINE = re.compile(
    r"\S+\t(?:\[[#.]*\]\s+)?(?P<name>\S.*?)\s+(?P<done>[\d.]+)(?P<unit>[KMGT]?B|)"
    r"(?:/(?P<total>[\d.]+)(?P<of>[KMGT]?B|)\s+\([\d.]+%\))?\s*"
)
_BYTES = {unit: 1024.0**power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB"))}


class Progress:
    """The progress of one step. ``estimate`` is how long it was expected to take, in seconds, None if not known."""

    def __init__(self, estimate: float | None) -> None:
        self._estimate, self._begun = estimate, time.monotonic()
        self._bytes: dict[str, tuple[float, float]] = {}
        self._counts: dict[str, tuple[float, float]] = {}

    def hear(self, line: str) -> None:
        """Take a line that the step printed."""
        found = _LINE.fullmatch(line)
        if found is None:
            return
        try:
            done, total = float(found["done"]), float(found["total"] or 0)
        except ValueError:
            return
        if found["unit"]:
            size = _BYTES[found["unit"]]
            self._bytes[found["name"]] = done * size, total * _BYTES.get(found["of"] or "", 0.0)
        else:
            self._counts[found["name"]] = done, total

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def so_far(self) -> str:
        """How long the step runs, how much it has done, and how fast."""
        passed = self._seconds
        (done, _), (count, _) = _sum(self._bytes), _sum(self._counts)
        bytes_ = [f"{_size(done)} at {_size(done / max(passed, 1.0))}/s"] if done else []
        documents = [f"{count:,.0f} documents at {count / max(passed, 1.0):,.0f}/s"] if count else []
        return ", ".join([_clock(passed), *bytes_, *documents])

    def line(self) -> str:
        """The progress, and how long the step still needs, if that is known."""
        left = self._left(self._seconds)
        return self.so_far() if left is None else f"{self.so_far()}, about {_clock(left)} left"

    def _left(self, passed: float) -> float | None:
        """By what is done of what there is, else by the estimate."""
        for amounts in (self._bytes, self._counts):
            done, total = _sum(amounts)
            if 0 < done < total and all(of for _, of in amounts.values()):
                return passed * (total - done) / done
        if self._estimate is None or passed >= self._estimate:
            return None
        return self._estimate - passed


def _sum(amounts: dict[str, tuple[float, float]]) -> tuple[float, float]:
    return sum(done for done, _ in amounts.values()), sum(of for _, of in amounts.values())


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _size(size: float) -> str:
    name, unit = next((one for one in reversed(_BYTES.items()) if size >= one[1]), ("B", 1.0))
    return f"{size / unit:.3g} {name}" if unit > 1 else f"{size:.0f} B"
