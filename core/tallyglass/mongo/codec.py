"""How documents of a server are decoded, wherever that is done."""

from __future__ import annotations

from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion

# One document with broken UTF-8 or a year past 9999 must not end a feed.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace",
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    tz_aware=True,
)
