"""The metrics that both exporters share: their names, their meaning, and the field of each in ``Stats``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from tallyglass.allocate.engine.meter import Stats


class Observable(Protocol):
    """Any allocator with a name: a Cached, Counter, Pool or their asynchronous twins."""

    @property
    def name(self) -> str:
        """The label of its metrics."""

    def stats(self) -> Stats:
        """Statistics of the ids it handed out in this process."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``field`` is its name in ``Stats``. A counter only grows within a process, a gauge may fall.

    Of several allocators the values add up, or else the ``largest`` counts.
    """

    field: str
    meaning: str
    counter: bool = False
    largest: bool = False


METRICS: Final = (
    Metric("issued", "Ids given to callers.", counter=True),
    Metric("burned", "Ids taken, or perhaps taken, that will never be used.", counter=True),
    Metric("fetches", "Ranges fetched.", counter=True),
    Metric("retries", "Calls that were made again.", counter=True),
    Metric("failures", "Fetches that were given up.", counter=True),
    Metric("stalls", "Callers that had to wait for a range.", counter=True),
    Metric("collisions", "Ids that were tried and are taken already.", counter=True),
    Metric("cached", "Ids in memory."),
    Metric("in_flight", "Fetches under way."),
    Metric("waiters", "Callers that wait now."),
    Metric("step", "Size of the next range.", largest=True),
    Metric("full", "Documents of a pool without an id left.", largest=True),
    Metric("fetch_p99", "Seconds of a fetch, 99th percentile of the last 1,024.", largest=True),
)
"""``issued`` of a cache may go down by the ids that an interrupted caller gives back."""


def by_name(readings: Iterable[tuple[str, Stats]], metric: Metric) -> dict[str, float]:
    """One value for each name: of two samples with the same label a database of metrics keeps one."""
    found: dict[str, float] = {}
    for name, stats in readings:
        value = getattr(stats, metric.field)
        if value is not None:
            found[name] = (max if metric.largest else sum)((found.get(name, 0), value))
    return found
