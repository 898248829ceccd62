"""Whether the documents of a collection that was repaired are as they would be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.archive import LARGEST
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Return
from tallyglass.restore.undo.account import DocumentState
from tallyglass.restore.undo.counter_paths import is_past
from tallyglass.restore.undo.documents import DocumentSource, documents_by_id, taken_id
from tallyglass.restore.undo.judgement import Judgement, judge_documents
from tallyglass.restore.undo.null_id import NOT_EXACT, needs_own_write
from tallyglass.restore.undo.outcome_rows import Damaged, NamespaceOutcome, id_json
from tallyglass.text import clean_name


async def account_for_repairs(
    source: Gateway,
    spare: DocumentSource,
    plan: Plan,
    row: Return,
    began: Ts | None,
    outcome: NamespaceOutcome,
    kept: Path | None,
    reasons: dict[bytes, str],
) -> None:
    """Count the documents that the accident touched. ``reasons`` say why repairs were left out."""
    if plan.undo.accident is None:
        return
    async for found in judge_documents(source, spare, plan.undo.accident, row.ns, plan.facts.limit, began, kept):
        if found.state is DocumentState.RIGHT or _is_raised(plan, row.ns, found):
            outcome.restored += found.restored
            already = not found.restored and not found.theirs and found.state is DocumentState.RIGHT
            outcome.already += already
            outcome.returned += already and found.returned
            outcome.left += not found.restored and (found.theirs or found.state is not DocumentState.RIGHT)
            continue
        if found.state in _NOT_WRITTEN and found.key not in reasons:
            copy = (await documents_by_id(spare, row.ns, [found.key])).get(found.key, b"")
            if len(copy) + len(found.document or b"") > LARGEST - _ROOM:
                reasons[found.key] = f"{found.state} {_TOO_LARGE}"
        outcome.damaged.append(await _why_damaged(source, row.ns, found, reasons))


_NOT_WRITTEN = (DocumentState.HOLDS, DocumentState.MISSING)
_ROOM = 1_024
"""Bytes that a repair may need beside the two documents."""
_TOO_LARGE = (
    "It is so large that what it is and what it would be may not fit into one repair of 16 MB: replace it manually, "
    "from the images or the spare."
)


async def _why_damaged(source: Gateway, ns: str, found: Judgement, reasons: Mapping[bytes, str]) -> Damaged:
    left_alone, why = True, str(found.state)
    if found.state is DocumentState.MISSING and (taken := await taken_id(source, ns, found.key)):
        why = f"{why} {taken}"
    elif found.state in _NOT_WRITTEN:
        left_alone = False
        again = NOT_EXACT if needs_own_write(found.key) else "Run the script again; if it stays, compare it manually."
        why = reasons.get(found.key, f"{why}{found.where} {again}")
    return Damaged(clean_name(ns), id_json(found.key), why, left_alone)


def _is_raised(plan: Plan, ns: str, found: Judgement) -> bool:
    """Whether it is a counter that the application made again and that the return moved: it hands out no id again."""
    if found.state is not DocumentState.REPLACED or found.document is None:
        return False
    return is_past(plan.proof.reissue, ns, found.document)
