"""The largest and smallest numbers that stored types and their readers hold, and where an increment has no effect."""

INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1
JS_SAFE_MAX = 2**53 - 1
DOUBLE_STALL = 2**53
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
DECIMAL_STALL = 10**34
