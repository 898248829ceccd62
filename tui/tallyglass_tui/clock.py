"""The time of what is shown: the present, or a moment of the recording that is replayed."""

from __future__ import annotations

from datetime import UTC, datetime

_moments: list[datetime] = []


def now() -> datetime:
    """The time from which ages are counted."""
    return _moments[-1] if _moments else datetime.now(UTC)


def show(moment: datetime | None) -> None:
    """Count ages from a moment of a recording; from the present with None."""
    _moments[:] = [moment] if moment else []
