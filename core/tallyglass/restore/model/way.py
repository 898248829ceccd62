"""One way to undo an incident, and whether it is possible."""

from __future__ import annotations

from dataclasses import dataclass

FROM_IMAGES = "pre-images"
FROM_BACKUP = "backup and oplog"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to undo an incident; safe to show. ``possible`` is None where only a plan can tell. ``why`` says what it
    rests on, or what speaks against it; ``advice`` what would help."""

    name: str
    possible: bool | None
    why: str
    advice: str = ""

    @property
    def line(self) -> str:
        """The way and its reason in one line."""
        word = {True: "possible", False: "not possible", None: "not known yet"}[self.possible]
        return f"{self.name}: {word}. {self.why} {self.advice}".rstrip()
