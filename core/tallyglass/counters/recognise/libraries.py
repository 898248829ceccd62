"""Which library wrote a counter document, and what its number means.

:data:`SHAPES` has one entry for each library. A document is matched by the name of its collection *and* its keys and
types, since at least five libraries share the name ``counters``. docs/counters.md lists the entries that were checked
against the output of the library itself.
"""

from __future__ import annotations

import functools
import re
from types import MappingProxyType

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.recognise import targets
from tallyglass.counters.recognise.shapes import MAX_FIELDS, START_FIELDS, Match, Shape, ValueKind, bounded
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Document

_STR_ID = MappingProxyType({"_id": ValueKind.STRING})
_SPAN = frozenset({*MAX_FIELDS, *START_FIELDS, "NOTES", "NOTE", "notes", "note"})
_NODE = (Consumer.JAVASCRIPT,)

SHAPES: tuple[Shape, ...] = (
    Shape("manual", "MongoDB manual", ("counters",), "seq", _STR_ID),
    Shape(
        "article",
        "MongoDB article (COUNT)",
        ("uniqueIdentifierCounter",),
        "COUNT",
        {"_id": ValueKind.SCALAR},
        may=_SPAN,
        semantics=Semantics.NEXT,
        anywhere=True,
        sure_keys=frozenset({"MAX_VALUE", "NOTES", "NOTE"}),
    ),
    Shape(
        "mongoengine",
        "MongoEngine SequenceField",
        ("mongoengine.counters",),
        "next",
        _STR_ID,
        target=targets.dotted_id,
    ),
    Shape("next", "counters {_id, next}", ("counters",), "next", _STR_ID, may=_SPAN),
    Shape(
        "mongoose-sequence",
        "mongoose-sequence",
        ("counters",),
        "seq",
        {"_id": ValueKind.OBJECT_ID, "id": ValueKind.STRING, "reference_value": ValueKind.ANY},
        may=frozenset({"__v"}),
        label=("id", "reference_value"),
        consumers=_NODE,
        anywhere=True,
    ),
    Shape(
        "mongoose-auto-increment",
        "mongoose-auto-increment",
        ("identitycounters",),
        "count",
        {"_id": ValueKind.OBJECT_ID, "model": ValueKind.STRING, "field": ValueKind.STRING, "__v": ValueKind.NUMBER},
        may=frozenset({"groupingField"}),
        label=("model", "field", "groupingField"),
        consumers=_NODE,
        anywhere=True,
        target=targets.mongoose_model,
    ),
    Shape(
        "typegoose",
        "@typegoose/auto-increment",
        ("identitycounters",),
        "count",
        {"_id": ValueKind.OBJECT_ID, "model": ValueKind.STRING, "field": ValueKind.STRING},
        label=("model", "field"),
        consumers=_NODE,
        anywhere=True,
        target=targets.mongoose_model,
    ),
    Shape(
        "typegoose",
        "@typegoose/auto-increment",
        ("identitycounters",),
        "count",
        {"_id": ValueKind.OBJECT_ID, "modelName": ValueKind.STRING, "field": ValueKind.STRING},
        label=("modelName", "field"),
        consumers=_NODE,
        anywhere=True,
        target=targets.mongoose_model,
    ),
    Shape(
        "mongoose-auto-increment-reworked",
        "mongoose-auto-increment-reworked",
        ("idcounters",),
        "c",
        {"_id": ValueKind.OBJECT_ID, "f": ValueKind.STRING, "m": ValueKind.STRING},
        may=frozenset({"__v"}),
        label=("m", "f"),
        consumers=_NODE,
        anywhere=True,
        target=targets.mongoose_model,
    ),
    Shape(
        "mongodb-autoincrement",
        "mongodb-autoincrement",
        ("counters",),
        "seq",
        {"_id": ValueKind.STRING, "field": ValueKind.STRING},
        consumers=_NODE,
        anywhere=True,
        target=targets.id_and_field,
    ),
    Shape(
        "mongo-autoincrement",
        "mongo-autoincrement",
        ("counters",),
        "current",
        {"collection": ValueKind.STRING, "field": ValueKind.STRING},
        spare_keys=True,
        label=("collection", "field", "*"),
        consumers=_NODE,
        anywhere=True,
        target=targets.collection_and_field,
    ),
    Shape(
        "spring",
        "Spring Data sequence",
        ("database_sequences", "sequence", "dbSequence", "database_sequence"),
        "seq",
        _STR_ID,
        may=frozenset({"_class"}),
        target=targets.before_sequence,
    ),
    Shape(
        "hibernate",
        "MongoDB Extension for Hibernate ORM",
        ("hibernate_sequences",),
        "next_value",
        {"_id": ValueKind.STRING, "increment": ValueKind.NUMBER},
        semantics=Semantics.NEXT,
        anywhere=True,
        target=targets.before_sequence,
    ),
    *(
        Shape(
            "hibernate-ogm",
            "Hibernate OGM",
            ("hibernate_sequences",),
            number,
            {"_id": ValueKind.ANY},
            semantics=Semantics.NEXT,
        )
        for number in ("next_val", "sequence_value")
    ),
    Shape(
        "doctrine",
        "Doctrine ODM increment",
        ("doctrine_increment_ids",),
        "current_id",
        _STR_ID,
        anywhere=True,
        target=targets.id_names_collection,
    ),
    Shape("mongoid-autoinc", "mongoid-autoinc", ("auto_increment_counters",), "c", _STR_ID, target=targets.model_field),
    Shape("mongoid-sequence", "mongoid-sequence", ("__sequences",), "seq", _STR_ID, target=targets.model_field),
    Shape("mongo_sequence", "mongo_sequence", ("sequences",), "current", _STR_ID),
    Shape(
        "djongo",
        "djongo",
        ("__schema__",),
        "auto.seq",
        {"name": ValueKind.STRING, "auto": ValueKind.DOCUMENT},
        may=frozenset({"_id", "fields"}),
        label=("name",),
        target=targets.djongo,
    ),
    Shape("mongodb-entities", "MongoDB.Entities", ("[SEQUENCE_COUNTERS]",), "Count", _STR_ID),
    Shape(
        "int-id-generator",
        "MongoDBIntIdGenerator",
        ("IDs",),
        "seq",
        _STR_ID,
        consumers=(Consumer.INT32,),
        target=targets.id_names_collection,
    ),
    Shape(
        "mgo-ai",
        "mgo-ai",
        ("counters", "autoincrement", "ai"),
        "seq",
        {"_id": ValueKind.OBJECT_ID, "id": ValueKind.STRING},
        label=("id",),
        anywhere=True,
    ),
    Shape(
        "atlas-trigger",
        "Atlas trigger tutorial",
        ("counters",),
        "seq_value",
        {"_id": ValueKind.DOCUMENT},
        consumers=_NODE,
        anywhere=True,
        target=targets.compound_id,
    ),
    Shape("tutorialspoint", "counters {_id, sequence_value}", ("counters",), "sequence_value", _STR_ID),
    Shape(
        "nodebb",
        "NodeBB",
        ("objects",),
        "next*",
        {"_key": ValueKind.STRING},
        label=("_key",),
        consumers=_NODE,
        query={"_key": "global"},
        query_key="_key",
    ),
    Shape("cached", "ids {_id, index}", ("ids",), "index", _STR_ID, may=_SPAN, consumers=_NODE),
    Shape(
        "morphia",
        "Morphia LongIdEntity",
        ("ids",),
        "value",
        _STR_ID,
        may=frozenset({"_class", "className", "_t"}),
        target=targets.id_names_collection,
    ),
)

_BY_COLLECTION: dict[str, tuple[Shape, ...]] = {
    name: tuple(shape for shape in SHAPES if name in shape.collections)
    for name in {name for shape in SHAPES for name in shape.collections}
}
_ANYWHERE = tuple(shape for shape in SHAPES if shape.anywhere)
_HOLDING_NUMBERS = b"[\x01\x03\x04\x10\x12\x13]"
"""BSON types of numbers, and of the documents and arrays that hold them."""

KNOWN_COLLECTIONS = frozenset(_BY_COLLECTION)
"""The default collection names of all shapes."""


def selective(collection: str) -> Shape | None:
    """The shape whose counters are a few documents among many others in a collection of this name, if any."""
    return next((shape for shape in _BY_COLLECTION.get(collection, ()) if shape.query), None)


@functools.cache
def number_fields(collection: str) -> re.Pattern[bytes]:
    """Matches in the BSON of every document in which :func:`recognise` finds a counter, and in few others: the name of
    a number's field, with its type."""
    names = {shape.number.partition(".")[0] for shape in (*_BY_COLLECTION.get(collection, ()), *_ANYWHERE)}
    ends = (name[:-1] if name.endswith("*") else f"{name}\0" for name in sorted(names))
    return re.compile(_HOLDING_NUMBERS + b"(?:" + b"|".join(re.escape(end.encode()) for end in ends) + b")")


def recognise(collection: str, document: Document) -> list[Match]:
    """The counters in one document of a collection, by the shapes of known libraries. Empty if there are none."""
    for shapes, confidence in ((_BY_COLLECTION.get(collection, ()), 1.0), (_ANYWHERE, 0.8)):
        for shape in shapes:
            paths = shape.numbers(document)
            if paths:
                sure = 1.0 if any(key in document for key in shape.sure_keys) else confidence
                telling = sure == 1 or len(shape.keys) > 1
                grade = Grade.LIKELY if telling else Grade.POSSIBLE
                name = "and name " if sure == 1 else ""
                evidence = f"The shape {name}of a known library."
                return [bounded(Match(shape, path, sure, grade=grade, evidence=evidence), document) for path in paths]
    return []
