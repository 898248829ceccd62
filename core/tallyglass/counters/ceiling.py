"""The ceiling of a counter, and the limit that sets it.

The ceiling is the smallest of: the bound stored with the counter, the maximum of its BSON type, the maximum that the
programs reading the ids can hold, and a configured number of digits.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from tallyglass.counters.limits import (
    DECIMAL_STALL,
    DOUBLE_STALL,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    JS_SAFE_MAX,
    MOST_DIGITS,
    UINT32_MAX,
)
from tallyglass.counters.numbers import Number
from tallyglass.counters.snapshot import Ceiling, NumericType


class Consumer(StrEnum):
    """The integer type in which the readers of the ids keep them."""

    INT32 = "int32"
    UINT32 = "uint32"
    JAVASCRIPT = "javascript"
    INT64 = "int64"


_CONSUMERS = {
    Consumer.INT32: Ceiling(INT32_MAX, "int32 consumer"),
    Consumer.UINT32: Ceiling(UINT32_MAX, "uint32 consumer"),
    Consumer.JAVASCRIPT: Ceiling(JS_SAFE_MAX, "JavaScript consumer (2^53-1)"),
    Consumer.INT64: Ceiling(INT64_MAX, "int64 consumer"),
}

# The server promotes an int32 that overflows, so that int32 storage ends where int64 does.
_TYPES = {
    NumericType.INT32: Ceiling(INT64_MAX, "int64", is_storage=True),
    NumericType.INT64: Ceiling(INT64_MAX, "int64", is_storage=True),
    NumericType.DOUBLE: Ceiling(DOUBLE_STALL, "double (2^53)", is_storage=True),
    NumericType.DECIMAL: Ceiling(DECIMAL_STALL, "Decimal128 (34 digits)", is_storage=True),
    NumericType.STRING: Ceiling(10**MOST_DIGITS - 1, "text of digits", is_storage=True),
}

_LIMITS = (
    Ceiling(INT32_MAX, "int32"),
    Ceiling(UINT32_MAX, "uint32"),
    Ceiling(DOUBLE_STALL, "double (2^53)"),
    Ceiling(INT64_MAX, "int64"),
    Ceiling(DECIMAL_STALL - 1, "Decimal128 (34 digits)"),
)
"""The limits that some program or another reads ids with, in ascending order."""

_NEAR = 100
"""A number is near a limit if less than one part in so many is left."""


def near_limit(
    number: Number,
    *,
    bound: int | None = None,
    bound_name: str = "",
    consumers: tuple[Consumer, ...] = (),
    block: int,
) -> Ceiling | None:
    """The numeric limit, or the bound in its own document, of which a number has used all but 1 %, or None.

    It does not matter how the number is stored: the programs that read the ids may have any of these limits, unless
    ``consumers`` names them. The number stands for ``block`` ids.
    """
    least = min((_CONSUMERS[consumer].value for consumer in consumers), default=0)
    limits = [in_blocks(limit, block) for limit in _LIMITS if limit.value >= least]
    if bound is not None and bound > 0:
        limits.insert(0, Ceiling(bound, bound_name))
    return next((limit for limit in limits if limit.value - limit.value // _NEAR <= number <= limit.value), None)


def floor_of(number: Number) -> Ceiling:
    """The ceiling of a counter that descends; one that is below 0 began there, or went past it."""
    return Ceiling(INT64_MIN, "int64", is_storage=True) if number < 0 else Ceiling(0, "0 (it descends)")


CROSSING = Ceiling(INT32_MAX, "2^31")
"""The limit of readers that keep ids in 32 bits."""


def in_blocks(limit: Ceiling, block: int) -> Ceiling:
    """The limit of a number that stands for ``block`` ids, from a limit of ids."""
    return limit if block == 1 else replace(limit, value=limit.value // block)


@lru_cache(maxsize=4096)
def ceiling_of(
    kind: NumericType,
    *,
    bound: int | None = None,
    bound_name: str = "MAX_VALUE",
    consumers: tuple[Consumer, ...] = (),
    digits: int | None = None,
) -> Ceiling:
    """The smallest ceiling, with its reason.

    ``bound`` is the last id that may be handed out, ``bound_name`` the field or setting it comes from;
    ``digits`` the number of decimal digits an id may have. Between equal limits the more specific reason wins.
    """
    limits = [] if bound is None else [Ceiling(bound, bound_name)]
    if digits is not None:
        limits.append(Ceiling(10**digits - 1, f"{digits} digits"))
    limits += [_CONSUMERS[consumer] for consumer in consumers]
    limits.append(_TYPES[kind])
    return min(limits, key=lambda limit: limit.value)
