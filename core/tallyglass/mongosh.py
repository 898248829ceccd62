"""Text for mongosh: values and calls that mean exactly one thing, printable ASCII on one line.

Names and values come from a server and are hostile. Numbers keep their BSON type, names and strings are JSON string
literals; anything that has no plain literal goes through ``EJSON.parse`` in its canonical form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bson import Decimal128, Int64, ObjectId, json_util

_INT32 = 2**31


def string(text: str) -> str:
    """A JavaScript string literal in printable ASCII: safe in a script, and pasted into mongosh."""
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


def literal(value: Any) -> str:
    """One value as mongosh text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Int64):
        return f'NumberLong("{int(value)}")'
    if isinstance(value, int):
        return f"NumberInt({value})" if -_INT32 <= value < _INT32 else f'NumberLong("{value}")'
    if isinstance(value, Decimal128):
        return f'NumberDecimal("{value}")'
    if isinstance(value, ObjectId):
        return f'ObjectId("{value}")'
    if isinstance(value, Mapping) and _plain_keys(value):
        inner = ", ".join(f"{literal(str(key))}: {literal(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return _parsed(value)


def _plain_keys(value: Mapping[str, Any]) -> bool:
    # A literal with the key __proto__ would set the prototype.
    return all(isinstance(key, str) and key != "__proto__" for key in value)


def _parsed(value: Any) -> str:
    text = json_util.dumps({"v": value}, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=True)
    return f"EJSON.parse({string(text)}, {{relaxed: false}}).v"


def keeps_order(value: Any) -> bool:
    """Whether JavaScript keeps the order of this value's fields: it moves names that are whole numbers to the front."""
    if isinstance(value, Mapping):
        return not (len(value) > 1 and any(str(key).isdigit() for key in value)) and all(
            keeps_order(inner) for inner in value.values()
        )
    if isinstance(value, (list, tuple)):
        return all(keeps_order(inner) for inner in value)
    return True


def call(ns: str, method: str, *arguments: Any) -> str:
    """One call on a collection, whatever characters are in its name."""
    db, _, name = ns.partition(".")
    inner = ", ".join(literal(argument) for argument in arguments)
    return f"db.getSiblingDB({literal(db)}).getCollection({literal(name)}).{method}({inner})"
