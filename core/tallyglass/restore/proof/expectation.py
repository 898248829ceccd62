"""What the spare must hold once the replay is done: collections, views, documents, indexes, options."""

from __future__ import annotations

from bson import json_util

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import time_series_of
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.indexes import buildable, canonical_index, canonical_options, is_own_index
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.catalog import Catalog
from tallyglass.restore.proof.replay import Replay
from tallyglass.text import clean_name


def expect(catalog: Catalog, base: BaseFacts) -> tuple[ExpectedNamespace, ...]:
    """One row per collection, view and time-series collection, by name."""
    rows: dict[str, ExpectedNamespace] = {}
    for ns, item in catalog.collections.items():
        db, _, name = ns.partition(".")
        if db in LEFT_OUT or name in ("system.views", "system.profile"):
            continue
        series = time_series_of(ns)
        kind, shown = ("timeseries", series) if series else ("collection", ns)
        rows[shown] = ExpectedNamespace(
            shown,
            kind,
            base.documents.get(ns),
            tuple(sorted(canonical_index(spec) for spec in item.indexes.values() if is_own_index(spec))),
            canonical_options(item.options, kind),
            tuple(_exact(buildable(spec, kind)) for spec in catalog.missing_indexes(shown, ns)),
        )
    for ns, options in catalog.views.items():
        if ns not in rows and ns.partition(".")[0] not in LEFT_OUT:
            rows[ns] = ExpectedNamespace(ns, "view", None, options=canonical_options(options))
    return tuple(rows[ns] for ns in sorted(rows))


def refuse_half_made_series(replay: Replay, limit: Ts) -> None:
    """Raise InputError where the point is between the two entries that create or drop a time-series collection: neither
    the tools nor a return know its buckets alone."""
    views, removed = replay.catalog.views, replay.timeline.views_removed
    for ns, item in replay.catalog.collections.items():
        series = time_series_of(ns)
        if series and series not in views and (item.base is None or series in removed):
            raise InputError(
                f"The point {limit} is between the two entries that create or drop the time series "
                f"{clean_name(series)}: it has buckets and no view.",
                "Choose the entry before it, or the one after it.",
            )


def _exact(spec: dict[str, object]) -> str:
    return json_util.dumps(spec, json_options=json_util.CANONICAL_JSON_OPTIONS)
