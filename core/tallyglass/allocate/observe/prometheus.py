"""Allocators as Prometheus metrics: ``tallyglass_ids_issued_total{allocator="shop.counters 'orders'"}`` and others."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tallyglass.allocate.observe.readings import METRICS, Observable, by_name


class AllocatorCollector:
    """Reads the allocators at each scrape. It does not keep them alive."""

    def __init__(self, *allocators: Observable) -> None:
        self._allocators: weakref.WeakSet[Any] = weakref.WeakSet(allocators)

    def add(self, allocator: Observable) -> None:
        """Export the statistics of another allocator."""
        self._allocators.add(allocator)

    def collect(self) -> Iterator[Any]:
        """Yield the metric families of all allocators; prometheus_client calls this."""
        readings = [(allocator.name, allocator.stats()) for allocator in list(self._allocators)]
        for metric in METRICS:
            family = (CounterMetricFamily if metric.counter else GaugeMetricFamily)(
                f"tallyglass_ids_{metric.field}", metric.meaning, labels=["allocator"]
            )
            for name, value in by_name(readings, metric).items():
                family.add_metric([name], value)
            yield family


def export(*allocators: Observable, registry: CollectorRegistry = REGISTRY) -> AllocatorCollector:
    """Export allocators with a registry (default: the process-wide one); returns the collector, to add others."""
    collector = AllocatorCollector(*allocators)
    registry.register(collector)
    return collector
