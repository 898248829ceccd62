"""Which collection and field a counter hands out ids for, derived from its document.

Each rule takes a counter document and yields ``(collection, field)`` pairs of the same database, likeliest first.
A pair is only a candidate: the caller checks that the collection exists and the field has an index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tallyglass.mongo.gateway import Document

Candidates = list[tuple[str, str]]


def none(document: Document) -> Candidates:
    """The document does not name a target."""
    return []


def id_names_collection(document: Document) -> Candidates:
    """``_id`` is the collection, the field is ``_id``."""
    return [(str(document["_id"]), "_id")]


def dotted_id(document: Document) -> Candidates:
    """``_id`` is ``collection.field``: the last dot divides, since a collection's name may hold dots."""
    collection, _, field = str(document["_id"]).rpartition(".")
    # MongoEngine stores a primary key under _id whatever its name in the class.
    return [(collection, field), (collection, "_id")] if collection else []


def id_and_field(document: Document) -> Candidates:
    """``_id`` is the collection, ``field`` the field."""
    return [(str(document["_id"]), str(document["field"]))]


def collection_and_field(document: Document) -> Candidates:
    """``collection`` and ``field`` name the target.

    With a filter in the document only some of the ids there belong to the counter.
    """
    if set(document) - {"_id", "collection", "field", "current"}:
        return []
    return [(str(document["collection"]), str(document["field"]))]


def compound_id(document: Document) -> Candidates:
    """``_id`` is ``{db, coll}``."""
    name = document["_id"].get("coll") if isinstance(document["_id"], Mapping) else None
    return [(name, "_id")] if isinstance(name, str) else []


def before_sequence(document: Document) -> Candidates:
    """``_id`` is the collection with an ending such as ``_sequence`` or ``_SEQ``."""
    name = re.sub(r"(?i)[_-]?(sequence|seq)$", "", str(document["_id"])[:255])
    return [(name, "_id")] if name else []


def djongo(document: Document) -> Candidates:
    """``name`` is the collection, ``auto.field_names`` the fields."""
    fields = document["auto"].get("field_names")
    return [(str(document["name"]), str(field)) for field in fields[:4]] if isinstance(fields, list) else []


def mongoose_model(document: Document) -> Candidates:
    """``model``, ``modelName`` or ``m`` names a class; mongoose names its collection by the lower-case plural.

    With a group in ``groupingField`` only some of the ids there belong to the counter.
    """
    if document.get("groupingField"):
        return []
    model = next(document[key] for key in ("model", "modelName", "m") if key in document)
    field = document["field"] if "field" in document else document["f"]
    return [(name, str(field)) for name in _plurals(str(model))]


def model_field(document: Document) -> Candidates:
    """``_id`` is ``class_field`` (Mongoid): every division at an underscore is tried."""
    words = str(document["_id"])[:255].split("_")
    return [
        (name, "_".join(words[cut:]))
        for cut in range(len(words) - 1, 0, -1)
        for name in _plurals("_".join(words[:cut]))
    ][:8]


def _plurals(model: str) -> list[str]:
    name = model[:255].lower()
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return [f"{name[:-1]}ies", name]
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return [f"{name}es", name]
    return [f"{name}s", name]
