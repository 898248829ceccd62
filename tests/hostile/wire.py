r"""What leaves the dashboard for the terminal: only what the dashboard itself draws with may be in it.

An allow-list, not a list of attacks: a sequence that is not known here is an offence, whoever sent it.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import NamedTuple

_OWN = re.compile(
    rb"\r\n"
    # Positions; attributes on and off, true colours and the default ones, never one of the sixteen.
    rb"|\x1b\[\d+;\d+H"
    rb"|\x1b\[(?:(?:\d|2[1-9]|[34]9|[34]8;2;\d+;\d+;\d+)(?:;(?=\d)|(?=m)))+m"
    # On: alternate screen, focus reports, pasting in brackets, whole frames. Off: cursor, line wrap.
    rb"|\x1b\[\?(?:1049|1004|2004|2026)h|\x1b\[\?(?:25|7|2026)l"
    # Asked once: whole frames, sizes within the stream. Keys told apart. The plain mouse pointer.
    rb"|\x1b\[\?(?:2026|2048)\$p|\x1b\[>25u|\x1b\]22;default\x07"
    rb"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"
)
_BEGUN = re.compile(rb"\x1b[^\x1b]{0,60}\Z|[\xc2-\xf4][\x80-\xbf]*\Z")
_LEAVE = b"\x1b[?2004l"
_ACTS = re.compile("[\x00-\x1f\x7f-\x9f]")
_HIDES = frozenset({"Cf", "Cs", "Co", "Zl", "Zp"})


class Offence(NamedTuple):
    """What must not have been sent: where in the stream the text around it begins, and the text from there on."""

    at: int
    text: str


def offences(raw: bytes, *, left: bool = False) -> list[Offence]:
    """What is in the stream that must not be. A sequence that only begins at its end is not judged yet.

    ``left``: the dashboard has ended, and gave the terminal back from the last sequence on that leaves a mode.
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
    """The texts that were copied, in order."""
    return [base64.b64decode(found[1]).decode() for found in re.finditer(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", raw)]
