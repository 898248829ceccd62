"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tallyglass.moment import iso
from tallyglass.report.document import Block, Code, Document, Facts, Paragraph, Table, TimeLine

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def to_markdown(document: Document) -> str:
    """The whole document. Nothing in its text is read as markup."""
    return "\n".join(_lines(document)).rstrip("\n") + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield from (f"# {_escaped(document.title)}", "")
    for block in document.lead:
        yield from _block(block)
    for section in document.sections:
        yield from (f"## {_escaped(section.title)}", "")
        for block in section.blocks:
            yield from _block(block)
    yield _escaped(document.made)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, strong):
            yield f"**{_escaped(text)}**" if strong else _escaped(text)
            yield ""
        case Facts(pairs):
            yield from _table(("", ""), [pair for pair in pairs if pair[1]])
        case Table(head, rows):
            yield from _table(head, rows)
        case Code(lines):
            yield from (f"    {line}" for line in lines)
            yield ""
        case TimeLine(bars):
            rows = [(iso(bar.first), iso(bar.last), ("> " if bar.chosen else "") + bar.label) for bar in bars]
            yield from _table(("from", "to", "what"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_escaped, head))} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(_escaped, row))} |"
    yield ""


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;"))
