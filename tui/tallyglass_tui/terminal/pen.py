"""Fewer bytes for the same picture: colours and attributes are sent only where they change.

Textual sends the whole style before every run of cells and a reset after it, about 40 bytes for 5 cells. A
terminal keeps its current style across cursor moves, so an unchanged style need not be sent again.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"(\x1b\[[\d;]*m)|(\x1b\[[?<>]?[\d;]*[^\d;m])")
_NO_PEN = "Hhlpu"
"""The last letters of sequences that draw nothing: cursor, modes, queries, keyboard protocol."""
_RESET: tuple[str, str, frozenset[str]] = ("", "", frozenset[str]())

Attributes = frozenset[str]
Style = tuple[str, str, Attributes]
"""Foreground, background, attributes; an empty text is the default."""


class Pen:
    """Tracks the current style of the terminal; :meth:`compress` leaves out what is already set.

    It knows the sequences that Textual writes; after an unknown one the whole style is sent again.
    """

    def __init__(self) -> None:
        self._held: Style | None = None

    def forget(self) -> None:
        """The current style is unknown: output bypassed this object, or was dropped."""
        self._held = None

    def compress(self, text: str) -> str:
        """Return output that draws the same in fewer bytes. ``text`` begins and ends with a reset style."""
        out: list[str] = []
        wanted: Style | None = _RESET
        place = 0
        for found in _PARTS.finditer(text):
            written = text[place : found.start()]
            # A new line before a move to a position has no effect, and would cost the plain style and the one after.
            if written and not (written == "\n" and found[2] and found[2][-1] == "H"):
                out += [self._to(wanted), written]
            place = found.end()
            if found[1]:
                before, wanted = wanted, parse(found[1][2:-1], wanted)
                if wanted is None:
                    out += [self._to(before), found[1]]
                    self._held = None
            else:
                out += ["" if found[2][-1] in _NO_PEN else self._to(wanted), found[2]]
        if place < len(text):
            out += [self._to(wanted), text[place:]]
        return "".join(out)

    def _to(self, wanted: Style | None) -> str:
        """The sequence that sets the style."""
        held, self._held = self._held, wanted
        if wanted is None or wanted == held:
            return ""
        if held is None or held[2] - wanted[2]:
            return f"\x1b[{';'.join(['0', *sorted(wanted[2]), *filter(None, wanted[:2])])}m"
        parts = sorted(wanted[2] - held[2])
        parts += [wanted[0] or "39"] if wanted[0] != held[0] else []
        parts += [wanted[1] or "49"] if wanted[1] != held[1] else []
        return f"\x1b[{';'.join(parts)}m"


def parse(codes: str, held: Style | None) -> Style | None:
    """The style after a sequence of SGR codes; None if unknown."""
    numbers = codes.split(";") if codes else ["0"]
    style = held
    index = 0
    while index < len(numbers):
        number = numbers[index]
        length = 1
        if number in ("38", "48"):
            length = 5 if numbers[index + 1 : index + 2] == ["2"] else 3
        code = ";".join(numbers[index : index + length])
        style = _after(number, code, style)
        if style is None:
            return None
        index += length
    return style


def _after(number: str, code: str, style: Style | None) -> Style | None:
    if number in ("0", ""):
        return _RESET
    if style is None:
        return None
    value = int(number)
    if value in (39, 49):
        return ("", *style[1:]) if value == 39 else (style[0], "", style[2])
    if value == 38 or 30 <= value <= 37 or 90 <= value <= 97:
        return (code, style[1], style[2])
    if value == 48 or 40 <= value <= 47 or 100 <= value <= 107:
        return (style[0], code, style[2])
    return (style[0], style[1], style[2] | {number}) if 1 <= value <= 9 else None
