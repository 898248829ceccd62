"""What allocators do reaches Prometheus and OpenTelemetry, by name, and without keeping them alive."""

from __future__ import annotations

import gc
import re
from dataclasses import fields

import pytest

from tallyglass.allocate import Cached, Stats
from tallyglass.allocate.observe.readings import METRICS


class Memory:
    name = "memory"

    def take_up_to(self, n: int) -> range:
        return range(n)

    def stats(self) -> Stats:
        return Stats(fetches=3, fetch_p99=0.5)


def made() -> Cached:
    cached = Cached(Memory(), step=10, ahead=0)
    assert cached.take(4) == [0, 1, 2, 3]
    return cached


def test_every_metric_is_in_the_statistics() -> None:
    assert {metric.field for metric in METRICS} | {"fetch_p50"} == {field.name for field in fields(Stats)}


def test_prometheus() -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry, generate_latest

    from tallyglass.allocate.observe.prometheus import export

    registry, cached = CollectorRegistry(), made()
    collector = export(cached, registry=registry)
    other = made()
    collector.add(other)
    text = generate_latest(registry).decode()
    lines = re.findall(r'^tallyglass_ids_(\w+){allocator="Cached over memory"} (.*)$', text, re.MULTILINE)
    assert sorted(lines) == sorted(
        [
            *(("issued_total", "8.0"), ("burned_total", "0.0"), ("fetches_total", "6.0"), ("retries_total", "0.0")),
            *(("failures_total", "0.0"), ("stalls_total", "2.0"), ("collisions_total", "0.0"), ("cached", "12.0")),
            *(("in_flight", "0.0"), ("waiters", "0.0"), ("step", "10.0"), ("full", "0.0"), ("fetch_p99", "0.5")),
        ]
    ), "one sample for one name"
    del cached, other
    gc.collect()
    assert "Cached over memory" not in generate_latest(registry).decode()


def test_opentelemetry() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from tallyglass.allocate.observe.opentelemetry import export

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    cached, other = made(), made()
    export(cached, other, meter=provider.get_meter("test"))
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found["tallyglass.ids.issued"] == [(8, {"allocator": "Cached over memory"})]
    assert found["tallyglass.ids.cached"] == [(12, {"allocator": "Cached over memory"})]
    assert found["tallyglass.ids.fetches"] == [(6, {"allocator": "Cached over memory"})]
    provider.shutdown()
