"""What one run writes to a collection that comes back: the repairs that make it as it would be without the accident, or
what others wrote to one that is replaced.

Every document that the accident touched is carried forward from its copy on the spare through the oplog, once with and
once without the accident's operations. Where the two differ, the difference is the repair; what others wrote is in
both. Nothing is written here: the repairs go into a file that mongorestore loads under another name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import build
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.counterfactual import Counterfactual, Verdict, repair
from tallyglass.restore.undo.documents import AT_ONCE, DocumentSource, touched_documents
from tallyglass.restore.undo.earlier_returns import is_returned, with_accident
from tallyglass.restore.undo.history import OWN, REPAIR, UNCERTAIN, UNDONE, History, HistoryStep, digest
from tallyglass.restore.undo.history_file import history_file, seen_file
from tallyglass.restore.undo.history_reader import read_history
from tallyglass.restore.undo.null_id import needs_own_write, own_write
from tallyglass.restore.undo.since import carried_over


@dataclass(slots=True)
class Repairs:
    """How many documents of one collection the accident touched, by verdict; ``by_hand`` those that are too large or
    cannot be written exactly. ``null_id`` is what mongosh reads for the one whose ``_id`` is null; empty where there is
    none. It is loaded too, since the oplog tells by that what a return wrote."""

    ns: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    by_hand: int = 0
    null_id: str = ""


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
        made = _repair(target, found.written.key, found.actual, wanted, counts)
        if made is not None:
            yield made


async def repairs(
    source: Gateway, spare: DocumentSource, plan: Plan, row: Return, counts: Repairs, kept: Path | None = None
) -> AsyncIterator[bytes]:
    """The documents to load into one staging collection; ``counts`` is counted up. ``kept`` is as in
    :func:`read_history`. Where nothing is to be written, the first run still leaves one repair that changes nothing: a
    later return knows by it what was undone. Raises the errors of the gateways, and ReadError where the oplog no longer
    reaches back to the point."""
    if plan.undo.accident is None:
        raise ReadError("The plan does not say what is to be undone.", "Plan again.")
    first, idle, made = True, None, list[tuple[bytes, bytes, bool]]()
    with closing(await read_history(source, spare, plan.undo.accident, row.ns, plan.facts.limit, kept)) as history:
        if not history.removed and (settled := history.settled()):
            counts.verdicts[Verdict.WHOLE] += settled
        async for found in compare_documents(spare, history):
            counts.verdicts[found.verdict] += 1
            if found.verdict is not Verdict.DAMAGED or found.wanted is None:
                idle = found if idle is None and not needs_own_write(found.key) else idle
                continue
            document = _repair(row.ns, found.key, found.actual, found.wanted, counts, found.undone)
            if document is None:
                continue
            document = with_accident(document, plan.undo.accident) if first else document
            first = False
            made.append((found.key, digest(document), found.actual is None))
            if len(made) == AT_ONCE:
                history.computed(made)
                made.clear()
            yield document
        history.computed(made)
        if first and idle is not None and not is_returned(history):
            identity = idle.key[0], idle.key[1:]
            unchanged = idle.actual or build({b"_id": identity})
            if (document := repair(identity, unchanged, unchanged)) is not None:
                yield with_accident(document, plan.undo.accident)


def _repair(
    ns: str, key: bytes, actual: bytes | None, wanted: bytes, counts: Repairs, undone: Collection[Ts] = ()
) -> bytes | None:
    """The document to load for one that is to be written to ``ns``; None for one to be written manually."""
    if needs_own_write(key):
        counts.null_id = own_write(ns, actual, wanted) or ""
        if not counts.null_id:
            counts.by_hand += 1
            return None
    made = repair((key[0], key[1:]), actual, wanted, undone)
    counts.by_hand += made is None
    return made


@dataclass(slots=True)
class DocumentVerdict:
    """One document that the accident touched: its ``_id`` as a type byte and the value's bytes, and what to do."""

    key: bytes
    verdict: Verdict
    actual: bytes | None
    wanted: bytes | None
    undone: Collection[Ts] = ()
    """When the accident's operations on it took effect."""


async def compare_documents(spare: DocumentSource, history: History) -> AsyncIterator[DocumentVerdict]:
    """Every document that the accident touched, but for those of which it is known that their repair was written.
    Raises the errors of the gateway."""
    async for key, copy, steps in touched_documents(spare, history, history.open()):
        found = _compare(history, key, copy, steps)
        if not (history.removed and copy is None and found.verdict is Verdict.LEFT):
            yield found


def _compare(history: History, key: bytes, copy: bytes | None, steps: list[HistoryStep]) -> DocumentVerdict:
    document = Counterfactual(copy, copy, increments=history.increments, expiring=history.expiring)
    updated = False
    try:
        for step in steps:
            document.unclear |= step.owner == UNCERTAIN
            if step.owner in (OWN, UNDONE):
                document.accident(step.op, step.o)
                updated |= step.op == "u" and step.owner == OWN
            elif step.owner == REPAIR:
                document.repaired(step.op, step.o)
            else:
                document.others(step.op, step.o, may_be_expiry=step.may_be_expiry)
    except Malformed:
        document.unclear = True
    document.unclear |= history.ambiguous and updated
    if copy is None and history.accident.kind == "everything":
        return DocumentVerdict(key, Verdict.LEFT, document.actual, None)  # it was not there at the point
    undone = dict.fromkeys(step.ts for step in steps if step.owner == OWN)
    return DocumentVerdict(key, document.verdict, document.actual, document.wanted, undone)
