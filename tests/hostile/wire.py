r"""Check the bytes that the dashboard sends to the terminal.

This is an allow-list and not a list of attacks: every sequence that it does not contain is an offence.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import NamedTuple

_OWN = re.compile(
    rb"\r\n"
    # Cursor position; attributes on and off; true colour and default colours, never the 16 palette colours.
    rb"|\x1b\[\d+;\d+H"
    rb"|\x1b\[(?:(?:\d|2[1-9]|[34]9|[34]8;2;\d+;\d+;\d+)(?:;(?=\d)|(?=m)))+m"
    # On: alternate screen, focus reports, bracketed paste, synchronized output. Off: cursor, line wrap.
    rb"|\x1b\[\?(?:1049|1004|2004|2026)h|\x1b\[\?(?:25|7|2026)l"
    # Queries for synchronized output and in-band sizes; the kitty keyboard protocol; the default mouse pointer.
    rb"|\x1b\[\?(?:2026|2048)\$p|\x1b\[>25u|\x1b\]22;default\x07"
    rb"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"
)
_BEGUN = re.compile(rb"\x1b[^\x1b]{0,60}\Z|[\xc2-\xf4][\x80-\xbf]*\Z")
_LEAVE = b"\x1b[?2004l"
_ACTS = re.compile("[\x00-\x1f\x7f-\x9f]")
_HIDES = frozenset({"Cf", "Cs", "Co", "Zl", "Zp"})


class Offence(NamedTuple):
    """Something that must not be sent: the offset of the text that contains it, and that text."""

    at: int
    text: str


def offences(raw: bytes, *, left: bool = False) -> list[Offence]:
    """Return everything in the stream that must not be there. An incomplete sequence at its end is ignored.

    ``left``: the dashboard has exited. What follows the last sequence that leaves a mode is ignored.
    """
    end = raw.rindex(_LEAVE) if left else len(_BEGUN.sub(b"", raw))
    found, begin = [], 0
    for known in [*_OWN.finditer(raw, 0, end), None]:
        part = raw[begin : known.start() if known else end]
        text = part.decode("utf-8", "surrogateescape")
        if _ACTS.search(text) or (not text.isascii() and any(unicodedata.category(char) in _HIDES for char in text)):
            found.append(Offence(begin, ascii(text[:80])))
        begin = known.end() if known else end
    return found


def clipboards(raw: bytes) -> list[str]:
    """Return the texts that were copied, in order."""
    return [base64.b64decode(found[1]).decode() for found in re.finditer(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", raw)]
