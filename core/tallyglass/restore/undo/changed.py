"""What happened to one namespace after the point, counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Changed:
    """Operations on one namespace after the point; ``by_incident`` and ``others`` attribute them, as far as the
    incident's span, kind and sessions allow."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    commands: int = 0
    by_incident: int = 0
    others: int = 0
    dropped: bool = False
    removed: bool = False
    """Whether it was dropped or emptied, or renamed."""
    replaced: bool = False
    """Whether it was removed, or another one was renamed to its name: the present collection is another one."""
    numbers: tuple[int, int] | None = None
    """The least and the greatest whole number that was inserted as an ``_id``."""

    def note_number(self, number: int | None) -> None:
        """Note an ``_id`` that was inserted, if it is a whole number."""
        if number is not None:
            least, most = self.numbers or (number, number)
            self.numbers = (min(least, number), max(most, number))
