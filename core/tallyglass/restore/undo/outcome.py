"""After the return: what came back, what others changed since, and what is still damaged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tallyglass.counters.recognise.identity import id_text
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.documents import DocumentSource
from tallyglass.restore.undo.history_file import history_file, seen_file
from tallyglass.restore.undo.let_go import let_go
from tallyglass.restore.undo.outcome_of_copy import account_for_copy, created_meanwhile, other_definitions
from tallyglass.restore.undo.outcome_of_repairs import account_for_repairs
from tallyglass.restore.undo.outcome_rows import Damaged, NamespaceOutcome, id_json
from tallyglass.restore.undo.since import COULD_NOT_WRITE, left_behind
from tallyglass.text import clean, clean_name


def is_complete(rows: Sequence[NamespaceOutcome]) -> bool:
    """Whether nothing is damaged or unclear, and something came back, by this return or an earlier one, or had no
    documents to bring back."""
    return not any(row.damaged for row in rows) and any(row.restored or row.returned or row.empty for row in rows)


async def account(
    source: Gateway, spare: DocumentSource, plan: Plan, began: Ts | None, work: Path | None = None
) -> AsyncIterator[NamespaceOutcome]:
    """Compare every namespace of the return with what it should be. ``began`` is the newest entry of the oplog when the
    return began, None where that is not known. ``work`` is the plan's folder, where the repairs kept what they read of
    the oplog."""
    changed = {loss.ns for loss in plan.proof.loss if loss.commands}
    for number, row in enumerate(plan.undo.returns, start=1):
        outcome = NamespaceOutcome(clean_name(row.beside if row.strategy is Strategy.COPY else row.ns))
        if row.strategy is Strategy.MERGE:
            kept = history_file(work, number) if work else None
            reasons = await _left_out(source, row)
            await account_for_repairs(source, spare, plan, row, began, outcome, kept, reasons)
        elif row.strategy is Strategy.BESIDE:
            outcome.damaged.append(Damaged(outcome.ns, "", row.note or "It must be restored manually."))
        elif row.strategy is Strategy.REPLACE:
            await _account_for_replacement(source, spare, plan, row, outcome, work and seen_file(work, number))
        else:
            await account_for_copy(source, spare, plan, row, outcome)
        if row.recreated or row.strategy in (Strategy.WHOLE, Strategy.REPLACE):
            outcome.damaged += await other_definitions(source, plan, row.ns)
        elif row.strategy is Strategy.MERGE and not outcome.touched and clean_name(row.ns) in changed:
            outcome.damaged += await other_definitions(source, plan, row.ns)
            outcome.empty = not outcome.damaged
        yield outcome
    if not plan.undo.returns:
        for ns in plan.undo.defined:
            differ = await _differing(source, plan, ns)
            if plan.lets_go:
                differ += [one async for one in let_go(source, ns, plan.facts.limit)]
            yield NamespaceOutcome(clean_name(ns), damaged=differ, empty=not differ)


async def undecided(source: Gateway, plan: Plan) -> list[Damaged]:
    """The definitions that differ from those at the point, of the collections whose definitions a person may set
    back."""
    return [one for ns in plan.undo.defined for one in await _differing(source, plan, ns)]


async def _differing(source: Gateway, plan: Plan, ns: str) -> list[Damaged]:
    """The definitions of a collection that differ from those at the point, or that the collection is not there."""
    there = {str(info.ns): info.kind for info in await source.list_collections(Namespace.parse(ns).db)}.get(ns)
    if there == "collection":
        return await other_definitions(source, plan, ns)
    return [Damaged(clean_name(ns), "", "The collection is not there." if there is None else f"It is a {there} now.")]


async def _account_for_replacement(
    source: Gateway, spare: DocumentSource, plan: Plan, row: Return, outcome: NamespaceOutcome, seen: Path | None
) -> None:
    """A collection that came back whole, beside what others wrote to the one that it replaced."""
    reasons = await _left_out(source, row)
    behind = {key: why async for key, why in left_behind(source, spare, row, plan.facts.limit, seen)}
    await account_for_copy(source, spare, plan, row, outcome, behind)
    outcome.damaged += await created_meanwhile(source, row)
    for key, why in behind.items():
        left_alone = key not in reasons and why != COULD_NOT_WRITE
        outcome.damaged.append(Damaged(outcome.ns, id_json(key), reasons.get(key, why), left_alone))


_WAITS = (
    "which is to be set back too, but is left out or waits for this one, as where two have each other's value: set "
    "both back manually."
)


async def _left_out(source: Gateway, row: Return) -> dict[bytes, str]:
    """Why repairs were left out, as the review before the merge marked them."""
    reasons: dict[bytes, str] = {}
    async for raw in unpacked(source.find_raw(Namespace.parse(row.repairs), {"x": {"$exists": True}})):
        mark = decode(raw)["x"]
        if "expired" in mark:
            why = f"The TTL index {clean(str(mark['expired']), 80)} would remove it again: raise its time first."
        elif "full" in mark:
            why = "The capped collection has no room for all that are missing: its oldest would be removed for them."
        elif "refused" in mark:
            why = f"The server refuses it: {clean(str(mark['refused']), 300)}."
        else:
            holder = id_text(mark.get("by"))
            why = f"The index {clean(str(mark.get('index')), 80)} has its value for the live document {holder}"
            why += f", {_WAITS}" if mark.get("waits") else "."
        reasons[id_key(raw)] = why
    return reasons
