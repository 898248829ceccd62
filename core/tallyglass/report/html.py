"""A report as one HTML file without scripts, outside links or fonts: it can be mailed, printed and kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from tallyglass.moment import iso
from tallyglass.report.document import Bar, Block, Code, Document, Facts, Paragraph, Table, TimeLine

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #57606a; --paper: #ffffff; --line: #d0d7de; --shade: #f6f8fa;
  --bar: #8c959f; --chosen: #bc4c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --quiet: #9198a1; --paper: #0d1117; --line: #3d444d;
  --shade: #151b23; --bar: #656c76; --chosen: #f0883e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
time { white-space: nowrap; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
  font-size: .85rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; }
th { color: var(--quiet); font-weight: 600; }
.right { text-align: right; }
dl { display: grid; grid-template-columns: minmax(7rem, 14rem) 1fr; gap: .25rem 1rem; margin: .5rem 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; overflow-x: auto;
  font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.bar { display: grid; grid-template-columns: minmax(9rem, 22rem) 1fr; gap: .1rem 1rem; align-items: center;
  font-size: .9rem; padding: .15rem 0; overflow-wrap: anywhere; }
.bar svg { display: block; width: 100%; height: 14px; background: var(--shade); border-radius: 3px; }
.bar rect { fill: var(--bar); } .chosen rect { fill: var(--chosen); } .chosen { font-weight: 600; }
.axis { display: flex; justify-content: space-between; color: var(--quiet); font-size: .8rem; }
footer { margin-top: 2.5rem; color: var(--quiet); font-size: .85rem; }
@media (max-width: 40rem) { h1 { font-size: 1.35rem; }
  dl, .bar { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
  thead { display: none; } tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td, td.right { display: block; text-align: left; padding: 0; border: 0; } td:empty { display: none; }
  td::before { content: attr(data-head) " "; color: var(--quiet); } }
@media print { :root { --ink: #000; --quiet: #444; --paper: #fff; --line: #bbb; --shade: #f4f4f4; --bar: #999;
  --chosen: #b34700; } main { max-width: none; padding: 0; } .bar rect { print-color-adjust: exact; }
  .wide { overflow: visible; } table { font-size: .7rem; } th, td { padding-right: .5rem; }
  h2 { break-after: avoid; } .bar, tr { break-inside: avoid; } }
"""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_WHOLE_TIME = r"<time>\g<0></time>"
"""A time in the title or in a table, which a narrow screen does not break."""

_AXIS = 1000
"""The length of the time line in the units of its pictures."""

_LEAST_WIDTH = 6
"""Of a bar that lasts no time, so that it can be seen."""


def to_html(document: Document) -> str:
    """The whole file. All text is escaped; a policy in the file forbids everything but its own style."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{_TIME.sub(_WHOLE_TIME, escape(document.title))}</h1>"
    for block in document.lead:
        yield from _block(block)
    for section in document.sections:
        yield f"<section>\n<h2>{escape(section.title)}</h2>"
        for block in section.blocks:
            yield from _block(block)
        yield "</section>"
    yield f"<footer>{escape(document.made)}</footer>\n</main>\n</body>\n</html>"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, strong):
            yield f"<p>{f'<strong>{escape(text)}</strong>' if strong else escape(text)}</p>"
        case Facts(pairs):
            yield "<dl>"
            yield from (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value)
            yield "</dl>"
        case Table():
            yield from _table(block)
        case Code(lines):
            yield f"<pre>{escape(chr(10).join(lines))}</pre>"
        case TimeLine(bars):
            yield from _time_line(bars)


def _table(table: Table) -> Iterator[str]:
    yield '<div class="wide"><table><thead>'
    yield _row("th", table.head, table)
    yield "</thead><tbody>"
    yield from (_row("td", row, table) for row in table.rows)
    yield "</tbody></table></div>"


def _row(tag: str, cells: Sequence[str], table: Table) -> str:
    """A row. Each cell knows its column's title, which a narrow screen shows beside it."""
    marks = (
        f' data-head="{escape(title)}"' + ' class="right"' * (n in table.right) for n, title in enumerate(table.head)
    )
    texts = (_TIME.sub(_WHOLE_TIME, escape(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}{mark}>{text}</{tag}>' for text, mark in zip(texts, marks, strict=True))}</tr>"


def _time_line(bars: Sequence[Bar]) -> Iterator[str]:
    if not bars:
        return
    first, last = min(bar.first for bar in bars), max(bar.last for bar in bars)
    for bar in bars:
        start, width = _place(bar, first, last)
        yield (
            f'<div class="bar{" chosen" if bar.chosen else ""}"><span><time>{iso(bar.first)}</time> '
            f"{escape(bar.label)}</span>"
            f'<svg viewBox="0 0 {_AXIS} 14" preserveAspectRatio="none" role="img" aria-label="'
            f'{iso(bar.first)} to {iso(bar.last)}"><rect x="{start}" y="1" width="{width}" height="12"/></svg></div>'
        )
    ends = "".join(f"<span>{iso(end)}</span>" for end in (first, last))
    yield f'<div class="bar"><span></span><span class="axis">{ends}</span></div>'


def _place(bar: Bar, first: datetime, last: datetime) -> tuple[int, int]:
    """Where a bar begins on the axis, and how wide it is."""
    span = (last - first).total_seconds() or 1.0
    width = max(round((bar.last - bar.first).total_seconds() / span * _AXIS), _LEAST_WIDTH)
    return min(round((bar.first - first).total_seconds() / span * _AXIS), _AXIS - width), width
