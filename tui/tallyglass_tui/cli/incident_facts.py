"""An incident as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import Authorship, Candidate, Incident


def documents(incident: Incident) -> str:
    """How many, of time-series the buckets; with ``~`` where some are the application's own, ``?`` where unknown."""
    if incident.documents is None:
        return "?"
    number = ("" if incident.documents_exact else "~") + str(incident.documents)
    return f"{number} bucket{'s' * (incident.documents != 1)}" if incident.time_series else number


def counted(incident: Incident) -> str:
    """How many documents, or buckets of a time-series collection, in words."""
    return documents(incident) + ("" if incident.time_series else f" document{'s' * (incident.documents != 1)}")


def facts(incident: Incident) -> dict[str, Any]:
    """The incident as a JSON object."""
    return {
        "number": incident.number or None,
        "kind": incident.kind,
        "ns": incident.ns,
        "title": incident.title,
        "harm": incident.harm,
        "first_ts": incident.first,
        "last_ts": incident.last,
        "wall": incident.first_wall,
        "ops": incident.ops,
        "operations": incident.ops,
        "op": incident.op or None,
        "documents": incident.documents,
        # A bucket is a document, but not one that a user deleted or counts.
        "documents_exact": incident.documents_exact and not incident.time_series,
        "seconds": incident.last.t - incident.first.t,
        "point": incident.limit,
        "readings": [
            [{"point": one.first, "documents": one.documents} for one in reading] for reading in incident.readings
        ],
        "samples": list(incident.samples),
        "open": incident.open,
        "note": incident.note,
        "routine": incident.routine,
        "reason": incident.reason or (incident.kind if incident.routine else None),
        "confidence": incident.confidence,
        "sessions": incident.sessions,
        "session": incident.session or None,
        "user": incident.user or None,
        "user_hash": incident.user_hash or None,
        "who": incident.who,
        "shards": list(incident.shards),
        "evidence": _evidence(incident.evidence),
    }


def _evidence(found: Authorship | None) -> dict[str, Any] | None:
    """Who wrote an incident; the names are null unless that is known beyond doubt, and all are in ``candidates``."""
    if found is None:
        return None
    who = _candidate(found.who) if found.who else dict.fromkeys(_CANDIDATE)
    return {
        "grade": found.grade,
        **who,
        "source": found.source or None,
        "reason": found.reason,
        "candidates": [_candidate(one) for one in found.candidates],
    }


_CANDIDATE = (
    "user", "application", "client", "driver", "connection", "documents", "statement", "statements", "plan", "began",
    "ended", "beside",
)  # fmt: skip


def _candidate(one: Candidate) -> dict[str, Any]:
    found = {name: getattr(one, "clients" if name == "client" else name) for name in _CANDIDATE}
    found["client"] = ", ".join(one.clients)
    return {name: value if value != "" else None for name, value in found.items()}
