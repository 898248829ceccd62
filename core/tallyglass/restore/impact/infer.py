"""From an incident, or the entry at the point, to what has to be undone."""

from __future__ import annotations

from collections.abc import Iterable

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.decode.head import session_text
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.impact.accident import Attribution, Changes, SignatureSearch, changes_of, update_of
from tallyglass.restore.impact.history import operations
from tallyglass.restore.impact.incident_scope import session_of, written
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.text import clean_name

_GAP_SECONDS = 60
"""Updates of one shape that are further apart are not one accident."""
_LOOK_BACK_SECONDS = 3_600
"""How far before the point is looked for updates of the same shape: those are what the application does anyway."""


async def find_accident(
    gateway: Gateway, incident: Incident | None, limit: Ts, seen: Ts, at_limit: Entry | None, names: Iterable[str]
) -> Accident:
    """What is undone. ``names`` are the stored namespaces, since an incident holds a name that is cleaned for display.

    Without an incident, all deletes and removals from the point up to ``seen`` are; and the updates that begin at the
    point, where they are many of one shape that the application did not write before.
    """
    if incident is None:
        everything = Accident("everything", "", limit, seen)
        return await _with_updates(gateway, everything, at_limit)
    if incident.kind == "transaction":
        commit = incident.point or incident.last
        return Accident("transaction", "", commit, commit)
    op = written(incident)
    if not op:
        return Accident("removal", "", incident.first, incident.last)
    ns = next((name for name in names if clean_name(name) == incident.ns), "")
    kind = "updates" if op == "u" else "deletes"
    return Accident(kind, ns, incident.first, incident.last, session_of(incident), updates=op == "u")


async def _with_updates(gateway: Gateway, accident: Accident, at_limit: Entry | None) -> Accident:
    if at_limit is None or at_limit.op != "u":
        return accident
    first, session = at_limit, session_text(at_limit.head) if at_limit.retryable else ""
    found = Accident(accident.kind, first.ns, accident.first, accident.last, session, updates=True)
    attribution, search = Attribution(found), SignatureSearch()
    shaped: list[tuple[Ts, Changes, int | None]] = []
    last = first.ts
    async for entry, whole in operations(gateway, first.ns, first.ts):
        if whole.ts.t - last.t > _GAP_SECONDS:
            break
        if entry.op == "u" and attribution.same_sender(whole):
            changes = changes_of(update_of(entry))
            search.feed(changes)
            shaped.append((whole.ts, changes, whole.head.txn))
            last = whole.ts
    signature = search.signature(changes_of(update_of(first)))
    if signature is None:
        return accident
    attribution.signature = signature
    mine = [(ts, number) for ts, changes, number in shaped if signature.fits(changes)]
    one_command = bool(session) and sum(number == first.head.txn for _, number in mine) > 1
    if len(mine) < 2 or (not one_command and await _is_routine(gateway, attribution, first)):
        return accident
    return Accident(found.kind, found.ns, found.first, found.last, session, updates=True, updates_last=mine[-1][0])


async def _is_routine(gateway: Gateway, attribution: Attribution, first: Entry) -> bool:
    """Whether the same was written before the point."""
    assert attribution.signature is not None
    begin = Ts(max(first.ts.t - _LOOK_BACK_SECONDS, 1), 0)
    async for entry, whole in operations(gateway, first.ns, begin):
        if whole.ts >= first.ts:
            return False
        same = entry.op == "u" and attribution.same_sender(whole)
        if same and attribution.signature.fits(changes_of(update_of(entry))):
            return True
    return False
