"""What one run writes to a collection that comes back: its repairs, or what others wrote to one that is replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Strategy
from tallyglass.restore.undo.counterfactual import repair
from tallyglass.restore.undo.documents import DocumentSource
from tallyglass.restore.undo.history_file import history_file, seen_file
from tallyglass.restore.undo.null_id import needs_own_write, own_write
from tallyglass.restore.undo.recovery import Repairs, repairs
from tallyglass.restore.undo.since import carried_over


async def to_write(
    source: Gateway, spare: DocumentSource, plan: Plan, number: int, counts: Repairs, work: Path
) -> AsyncIterator[bytes]:
    """The documents to load for the return with this number, from 1; ``counts`` is counted up. Raises the errors of the
    gateways, and ReadError where the oplog no longer reaches back to the point."""
    row = plan.undo.returns[number - 1]
    if row.strategy is Strategy.MERGE:
        async for document in repairs(source, spare, plan, row, counts, history_file(work, number)):
            yield document
        return
    async for target, found, wanted in carried_over(source, spare, row, plan.facts.limit, seen_file(work, number)):
        key = found.written.key
        by_itself = needs_own_write(key)
        if by_itself:
            counts.null_id = own_write(target, found.actual, wanted) or ""
        exact = counts.null_id or not by_itself
        made = repair((key[0], key[1:]), found.actual, wanted) if exact else None
        if made is None:
            counts.by_hand += 1
        else:
            yield made
