"""The metadata of one collection, which mongodump and PBM store as canonical Extended JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson import json_util
from bson.json_util import JSONOptions

from tallyglass.mongo.extended_json import read_extended_json

EXACT: JSONOptions = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Options, indexes and UUID (as text, empty if it is not given) of a collection. ``kind`` is collection, view or
    timeseries; ``name`` is its full name, which may be percent-encoded, and empty if it is not given."""

    kind: str
    options: dict[str, Any]
    indexes: tuple[dict[str, Any], ...]
    uuid: str
    name: str


def read_metadata(text: str) -> Metadata:
    """Parse the metadata. Raises ValueError if it is damaged."""
    content = read_extended_json(text, EXACT)
    if not isinstance(content, dict):
        raise ValueError("it does not describe a collection")
    options, indexes = content.get("options") or {}, content.get("indexes") or []
    if not isinstance(options, dict) or not isinstance(indexes, list):
        raise ValueError("it does not describe a collection")
    if not all(isinstance(index, dict) for index in indexes):
        raise ValueError("an index is not a document")
    kind = str(content.get("type") or ("view" if "viewOn" in options else "collection"))
    name = content.get("collectionName")
    return Metadata(
        "timeseries" if "timeseries" in options else kind,
        options,
        tuple(indexes),
        str(content.get("uuid") or ""),
        name if isinstance(name, str) else "",
    )
