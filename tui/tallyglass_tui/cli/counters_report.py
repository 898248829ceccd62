"""The counters as a page to pass on: what needs somebody first, then all of them, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tallyglass import __version__
from tallyglass.counters.check_line import GONE, faults, incomplete
from tallyglass.counters.snapshot import FLAG_HELP, CountersSnapshot, CounterView
from tallyglass.counters.verdict import CRITICAL, name_of
from tallyglass.moment import iso
from tallyglass.report.document import Block, Code, Document, Facts, Paragraph, Section, Table
from tallyglass_tui import format as fmt

_HEAD = ("counter", "value", "ids left", "used", "rate", fmt.ENDS, "flags")
_NUMBERS = frozenset({1, 2, 3, 4})
_MOST_WRITTEN_OUT = 10**12
"""Longer numbers of ids left are shortened: the table fits a page."""


def document_of(snapshot: CountersSnapshot, label: str) -> Document:
    """The report of the counters of a snapshot, with the levels of ``check`` at its default thresholds."""
    now = snapshot.at
    words = ("urgent", "warning")
    rows = [(words[level != CRITICAL], name, why) for level, why, name in faults(snapshot)]
    total = sum(one.number for one in snapshot.counters)
    total += sum(why == GONE for _, _, why in rows)
    flags = dict.fromkeys(flag for one in snapshot.counters for flag in one.flags)
    fixes = [one.repair for one in snapshot.counters if one.repair]
    gaps = [*incomplete(snapshot), *(one.text for one in snapshot.troubles)]
    needs = "needs" if len(rows) == 1 else "need"
    lead: list[Block] = [Paragraph(f"{len(rows)} of {fmt.plural(total, 'counter')} {needs} somebody.", strong=True)]
    sections = [
        Section("Needs somebody", [Table(("", "counter", "why"), rows)]) if rows else None,
        Section("All counters", [Table(_HEAD, [_row(one, now) for one in snapshot.counters], _NUMBERS)]),
        Section("Flags", [Facts([(flag, FLAG_HELP[flag]) for flag in flags])]) if flags else None,
        Section("Repairs", [Code(fixes)]) if fixes else None,
        Section("Not read", [Paragraph(gap) for gap in gaps]) if gaps else None,
    ]
    return Document(
        f"Counters of {label}, {iso(now.replace(microsecond=0))}",
        [*lead, Paragraph(f"{fmt.ENDS}: with 80% certainty a counter ends within this band.")],
        [one for one in sections if one],
        f"Made by Tallyglass {__version__}.",
    )


def _row(counter: CounterView, now: datetime) -> Sequence[str]:
    return (
        name_of(counter),
        fmt.count(counter.value),
        f"{_left(counter.left)} to {counter.ceiling.reason}" if counter.ceiling else "no limit is known",
        fmt.share(counter.used),
        fmt.rate(counter.rate),
        fmt.time_left(counter.forecast, now),
        ", ".join(fmt.flags(counter, now)),
    )


def _left(ids: int | None) -> str:
    return fmt.count(ids) if ids is None or ids < _MOST_WRITTEN_OUT else fmt.short(ids)
