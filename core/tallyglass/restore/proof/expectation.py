"""What the spare must hold once the replay is done: collections, views, documents, indexes, options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bson import json_util

from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.indexes import buildable, canonical_index, canonical_options, is_own_index
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.catalog import Catalog, Collection


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
            expiry = {name: item.options[name] for name in ("expireAfterSeconds",) if name in item.options}
            found = ExpectedNamespace(shown, "timeseries", documents, _of_measurements(item), canonical_options(expiry))
            rows[shown] = found
            continue
        indexes = sorted(canonical_index(spec) for spec in item.indexes.values() if is_own_index(spec))
        repair = tuple(_exact(spec) for spec in catalog.missing_indexes(ns))
        wanted = canonical_options(item.options)
        rows[ns] = ExpectedNamespace(ns, "collection", documents, tuple(indexes), wanted, repair)
    for ns, options in catalog.views.items():
        if ns not in rows and ns.partition(".")[0] not in LEFT_OUT:
            rows[ns] = ExpectedNamespace(ns, "view", None, options=canonical_options(options))
    return tuple(rows[ns] for ns in sorted(rows))


def _of_measurements(item: Collection) -> tuple[str, ...]:
    """The indexes of a time series as its user defines them: the oplog has them as they are built on the buckets."""
    meta = str((item.options.get("timeseries") or {}).get("metaField", "meta"))
    specs = (spec.get("originalSpec") or {**spec, "key": _key_of(spec["key"], meta)} for spec in item.indexes.values())
    return tuple(sorted(map(canonical_index, specs)))


def _key_of(key: Mapping[str, Any], meta: str) -> dict[str, Any]:
    """A key of measurements, or of the least and greatest of each bucket, of which the first stands for both."""
    fields: dict[str, Any] = {}
    for name, way in key.items():
        part = re.fullmatch(r"control\.(?:min|max)\.(.+)|meta((?:\..+)?)", name, re.DOTALL)
        shown = name if part is None else part[1] or meta + part[2]
        fields[shown] = way
    return fields


def _exact(spec: dict[str, object]) -> str:
    return json_util.dumps(buildable(spec), json_options=json_util.CANONICAL_JSON_OPTIONS)
