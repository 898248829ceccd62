"""Generate mongosh text for values and calls: unambiguous, printable ASCII, on one line.

Names and values come from a server and may be hostile. Numbers keep their BSON type, names and strings are JSON string
literals, and everything without a plain literal goes through ``EJSON.parse`` in canonical form.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from bson import Binary, Code, DBRef, Decimal128, Int64, ObjectId, json_util
from bson.datetime_ms import DatetimeMS

MAJORITY = {"w": "majority"}
"""The write concern of every emitted write: whatever the server's default is, a failover does not lose it."""

_INT32 = 2**31  # one more than the largest 32-bit integer
_LAST_DATE = 8_640_000_000_000_000
"""Milliseconds from 1970 to the last time that JavaScript's ``Date`` has: 100 million days (ECMA-262)."""

_REPLACEMENT = "\ufffd"


def string(text: str) -> str:
    """Return a JavaScript string literal in printable ASCII, safe in a script and when pasted into mongosh."""
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


def literal(value: Any) -> str:
    """Return a value as mongosh text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not isinstance(value, Code):
        return string(value)
    if isinstance(value, Int64):
        return f'NumberLong("{int(value)}")'
    if isinstance(value, int):
        return f"NumberInt({value})" if -_INT32 <= value < _INT32 else f'NumberLong("{value}")'
    if isinstance(value, Decimal128):
        return f'NumberDecimal("{value}")'
    if isinstance(value, ObjectId):
        return f'ObjectId("{value}")'
    if isinstance(value, Code):
        scope = "" if value.scope is None else f", {literal(value.scope)}"
        return f"Code({string(value)}{scope})"
    if isinstance(value, bytes):
        subtype = value.subtype if isinstance(value, Binary) else 0
        return f'BinData({subtype}, "{b64encode(value).decode()}")'
    if isinstance(value, DBRef):
        value = value.as_doc()
    if isinstance(value, Mapping):
        pairs = [(string(str(key)), literal(item)) for key, item in value.items()]
        if _is_plain(value):
            return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
        return f"new Map([{', '.join(f'[{key}, {item}]' for key, item in pairs)}])"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return _parsed(value)


def _is_plain(value: Mapping[str, Any]) -> bool:
    """Whether a JavaScript object literal preserves these fields.

    JavaScript moves integer keys to the front, ``__proto__`` would set the prototype, and ``_bsontype`` would change
    the type of the value.
    """
    numbers = len(value) > 1 and any(str(key).isdigit() for key in value)
    return not (numbers or "__proto__" in value or "_bsontype" in value)


def _parsed(value: Any) -> str:
    text = json_util.dumps({"v": value}, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=True)
    return f"EJSON.parse({string(text)}, {{relaxed: false}}).v"


def has_literal(value: Any) -> bool:
    """Whether :func:`literal` represents this value exactly.

    It does not for dates outside of JavaScript's range, and for texts that may replace invalid UTF-8.
    """
    if isinstance(value, Mapping):
        return all(has_literal(key) and has_literal(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return all(has_literal(inner) for inner in value)
    if isinstance(value, DatetimeMS):
        return abs(int(value)) <= _LAST_DATE
    return not (isinstance(value, str) and _REPLACEMENT in value)


def has_plain_names(value: Any) -> bool:
    """Whether JavaScript objects preserve the names of all fields inside a value, and their order."""
    if isinstance(value, Mapping):
        return _is_plain(value) and all(map(has_plain_names, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(has_plain_names, value))


def call(ns: str, method: str, *arguments: Any) -> str:
    """Return a method call on a collection with any name."""
    db, _, name = ns.partition(".")
    inner = ", ".join(literal(argument) for argument in arguments)
    return f"db.getSiblingDB({literal(db)}).getCollection({literal(name)}).{method}({inner})"


def update_one(ns: str, query: Mapping[str, Any], change: Mapping[str, Any], *, upsert: bool = False) -> str:
    """Return an ``updateOne`` on a collection with any name, which a majority of the members acknowledges."""
    options = {"upsert": True} if upsert else {}
    return call(ns, "updateOne", query, change, options | {"writeConcern": MAJORITY})
