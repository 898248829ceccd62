"""Formatted numbers: prefix, date, zero padding, base 32, check digits, short codes.

``NumberFormat`` describes the text; ``Formatted`` puts it over any allocator. Formatted numbers can be parsed back,
and a check digit detects typing errors. Needs the extra ``format`` (python-stdnum and sqids).
"""

from __future__ import annotations

from tallyglass.allocate.format.bodies import Body, Crockford, Digits, ShortCode
from tallyglass.allocate.format.check_digits import CheckDigit, Damm, Luhn, Mod97
from tallyglass.allocate.format.formatted import AsyncFormatted, Formatted
from tallyglass.allocate.format.number_format import NumberFormat, Parsed

__all__ = [
    "AsyncFormatted",
    "Body",
    "CheckDigit",
    "Crockford",
    "Damm",
    "Digits",
    "Formatted",
    "Luhn",
    "Mod97",
    "NumberFormat",
    "Parsed",
    "ShortCode",
]
