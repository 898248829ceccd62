"""Index specifications and collection options in one comparable form, whatever wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bson import json_util
from bson.int64 import Int64

_NOT_BUILT = frozenset({"ns", "background", "buildUUID", "method"})
_NOT_COMPARED = _NOT_BUILT | {"v", "textIndexVersion", "2dsphereIndexVersion"}
_FALSE_IS_ABSENT = frozenset({"hidden", "sparse", "unique", "prepareUnique"})
_COMPARED_OPTIONS = (
    "capped", "size", "max", "validator", "validationLevel", "validationAction", "collation",
    "expireAfterSeconds", "changeStreamPreAndPostImages", "viewOn", "pipeline", "clusteredIndex",
)  # fmt: skip
_OF_BUCKETS = re.compile(r"control\.(?:min|max)\.(.+)|meta((?:\..+)?)", re.DOTALL)
_DEFAULTS = {"capped": False, "size": 0, "max": 0, "validationLevel": "strict", "validationAction": "error"}
_NO_MAX = 2**31 - 1
"""What the server keeps of ``collMod`` with a ``cappedMax`` of 0 or less."""


def same_numbers(value: Any) -> Any:
    """Whole numbers of any BSON type become int: ``1``, ``1.0`` and ``NumberLong(1)`` mean the same in a key."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (Int64, int)):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {key: same_numbers(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [same_numbers(inner) for inner in value]
    return value


def canonical_index(spec: Mapping[str, Any]) -> str:
    """One index as Extended JSON: its fields sorted by name, its key in its own order, version numbers left out."""
    kept = {
        name: same_numbers(value)
        for name, value in sorted(spec.items())
        if name not in _NOT_COMPARED and not (name in _FALSE_IS_ABSENT and not value)
    }
    return json_util.dumps(kept, json_options=json_util.RELAXED_JSON_OPTIONS)


def buildable(spec: Mapping[str, Any], kind: str = "collection") -> dict[str, Any]:
    """An index as createIndexes takes it. One without a collation would get that of its collection; a ``timeseries``
    takes none beside a partial filter, nor does an index that was built before 3.4 (``v`` 1), which has none."""
    own = "collation" in spec or is_id_index(spec) or same_numbers(spec.get("v")) == 1
    own = own or (kind == "timeseries" and "partialFilterExpression" in spec)
    simple = {} if own else {"collation": {"locale": "simple"}}
    return {name: value for name, value in spec.items() if name not in _NOT_BUILT} | simple


def as_defined(spec: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """An index of a time series, with the options of that, as its user defines it: the oplog has it as it is built on
    the buckets, with the least and the greatest of a field in place of each."""
    if isinstance(original := spec.get("originalSpec"), Mapping):
        return original
    meta = str((options.get("timeseries") or {}).get("metaField", "meta"))
    key: dict[str, Any] = {}
    for name, way in spec["key"].items():
        part = _OF_BUCKETS.fullmatch(name)
        key[name if part is None else part[1] or meta + part[2]] = way
    return {**spec, "key": key}


def canonical_options(options: Mapping[str, Any], kind: str = "collection") -> str:
    """The options that decide how a collection behaves, as Extended JSON; the server's own additions left out. Of a
    ``timeseries`` it is the expiry alone: the oplog has its other options as those of its buckets."""
    kept = {
        name: same_numbers(options[name])
        for name in (_COMPARED_OPTIONS if kind != "timeseries" else ("expireAfterSeconds",))
        if options.get(name) not in (None, _DEFAULTS.get(name), {}, {"enabled": False})
    }
    if kept.get("max") == _NO_MAX:
        del kept["max"]
    if not kept.get("validator"):
        kept.pop("validator", None)
    return json_util.dumps(kept, json_options=json_util.RELAXED_JSON_OPTIONS)


def is_own_index(spec: Mapping[str, Any]) -> bool:
    """Whether this is an index beside the documents. A clustered collection lists itself as one, mongodump does not."""
    return not spec.get("clustered")


def index_names(specs: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names of the indexes that a person built: that on ``_id`` comes with every collection."""
    return {str(spec.get("name")) for spec in specs if is_own_index(spec)} - {"_id_"}


def is_id_index(spec: Mapping[str, Any]) -> bool:
    """Whether this is the index on ``_id`` that every collection has."""
    return list(spec.get("key", ())) == ["_id"] and spec.get("name") == "_id_"
