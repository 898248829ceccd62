"""Allocators as OpenTelemetry metrics: ``tallyglass.ids.issued`` and others, with the attribute ``allocator``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from tallyglass.allocate.observe.readings import METRICS, Metric, Observable, by_name


def export(*allocators: Observable, meter: metrics.Meter | None = None) -> None:
    """Create observable instruments that read the allocators, without keeping them alive.

    ``meter`` is by default that of the global provider. Call it once with all allocators: a second call would create
    the same instruments again.
    """
    instruments = meter or metrics.get_meter("tallyglass.allocate")
    known: weakref.WeakSet[Any] = weakref.WeakSet(allocators)
    for metric in METRICS:
        create = instruments.create_observable_counter if metric.counter else instruments.create_observable_gauge
        create(f"tallyglass.ids.{metric.field}", callbacks=[_reader(known, metric)], description=metric.meaning)


def _reader(allocators: weakref.WeakSet[Any], metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        readings = [(allocator.name, allocator.stats()) for allocator in list(allocators)]
        for name, value in by_name(readings, metric).items():
            yield Observation(value, {"allocator": name})

    return read
