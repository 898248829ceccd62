"""How each damaged namespace comes back to the live set: whole, merged, or in place of the present one."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident, time_series_of
from tallyglass.restore.backup.backup import TEMPORARY
from tallyglass.restore.model.proof import ExpectedNamespace, stored_as
from tallyglass.restore.model.undo import Accident, Return, Strategy
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.earlier_returns import STAGING
from tallyglass.restore.undo.incident_scope import (
    ANY_SESSION,
    DEFINITIONS,
    REPLACED,
    session_of,
    why_not_undone,
    written,
)
from tallyglass.text import clean_name

LONGEST_NAMESPACE = 255
"""Bytes that the server allows in database and collection name together."""

_UNLISTED = "Whether it exists is unknown: its database cannot be listed. Restore it manually."
_ANOTHER_KIND = "A view or a time-series collection has this name now: compare and merge manually."


def plan_returns(
    expected: Sequence[ExpectedNamespace],
    changed: Mapping[str, Changed],
    live: frozenset[str],
    incident: Incident | None,
    stamp: str,
    unknown: frozenset[str] = frozenset(),
    updated: str = "",
    others: frozenset[str] = frozenset(),
) -> tuple[Return, ...]:
    """One row for every namespace of ``expected`` that was damaged. ``live`` holds the names there are now, ``unknown``
    the databases whose names cannot be listed: there nothing is brought back without a person. ``updated`` is the
    namespace whose updates are to be undone where no incident was named; ``others`` are the live names of views and
    time-series collections."""
    if incident is not None and (incident.kind in DEFINITIONS or why_not_undone(incident)):
        return ()
    rows = []
    for item in expected:
        if TEMPORARY.match(item.ns.partition(".")[2]):
            continue
        found = changed.get(stored_as(item.ns, item.kind))
        if item.ns.partition(".")[0] in unknown:
            if found is not None and _was_taken(item, found, incident):
                rows.append(Return(item.ns, Strategy.BESIDE, "", note=_UNLISTED))
        elif item.ns not in live and _was_taken(item, found, incident):
            rows.append(_whole(item, free_name(f"{item.ns}{STAGING}{stamp}", live)))
        elif item.ns in live and found is not None and _damaged(item, found, incident, updated):
            staging, away = (free_name(f"{item.ns}{word}{stamp}", live) for word in (STAGING, "_before_restore_"))
            if item.kind == "collection" and item.ns in others:
                rows.append(Return(item.ns, Strategy.BESIDE, staging, note=_ANOTHER_KIND))
                continue
            rows.append(_with_room(item, incident, _merged(item, found, incident, staging, away)))
    return tuple(rows)


def merged_back(ns: str, limit: Ts, live: Container[str], kept: int) -> Return:
    """A live collection whose damage is undone from pre-images; others wrote to it ``kept`` times since."""
    return Return(ns, Strategy.MERGE, free_name(f"{ns}{STAGING}{limit.time:%Y%m%dT%H%M%S}", live), kept)


def with_again(rows: Sequence[Return], again: Mapping[str, int], accident: Accident) -> tuple[Return, ...]:
    """The rows with how many of the removed ``_id``s were inserted again; only a merge leaves those as they are.
    Updates removed nothing: what was removed since is none of the accident's."""
    if accident.kind == "updates":
        return tuple(rows)
    return tuple(replace(row, again=again.get(row.ns, 0)) if row.strategy is Strategy.MERGE else row for row in rows)


def free_name(wanted: str, live: Container[str]) -> str:
    """An unused name for a staging collection: what is loaded there replaces a collection of that name."""
    name, number = wanted, 2
    while name in live:
        name, number = f"{wanted}_{number}", number + 1
    return name


def can_be_made(ns: str) -> bool:
    """Whether mongorestore can load into a new collection of that name: the server keeps ``system.`` for itself."""
    return "$" not in ns and len(ns.encode()) <= LONGEST_NAMESPACE and not ns.partition(".")[2].startswith("system.")


def _was_taken(item: ExpectedNamespace, found: Changed | None, incident: Incident | None) -> bool:
    """Whether the incident removed it; what others dropped on purpose stays dropped."""
    if incident is None or is_about(incident, item.ns):
        return True
    if found is None:
        return False
    return bool(found.by_incident) or (incident.kind in REPLACED and bool(found.commands))


def _damaged(item: ExpectedNamespace, found: Changed, incident: Incident | None, updated: str) -> bool:
    if incident is None:
        return bool(found.deletes or found.dropped or found.commands) or item.ns == updated
    replaced = incident.kind in REPLACED and bool(found.commands)
    return replaced or bool(found.by_incident) or is_about(incident, item.ns)


def is_about(incident: Incident, ns: str) -> bool:
    """Whether the incident is about this namespace. The incident's name is escaped for display, and that of the buckets
    where it is about a time-series collection."""
    if incident.kind == "dropDatabase":
        return clean_name(ns.partition(".")[0]) == incident.ns
    return (time_series_of(incident.ns) or incident.ns) == clean_name(time_series_of(ns) or ns)


def _whole(item: ExpectedNamespace, staging: str) -> Return:
    """By way of a staging collection, so that it appears whole; what cannot be renamed is loaded under its own name."""
    if "$" in item.ns:
        return Return(item.ns, Strategy.BESIDE, "", note="mongorestore accepts no $ in a name; restore it manually.")
    renamed = item.kind == "collection" and can_be_made(staging)
    return Return(item.ns, Strategy.WHOLE, staging if renamed else "")


_CAPPED = (
    "It is capped: what is missing comes back if there is room for all of it. Otherwise the server would remove its "
    "oldest documents: all is left out and listed."
)


def _with_room(item: ExpectedNamespace, incident: Incident | None, row: Return) -> Return:
    """The row, which says so where documents are inserted into a capped collection."""
    inserts = row.strategy is Strategy.MERGE and (incident is None or written(incident) != "u")
    if not inserts or not json.loads(item.options).get("capped"):
        return row
    return replace(row, note=f"{row.note} {_CAPPED}".strip())


def _merged(item: ExpectedNamespace, found: Changed, incident: Incident | None, staging: str, away: str) -> Return:
    if item.kind != "collection":
        kind = {"timeseries": "time series"}.get(item.kind, item.kind)
        note = f"A {kind} is not merged into what has its name now: compare it manually."
        return Return(item.ns, Strategy.BESIDE, "", note=note)
    replaced = incident is not None and incident.kind in REPLACED
    if not can_be_made(away if replaced else staging):
        return Return(item.ns, Strategy.BESIDE, "", note="Its name cannot take a suffix; restore it manually.")
    if replaced:
        note = "A copy of the live collection is kept; what others inserted there since comes along."
        return Return(item.ns, Strategy.REPLACE, staging, note=note, away=away)
    kept = found.others
    if incident is None:
        note = "Documents deleted since then come back; live documents stay unchanged."
        return Return(item.ns, Strategy.MERGE, staging, kept, note, recreated=found.dropped)
    op = written(incident)
    if not op and incident.kind != "transaction":
        note = "Live documents stay unchanged; missing documents come back."
        return Return(item.ns, Strategy.MERGE, staging, kept, note, recreated=True)
    if found.replaced and op != "d":
        note = "It was dropped, emptied or replaced after the point: compare and merge manually."
        return Return(item.ns, Strategy.BESIDE, staging, note=note)
    note = "Documents that the transaction inserted stay." if incident.kind == "transaction" else ""
    if op == "d" and session_of(incident) == ANY_SESSION:
        note = "Many clients deleted: what others deleted in that time comes back too."
    return Return(item.ns, Strategy.MERGE, staging, kept, note)
