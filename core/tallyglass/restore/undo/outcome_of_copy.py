"""Whether a collection that came back whole is there, with the definitions that it had."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bson import ObjectId, json_util

from tallyglass.errors import PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.restore.backup.bson_file import decode, id_key
from tallyglass.restore.model.indexes import canonical_index, canonical_options, is_id_index
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import stored_as
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.documents import DocumentSource, with_documents
from tallyglass.restore.undo.outcome_rows import CANONICAL, Damaged, NamespaceOutcome, id_json
from tallyglass.restore.undo.removed_since import removed_since
from tallyglass.restore.undo.sources.image_files import ImageFiles
from tallyglass.restore.undo.statement import is_equal
from tallyglass.text import clean, clean_name


async def account_for_copy(
    source: Gateway,
    spare: DocumentSource,
    plan: Plan,
    row: Return,
    outcome: NamespaceOutcome,
    behind: Collection[bytes] = (),
) -> None:
    """A collection or view that came back whole: it must be there, with each id of the copy; of a time-series
    collection with those of its buckets. What others removed after it came back counts as restored; those that are left
    ``behind`` are counted as such alone."""
    assert not isinstance(spare, ImageFiles)  # those undo writes, and bring no collection back whole
    target = row.beside if row.strategy is Strategy.COPY else row.ns
    item = plan.proof.expected_of(row.ns)
    kind = "collection" if item is None else item.kind
    live = await _look_at(source, target, kind, outcome)
    if kind == "view":
        outcome.restored += live is not None and live.kind == kind
        return
    wanted, missing = _chosen_ids(plan), dict[bytes, None]()
    query: dict[str, Any] = {"_id": {"$in": wanted}} if wanted else {}
    try:
        async for batch in spare.find_raw(Namespace.parse(stored_as(row.ns, kind)), query, time_ms=_MS):
            rows = [batch[at:end] for at, end in walk.split(batch)]
            wanted = _not_among(wanted, rows)
            keys = dict.fromkeys(map(id_key, rows))
            async for key, document, _ in with_documents(source, stored_as(target, kind), keys.items()):
                if key in behind:
                    continue
                if document is not None:
                    outcome.restored += 1
                else:
                    missing[key] = None
    except PrivilegeError:
        if kind != "timeseries":
            raise
        await _count_measurements(source, spare, row.ns, outcome)
    if missing:
        await _count_missing(source, None if row.strategy is Strategy.COPY else live, plan, missing, outcome)
    for one in wanted:
        why = "There was no document with this _id at the point."
        outcome.damaged.append(Damaged(outcome.ns, json_util.dumps(one, json_options=CANONICAL), why))
    outcome.empty = not query and not (outcome.restored or outcome.damaged or behind)


async def _look_at(source: Gateway, target: str, kind: str, outcome: NamespaceOutcome) -> CollectionInfo | None:
    """The collection or view that came back, which must be of its kind; None where there is none."""
    collections = await source.list_collections(target.partition(".")[0])
    live = next((info for info in collections if str(info.ns) == target), None)
    if live is None:
        outcome.damaged.append(Damaged(outcome.ns, "", f"The {kind} is not there."))
    elif live.kind != kind:
        outcome.damaged.append(Damaged(outcome.ns, "", f"It is a {live.kind}, not a {kind}."))
    return live


async def _count_missing(
    source: Gateway,
    live: CollectionInfo | None,
    plan: Plan,
    missing: Collection[bytes],
    outcome: NamespaceOutcome,
) -> None:
    """Count what is not there, by ``_id``: what others removed from the ``live`` collection had come back."""
    removed = await removed_since(source, live, plan.facts.limit, missing) if live else set()
    outcome.restored += len(removed)
    outcome.damaged += [Damaged(outcome.ns, id_json(key), _MISSING) for key in missing if key not in removed]


async def _count_measurements(source: Gateway, spare: Gateway, ns: str, outcome: NamespaceOutcome) -> None:
    """Whether a time-series collection has as many measurements as its copy: most users may not read its buckets."""
    copied, live = [await one.count(Namespace.parse(ns), time_ms=_MS) for one in (spare, source)]
    outcome.restored = min(copied, live)
    if live < copied:
        why = f"It has {live:,} measurements, and had {copied:,} at the point."
        outcome.damaged.append(Damaged(outcome.ns, "", why))


_MS = 3_600_000
"""Milliseconds that one pass over a collection may take on the server."""
_MISSING = "It is missing: it did not come back, or it was removed since."


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
    return is_equal(wanted, found)


async def other_definitions(source: Gateway, plan: Plan, ns: str) -> list[Damaged]:
    """Indexes and options that differ from those at the point, of a collection or view. That it is of another kind by
    now is not said here."""
    item = plan.proof.expected_of(ns)
    if item is None:
        return []
    namespace, found = Namespace.parse(ns), []
    info = next((one for one in await source.list_collections(namespace.db) if str(one.ns) == ns), None)
    if info is not None and info.kind != item.kind:
        return []
    indexes = [text for text in item.indexes if not is_id_index(json_util.loads(text))]
    live = [canonical_index(spec) for spec in await source.list_indexes(namespace)] if indexes else []
    found += [_missing_index(text, live) for text in indexes if text not in live]
    if info is not None and info.options is not None and canonical_options(info.options, item.kind) != item.options:
        found.append(f"The options differ from those at the point: {clean(item.options, 300)}.")
    return [Damaged(clean_name(ns), "", why) for why in found]


def _missing_index(wanted: str, live: Sequence[str]) -> str:
    """What is said of an index that is not there, with the index that has its name or its keys, which keeps it from
    being built."""
    named, keys = (json_util.loads(wanted)[field] for field in ("name", "key"))
    others = [(text, json_util.loads(text)) for text in live]
    for text, spec in others:
        if spec["name"] == named:
            return f"The index {clean(wanted, 300)} is missing: its name is that of {clean(text, 300)}."
    for text, spec in others:
        if list(spec["key"].items()) == list(keys.items()):
            return f"The index {clean(wanted, 300)} is missing: its keys are those of {clean(text, 300)}."
    return f"The index {clean(wanted, 300)} is missing."


async def created_meanwhile(source: Gateway, row: Return) -> list[Damaged]:
    """Documents that the application created while their collection was replaced: the staging collection still has them
    as they should have come back."""
    beside = clean_name(row.beside)
    why = f"It was created while the collection was replaced: compare it with the one in {beside}, then drop that."
    left = unpacked(source.find_raw(Namespace.parse(row.beside), {}))
    return [Damaged(clean_name(row.ns), id_json(id_key(raw)), why) async for raw in left]
