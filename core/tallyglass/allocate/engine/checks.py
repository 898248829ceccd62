"""Argument checks: an invalid argument raises at the call, with one sentence, before anything is sent."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.regex import Regex

from tallyglass.allocate.engine.handles import PLAIN
from tallyglass.counters.limits import INT64_MAX, INT64_MIN
from tallyglass.text import clean

_LARGEST_DOCUMENT: Final = 16 * 1024**2
"""Bytes of a document that a server accepts."""


def whole(value: object, name: str, *, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """``value`` as an int from ``low`` to ``high``. Raises TypeError or ValueError, naming the argument."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    number = operator.index(value)
    if not low <= number <= high:
        raise ValueError(f"{name} must be {_bounds(low, high)}, not {number}")
    return number


def seconds(value: object, name: str, *, zero: bool = False) -> float:
    """``value`` as a finite number of seconds above 0 (or 0, with ``zero``). Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{name} must be a finite number of seconds {'from' if zero else 'above'} 0, not {value}")
    return float(value)


def field_name(name: object, argument: str, *, dotted: bool = True) -> str:
    """The name of a document field: no operator, no empty part. Raises TypeError or ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a field name, not {type(name).__name__}")
    parts = name.split(".") if dotted else [name]
    if any(not part or part.startswith("$") or "\0" in part or "." in part for part in parts):
        kind = "field names joined by dots" if dotted else "one field name without dots"
        raise ValueError(f"{argument} must be {kind}, none of them empty or beginning with $, not {clean(repr(name))}")
    return name


def key(value: object, argument: str = "key") -> object:
    """A value that can be a document's ``_id``, and cannot be read as an operator. Raises TypeError or ValueError."""
    if value is None or isinstance(value, (list, tuple, re.Pattern, Regex)):
        raise TypeError(f"{argument} must be a value that can be an _id, not {type(value).__name__}")
    _refuse_operators(value, argument)
    storable({"_id": value}, argument)
    return value


def storable(document: Mapping[str, Any], argument: str, options: CodecOptions[Any] = PLAIN) -> None:
    """Check that the server can store ``document``, before anything is sent. Raises TypeError or ValueError."""
    try:
        size = len(bson.encode(document, codec_options=options))
    except (BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
        reason = clean(str(error).removeprefix("Invalid document: "), 120)
        raise TypeError(f"{argument} cannot be stored: {reason}") from error
    if size > _LARGEST_DOCUMENT:
        raise ValueError(f"{argument} cannot be stored: it has {size:,} bytes, {_LARGEST_DOCUMENT:,} are possible")


def by_id(value: object) -> dict[str, Any]:
    """The filter that matches this ``_id`` and nothing else, whatever the value looks like."""
    return {"_id": {"$eq": value}}


def _refuse_operators(value: object, argument: str) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(name, str) and name.startswith("$"):
                raise ValueError(f"{argument} holds {clean(repr(name), 40)}, which MongoDB would read as an operator")
            _refuse_operators(inner, argument)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_operators(inner, argument)


def _bounds(low: int, high: int) -> str:
    if high == INT64_MAX:
        return "an integer of 64 bits" if low == INT64_MIN else f"at least {low} and fit into 64 bits"
    return f"from {low} to {high}"
