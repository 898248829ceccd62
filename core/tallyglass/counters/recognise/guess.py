"""Guesses: counters of no known library, recognised by the names and shape of the document.

A guess must not match an ordinary document such as a page view, a shopping cart or a daily statistic. So the name of
the number or of the collection has to indicate a counter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

from tallyglass.counters.recognise.shapes import (
    MAX_FIELDS,
    RANGE_KEYS,
    SPECIFIC_BOUNDS,
    START_FIELDS,
    STEP_FIELDS,
    Match,
    Shape,
    ValueKind,
    bounded,
)
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Document

SURE, LOOSE = 0.6, 0.5
"""The confidence of a guess by the name of the number, and by the name of the collection only."""

SURE_NAMES = frozenset(
    {
        "COUNT", "autoIncrement", "auto_increment", "counter", "current_id", "lastId", "lastNumber", "lastValue",
        "last_id", "last_number", "last_value", "next", "nextId", "nextNumber", "nextVal", "nextValue", "next_id",
        "next_number", "next_val", "next_value", "nextval", "seq", "seqNo", "seqValue", "seq_no", "seq_value",
        "sequence", "sequenceValue", "sequence_value",
    }
)  # fmt: skip
"""Field names that indicate a counter by themselves."""

LOOSE_NAMES = frozenset(
    {"Count", "c", "count", "current", "id", "index", "last", "n", "num", "number", "postTotal", "val", "value"}
)
"""Field names that indicate a counter only in a collection whose name indicates one too."""

_TELLING_COLLECTION = re.compile(
    r"(?i)counter|sequence|autoinc|auto_inc|auto-inc|increment|idgen|id_gen|identit|serial|(^|[._-])(seqs?|ids)$|(?-i:Ids$|Seq$)"
)
_NAME_KEYS = ("name", "id", "key", "_key", "model", "modelName", "collection", "collectionName", "type", "table")
_IGNORED_NUMBERS = frozenset({"__v", "version", "_version", *STEP_FIELDS, *MAX_FIELDS, *START_FIELDS})
_LIKE_A_DATE = re.compile(r"\d{4}[-/.]?\d\d|\d+\Z|[0-9a-fA-F]{24,}\Z")
_NUMBERS = frozenset({int, Int64, float, Decimal128})
_MOST_KEYS, _LONGEST_TEXT = 10, 300
"""A document with more keys, or a longer text in characters, is a record of something and no counter."""


Signature = tuple[str | type, ...]
"""The keys of a document, then the types of their values, on which most of a guess depends."""


def signature_of(document: Document) -> Signature:
    """The signature of a document."""
    return (*document, *map(type, document.values()))


def guess(collection: str, document: Document, signature: Signature | None = None) -> tuple[Match, ...]:
    """The counter in a document of no known library; empty if it does not resemble one.

    ``signature`` is that of the document if already known.
    """
    found = _by_signature(collection, signature or signature_of(document))
    if found is None:
        return ()
    matches, texts, has_range = found
    (match,) = matches
    if not _is_named(document, match.shape.label[0], any_id=bool(match.bound_key)):
        return ()
    for key in texts:
        if len(document[key]) > _LONGEST_TEXT:
            return ()
    return (bounded(match, document),) if has_range else matches


@lru_cache(maxsize=2048)
def _by_signature(collection: str, signature: Signature) -> tuple[tuple[Match], tuple[str, ...], bool] | None:
    """The match in documents of one signature, their keys of texts, and whether any key may bound the number."""
    half = len(signature) // 2
    if half > _MOST_KEYS:
        return None
    kinds: dict[Any, Any] = dict(zip(signature[:half], signature[half:], strict=True))
    id_kind = kinds.pop("_id", None)
    number = _only_number(kinds)
    bound = next((key for key in MAX_FIELDS if kinds.get(key) in _NUMBERS), "")
    label = "_id"
    if id_kind is ObjectId and not bound:
        label = next((key for key in _NAME_KEYS if kinds.get(key) is str), "")
    telling, specific = bool(_TELLING_COLLECTION.search(collection[:255])), bound in SPECIFIC_BOUNDS
    grading = _grade(number, telling=telling, specific=specific)
    if grading is None or not label:
        return None
    confidence, grade, evidence = grading
    match = Match(_shape(number, label), number, confidence, bound, grade=grade, evidence=evidence)
    return (match,), tuple(key for key, kind in kinds.items() if kind is str), not RANGE_KEYS.isdisjoint(kinds)


def _grade(number: str, *, telling: bool, specific: bool) -> tuple[float, Grade, str] | None:
    """Confidence, grade and evidence by the names of a number, of its collection (``telling``) and of its bound."""
    sure = number in SURE_NAMES
    if not (sure or (number in LOOSE_NAMES and (telling or specific))):
        return None
    confidence = SURE if sure else LOOSE
    if specific and (telling or sure):
        return confidence, Grade.LIKELY, "By its name, and by the bound in its document."
    return confidence, Grade.POSSIBLE, "By name only."


def _only_number(kinds: Mapping[str, type]) -> str:
    """The key of the number, if there is one only and all values are simple; else empty."""
    if any(issubclass(kind, (list, Mapping, bytes)) for kind in kinds.values()):
        return ""
    numbers = [key for key, kind in kinds.items() if kind in _NUMBERS and key not in _IGNORED_NUMBERS]
    return numbers[0] if len(numbers) == 1 else ""


def _is_named(document: Document, label: str, *, any_id: bool) -> bool:
    """Whether the label is a name: a string, a document of strings, or in a pool any ``_id``."""
    if any_id:
        return True
    name = document.get(label)
    if isinstance(name, str):
        return not _LIKE_A_DATE.match(name)
    return isinstance(name, Mapping) and bool(name) and all(isinstance(value, str) for value in name.values())


@lru_cache(maxsize=512)
def _shape(number: str, id_path: str) -> Shape:
    semantics = Semantics.NEXT if number.lower().startswith("next") or number == "COUNT" else Semantics.LAST
    return Shape("guess", "by its shape", (), number, {id_path: ValueKind.ANY}, label=(id_path,), semantics=semantics)
