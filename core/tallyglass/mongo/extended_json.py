"""MongoDB Extended JSON that a person or another program wrote."""

from __future__ import annotations

from typing import Any

from bson import encode, json_util
from bson.errors import BSONError


def read_extended_json(text: str, options: json_util.JSONOptions = json_util.DEFAULT_JSON_OPTIONS) -> Any:
    """The value. Raises ValueError for what is no Extended JSON, and for a value that BSON cannot hold."""
    try:
        found = json_util.loads(text, json_options=options)
        encode({"": found})
    except (ArithmeticError, BSONError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None
    return found
