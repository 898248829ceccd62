"""A run of ids that is taken from the front. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The ids ``start <= id < stop``; empty where both are equal."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if self.stop < self.start:
            raise ValueError(f"a span cannot end at {self.stop} before it starts at {self.start}")

    def __len__(self) -> int:
        return self.stop - self.start

    def take(self, n: int) -> tuple[Span, Span]:
        """The first ``n`` ids (fewer where fewer are left), and the rest."""
        if n < 0:
            raise ValueError("a negative number of ids cannot be taken")
        cut = min(self.start + n, self.stop)
        return Span(self.start, cut), Span(cut, self.stop)

    def ids(self) -> range:
        """The ids themselves."""
        return range(self.start, self.stop)
