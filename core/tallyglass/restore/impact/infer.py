"""From an incident, or the entry at the point, to what has to be undone."""

from __future__ import annotations

from collections.abc import Iterable

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.impact.accident import Attribution, SignatureSearch, update_of
from tallyglass.restore.impact.recovery import operations
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.text import clean_name

_KINDS = {"updateMany": "updates", "deleteMany": "deletes", "transaction": "transaction"}
_GAP_SECONDS = 60
"""Updates of one shape that are further apart are not one accident."""
_LOOK_BACK_SECONDS = 3_600
"""How far before the point is looked for updates of the same shape: those are what the application does anyway."""


async def find_accident(
    gateway: Gateway, incident: Incident | None, limit: Ts, seen: Ts, at_limit: Entry | None, names: Iterable[str]
) -> Accident:
    """What is undone. ``names`` are the stored namespaces, since that of an incident is made safe to show.

    Without an incident, all deletes and removals from the point up to ``seen`` are; and the updates that begin at the
    point, where they are many of one shape that the application did not write before.
    """
    if incident is None:
        everything = Accident("everything", "", limit, seen)
        return await _with_updates(gateway, everything, at_limit)
    kind = _KINDS.get(incident.kind, "removal")
    if kind == "transaction":
        commit = incident.point or incident.last
        return Accident(kind, "", commit, commit)
    ns = next((name for name in names if clean_name(name) == incident.ns), "") if kind != "removal" else ""
    return Accident(kind, ns, incident.first, incident.last, updates=kind == "updates")


async def _with_updates(gateway: Gateway, accident: Accident, at_limit: Entry | None) -> Accident:
    if at_limit is None or at_limit.op != "u":
        return accident
    first, session = at_limit, at_limit.head.session.hex() if at_limit.retryable else ""
    found = Accident(accident.kind, first.ns, accident.first, accident.last, session, updates=True)
    attribution, search = Attribution(found), SignatureSearch()
    shaped: list[tuple[Ts, bytes, int | None]] = []
    last = first.ts
    async for entry, whole in operations(gateway, first.ns, first.ts):
        if whole.ts.t - last.t > _GAP_SECONDS:
            break
        if entry.op == "u" and attribution.same_sender(entry, whole):
            o = update_of(entry)
            search.feed(o)
            shaped.append((whole.ts, o, whole.head.txn))
            last = whole.ts
    signature = search.signature(update_of(first))
    if signature is None:
        return accident
    attribution.signature = signature
    mine = [(ts, number) for ts, o, number in shaped if signature.fits(o)]
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
        if entry.op == "u" and attribution.same_sender(entry, whole) and attribution.signature.fits(update_of(entry)):
            return True
    return False
