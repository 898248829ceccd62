"""The layout of a counter document, the meaning of its number, and the requests and replies about it. Pure.

Facts behind it (checked on mongod 6.0 by tests/live/allocate/test_allocate_hazards.py): ``$inc`` on a double at 2^53
changes nothing and reports success, so that every caller gets the same id; one ``$inc`` by a double turns an integer
counter into a double for good. Hence the type is part of the filter, and increments are always int64.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from tallyglass.allocate.engine.checks import by_id, field_name, storable, whole
from tallyglass.allocate.errors import CounterTypeError
from tallyglass.counters.limits import INT64_MAX, INT64_MIN
from tallyglass.counters.snapshot import Semantics
from tallyglass.text import clean

INTEGER_TYPES: Final = ("int", "long")
_NOTES = "Increment COUNT with findAndModify, so that it is incremented atomically with the fetch of this document"


@dataclass(frozen=True, slots=True)
class Layout:
    """The field of the number in a counter document, its meaning, and the other fields of a new document.

    ``field`` may be a dotted path. ``first`` is the first id that a new counter hands out. Raises ValueError or
    TypeError for names that MongoDB would read as operators.
    """

    field: str
    semantics: Semantics
    first: int = 1
    extra: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if field_name(self.field, "field").partition(".")[0] == "_id":
            raise ValueError("field must not be _id, which holds the counter's key")
        whole(self.first, "first")
        for name in self.extra:
            if field_name(name, "extra", dotted=False) in ("_id", self.field.partition(".")[0]):
                raise ValueError(f"extra must not set {name!r} as well")
        storable(self.extra, "extra")

    def outside_arrays(self) -> dict[str, Any]:
        """The filter that keeps a path such as ``a.0.n`` out of arrays: a reply would not show the number there."""
        parts = self.field.split(".")
        digits = [n for n, part in enumerate(parts) if n and part.isdigit()]
        return {".".join(parts[:n]): {"$not": {"$type": "array"}} for n in digits}

    def stored(self, next_id: int) -> int:
        """The number that is stored when ``next_id`` is the next one to be handed out."""
        return next_id if self.semantics is Semantics.NEXT else next_id - 1

    def next_id(self, stored: int) -> int:
        """The next id to be handed out when ``stored`` is stored."""
        return stored if self.semantics is Semantics.NEXT else stored + 1

    def highest_id(self) -> int:
        """The largest id that can be handed out before the stored number leaves int64."""
        return INT64_MAX - 1 if self.semantics is Semantics.NEXT else INT64_MAX

    def new_document(self, key: object, first: int) -> dict[str, Any]:
        """The fields of a new counter, for ``$setOnInsert``, without ``_id``."""
        return {self.field: Int64(self.stored(first)), **self.extra}


ARTICLE: Final = Layout("COUNT", Semantics.NEXT, 0, {"NOTES": _NOTES})
"""Of the MongoDB article on unique identifiers: ``{_id, COUNT, NOTES}``, the stored number is the *next* id."""

MANUAL: Final = Layout("next", Semantics.LAST)
"""Of the older MongoDB documentation and MongoEngine: ``{_id, next}``, the stored number is the *last* id."""

MANUAL_SEQ: Final = Layout("seq", Semantics.LAST)
"""Of the MongoDB manual's tutorial on auto-incrementing fields: ``{_id, seq}``, the *last* id."""

NODE: Final = Layout("index", Semantics.LAST)
"""Of the Node.js pattern that caches ranges: ``{_id, index}`` in ``ids``, the *last* id of the last range."""


@dataclass(frozen=True, slots=True)
class Request:
    """One guarded increment of ``n`` ids: ``find_one_and_update(filter, update)``."""

    n: int
    filter: dict[str, Any]
    update: dict[str, Any]


def increment(layout: Layout, key: object, n: int, highest: int, **also: object) -> Request:
    """The request for ``n`` ids, none above ``highest``. It matches no document when they do not fit.

    ``also`` holds further equalities that the document must meet.
    """
    bound = layout.stored(highest - n + 1)
    # Where no number of 64 bits is low enough, none may match.
    below = "$lte" if bound >= INT64_MIN else "$lt"
    guard = {"$type": list(INTEGER_TYPES), below: Int64(max(bound, INT64_MIN))}
    wanted = {**by_id(key), **layout.outside_arrays(), layout.field: guard, **also}
    return Request(n, wanted, {"$inc": {layout.field: Int64(n)}})


def number_in(layout: Layout, document: Mapping[str, Any], where: str) -> int:
    """The stored number of a counter document. Raises CounterTypeError for anything but int32 and int64."""
    value = value_at(document, layout.field)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise wrong_type(value, layout.field, where)


def granted(layout: Layout, request: Request, before: Mapping[str, Any], where: str) -> range:
    """The ids that a reply grants: ``before`` is the document as it was before the increment."""
    start = layout.next_id(number_in(layout, before, where))
    return range(start, start + request.n)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value under a dotted path; None if there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def wrong_type(value: object, name: str, where: str) -> CounterTypeError:
    """The error for a counter of the wrong type, with the reason and the remedy."""
    type_name = _type_name(value)
    if value is None:
        return CounterTypeError(
            f"{clean(where)} has no field {clean(name)}.",
            "Name the field that holds the number; it cannot be in an array.",
            type_name=type_name,
        )
    why = {
        "double": "A double stalls at 2^53 and then issues the same id to every caller, without an error.",
        "decimal": "A decimal has 34 digits and then stalls, and other libraries cannot read it as an id.",
    }.get(type_name, "It cannot be incremented.")
    if _is_number(value):
        command = f'updateOne({{_id: ...}}, [{{$set: {{"{name}": {{$toLong: "${name}"}}}}}}])'
        fix = f"convert it with {clean(command)}"
    else:
        fix = "set it to an integer above every id that was used"
    return CounterTypeError(
        f"{clean(where)} keeps {clean(name)} as a {type_name}, not as an integer.",
        f"{why} Stop its writers, {fix}, and find what writes it as a {type_name}.",
        type_name=type_name,
    )


def _is_number(value: object) -> bool:
    """Whether the server's ``$toLong`` makes of a value the number that it means."""
    if isinstance(value, (float, Decimal128)):
        number = Decimal(str(value))
        return number.is_finite() and INT64_MIN <= number <= INT64_MAX
    return isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) is not None


def _type_name(value: object) -> str:
    if isinstance(value, float):
        return "double"
    if isinstance(value, Decimal128):
        return "decimal"
    return {str: "string", bool: "boolean", dict: "object", list: "array", type(None): "missing"}.get(
        type(value), type(value).__name__
    )
