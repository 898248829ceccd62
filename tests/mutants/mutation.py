"""One change of the code that a test must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replace ``old`` by ``new`` in ``file``; one of ``tests`` must fail. ``harm`` is the consequence for a user."""

    file: str
    old: str
    new: str
    harm: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {_short(self.old)} -> {_short(self.new)}"


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
