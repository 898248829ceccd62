"""How the documents of a server are decoded, and its numbers read."""

from __future__ import annotations

import math
from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion

# A document with invalid UTF-8 or a year after 9999 must not end a feed.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace",
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    tz_aware=True,
)


def whole_number(value: object) -> int | None:
    """A number that a server reports, without its fraction; None for anything else, and for what is not finite."""
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
