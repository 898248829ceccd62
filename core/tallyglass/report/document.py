"""The blocks of a report. They hold text as it is shown: what came from a server has passed ``text.clean``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences; ``strong`` for the one that a reader must not miss."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values; a pair without a value is left out."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head. ``right`` are the columns of numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy, or what a command printed."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bar:
    """Something on a time line, from ``first`` to ``last``; ``chosen`` is what the report is about."""

    label: str
    first: datetime
    last: datetime
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Bars below each other on one axis of time."""

    bars: Sequence[Bar]


Block = Paragraph | Facts | Table | Code | TimeLine


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Document:
    """A report: its title, what to know first, and sections."""

    title: str
    lead: Sequence[Block]
    sections: Sequence[Section]
    made: str
    """The program and its version, and when the report was made."""
