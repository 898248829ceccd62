"""Counter documents: recognise them, find their ceilings, forecast when they run out.

`look` reads all counters of a deployment once, `watch` repeatedly; both yield a frozen `CountersSnapshot`. They only
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass._lazy import lazy

if TYPE_CHECKING:
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.follow.watch import look, watch
    from tallyglass.counters.recognise.config import CountersConfig, load_config
    from tallyglass.counters.snapshot import (
        Ceiling,
        CountersSnapshot,
        CounterTrouble,
        CounterView,
        Flag,
        Forecast,
        NumericType,
        PoolView,
        Semantics,
    )

__all__ = [
    "Ceiling",
    "CounterTrouble",
    "CounterView",
    "CountersConfig",
    "CountersSnapshot",
    "Flag",
    "Forecast",
    "NumericType",
    "PoolView",
    "Semantics",
    "WatchSettings",
    "load_config",
    "look",
    "watch",
]

__getattr__ = lazy(
    __name__,
    {
        "follow.settings": "WatchSettings",
        "follow.watch": "look watch",
        "recognise.config": "CountersConfig load_config",
        "snapshot": "Ceiling CounterView CounterTrouble CountersSnapshot Flag Forecast NumericType PoolView Semantics",
    },
)
