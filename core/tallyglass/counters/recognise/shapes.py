"""Shapes: fingerprints of counter documents, and matching documents against them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bson.objectid import ObjectId

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.numbers import numeric_type
from tallyglass.counters.recognise import targets
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Document


class ValueKind(StrEnum):
    """The kind of value that a shape requires for a key."""

    STRING = "string"
    OBJECT_ID = "ObjectId"
    NUMBER = "number"
    DOCUMENT = "document"
    SCALAR = "scalar"
    """Anything that can name a counter: a string, a number, an ObjectId, a UUID."""
    ANY = "any"


def _is_kind(value: object, kind: ValueKind) -> bool:
    match kind:
        case ValueKind.STRING:
            return isinstance(value, str)
        case ValueKind.OBJECT_ID:
            return isinstance(value, ObjectId)
        case ValueKind.NUMBER:
            return numeric_type(value) is not None
        case ValueKind.DOCUMENT:
            return isinstance(value, Mapping)
        case ValueKind.SCALAR:
            return value is not None and not isinstance(value, (Mapping, list))
        case _:
            return True


MAX_FIELDS = ("MAX_VALUE", "max_value", "maxValue", "MAX", "max", "maximum", "limit", "upper", "end")
"""Field names for the last id of a range, the most specific first."""

START_FIELDS = ("MIN_VALUE", "min_value", "minValue", "START_VALUE", "START", "MIN", "start", "min", "lower", "first")
"""Field names for the first id of a range."""

STEP_FIELDS = ("increment_by", "incrementBy", "increment", "step")
"""Field names for what is added for each id."""

CYCLE_FIELDS = ("cycle", "is_cycled", "isCycled", "cycles")
"""Field names for whether the sequence starts again after its last id, as a boolean."""

SPECIFIC_BOUNDS = ("MAX_VALUE", "max_value", "maxValue")
"""Those that mean nothing else in any document."""

RANGE_KEYS = frozenset({*MAX_FIELDS, *START_FIELDS, *CYCLE_FIELDS})
"""Without any of these fields, nothing in a document bounds its number."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The fingerprint of one library's counter document.

    ``number`` is the dotted path of the number, or ends in ``*`` for several counters in one document.
    ``keys`` are required paths, with these kinds; ``may`` are optional; ``spare_keys`` allows any other keys.
    ``label`` holds the paths that name the counter, ``*`` for all keys unknown to the shape.
    ``anywhere`` marks shapes specific enough for a collection of any name; with any of ``sure_keys`` the match there is
    certain. ``query`` selects the counters among other documents of a collection, served
    by an index on ``query_key``. ``target`` yields the ``(collection, field)`` pairs, likeliest first, whose ids the
    counter hands out.
    """

    name: str
    library: str
    collections: tuple[str, ...]
    number: str
    keys: Mapping[str, ValueKind]
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
            outer, _, name = key.rpartition(".")
            holder = dig(document, outer) if outer else document
            if not isinstance(holder, Mapping) or name not in holder or not _is_kind(holder[name], kind):
                return []
        if self.number.endswith("*"):
            prefix = self.number[:-1]
            return [
                key for key, value in document.items() if key.startswith(prefix) and _is_kind(value, ValueKind.NUMBER)
            ]
        if not _is_kind(dig(document, self.number), ValueKind.NUMBER):
            return []
        top = self.number.partition(".")[0]
        if not self.spare_keys and any(k != top and k not in self.keys and k not in self.may for k in document):
            return []
        return [self.number]


_MOST_ELEMENTS = 1_000
"""Keys or positions that a ``*`` stands for: more counters in one document would be a collection."""


def dig(document: Any, path: str) -> Any:
    """The value at a dotted path of a document; None if there is none."""
    if "." not in path and (type(document) is dict or isinstance(document, Mapping)):
        return document.get(path)
    for step in path.split("."):
        if isinstance(document, Mapping):
            document = document.get(step)
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def expand(document: Any, path: str) -> list[str]:
    """The dotted paths that a path with ``*`` for any key or position stands for in a document."""
    if "*" not in path.split("."):
        return [path]
    found = [("", document)]
    for step in path.split("."):
        following: list[tuple[str, Any]] = []
        for prefix, value in found:
            if step != "*":
                below = dig(value, step)
                keys = [step] if below is not None else []
            elif isinstance(value, Mapping):
                keys = [str(key) for key in value][:_MOST_ELEMENTS]
            else:
                keys = [str(n) for n in range(min(len(value), _MOST_ELEMENTS))] if isinstance(value, list) else []
            following += [(f"{prefix}.{key}" if prefix else key, dig(value, key)) for key in keys]
        found = following
    return [prefix for prefix, _ in found]


@dataclass(frozen=True, slots=True)
class Match:
    """One number found in a document: its shape, its path, and the confidence (1 = name and shape).

    ``bound_key`` and ``start_key`` are the paths that bound its range; empty if there are none. ``grade`` is the
    confidence that it hands out ids, ``evidence`` the reason; ``semantics``, ``targets``, ``step``, ``ids_apart``,
    ``block`` and ``cycles_in_use`` come from usage analysis. ``text``: the number is the last digits of a text.
    ``rule_number`` is the rule of the configuration that names the path, 0 for none.
    """

    shape: Shape
    path: str
    confidence: float
    bound_key: str = ""
    start_key: str = ""
    grade: Grade = Grade.LIKELY
    evidence: str = ""
    semantics: Semantics | None = None
    targets: tuple[IdField, ...] = ()
    step: int = 1
    ids_apart: int = 1
    block: int = 1
    text: bool = False
    int64_ids: bool = False
    cycle: bool = False
    cycles_in_use: bool = False
    rule_number: int = 0


def beside(document: Document, path: str) -> Mapping[str, Any]:
    """The fields next to a number: one that is called "max", "first" or "step" says nothing of itself."""
    above, dot, own = path.rpartition(".")
    siblings = dig(document, above) if dot else document
    return {key: value for key, value in siblings.items() if key != own} if isinstance(siblings, Mapping) else {}


def bounded(match: Match, document: Document, *, specific: bool = False) -> Match:
    """The match with the paths that bound the range of its number, next to it, and whether it cycles.

    ``specific`` takes only names such as ``max_value`` for a bound, since ``limit`` or ``end`` may mean anything in a
    document of an unknown shape.
    """
    siblings = beside(document, match.path)
    if RANGE_KEYS.isdisjoint(siblings):
        return match
    names = SPECIFIC_BOUNDS if specific else MAX_FIELDS
    bound = next((key for key in names if numeric_type(siblings.get(key)) is not None), "")
    start = next((key for key in START_FIELDS if numeric_type(siblings.get(key)) is not None), "")
    if not bound and (specific or not start):
        return match
    cycle = bool(bound) and any(siblings.get(key) is True for key in CYCLE_FIELDS)
    prefix = match.path[: match.path.rfind(".") + 1]
    return replace(match, bound_key=bound and prefix + bound, start_key=start and prefix + start, cycle=cycle)
