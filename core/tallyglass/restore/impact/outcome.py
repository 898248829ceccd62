"""After the return: what came back, what others changed since, and what is still damaged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bson import ObjectId, encode, json_util

from tallyglass.counters.recognise.identity import id_text
from tallyglass.errors import ReadError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.decode import walk
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.impact.counterfactual import Verdict, repair
from tallyglass.restore.impact.history import documents_by_id, read_history
from tallyglass.restore.impact.null_id import NOT_EXACT, needs_own_write, own_write
from tallyglass.restore.impact.recovery import compare_documents
from tallyglass.restore.model.plan import Plan, Return, Strategy
from tallyglass.restore.raw.indexes import canonical_index, canonical_options, is_id_index
from tallyglass.restore.raw.patch import build
from tallyglass.restore.tools.files import HISTORY
from tallyglass.text import clean, clean_name

_AT_ONCE = 1_000
_CANONICAL = json_util.CANONICAL_JSON_OPTIONS


def history_file(work: Path, number: int) -> Path:
    """Where the steps of a return keep what they read of the oplog; ``number`` is the place in the plan's return, from
    1."""
    return work / HISTORY / f"{number}.sqlite"


@dataclass(slots=True)
class Repairs:
    """How many documents of one collection the accident touched, by verdict; ``by_hand`` those that are too large or
    cannot be written exactly, ``written`` all others that are written. ``null_id`` is what mongosh reads for the one
    whose ``_id`` is null; empty where there is none."""

    ns: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    by_hand: int = 0
    written: int = 0
    null_id: str = ""


async def repairs(
    source: Gateway, spare: Gateway, plan: Plan, row: Return, counts: Repairs, kept: Path | None = None
) -> AsyncIterator[bytes]:
    """The documents to load into one staging collection; ``counts`` is counted up. ``kept`` is as in
    :func:`read_history`. Raises the errors of the gateways, and ReadError where the oplog no longer reaches back to the
    point."""
    if plan.accident is None:
        raise ReadError("The plan does not say what is to be undone.", "Plan again.")
    with closing(await read_history(source, spare, plan.accident, row.ns, plan.limit, kept)) as history:
        async for found in compare_documents(spare, history):
            counts.verdicts[found.verdict] += 1
            if found.verdict is not Verdict.DAMAGED or found.wanted is None:
                continue
            if needs_own_write(found.key):
                counts.null_id = own_write(row.ns, found.actual, found.wanted) or ""
                counts.by_hand += not counts.null_id
                continue
            document = repair((found.key[0], found.key[1:]), found.actual, found.wanted)
            if document is None:
                counts.by_hand += 1
            else:
                yield document


@dataclass(frozen=True, slots=True)
class Damaged:
    """One document or definition that is still damaged: its ``_id`` as Extended JSON, and why."""

    ns: str
    id: str
    why: str

    def line(self) -> str:
        """As one line of JSON, in printable ASCII."""
        return json.dumps({"ns": self.ns, "_id": json.loads(self.id) if self.id else None, "why": self.why})


@dataclass(slots=True)
class NamespaceOutcome:
    """The documents of one namespace: those that came back, those that were right before, those that others wrote or
    deleted since and that are left alone, and those that are still damaged."""

    ns: str
    restored: int = 0
    already: int = 0
    left: int = 0
    damaged: list[Damaged] = field(default_factory=list)
    empty: bool = False
    """Whether it came back, and had no documents."""


async def account(
    source: Gateway, spare: Gateway, plan: Plan, before: Mapping[str, int], work: Path | None = None
) -> AsyncIterator[NamespaceOutcome]:
    """Compare every namespace of the return with what it should be. ``before`` says how many documents of each were
    damaged when the return began, where that was computed. ``work`` is the plan's folder, where the repairs kept what
    they read of the oplog."""
    for number, row in enumerate(plan.returns, start=1):
        outcome = NamespaceOutcome(clean_name(row.beside if row.strategy is Strategy.COPY else row.ns))
        if row.strategy is Strategy.MERGE:
            kept = history_file(work, number) if work else None
            await _account_for_repairs(source, spare, plan, row, before.get(row.ns, 0), outcome, kept)
        elif row.strategy is Strategy.BESIDE:
            outcome.damaged.append(Damaged(outcome.ns, "", row.note or "It must be restored manually."))
        else:
            await _account_for_copy(source, spare, plan, row, outcome)
        if row.recreated or row.strategy in (Strategy.WHOLE, Strategy.REPLACE):
            outcome.damaged += await _other_definitions(source, plan, row.ns)
        yield outcome
    if not plan.returns:
        changed = {loss.ns for loss in plan.loss if loss.commands}
        for item in plan.expected:
            if clean_name(item.ns) in changed and item.kind == "collection":
                outcome = NamespaceOutcome(clean_name(item.ns), damaged=await _other_definitions(source, plan, item.ns))
                yield outcome


async def _account_for_repairs(
    source: Gateway, spare: Gateway, plan: Plan, row: Return, before: int, outcome: NamespaceOutcome, kept: Path | None
) -> None:
    reasons = await _left_out(source, row)
    if plan.accident is None:
        return
    verdicts: Counter[Verdict] = Counter()
    with closing(await read_history(source, spare, plan.accident, row.ns, plan.limit, kept)) as history:
        async for found in compare_documents(spare, history):
            verdicts[found.verdict] += 1
            if found.verdict is Verdict.DAMAGED:
                why = reasons.get(found.key, "It could not be written: run the script again.")
                if needs_own_write(found.key) and not own_write(row.ns, found.actual, found.wanted or b""):
                    why = NOT_EXACT
                outcome.damaged.append(Damaged(outcome.ns, id_json(found.key), why))
            elif found.verdict is Verdict.UNCLEAR:
                why = "What the accident changed and what others changed cannot be separated: compare it manually."
                outcome.damaged.append(Damaged(outcome.ns, id_json(found.key), why))
    outcome.left = verdicts[Verdict.LEFT]
    outcome.restored = min(max(before - verdicts[Verdict.DAMAGED], 0), verdicts[Verdict.WHOLE] + verdicts[Verdict.LEFT])
    outcome.already = max(verdicts[Verdict.WHOLE] - outcome.restored, 0)


async def _left_out(source: Gateway, row: Return) -> dict[bytes, str]:
    """Why repairs were left out, as the review before the merge marked them."""
    reasons: dict[bytes, str] = {}
    async for batch in source.find_raw(Namespace.parse(row.beside), {"x": {"$exists": True}}):
        for at, end in walk.split(batch):
            raw = batch[at:end]
            mark = decode(raw)["x"]
            if "expired" in mark:
                why = f"The TTL index {clean(str(mark['expired']), 80)} would remove it again: raise its time first."
            else:
                holder = id_text(mark.get("by"))
                why = f"The index {clean(str(mark.get('index')), 80)} has its value for the live document {holder}."
            reasons[id_key(raw)] = why
    return reasons


async def _account_for_copy(
    source: Gateway, spare: Gateway, plan: Plan, row: Return, outcome: NamespaceOutcome
) -> None:
    """A collection that came back whole: each id of the copy must be live."""
    kind = next((item.kind for item in plan.expected if item.ns == row.ns), "collection")
    if kind != "collection":
        live = {str(info.ns) for info in await source.list_collections(row.ns.partition(".")[0])}
        if row.ns in live:
            outcome.restored = 1
        else:
            outcome.damaged.append(Damaged(outcome.ns, "", f"The {kind} does not exist."))
        return
    keys: list[bytes] = []
    wanted = _chosen_ids(plan)
    query: dict[str, Any] = {"_id": {"$in": wanted}} if wanted else {}
    target = row.beside if row.strategy is Strategy.COPY else row.ns
    if target not in {str(info.ns) for info in await source.list_collections(target.partition(".")[0])}:
        outcome.damaged.append(Damaged(outcome.ns, "", "The collection is not there."))
    async for batch in spare.find_raw(Namespace.parse(row.ns), query, time_ms=3_600_000):
        for at, end in walk.split(batch):
            raw = batch[at:end]
            keys.append(id_key(raw))
            wanted = [one for one in wanted if not _is_meant(one, decode(raw)["_id"])]
            if len(keys) == _AT_ONCE:
                await _look_for(source, target, keys, outcome)
                keys = []
    await _look_for(source, target, keys, outcome)
    for one in wanted:
        why = "There was no document with this _id at the point."
        outcome.damaged.append(Damaged(outcome.ns, json_util.dumps(one, json_options=_CANONICAL), why))
    outcome.empty = not query and not (outcome.restored or outcome.damaged)


def _chosen_ids(plan: Plan) -> list[Any]:
    """The ``_id``s that were asked for; empty for all."""
    return [json_util.loads(one) for one in plan.choice.ids] if plan.choice else []


def _is_meant(wanted: Any, found: Any) -> bool:
    """Whether an ``_id`` that was asked for is this one: a text of 24 hexadecimal digits is asked for as an ObjectId
    too, and one of the two is found."""
    if all(isinstance(one, (str, ObjectId)) for one in (wanted, found)):
        return str(wanted) == str(found)
    return bool(wanted == found) or encode({"": wanted}) == encode({"": found})


async def _look_for(source: Gateway, ns: str, keys: list[bytes], outcome: NamespaceOutcome) -> None:
    held = await documents_by_id(source, ns, keys)
    for key in keys:
        if key in held:
            outcome.restored += 1
        else:
            why = "It is missing: others, or a TTL index, removed it after it came back."
            outcome.damaged.append(Damaged(outcome.ns, id_json(key), why))


async def _other_definitions(source: Gateway, plan: Plan, ns: str) -> list[Damaged]:
    """Indexes and options that differ from those at the point."""
    item = next((item for item in plan.expected if item.ns == ns), None)
    if item is None or item.kind != "collection":
        return []
    namespace, shown = Namespace.parse(ns), clean_name(ns)
    live = {canonical_index(spec) for spec in await source.list_indexes(namespace)}
    found = []
    for text in item.indexes:
        if text not in live and not is_id_index(json_util.loads(text)):
            found.append(Damaged(shown, "", f"The index {clean(text, 300)} is missing."))
    for info in await source.list_collections(namespace.db):
        if str(info.ns) == ns and info.options is not None and canonical_options(info.options) != item.options:
            found.append(Damaged(shown, "", f"The options differ from those at the point: {clean(item.options, 300)}."))
    return found


def id_json(key: bytes) -> str:
    """An ``_id``, a type byte and the value's bytes, as canonical Extended JSON."""
    raw = build({b"_id": (key[0], key[1:])})
    return json_util.dumps(decode(raw)["_id"], json_options=_CANONICAL)
