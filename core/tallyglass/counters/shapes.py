"""Which library wrote a counter document, and what its number means.

One entry a library in :data:`SHAPES`; a document is matched on its collection's name *and* its own keys and types,
since at least five libraries share the name ``counters``. The entries were read in the sources of the libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from bson.objectid import ObjectId

from tallyglass.counters import targets
from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.numbers import numeric_type
from tallyglass.counters.snapshot import Semantics
from tallyglass.gateway import Document


class Kind(StrEnum):
    """What the value of a key must be for a document to fit a shape."""

    STRING = "string"
    OBJECT_ID = "ObjectId"
    NUMBER = "number"
    LIST = "list"
    DOCUMENT = "document"
    SCALAR = "scalar"
    """Anything that can name a counter: a string, a number, an ObjectId, a UUID."""
    ANY = "any"


def _is_kind(value: object, kind: Kind) -> bool:
    match kind:
        case Kind.STRING:
            return isinstance(value, str)
        case Kind.OBJECT_ID:
            return isinstance(value, ObjectId)
        case Kind.NUMBER:
            return numeric_type(value) is not None
        case Kind.LIST:
            return isinstance(value, list)
        case Kind.DOCUMENT:
            return isinstance(value, Mapping)
        case Kind.SCALAR:
            return value is not None and not isinstance(value, (Mapping, list))
        case _:
            return True


MAX_FIELDS = ("MAX_VALUE", "max_value", "maxValue", "MAX", "max", "maximum", "limit", "upper", "end")
"""Names under which the last id of a span stands beside a counter, the most telling first."""

START_FIELDS = ("MIN_VALUE", "min_value", "minValue", "START_VALUE", "START", "MIN", "start", "min", "lower", "first")
"""Names under which the first id of a span stands beside a counter."""

_SPAN_KEYS = frozenset({*MAX_FIELDS, *START_FIELDS})


@dataclass(frozen=True, slots=True)
class Shape:
    """The fingerprint of one library's counter document.

    ``number`` is the dotted path of the number, or ends in ``*`` for several counters in one document.
    ``keys`` must be there with these kinds; ``may`` may be there; ``spare_keys`` allows any others too.
    ``label`` holds the paths of what names the counter. ``anywhere`` marks shapes that are telling enough to be
    known in a collection of any name, ``sure_keys`` those any of which makes it certain there. ``query`` selects
    the counters among other documents of a collection, served by an index on ``query_key``. ``target`` yields the
    ``(collection, field)`` pairs, likeliest first, whose ids the counter hands out.
    """

    name: str
    library: str
    collections: tuple[str, ...]
    number: str
    keys: Mapping[str, Kind]
    may: frozenset[str] = frozenset()
    spare_keys: bool = False
    label: tuple[str, ...] = ("_id",)
    semantics: Semantics = Semantics.LAST
    consumers: tuple[Consumer, ...] = ()
    anywhere: bool = False
    sure_keys: frozenset[str] = frozenset()
    query: Mapping[str, str] | None = None
    query_key: str = ""
    target: Callable[[Document], list[tuple[str, str]]] = targets.none

    def numbers(self, document: Document) -> list[str]:
        """The dotted paths of the numbers in ``document`` if it has this shape, else an empty list."""
        for key, kind in self.keys.items():
            if key not in document or not _is_kind(document[key], kind):
                return []
        if self.number.endswith("*"):
            prefix = self.number[:-1]
            return [key for key, value in document.items() if key.startswith(prefix) and _is_kind(value, Kind.NUMBER)]
        if not _is_kind(dig(document, self.number), Kind.NUMBER):
            return []
        top = self.number.partition(".")[0]
        if not self.spare_keys and any(k != top and k not in self.keys and k not in self.may for k in document):
            return []
        return [self.number]


def dig(document: Any, path: str) -> Any:
    """The value at a dotted path of a document; None where there is none."""
    if "." not in path:
        return document.get(path) if isinstance(document, Mapping) else None
    for step in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


_STR_ID = MappingProxyType({"_id": Kind.STRING})
_SPAN = frozenset({*MAX_FIELDS, *START_FIELDS, "NOTES", "NOTE", "notes", "note"})
_NODE = (Consumer.JAVASCRIPT,)

SHAPES: tuple[Shape, ...] = (
    Shape("manual", "MongoDB manual", ("counters",), "seq", _STR_ID),
    Shape(
        "article",
        "MongoDB article (COUNT)",
        ("uniqueIdentifierCounter",),
        "COUNT",
        {"_id": Kind.SCALAR},
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
        {"_id": Kind.OBJECT_ID, "id": Kind.STRING, "reference_value": Kind.ANY},
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
        {"_id": Kind.OBJECT_ID, "model": Kind.STRING, "field": Kind.STRING, "__v": Kind.NUMBER},
        may=frozenset({"groupingField"}),
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
        {"_id": Kind.OBJECT_ID, "model": Kind.STRING, "field": Kind.STRING},
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
        {"_id": Kind.OBJECT_ID, "modelName": Kind.STRING, "field": Kind.STRING},
        label=("modelName", "field"),
        consumers=_NODE,
        anywhere=True,
        target=targets.mongoose_model,
    ),
    Shape(
        "mongodb-autoincrement",
        "mongodb-autoincrement",
        ("counters",),
        "seq",
        {"_id": Kind.STRING, "field": Kind.STRING},
        consumers=_NODE,
        anywhere=True,
        target=targets.id_and_field,
    ),
    Shape(
        "mongo-autoincrement",
        "mongo-autoincrement",
        ("counters",),
        "value",
        {"collection": Kind.STRING, "field": Kind.STRING},
        spare_keys=True,
        label=("collection", "field"),
        consumers=_NODE,
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
        {"_id": Kind.STRING, "increment": Kind.NUMBER},
        semantics=Semantics.NEXT,
        anywhere=True,
        target=targets.before_sequence,
    ),
    Shape("hibernate-ogm", "Hibernate OGM", ("hibernate_sequences",), "sequence_value", {"_id": Kind.ANY}),
    Shape("hibernate-ogm", "Hibernate OGM", ("hibernate_sequences",), "next_val", {"_id": Kind.ANY}),
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
        {"name": Kind.STRING, "auto": Kind.DOCUMENT},
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
        {"_id": Kind.OBJECT_ID, "id": Kind.STRING},
        label=("id",),
        anywhere=True,
    ),
    Shape(
        "atlas-trigger",
        "Atlas trigger tutorial",
        ("counters",),
        "seq_value",
        {"_id": Kind.DOCUMENT},
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
        {"_key": Kind.STRING},
        label=("_key",),
        consumers=_NODE,
        query={"_key": "global"},
        query_key="_key",
    ),
    Shape("cached", "ids {_id, index}", ("ids",), "index", _STR_ID, may=_SPAN, consumers=_NODE),
    Shape("morphia", "Morphia LongIdEntity", ("ids",), "value", _STR_ID, may=frozenset({"_class", "className", "_t"})),
)

_BY_COLLECTION: dict[str, tuple[Shape, ...]] = {
    name: tuple(shape for shape in SHAPES if name in shape.collections)
    for name in {name for shape in SHAPES for name in shape.collections}
}
_ANYWHERE = tuple(shape for shape in SHAPES if shape.anywhere)

KNOWN_COLLECTIONS = frozenset(_BY_COLLECTION)
"""The default collection names of all shapes."""


@dataclass(frozen=True, slots=True)
class Match:
    """One number found in a document: the shape it has, its path, and how sure that is (1 = name and shape).

    ``bound_key`` and ``start_key`` are the keys beside it that bound its span; empty where there are none.
    """

    shape: Shape
    path: str
    confidence: float
    bound_key: str = ""
    start_key: str = ""


def bounded(match: Match, document: Document) -> Match:
    """The same match with the keys that bound the span of its document."""
    if _SPAN_KEYS.isdisjoint(document):
        return match
    bound = next((key for key in MAX_FIELDS if numeric_type(document.get(key)) is not None), "")
    start = next((key for key in START_FIELDS if numeric_type(document.get(key)) is not None), "")
    return Match(match.shape, match.path, match.confidence, bound, start) if bound or start else match


def selective(collection: str) -> Shape | None:
    """The shape whose counters are a few documents among many in a collection of this name, if there is one."""
    return next((shape for shape in _BY_COLLECTION.get(collection, ()) if shape.query), None)


def recognise(collection: str, document: Document) -> list[Match]:
    """The counters in one document of a collection, by the shapes of known libraries. Empty where there are none."""
    for shapes, confidence in ((_BY_COLLECTION.get(collection, ()), 1.0), (_ANYWHERE, 0.8)):
        for shape in shapes:
            paths = shape.numbers(document)
            if paths:
                sure = 1.0 if any(key in document for key in shape.sure_keys) else confidence
                return [bounded(Match(shape, path, sure), document) for path in paths]
    return []
