"""Text in a fixed number of terminal cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
_NUMBER = re.compile(r"\W*[\d.,]{1,9}")


def fit(text: str, width: int, *, right: bool = False) -> str:
    """``text`` in exactly ``width`` cells: padded, or cut with an ellipsis.

    A long text is cut before it is measured, so that its length costs nothing.
    """
    if width <= 0:
        return ""
    text = text[: width * 4 + 1]
    length = cell_len(text)
    if length > width:
        return ELLIPSIS if width == 1 else set_cell_size(text, width - 1) + ELLIPSIS
    pad = " " * (width - length)
    return pad + text if right else text + pad


def fit_middle(text: str, width: int) -> str:
    """Like :func:`fit`, but cut in the middle, so that both ends of a name stay."""
    text = text[:2000]
    if cell_len(text) <= width or width < 8:
        return fit(text, width)
    head = (width - 1) // 2
    tail = width - 1 - head
    return fit(set_cell_size(text, head) + ELLIPSIS + _last_cells(text, tail), width)


def whole_pieces(pieces: Iterable[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """The pieces of a line that fit, none of them cut; the first is always there. What matters most comes first."""
    kept: list[tuple[str, str]] = []
    for text, style in pieces:
        width -= cell_len(text[: width + 1])
        if width >= 0 or not kept:
            kept.append((text, style))
        if width < 0:
            break
    return kept


def joined(pieces: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Runs of one style as one piece: fewer segments, fewer bytes."""
    return [("".join(text for text, _ in run), style) for style, run in groupby(pieces, key=itemgetter(1))]


def hanging(head: tuple[str, str], lines: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Lines beside their head; those below the first are indented by its width."""
    indent = (" " * cell_len(head[0]), "")
    return [[indent if number else head, line] for number, line in enumerate(lines)]


def wrap(text: str, width: int, indent: str = "   ") -> list[str]:
    """Break at spaces into lines of ``width`` cells, all but the first indented; a longer word is cut."""
    lines: list[str] = []
    line, *words = _words(text)
    for word in words:
        joined = f"{line} {word}"
        if cell_len(joined) <= width or not line.strip():
            line = joined
        else:
            lines.append(line)
            line = indent + word
    return [fit(line, width) for line in [*lines, line]]


def wrap_words(text: str, width: int) -> list[str]:
    """Break at spaces into lines of at most ``width`` cells; a word that is longer is broken too. All lines of a
    paragraph are indented as its first one is."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line, words = "", paragraph.lstrip(" ")
        indent = paragraph[: min(len(paragraph) - len(words), width // 2)]
        room = width - len(indent)
        for word in _words(words):
            joined = f"{line} {word}" if line else word
            if cell_len(joined) <= room:
                line = joined
                continue
            if line:
                lines.append(indent + line)
            *whole, line = wrap_cells(word, room)
            lines += [indent + part for part in whole]
        lines.append(indent + line if line else "")
    return lines


def at_most(lines: Sequence[str], most: int, width: int) -> list[str]:
    """The first ``most`` of the lines of a text; where there are more, the last one shows that it is cut."""
    if len(lines) <= most:
        return [*lines]
    return [*lines[: most - 1], fit(f"{lines[most - 1].rstrip()} {lines[most].strip()}", width)]


def _words(text: str) -> list[str]:
    """The words of a text; a number and its unit, or what it counts, are one."""
    words: list[str] = []
    for word in text.split(" "):
        if words and word[:1].islower() and _NUMBER.fullmatch(words[-1]):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def wrap_cells(text: str, width: int) -> list[str]:
    """Break anywhere into lines of at most ``width`` cells, so that the lines joined are the text again."""
    lines: list[str] = []
    while cell_len(text) > width:
        kept = len(set_cell_size(text, width).rstrip()) if not text.isascii() else width
        kept = max(1, min(kept, len(text)))
        lines.append(text[:kept])
        text = text[kept:]
    return [*lines, text]


def _last_cells(text: str, width: int) -> str:
    kept = text[-width:]
    while cell_len(kept) > width:
        kept = kept[1:]
    return kept
