"""The mongosh text that moves a counter forward, and never back."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from tallyglass.gateway import Namespace
from tallyglass.mongosh import call, keeps_order
from tallyglass.text import CELL_LIMIT

_REPLACEMENT = "\ufffd"


def max_command(ns: Namespace, identity: Any, path: str, value: int) -> str:
    """``updateOne`` with ``$max``: sets the number to ``value`` unless it is higher already.

    ``identity`` is the raw ``_id``. Empty where the text would be too long to paste, where a name holds bytes that are
    not UTF-8 or where mongosh would reorder the fields of the id (neither could be named exactly), or where ``value``
    does not fit 64 bits.
    """
    parts = (ns.db, ns.collection, path, repr(identity))
    if any(_REPLACEMENT in part for part in parts) or not -(2**63) <= value < 2**63 or not keeps_order(identity):
        return ""
    text = call(str(ns), "updateOne", {"_id": identity}, {"$max": {path: Int64(value)}})
    return text if len(text) <= CELL_LIMIT else ""
