"""The codec options for all documents of a server."""

from __future__ import annotations

from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion

# A document with invalid UTF-8 or a year after 9999 must not end a feed.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace",
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    tz_aware=True,
)
