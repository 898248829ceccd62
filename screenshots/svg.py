"""Make Textual's SVG self-contained, and join several of them into an animation."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

_FONT_FACE = re.compile(r"\s*@font-face\s*\{.*?\}(?=\s)", re.DOTALL)
_FONTS = '"DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace'
_TEXT = re.compile(r'<text class="([^"]+)" x="([\d.]+)" (y="[^"]+") textLength="[\d.]+" ([^>]*)>([^<]*)</text>')
_CELL = 12.2
"""Width of a cell in the SVG of Rich."""
_SPACE = "&#160;"
_CAPTION_HEIGHT = 60
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


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of a film, with the key that led to it (or none) and a caption below."""

    svg: str
    seconds: float
    key: str = ""
    caption: str = ""


def animate(frames: Sequence[Frame]) -> str:
    """Return one SVG that shows each frame for its seconds in a loop, using only CSS.

    It shows the last frame if the viewer prefers reduced motion (``prefers-reduced-motion``).
    """
    total = sum(frame.seconds for frame in frames)
    rules, groups, at = [], [], 0.0
    width = height = 0.0
    for number, frame in enumerate(frames):
        outer = _OUTER.search(frame.svg)
        assert outer, "a frame is an SVG"
        box = _VIEW_BOX.search(outer[1])
        assert box, "a frame has a size"
        width, height = (max(*pair) for pair in zip((width, height), map(float, box[1].split()[2:]), strict=True))
        start, end = 100 * at / total, 100 * (at + frame.seconds) / total
        before = "0% { opacity: 0; } " if number else ""
        after = f" {end:.3f}%, 100% {{ opacity: 0; }}" if number < len(frames) - 1 else " 100% { opacity: 1; }"
        rules.append(f"@keyframes show-{number} {{ {before}{start:.3f}% {{ opacity: 1; }}{after} }}")
        rules.append(f"#frame-{number} {{ opacity: {int(number == 0)}; animation-name: show-{number}; }}")
        groups.append(f'<g id="frame-{number}" class="frame">{outer[2]}{_caption(frame, width, height)}</g>')
        at += frame.seconds
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
    whole = f"0 0 {width:g} {height + _CAPTION_HEIGHT:g}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{whole}">\n<style>\n{style}\n</style>\n{body}\n</svg>\n'


def _caption(frame: Frame, width: float, top: float) -> str:
    """The key as a key cap, and the caption, on a bar below the frame."""
    font, size = html.escape(_FONTS), _CELL / 0.6
    cap = len(frame.key) * _CELL + 2 * _CELL if frame.key else 0
    shapes = f'<rect x="1" y="{top + 4:g}" width="{width - 2:g}" height="{_CAPTION_HEIGHT - 4}" rx="8" fill="#292929"/>'
    texts = [(_CELL * 2 + cap + _CELL * bool(cap), frame.caption, "#ffffff")]
    if frame.key:
        shapes += f'<rect x="{2 * _CELL:g}" y="{top + 12:g}" width="{cap:g}" height="34" rx="6" fill="#f5d90a"/>'
        texts.append((3 * _CELL, frame.key, "#000000"))
    for x, text, colour in texts:
        shapes += (
            f'<text x="{x:g}" y="{top + 36:g}" font-family="{font}" font-size="{size:.1f}" font-weight="bold" '
            f'fill="{colour}">{html.escape(text)}</text>'
        )
    return shapes
