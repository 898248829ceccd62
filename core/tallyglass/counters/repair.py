"""The mongosh command that moves a counter forward, never back."""

from __future__ import annotations

from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from tallyglass.counters.snapshot import NumericType
from tallyglass.mongo.gateway import Namespace
from tallyglass.mongo.mongosh import has_literal, update_one
from tallyglass.text import CELL_LIMIT


def move_command(
    ns: Namespace, identity: Any, path: str, value: int, direction: int = 1, kind: NumericType = NumericType.INT64
) -> str:
    """``updateOne`` with ``$max``: sets the number to ``value`` unless it is higher already.

    It keeps its type, ``kind``: a program that reads an int32 may fail on a long. But a double becomes a long, since it
    ends at 2^53.

    ``identity`` is the raw ``_id``. For a ``direction`` of -1 it is ``$min``, which never raises the number. Empty if
    the text would be too long to paste, if mongosh has no literal for the names or the id, or if ``value`` does not fit
    64 bits.
    """
    if not has_literal([ns.db, ns.collection, path, identity]) or not -(2**63) <= value < 2**63:
        return ""
    # ``literal`` writes an int as NumberInt if it fits.
    number = {NumericType.INT32: value, NumericType.DECIMAL: Decimal128(str(value))}.get(kind, Int64(value))
    text = update_one(str(ns), {"_id": identity}, {"$max" if direction > 0 else "$min": {path: number}})
    return text if len(text) <= CELL_LIMIT else ""
