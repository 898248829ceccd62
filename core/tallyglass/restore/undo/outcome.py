"""After the return: what came back, what others changed since, and what is still damaged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bson import ObjectId, encode, json_util

from tallyglass.counters.recognise.identity import id_text
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.oplog.entry.changes import build
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.model.indexes import canonical_index, canonical_options, is_id_index
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.account import DocumentState
from tallyglass.restore.undo.counterfactual import LARGEST
from tallyglass.restore.undo.documents import AT_ONCE, documents_by_id
from tallyglass.restore.undo.judgement import Judgement, judge_documents
from tallyglass.restore.undo.null_id import NOT_EXACT, needs_own_write
from tallyglass.restore.undo.recovery import history_file
from tallyglass.restore.undo.since import left_behind, seen_file
from tallyglass.restore.undo.sources.source import DocumentSource
from tallyglass.text import clean, clean_name

_CANONICAL = json_util.CANONICAL_JSON_OPTIONS


@dataclass(frozen=True, slots=True)
class Damaged:
    """One document or definition that is still damaged: its ``_id`` as Extended JSON, and why."""

    ns: str
    id: str
    why: str
    left_alone: bool = False
    """Whether it was left alone on purpose: what others did since stays."""

    def line(self) -> str:
        """Return one line of JSON, in printable ASCII."""
        return json.dumps({"ns": self.ns, "_id": json.loads(self.id) if self.id else None, "why": self.why})


@dataclass(slots=True)
class NamespaceOutcome:
    """The documents of one namespace that the accident touched: those that came back, those that were right before,
    those that others wrote or deleted since and that are as they would be, and those that are not."""

    ns: str
    restored: int = 0
    already: int = 0
    left: int = 0
    damaged: list[Damaged] = field(default_factory=list)
    """Documents and definitions that are not as they would be."""
    empty: bool = False
    """Whether it came back, and had no documents."""

    @property
    def unclear(self) -> int:
        """The documents that were left alone and hold the accident's value, one computed from it, or a doubt."""
        return sum(one.left_alone for one in self.damaged)

    @property
    def still_damaged(self) -> int:
        """The documents that could not be written."""
        return sum(bool(one.id) and not one.left_alone for one in self.damaged)

    @property
    def touched(self) -> int:
        """All documents that the accident touched."""
        return self.restored + self.already + self.left + self.unclear + self.still_damaged


def is_complete(rows: Sequence[NamespaceOutcome]) -> bool:
    """Whether something came back, and nothing is damaged or unclear."""
    return not any(row.damaged for row in rows) and any(row.restored or row.empty for row in rows)


async def account(
    source: Gateway, spare: DocumentSource, plan: Plan, began: Ts | None, work: Path | None = None
) -> AsyncIterator[NamespaceOutcome]:
    """Compare every namespace of the return with what it should be. ``began`` is the newest entry of the oplog when the
    return began, None where that is not known. ``work`` is the plan's folder, where the repairs kept what they read of
    the oplog."""
    for number, row in enumerate(plan.undo.returns, start=1):
        outcome = NamespaceOutcome(clean_name(row.beside if row.strategy is Strategy.COPY else row.ns))
        if row.strategy is Strategy.MERGE:
            kept = history_file(work, number) if work else None
            await _account_for_repairs(source, spare, plan, row, began, outcome, kept)
        elif row.strategy is Strategy.BESIDE:
            outcome.damaged.append(Damaged(outcome.ns, "", row.note or "It must be restored manually."))
        else:
            await _account_for_copy(source, spare, plan, row, outcome)
        if row.strategy is Strategy.REPLACE:
            outcome.damaged += await _created_meanwhile(source, row)
            reasons = await _left_out(source, row)
            async for key, why in left_behind(source, spare, row, plan.facts.limit, work and seen_file(work, number)):
                outcome.damaged.append(Damaged(outcome.ns, id_json(key), reasons.get(key, why), left_alone=True))
        if row.recreated or row.strategy in (Strategy.WHOLE, Strategy.REPLACE):
            outcome.damaged += await _other_definitions(source, plan, row.ns)
        yield outcome
    if not plan.undo.returns:
        changed = {loss.ns for loss in plan.proof.loss if loss.commands}
        for item in plan.proof.expected:
            if clean_name(item.ns) in changed and item.kind == "collection":
                outcome = NamespaceOutcome(clean_name(item.ns), damaged=await _other_definitions(source, plan, item.ns))
                yield outcome


async def _account_for_repairs(
    source: Gateway,
    spare: DocumentSource,
    plan: Plan,
    row: Return,
    began: Ts | None,
    outcome: NamespaceOutcome,
    kept: Path | None,
) -> None:
    if plan.undo.accident is None:
        return
    reasons = await _left_out(source, row)
    async for found in judge_documents(source, spare, plan.undo.accident, row.ns, plan.facts.limit, began, kept):
        if found.state is DocumentState.RIGHT or _is_raised(plan, row.ns, found):
            outcome.restored += found.restored
            outcome.already += not found.restored and not found.theirs and found.state is DocumentState.RIGHT
            outcome.left += not found.restored and (found.theirs or found.state is not DocumentState.RIGHT)
            continue
        if found.state in _NOT_WRITTEN and found.key not in reasons:
            copy = (await documents_by_id(spare, row.ns, [found.key])).get(found.key, b"")
            if len(copy) + len(found.document or b"") > LARGEST:
                reasons[found.key] = f"{found.state} {_TOO_LARGE}"
        outcome.damaged.append(await _why_damaged(source, row.ns, found, reasons))


_NOT_WRITTEN = (DocumentState.HOLDS, DocumentState.MISSING)
_TOO_LARGE = (
    "It is so large that what it is and what it would be may not fit into one repair of 16 MB: replace it manually, "
    "from the images or the spare."
)


async def _why_damaged(source: Gateway, ns: str, found: Judgement, reasons: Mapping[bytes, str]) -> Damaged:
    left_alone, why = True, str(found.state)
    if found.state is DocumentState.MISSING and (holder := await _equal_id(source, ns, found.key)):
        why += f" The live document {holder} has an _id that counts as this one."
    elif found.state in _NOT_WRITTEN:
        left_alone = False
        again = NOT_EXACT if needs_own_write(found.key) else "Run the script again; if it stays, compare it manually."
        why = reasons.get(found.key, f"{why}{found.where} {again}")
    return Damaged(clean_name(ns), id_json(found.key), why, left_alone)


async def _equal_id(source: Gateway, ns: str, key: bytes) -> str:
    """The ``_id`` of a live document that the server takes for this one, though it differs; empty where there is none:
    a number of another type, or a text that the collation of the collection takes for the same."""
    found = next(iter(await documents_by_id(source, ns, [key])), None)
    return id_text(decode(build({b"_id": (found[0], found[1:])}))["_id"]) if found and found != key else ""


def _is_raised(plan: Plan, ns: str, found: Judgement) -> bool:
    """Whether it is a counter that the application made again and that the return raised: it hands out no id again."""
    if found.state is not DocumentState.REPLACED or found.document is None:
        return False
    document = decode(found.document)
    for row in plan.proof.reissue:
        if row.ns == clean_name(ns) and row.id == id_text(document.get("_id")):
            value: Any = document
            for name in row.field.split("."):
                value = value.get(name) if isinstance(value, Mapping) else None
            return isinstance(value, (int, float)) and value >= row.live
    return False


async def _left_out(source: Gateway, row: Return) -> dict[bytes, str]:
    """Why repairs were left out, as the review before the merge marked them."""
    reasons: dict[bytes, str] = {}
    async for batch in source.find_raw(Namespace.parse(row.repairs), {"x": {"$exists": True}}):
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
    source: Gateway, spare: DocumentSource, plan: Plan, row: Return, outcome: NamespaceOutcome
) -> None:
    """A collection that came back whole: each id of the copy must be live."""
    kind = next((item.kind for item in plan.proof.expected if item.ns == row.ns), "collection")
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
            if len(keys) == AT_ONCE:
                await _look_for(source, target, keys, outcome)
                keys = []
    await _look_for(source, target, keys, outcome)
    for one in wanted:
        why = "There was no document with this _id at the point."
        outcome.damaged.append(Damaged(outcome.ns, json_util.dumps(one, json_options=_CANONICAL), why))
    outcome.empty = not query and not (outcome.restored or outcome.damaged)


def _chosen_ids(plan: Plan) -> list[Any]:
    """The ``_id``s that were asked for; empty for all."""
    return [json_util.loads(one) for one in plan.undo.choice.ids] if plan.undo.choice else []


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


async def _created_meanwhile(source: Gateway, row: Return) -> list[Damaged]:
    """Documents that the application created while their collection was replaced: the staging collection still has them
    as they should have come back."""
    beside = clean_name(row.beside)
    why = f"It was created while the collection was replaced: compare it with the one in {beside}, then drop that."
    left = unpacked(source.find_raw(Namespace.parse(row.beside), {}))
    return [Damaged(clean_name(row.ns), id_json(id_key(raw)), why) async for raw in left]


async def _other_definitions(source: Gateway, plan: Plan, ns: str) -> list[Damaged]:
    """Indexes and options that differ from those at the point."""
    item = next((item for item in plan.proof.expected if item.ns == ns), None)
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
