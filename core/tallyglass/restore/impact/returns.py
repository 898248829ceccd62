"""How each damaged namespace comes back to the live set: whole, merged, or in place of the present one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.impact.incident_scope import (
    ANY_SESSION,
    DEFINITIONS,
    REPLACED,
    session_of,
    why_not_undone,
    written,
)
from tallyglass.restore.impact.loss import Changed
from tallyglass.restore.model.plan import ExpectedNamespace, Return, Strategy, stored_as
from tallyglass.restore.replay.catalog import TEMPORARY
from tallyglass.text import clean_name

LONGEST_NAMESPACE = 255
"""Bytes that the server allows in database and collection name together."""

_UNLISTED = "Whether it is live is not known: its database may not be listed. Bring it back by hand."


def plan_returns(
    expected: Sequence[ExpectedNamespace],
    changed: Mapping[str, Changed],
    live: frozenset[str],
    incident: Incident | None,
    stamp: str,
    unknown: frozenset[str] = frozenset(),
    updated: str = "",
) -> tuple[Return, ...]:
    """One row for every namespace of ``expected`` that was damaged. ``live`` holds the names there are now, ``unknown``
    the databases whose names cannot be listed: there nothing is brought back without a person. ``updated`` is the
    namespace whose updates are to be undone where no incident was named."""
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
            rows.append(_whole(item, free_name(f"{item.ns}_pitr_{stamp}", live)))
        elif item.ns in live and found is not None and _damaged(item, found, incident, updated):
            beside, away = (free_name(f"{item.ns}_{word}_{stamp}", live) for word in ("pitr", "before_restore"))
            rows.append(_beside(item, found, incident, beside, away))
    return tuple(rows)


def free_name(wanted: str, live: frozenset[str]) -> str:
    """A name beside the live collection that nothing has: what is put there replaces whatever is of that name."""
    name, number = wanted, 2
    while name in live:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _was_taken(item: ExpectedNamespace, found: Changed | None, incident: Incident | None) -> bool:
    """Whether the incident removed it; what others dropped on purpose stays dropped."""
    if incident is None or _names(item.ns, incident):
        return True
    if found is None:
        return False
    return bool(found.by_incident) or (incident.kind in REPLACED and bool(found.commands))


def _damaged(item: ExpectedNamespace, found: Changed, incident: Incident | None, updated: str) -> bool:
    if incident is None:
        return bool(found.deletes or found.dropped or found.commands) or item.ns == updated
    replaced = incident.kind in REPLACED and bool(found.commands)
    return replaced or bool(found.by_incident) or _names(item.ns, incident)


def _names(ns: str, incident: Incident) -> bool:
    """Whether the incident is about this namespace. Its own name of it is one made safe to show."""
    if incident.kind == "dropDatabase":
        return clean_name(ns.partition(".")[0]) == incident.ns
    return incident.ns == clean_name(ns)


def _whole(item: ExpectedNamespace, beside: str) -> Return:
    """First under another name, so that it appears whole; what cannot be renamed comes under its own at once."""
    if "$" in item.ns:
        return Return(item.ns, Strategy.BESIDE, "", note="mongorestore takes no $ in a name; bring it back by hand.")
    renamed = item.kind == "collection" and len(beside.encode()) <= LONGEST_NAMESPACE
    return Return(item.ns, Strategy.WHOLE, beside if renamed else "")


def _beside(item: ExpectedNamespace, found: Changed, incident: Incident | None, beside: str, away: str) -> Return:
    if item.kind != "collection":
        return Return(item.ns, Strategy.BESIDE, "", note=f"A {item.kind} of this name is live; compare it by hand.")
    replaced = incident is not None and incident.kind in REPLACED
    if len((away if replaced else beside).encode()) > LONGEST_NAMESPACE or "$" in item.ns:
        return Return(item.ns, Strategy.BESIDE, "", note="Its name cannot be lengthened; bring it back by hand.")
    if replaced:
        note = "The live collection is renamed, not dropped."
        return Return(item.ns, Strategy.REPLACE, beside, note=note, away=away)
    kept = found.others
    if incident is None:
        note = "What was deleted since comes back; what is live stays as it is."
        return Return(item.ns, Strategy.MERGE, beside, kept, note, recreated=found.dropped)
    op = written(incident)
    if not op and incident.kind != "transaction":
        note = "What is live stays as it is; what is missing comes back."
        return Return(item.ns, Strategy.MERGE, beside, kept, note, recreated=True)
    if found.replaced and op != "d":
        note = "It was dropped, emptied or replaced after the point: compare and merge by hand."
        return Return(item.ns, Strategy.BESIDE, beside, note=note)
    note = "Documents that the transaction inserted stay." if incident.kind == "transaction" else ""
    if op == "d" and session_of(incident) == ANY_SESSION:
        note = "Many clients deleted: what others deleted in that time comes back too."
    return Return(item.ns, Strategy.MERGE, beside, kept, note)
