"""What the spare must hold once the replay is done: collections, views, documents, indexes, options."""

from __future__ import annotations

from bson import json_util

from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.indexes import as_defined, buildable, canonical_index, canonical_options, is_own_index
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
        documents = base.documents.get(ns)
        if name.startswith(BUCKETS):
            shown = f"{db}.{name.removeprefix(BUCKETS)}"
            indexes = sorted(canonical_index(as_defined(spec, item.options)) for spec in item.indexes.values())
            expiry = {name: item.options[name] for name in ("expireAfterSeconds",) if name in item.options}
            wanted = canonical_options(expiry)
            rows[shown] = ExpectedNamespace(shown, "timeseries", documents, tuple(indexes), wanted)
            continue
        indexes = sorted(canonical_index(spec) for spec in item.indexes.values() if is_own_index(spec))
        repair = tuple(_exact(spec) for spec in catalog.missing_indexes(ns))
        wanted = canonical_options(item.options)
        rows[ns] = ExpectedNamespace(ns, "collection", documents, tuple(indexes), wanted, repair)
    for ns, options in catalog.views.items():
        if ns not in rows and ns.partition(".")[0] not in LEFT_OUT:
            rows[ns] = ExpectedNamespace(ns, "view", None, options=canonical_options(options))
    return tuple(rows[ns] for ns in sorted(rows))


def _exact(spec: dict[str, object]) -> str:
    return json_util.dumps(buildable(spec), json_options=json_util.CANONICAL_JSON_OPTIONS)
