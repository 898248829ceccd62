"""The repairs that make one live collection as it would be without the accident.

Every document that the accident touched is carried forward from its copy on the spare through the oplog, once with and
once without the accident's operations. Where the two differ, the difference is the repair; what others wrote is in
both. Nothing is written here: the repairs go into a file that mongorestore loads under another name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import islice

from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.impact.counterfactual import Counterfactual, Verdict
from tallyglass.restore.impact.history import AT_ONCE, OWN, UNCERTAIN, History, HistoryStep, documents_by_id
from tallyglass.restore.raw.batches import unpacked


@dataclass(slots=True)
class DocumentVerdict:
    """One document that the accident touched: its ``_id`` as a type byte and the value's bytes, and what to do."""

    key: bytes
    verdict: Verdict
    actual: bytes | None
    wanted: bytes | None


async def compare_documents(spare: Gateway, history: History) -> AsyncIterator[DocumentVerdict]:
    """Every document that the accident touched. Raises the errors of the gateway."""
    if any(step.owner == OWN for step in history.removals):
        async for found in _compare_all(spare, history):
            yield found
        return
    hit = history.hit()
    while some := dict(islice(hit, AT_ONCE)):
        held = await documents_by_id(spare, history.ns, list(some))
        for key, steps in some.items():
            yield _compare(history, key, held.get(key), steps)


async def _compare_all(spare: Gateway, history: History) -> AsyncIterator[DocumentVerdict]:
    """After a removal: every document of the copy, and those that were inserted between the point and the removal."""
    rest = set(history.touched())
    async for raw in unpacked(spare.find_raw(Namespace.parse(history.ns), {}, time_ms=3_600_000)):
        key = id_key(raw)
        rest.discard(key)
        yield _compare(history, key, raw, history.of(key))
    for key in rest:
        found = _compare(history, key, None, history.of(key))
        if found.verdict is not Verdict.LEFT:
            yield found


def _compare(history: History, key: bytes, copy: bytes | None, steps: list[HistoryStep]) -> DocumentVerdict:
    document = Counterfactual(copy, copy)
    updates = 0
    try:
        for step in steps:
            document.unclear |= step.owner == UNCERTAIN
            if step.owner == OWN:
                document.accident(step.op, step.o)
                updates += step.op == "u"
            else:
                document.others(step.op, step.o)
    except Malformed:
        document.unclear = True
    document.unclear |= history.ambiguous and updates > 0
    if copy is None and history.accident.kind == "everything":
        return DocumentVerdict(key, Verdict.LEFT, document.actual, None)  # it was not there at the point
    return DocumentVerdict(key, document.verdict, document.actual, document.wanted)
