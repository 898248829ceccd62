"""Is it known what the return undoes?"""

from __future__ import annotations

from collections.abc import Sequence

from tallyglass.restore.checks.outcome import Checks, block
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.proof.findings import Findings
from tallyglass.text import clean_name

_SHOWN = 8
_ADVICE = (
    "To undo one of them alone, plan with --before and its first entry instead of the incident: that undoes the "
    "updates which do the same from there on, and every delete from there on. To compare first, add --only NS."
)


def undone(found: Findings) -> Checks:
    """Are the entries of the incident one statement?"""
    assessed = found.assessed
    if assessed is not None and assessed.accident is not None:
        yield from unclear(assessed.accident, assessed.doubts, assessed.groups)


def unclear(accident: Accident, doubts: Sequence[str], groups: Sequence[str]) -> Checks:
    """The check that blocks where the entries may be several statements, or others'."""
    if not doubts:
        return
    more = f"; and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
    shown = f" Found: {'; '.join(groups[:_SHOWN])}{more}." if groups else ""
    title = f"{clean_name(accident.ns)}: these may be several statements. {' '.join(doubts)}{shown}"
    yield block("incident-unclear", title, _ADVICE)
