"""The query of the oplog dump: which entries the replay file holds. Extended JSON v2, ASCII, for ``--queryFile``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tallyglass.moment import Ts

LEFT_OUT_PATTERN = r"^(config\.|admin\.(?!\$cmd$))"
"""Users, versions and the server's own records: never for the spare. ``admin.$cmd`` stays: it holds transactions."""

MOST_LEFT_OUT = 20_000
"""The most entries that a query may exclude by name."""


def oplog_query(start: Ts, limit: Ts, without: Sequence[Ts] = ()) -> str:
    """Everything from ``start`` to ``limit``, including the entry at the limit, which proves that the file reaches it.

    ``without`` names entries to exclude. The first and the last bound let the server seek instead of scan.
    """
    bounds = _bounds(start, limit)
    if without:
        bounds["$nin"] = [_stamp(ts) for ts in sorted(without)]
    query = {"ts": bounds, "ns": {"$not": {"$regularExpression": {"pattern": LEFT_OUT_PATTERN, "options": ""}}}}
    return json.dumps(query, separators=(",", ":"))


def rest_query(saved: Ts, limit: Ts) -> str:
    """Everything from the newest saved entry, which proves that the dump joins the saved oplog, to ``limit``."""
    return json.dumps({"ts": _bounds(saved, limit)}, separators=(",", ":"))


def _bounds(start: Ts, limit: Ts) -> dict[str, Any]:
    return {"$gte": _stamp(start), "$lte": _stamp(limit)}


def _stamp(ts: Ts) -> dict[str, Any]:
    return {"$timestamp": {"t": ts.t, "i": ts.i}}
