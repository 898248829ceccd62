"""Which library wrote a counter document, and what its number means.

:data:`SHAPES` has one entry for each library. A document is matched by the name of its collection *and* its keys and
types, since at least five libraries share the name ``counters``. docs/counters.md lists the entries that were checked
against the output of the library itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.recognise import targets
from tallyglass.counters.recognise.guess import LOOSE
from tallyglass.counters.recognise.shapes import MAX_FIELDS, START_FIELDS, Match, Shape, ValueKind, bounded
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Document

_ANY, _OID, _TEXT = ValueKind.ANY, ValueKind.OBJECT_ID, ValueKind.STRING
_SPAN = frozenset({*MAX_FIELDS, *START_FIELDS, "NOTES", "NOTE", "notes", "note"})
_NODE = (Consumer.JAVASCRIPT,)

_named = functools.partial(Shape, keys=MappingProxyType({"_id": _TEXT}))
"""A counter that its ``_id`` names."""

_node = functools.partial(Shape, consumers=_NODE, anywhere=True)
"""A counter of a library for Node, whose keys no other has."""

_model = functools.partial(_node, target=targets.mongoose_model)
"""A counter of a plugin for Mongoose: it names a model and a field of it."""

SHAPES: tuple[Shape, ...] = (
    _named("manual", "MongoDB manual", ("counters",), "seq"),
    Shape(
        "article", "MongoDB article (COUNT)", ("uniqueIdentifierCounter",), "COUNT", {"_id": ValueKind.SCALAR},
        may=_SPAN, semantics=Semantics.NEXT, anywhere=True, sure_keys=frozenset({"MAX_VALUE", "NOTES", "NOTE"}),
    ),
    _named("mongoengine", "MongoEngine SequenceField", ("mongoengine.counters",), "next", target=targets.dotted_id),
    _named("next", "counters {_id, next}", ("counters",), "next", may=_SPAN),
    _node(
        "mongoose-sequence", "mongoose-sequence", ("counters",), "seq",
        {"_id": _OID, "id": _TEXT, "reference_value": _ANY}, may=frozenset({"__v"}), label=("id", "reference_value"),
    ),
    _model(
        "mongoose-auto-increment", "mongoose-auto-increment", ("identitycounters",), "count",
        {"_id": _OID, "model": _TEXT, "field": _TEXT, "__v": ValueKind.NUMBER},
        may=frozenset({"groupingField"}), label=("model", "field", "groupingField"),
    ),
    *(
        _model(
            "typegoose", "@typegoose/auto-increment", ("identitycounters",), "count",
            {"_id": _OID, model: _TEXT, "field": _TEXT}, label=(model, "field"),
        )
        for model in ("model", "modelName")
    ),
    _model(
        "mongoose-auto-increment-reworked", "mongoose-auto-increment-reworked", ("idcounters",), "c",
        {"_id": _OID, "f": _TEXT, "m": _TEXT}, may=frozenset({"__v"}), label=("m", "f"),
    ),
    _node(
        "mongodb-autoincrement", "mongodb-autoincrement", ("counters",), "seq", {"_id": _TEXT, "field": _TEXT},
        target=targets.id_and_field,
    ),
    _node(
        "mongo-autoincrement", "mongo-autoincrement", ("counters",), "current", {"collection": _TEXT, "field": _TEXT},
        spare_keys=True, label=("collection", "field", "*"), target=targets.collection_and_field,
    ),
    _named(
        "spring", "Spring Data sequence", ("database_sequences", "sequence", "dbSequence", "database_sequence"), "seq",
        may=frozenset({"_class"}), target=targets.before_sequence,
    ),
    Shape(
        "hibernate", "MongoDB Extension for Hibernate ORM", ("hibernate_sequences",), "next_value",
        {"_id": _TEXT, "increment": ValueKind.NUMBER}, semantics=Semantics.NEXT, anywhere=True,
        target=targets.before_sequence,
    ),
    *(
        Shape(
            "hibernate-ogm", "Hibernate OGM", ("hibernate_sequences",), number, {"_id": _ANY}, semantics=Semantics.NEXT
        )
        for number in ("next_val", "sequence_value")
    ),
    _named(
        "doctrine", "Doctrine ODM increment", ("doctrine_increment_ids",), "current_id", anywhere=True,
        target=targets.id_names_collection,
    ),
    _named("mongoid-autoinc", "mongoid-autoinc", ("auto_increment_counters",), "c", target=targets.model_field),
    _named("mongoid-sequence", "mongoid-sequence", ("__sequences",), "seq", target=targets.model_field),
    _named("mongo_sequence", "mongo_sequence", ("sequences",), "current"),
    Shape(
        "djongo", "djongo", ("__schema__",), "auto.seq", {"name": _TEXT, "auto": ValueKind.DOCUMENT},
        may=frozenset({"_id", "fields"}), label=("name",), target=targets.djongo,
    ),
    _named("mongodb-entities", "MongoDB.Entities", ("[SEQUENCE_COUNTERS]",), "Count"),
    _named(
        "int-id-generator", "MongoDBIntIdGenerator", ("IDs",), "seq", consumers=(Consumer.INT32,),
        target=targets.id_names_collection,
    ),
    Shape(
        "mgo-ai", "mgo-ai", ("counters", "autoincrement", "ai"), "seq", {"_id": _OID, "id": _TEXT}, label=("id",),
        anywhere=True,
    ),
    _node(
        "atlas-trigger", "Atlas trigger tutorial", ("counters",), "seq_value", {"_id": ValueKind.DOCUMENT},
        target=targets.compound_id,
    ),
    _named("tutorialspoint", "counters {_id, sequence_value}", ("counters",), "sequence_value"),
    Shape(
        "nodebb", "NodeBB", ("objects",), "next*", {"_key": _TEXT}, label=("_key",), consumers=_NODE,
        query={"_key": "global"}, query_key="_key",
    ),
    Shape(
        "gapless", "tallyglass.allocate GaplessInsert", ("counters",), "next",
        {"_id": ValueKind.DOCUMENT, "_id.numbers": _TEXT}, anywhere=True,
    ),
    _named("cached", "ids {_id, index}", ("ids",), "index", may=_SPAN, consumers=_NODE),
    _named(
        "morphia", "Morphia LongIdEntity", ("ids",), "value", may=frozenset({"_class", "className", "_t"}),
        target=targets.id_names_collection,
    ),
)  # fmt: skip

_BY_COLLECTION: dict[str, tuple[Shape, ...]] = {
    name: tuple(shape for shape in SHAPES if name in shape.collections)
    for name in {name for shape in SHAPES for name in shape.collections}
}
_UNNAMED = {
    name: tuple(
        replace(shape, keys={"_id": _ANY}, target=targets.none) for shape in shapes if shape.keys == {"_id": _TEXT}
    )
    for name, shapes in _BY_COLLECTION.items()
}
"""The shapes of counters that their ``_id`` names, for an ``_id`` that is no name. By it no collection can be found."""
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


def recognise_unnamed(collection: str, document: Document) -> Match | None:
    """The number of a document that has a known shape but for its ``_id``: a number, an ObjectId, a boolean, null.

    It is a guess, and only beside counters of that shape: one for each tenant, say. Alone it may be any data.
    """
    if isinstance(document.get("_id"), (str, Mapping, list)):
        return None
    for shape in _UNNAMED.get(collection, ()):
        for path in shape.numbers(document):
            evidence = "The shape and name of a known library, but its _id is no name."
            return bounded(Match(shape, path, LOOSE, grade=Grade.POSSIBLE, evidence=evidence), document)
    return None
