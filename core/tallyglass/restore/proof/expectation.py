"""What the spare must hold once the replay is done: collections, views, documents, indexes, options."""

from __future__ import annotations

from bson import json_util

from tallyglass.oplog.snapshot import time_series_of
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.indexes import buildable, canonical_index, canonical_options, is_own_index
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.catalog import Catalog


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


def _exact(spec: dict[str, object]) -> str:
    return json_util.dumps(spec, json_options=json_util.CANONICAL_JSON_OPTIONS)
