"""What each kind of incident means for a restore: which operations are undone, or why none are."""

from __future__ import annotations

from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.snapshot import Incident

ANY_SESSION = "any"
"""In place of a session: writes of all clients that use sessions."""

REPLACED = frozenset({"out", "rename", "convertToCapped", "emptycapped"})
"""Kinds after which another collection has the name, or the collection is empty."""

DEFINITIONS = frozenset({"collMod", "dropIndexes"})
"""Kinds that change indexes or validators, and no document."""

_OPS = {"deleteMany": "d", "deletes": "d", "updateMany": "u", "updates": "u"}
_WRITES = frozenset({*_OPS, "batch", "fan_out", "slow_loop", "job", "trickle"})

_NOT_UNDONE = {
    "ttl": "These documents expired: the TTL index would delete them again. Plan with --before, or with --only to get "
    "them under another name.",
    "capped": "A capped collection removes its oldest documents to make room. Plan with --only to get them under "
    "another name.",
    "migration": "These documents moved to another shard: nothing is lost.",
    "return": "Tallyglass wrote these to undo an incident. To compare, plan for that incident again, with --only.",
    "sharding": "A sharded cluster cannot be restored from one oplog.",
    "truncateRange": "The oplog does not name the documents that it removed: plan with --only and compare.",
    "users": "Users and roles are left out of every restore: change them back manually.",
    "setFCV": "Feature compatibility is changed back with setFeatureCompatibilityVersion.",
    "createIndexes": "The index itself removes nothing: drop it, and plan for its deletes with --before.",
}


def written(incident: Incident) -> str:
    """The operation by which it wrote documents, ``d`` or ``u``; empty for a command or a transaction."""
    return (incident.op or _OPS.get(incident.kind, "")) if incident.kind in _WRITES else ""


def session_of(incident: Incident) -> str:
    """The id of the session that wrote, as hex; :data:`ANY_SESSION` for several, empty for writes without one."""
    return incident.session or (ANY_SESSION if incident.sessions else "")


def why_not_undone(incident: Incident) -> str:
    """Why a restore does not undo it; empty where it does."""
    return _NOT_UNDONE.get(incident.kind, "")


def is_sent_by(whole: Entry, session: str) -> bool:
    """Whether a write comes from the session, as :func:`session_of` gives it.

    A session identifies one client. Without one, only the writes with a session are known to be others'.
    """
    if session == ANY_SESSION:
        return whole.retryable
    if session:
        return whole.session_text == session
    return not whole.linked
