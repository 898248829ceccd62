"""A counter as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyglass.counters.snapshot import CounterView, Members

_JSON_EXACT = 2**53
"""Above it, a reader with floating-point numbers rounds whole ones."""


def counter_facts(counter: CounterView) -> dict[str, Any]:
    """One counter as a JSON object. ``exact`` repeats a value as a string if JSON readers may round it."""
    forecast, crossing = counter.forecast, counter.crossing
    large = isinstance(counter.value, int) and abs(counter.value) > _JSON_EXACT
    return {
        "ns": counter.ns,
        "id": counter.id,
        "field": counter.field,
        "shape": counter.shape,
        "value": counter.value,
        **({"exact": str(counter.value)} if large else {}),
        "type": counter.type,
        "semantics": counter.semantics,
        "start": counter.start,
        "ceiling": counter.ceiling.value if counter.ceiling else None,
        "ceiling_reason": counter.ceiling.reason if counter.ceiling else None,
        "used": counter.used,
        "rate": counter.rate,
        "p10": forecast.early,
        "p50": forecast.likely,
        "p90": forecast.late,
        "naive": forecast.naive,
        "far": forecast.far,
        "note": forecast.note,
        "history_seconds": forecast.history_seconds,
        "steps": forecast.steps,
        "drift": counter.drift,
        "target": counter.target,
        "not_compared": counter.odd_ids,
        "repair": counter.repair,
        "flags": list(counter.flags),
        "acknowledged": list(counter.acknowledged),
        "grade": counter.grade,
        "evidence": counter.evidence,
        "step": counter.step,
        "cycles": counter.cycles,
        "rewound_at": counter.rewound_at,
        "crossing": None
        if crossing is None
        else {
            "used": counter.crossing_used,
            "p10": crossing.early,
            "p50": crossing.likely,
            "p90": crossing.late,
            "naive": crossing.naive,
        },
        **({"members": _members(counter.members)} if counter.members else {}),
    }


def _members(members: Members) -> dict[str, Any]:
    return {"count": members.count, "worst": [counter_facts(member) for member in members.worst]}
