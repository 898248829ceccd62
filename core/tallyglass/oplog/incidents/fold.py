"""Fold usual bursts of a family into counts, to make room for unusual ones."""

from __future__ import annotations

from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.families import Family, Writes
from tallyglass.oplog.incidents.session_verdict import judge_fan_out, judge_runs
from tallyglass.oplog.incidents.verdict import USUAL_RATE, Explained, FamilyVerdict, Window, judge_plain


def compress(family: Family, pool: Family | None, window: Window, explained: Explained, limit: int) -> None:
    """Fold usual bursts to make room for unusual ones; above ``limit`` the least unusual are forgotten.

    ``pool`` holds the writes of all sessions on the same namespace, for a family of runs.
    """
    if family.writes is Writes.PLAIN:
        verdict = judge_plain(family, window, explained)
        acts = verdict.acts
        family.is_busy = verdict.routine is not None and verdict.routine.reason == USUAL_RATE
    elif family.writes is Writes.SESSION:
        acts = judge_runs(family, list(family.clumps), window, pool).acts
    else:
        acts = judge_fan_out(family, FamilyVerdict(), [], window)
    spans = [(act.burst.first, act.burst.last) for act in acts]

    def is_kept(burst: Burst) -> bool:
        return any(first <= burst.last and burst.first <= last for first, last in spans)

    for name in ("clumps", "episodes"):
        held: list[Burst] = getattr(family, name)
        kept = [burst for burst in held if is_kept(burst)]
        spread = family.writes is Writes.FAN_OUT
        counted = (name == "episodes") is not spread or family.writes is Writes.SESSION
        if not counted and held and not is_kept(held[-1]):
            kept.append(held[-1])  # it may be the beginning of a statement that is not read yet
        for burst in held if counted else ():
            if not is_kept(burst):
                family.folded.add(burst)
        if len(kept) > limit:
            kept.sort(key=lambda burst: -burst.documents)
            family.forgotten += len(kept) - limit
            del kept[limit:]
        held[:] = kept
    family.version += 1
