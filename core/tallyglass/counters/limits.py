"""The largest and smallest numbers that stored types and their readers hold, and where an increment has no effect."""

INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**32 - 1, 2**63 - 1, -(2**63)
"""The bounds of two's complement."""

JS_SAFE_MAX = 2**53 - 1
"""The largest integer that a JavaScript number keeps exactly (Number.MAX_SAFE_INTEGER)."""

DOUBLE_STALL = 2**53
"""A double has 53 bits for its digits (IEEE 754): from here on, adding 1 has no effect."""

DECIMAL_STALL = 10**34
"""A Decimal128 has 34 digits."""

MOST_DIGITS = 30
"""The most digits of a text that are read as a number: more than an int64 has (19), fewer than a Decimal128 holds."""
