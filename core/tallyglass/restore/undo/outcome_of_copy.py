"""Whether a collection that came back whole is there, with the definitions that it had."""

from __future__ import annotations

from typing import Any

from bson import ObjectId, encode, json_util

from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.model.indexes import canonical_index, canonical_options, is_id_index
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.documents import DocumentSource, with_documents
from tallyglass.restore.undo.outcome_rows import CANONICAL, Damaged, NamespaceOutcome, id_json
from tallyglass.restore.undo.sources.image_files import ImageFiles
from tallyglass.text import clean, clean_name


async def account_for_copy(
    source: Gateway, spare: DocumentSource, plan: Plan, row: Return, outcome: NamespaceOutcome
) -> None:
    """A collection that came back whole: each id of the copy must be live."""
    item = plan.proof.expected_of(row.ns)
    if item is not None and item.kind != "collection":
        if await _is_there(source, row.ns):
            outcome.restored = 1
        else:
            outcome.damaged.append(Damaged(outcome.ns, "", f"The {item.kind} does not exist."))
        return
    assert not isinstance(spare, ImageFiles)  # those undo writes, and bring no collection back whole
    wanted = _chosen_ids(plan)
    query: dict[str, Any] = {"_id": {"$in": wanted}} if wanted else {}
    target = row.beside if row.strategy is Strategy.COPY else row.ns
    if not await _is_there(source, target):
        outcome.damaged.append(Damaged(outcome.ns, "", "The collection is not there."))
    async for batch in spare.find_raw(Namespace.parse(row.ns), query, time_ms=3_600_000):
        rows = [batch[at:end] for at, end in walk.split(batch)]
        wanted = _not_among(wanted, rows)
        keys = dict.fromkeys(map(id_key, rows))
        async for key, document, _ in with_documents(source, target, keys.items()):
            if document is not None:
                outcome.restored += 1
            else:
                why = "It is missing: others, or a TTL index, removed it after it came back."
                outcome.damaged.append(Damaged(outcome.ns, id_json(key), why))
    for one in wanted:
        why = "There was no document with this _id at the point."
        outcome.damaged.append(Damaged(outcome.ns, json_util.dumps(one, json_options=CANONICAL), why))
    outcome.empty = not query and not (outcome.restored or outcome.damaged)


async def _is_there(source: Gateway, ns: str) -> bool:
    """Whether there is a collection or view of this name."""
    return any(str(info.ns) == ns for info in await source.list_collections(ns.partition(".")[0]))


def _chosen_ids(plan: Plan) -> list[Any]:
    """The ``_id``s that were asked for; empty for all."""
    return [json_util.loads(one) for one in plan.undo.choice.ids] if plan.undo.choice else []


def _not_among(wanted: list[Any], rows: list[bytes]) -> list[Any]:
    """The ``_id``s that were asked for and that none of these documents has."""
    found = [decode(raw)["_id"] for raw in rows]
    return [one for one in wanted if not any(_is_meant(one, id_) for id_ in found)]


def _is_meant(wanted: Any, found: Any) -> bool:
    """Whether an ``_id`` that was asked for is this one: a text of 24 hexadecimal digits is asked for as an ObjectId
    too, and one of the two is found."""
    if all(isinstance(one, (str, ObjectId)) for one in (wanted, found)):
        return str(wanted) == str(found)
    return bool(wanted == found) or encode({"": wanted}) == encode({"": found})


async def other_definitions(source: Gateway, plan: Plan, ns: str) -> list[Damaged]:
    """Indexes and options that differ from those at the point."""
    item = plan.proof.expected_of(ns)
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


async def created_meanwhile(source: Gateway, row: Return) -> list[Damaged]:
    """Documents that the application created while their collection was replaced: the staging collection still has them
    as they should have come back."""
    beside = clean_name(row.beside)
    why = f"It was created while the collection was replaced: compare it with the one in {beside}, then drop that."
    left = unpacked(source.find_raw(Namespace.parse(row.beside), {}))
    return [Damaged(clean_name(row.ns), id_json(id_key(raw)), why) async for raw in left]
