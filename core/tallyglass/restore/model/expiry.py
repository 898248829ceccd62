"""Collections that expire documents by an option of their own, which needs no index: clustered ones and time series."""

from __future__ import annotations

from bson import json_util

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Strategy


def loaded_without_expiry(plan: Plan) -> dict[str, int]:
    """The ``expireAfterSeconds`` of each that is loaded into the live set. It is turned off on the spare once that was
    verified: the live set would remove documents as soon as they are loaded."""
    found = {}
    for row in plan.undo.returns:
        item = plan.proof.expected_of(row.ns)
        loaded = row.strategy is Strategy.WHOLE or (row.beside and row.strategy is not Strategy.MERGE)
        if item is not None and loaded and "expireAfterSeconds" in (options := json_util.loads(item.options)):
            found[row.ns] = int(options["expireAfterSeconds"])
    return found
