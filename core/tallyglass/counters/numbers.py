"""Stored numbers: their BSON type, their exact value, and whether an increment still changes them."""

from __future__ import annotations

import math
import re
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from tallyglass.counters.limits import DECIMAL_STALL, DOUBLE_STALL, INT64_MAX, INT64_MIN, MOST_DIGITS
from tallyglass.counters.snapshot import NumericType

Number = int | float

_MOST_WHOLE = 10**35
"""Beyond this, no stored type distinguishes neighbouring whole numbers."""

_KINDS = {
    int: NumericType.INT32,
    Int64: NumericType.INT64,
    float: NumericType.DOUBLE,
    Decimal128: NumericType.DECIMAL,
}


def numeric_type(value: object) -> NumericType | None:
    """The BSON type that a decoded value was stored as; None if it is not a number.

    The driver decodes int32 as ``int``, int64 as ``Int64`` and double as ``float``.
    """
    return _KINDS.get(type(value))


def as_number(value: Any) -> Number:
    """The Python number for a decoded value: an int if and only if it is a whole number of at most 35 digits.

    NaN, infinities, fractions and larger numbers are floats; a Decimal128 beyond the range of a float is infinite.
    """
    if isinstance(value, Decimal128):
        decimal = value.to_decimal()
        if not decimal.is_finite():
            return float("nan") if decimal.is_nan() else math.copysign(math.inf, decimal)
        # The exponent first: to write a decimal of 6,000 digits out takes long.
        whole = abs(decimal) < _MOST_WHOLE and decimal == decimal.to_integral_value()
        return int(decimal) if whole else float(decimal)
    if isinstance(value, float):
        return int(value) if abs(value) < _MOST_WHOLE and value.is_integer() else value
    return int(value)


def whole(raw: object) -> int | None:
    """A whole number of any type; None for anything else."""
    number = as_number(raw) if numeric_type(raw) is not None else None
    return number if isinstance(number, int) else None


def encoded(number: int) -> Int64 | Decimal128:
    """A whole number of at most 34 digits as a value for a query or an update."""
    return Int64(number) if INT64_MIN <= number <= INT64_MAX else Decimal128(str(number))


_DIGITS = re.compile(rf"(\d{{1,{MOST_DIGITS}}})\D*\Z")
_TAIL = 200
"""So many characters at the end of a text are read, which bounds the search for its last digits."""


def read_number(raw: Any, *, text: bool = False) -> tuple[Number, NumericType] | None:
    """The number in a decoded value and the type it is stored as; with ``text`` also the last digits of a text.

    None if there is none.
    """
    kind = _KINDS.get(type(raw))
    if kind is not None:
        return int(raw) if isinstance(raw, int) else as_number(raw), kind
    if text and isinstance(raw, str):
        found = _DIGITS.search(raw[-_TAIL:])
        return (int(found[1]), NumericType.STRING) if found else None
    return None


def padded_digits(raw: object) -> int | None:
    """How many digits a text that ends in zero-padded digits has room for; None for any other value."""
    found = _DIGITS.search(raw[-_TAIL:]) if isinstance(raw, str) else None
    return len(found[1]) if found and found[1].startswith("0") else None


def is_stalled(value: Number, kind: NumericType) -> bool:
    """Whether an increment by one leaves the stored number unchanged, or the server refuses it."""
    if isinstance(value, float) and not math.isfinite(value):
        return True
    if kind is NumericType.DOUBLE:
        return abs(value) >= DOUBLE_STALL
    if kind is NumericType.DECIMAL:
        return abs(value) >= DECIMAL_STALL
    return kind is not NumericType.STRING and not INT64_MIN < value < INT64_MAX
