"""Make Textual's SVG self-contained, and join several of them into an animation."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from rich.cells import cell_len

_FONT_FACE = re.compile(r"\s*@font-face\s*\{.*?\}(?=\s)", re.DOTALL)
_FONTS = '"DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace'
_TEXT = re.compile(r'<text class="([^"]+)" x="([\d.]+)" (y="[^"]+") textLength="[\d.]+" ([^>]*)>([^<]*)</text>')
_CELL = 12.2
"""Width of a cell in the SVG of Rich."""
_SPACE = "&#160;"
_OUTER = re.compile(r"<svg\b([^>]*)>(.*)</svg>", re.DOTALL)
_VIEW_BOX = re.compile(r'viewBox="([^"]+)"')


def tidy(svg: str) -> str:
    """Use the viewer's own monospace font, so that nothing is fetched."""
    svg = _FONT_FACE.sub("", svg)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {_FONTS}")
    svg = _TEXT.sub(_without_blanks, svg)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def _without_blanks(found: re.Match[str]) -> str:
    """Strip the blanks around a text and move it accordingly, since some viewers drop leading blanks."""
    styles, x, y, rest, text = found.groups()
    while text.endswith(_SPACE):
        text = text.removesuffix(_SPACE)
    start = float(x)
    while text.startswith(_SPACE):
        text, start = text.removeprefix(_SPACE), start + _CELL
    if not text:
        return ""
    width = cell_len(html.unescape(text)) * _CELL
    return f'<text class="{styles}" x="{start:g}" {y} textLength="{width:g}" {rest}>{text}</text>'


def animate(frames: Sequence[tuple[str, float]]) -> str:
    """Return one SVG that shows each frame for its seconds in a loop, using only CSS.

    It shows the last frame if the viewer prefers reduced motion (``prefers-reduced-motion``).
    """
    total = sum(seconds for _, seconds in frames)
    rules, groups, at = [], [], 0.0
    box = ""
    for number, (svg, seconds) in enumerate(frames):
        outer = _OUTER.search(svg)
        assert outer, "a frame is an SVG"
        found = _VIEW_BOX.search(outer[1])
        box = box or (found[1] if found else "")
        start, end = 100 * at / total, 100 * (at + seconds) / total
        before = "0% { opacity: 0; } " if number else ""
        after = f" {end:.3f}%, 100% {{ opacity: 0; }}" if number < len(frames) - 1 else " 100% { opacity: 1; }"
        rules.append(f"@keyframes show-{number} {{ {before}{start:.3f}% {{ opacity: 1; }}{after} }}")
        rules.append(f"#frame-{number} {{ opacity: {int(number == 0)}; animation-name: show-{number}; }}")
        groups.append(f'<g id="frame-{number}" class="frame">{outer[2]}</g>')
        at += seconds
    last = len(frames) - 1
    style = "\n".join(
        [
            f".frame {{ animation-duration: {total:g}s; animation-timing-function: step-end; "
            "animation-iteration-count: infinite; }",
            *rules,
            "@media (prefers-reduced-motion: reduce) {",
            f".frame {{ animation: none; opacity: 0; }} #frame-{last} {{ opacity: 1; }}",
            "}",
        ]
    )
    body = "\n".join(groups)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">\n<style>\n{style}\n</style>\n{body}\n</svg>\n'
