"""One way to undo an incident, and whether it is possible."""

from __future__ import annotations

from dataclasses import dataclass

FROM_IMAGES = "pre-images"
FROM_BACKUP = "backup and oplog"
WITHOUT_SPARE = "backup, no spare"
"""The label of an undo for which a backup has the documents, since the server holds no pre-image of them."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to undo an incident; safe to show. ``possible`` is None where only a plan can tell. ``why`` says what it
    rests on, or what speaks against it; ``advice`` what would help. ``label`` names it on a screen where ``name`` would
    mislead, because the documents come from elsewhere."""

    name: str
    possible: bool | None
    why: str
    advice: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.label or self.name

    @property
    def line(self) -> str:
        """The way and its reason in one line."""
        word = {True: "possible", False: "not possible", None: "not known yet"}[self.possible]
        return f"{self.title}: {word}. {self.why} {self.advice}".rstrip()
