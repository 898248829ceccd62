r"""Texts that attack terminals, markup, layouts and shells, and documents that attack decoders.

Import them with ``from hostile.samples import TEXTS, ...``. :func:`control_bytes` and :func:`hidden` find what must
never appear in the output of a program that does not draw.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"

ESCAPES: dict[str, str] = {
    "clipboard": f"{ESC}]52;c;cHduZWQ={BEL}",
    "clipboard st": f"{ESC}]52;c;cHduZWQ={ST}",
    "c1 osc": "\x9d52;c;cHduZWQ=\x9c",
    "c1 csi": "\x9b31m\x9b2J",
    "c1 dcs": "\x90$qm\x9c",
    "clear": f"{ESC}[2J{ESC}[HAll backups are fine.",
    "title": f"{ESC}]0;pwned{BEL}{ESC}]2;pwned{BEL}{ESC}[21t",
    "report": f"{ESC}[6n{ESC}[c{ESC}[>q",
    "request": f"{ESC}P$qm{ST}",
    "unterminated osc": f"{ESC}]0;never ends",
    "unterminated dcs": f"{ESC}Pnever ends",
    "apc pm sos": f"{ESC}_a{ESC}^b{ESC}Xc",
    "reset": f"{ESC}c{ESC}[?1049l{ESC}[?1000h{ESC}[?2004l",
    "paste end": f"{ESC}[201~touch PWNED\n{ESC}[200~",
    "hyperlink": f"{ESC}]8;;http://evil.example/{ST}click{ESC}]8;;{ST}",
    "kitty sixel iterm": f"{ESC}_Gf=24;AAAA{ST}{ESC}Pq#0{ST}{ESC}]1337;File=:QQ=={BEL}",
    "shift nul": "a\x0e\x0fb\x01c",
    "bells": BEL * 50,
    "overwrite": "drop nothing\rDROP EVERYTHING\x08\x08\x08",
    "delete": "a\x7f\x7fb",
    "line kill": "a\x15b\x03c\x12d\x16e\x04",
    "lines": "first\nsecond\r\nthird\x0bfourth\x0cfifth",
    "tab": "a\tb\t\tc",
}
MARKUP: dict[str, str] = {
    "close": "[/]",
    "close x": "[/x] [/red]",
    "open": "[",
    "open b": "[b",
    "red": "[red]x[/blue]",
    "action": "[@click=app.quit]x[/]",
    "broken action": "[@click=",
    "link": "[link=javascript:alert(1)]x[/link]",
    "variable": "[$error]x",
    "backslash": "\\\\[b]\\",
}
SPOOFS: dict[str, str] = {
    "bidi": "abc\u202edcba\u202c\u2066x\u2069",
    "zero width": "or\u200bde\u200drs\ufeff",
    "tags": "a\U000e0041\U000e0042b",
    "separators": "a\u2028b\u2029c\u0085d",
    "zalgo": "z" + "\u0301\u0489" * 2500,
    "selector": "❤\ufe0f1\ufe0f\u20e3👍\U0001f3fd",
    "filler": "a\u3164\u115f\uffa0b",
    "wide": "表示" * 60,
    "emoji": "👩\u200d👩\u200d👧\u200d👦🏴\u200d☠️" * 20,
    "private": "\ue000\U000f0000\uffff",
}
SHELL: dict[str, str] = {
    "substitution": "$(touch PWNED)",
    "backticks": "`touch PWNED`",
    "semicolon": "x;touch PWNED;y",
    "single quote": "a'b'; touch PWNED; '",
    "double quote": 'a"b"; touch PWNED; "',
    "and pipe": "a && touch PWNED | tee PWNED > PWNED",
    "line feed": "a\ntouch PWNED\n",
    "dash": "-rf",
    "option": "--uri=mongodb://evil.example/",
    "history": "!!",
    "tilde": "~root",
    "glob": "*?[a-z]",
    "variable": "$HOME ${PATH}",
    "percent": "%s %n %41",
    "backslashes": "\\x1b[2J \\n \\",
    "escape look": r"or\u{200b}de",
}
TEXTS: dict[str, str] = {
    f"{kind}: {name}": text
    for kind, texts in (("escape", ESCAPES), ("markup", MARKUP), ("spoof", SPOOFS), ("shell", SHELL))
    for name, text in texts.items()
}
"""All texts by a name that is safe to show."""

BIG = "A\x1b[31m" * 170_000
"""A text of about 1 MB."""


def nested(depth: int = 178) -> dict[str, Any]:
    """Return a document with ``depth`` levels. A field of a stored document takes 178 at most (180 in all)."""
    inner: dict[str, Any] = {"end": "\x1b[2J"}
    for _ in range(depth):
        inner = {"d": inner}
    return inner


VALUES: dict[str, Any] = {
    "big": BIG,
    "deep": nested(),
    "many keys": {f"k{n}\x1b": n for n in range(5_000)},
    "nul": "a\x00b",
    "no name": {"": {"": ""}},
    "operator": {"$where": "while(1);"},
    "reference": DBRef("c\x1b[2J", ObjectId(), "d"),
    "not a number": [float("nan"), float("inf"), Decimal128("NaN"), Decimal128("-Infinity")],
    "binary": [Binary(b"\x1b[2J", 0x80), Binary(b"\x00" * 16, 4)],
    "ends": [MinKey(), MaxKey()],
    "code": [Code("x\x1b"), Code("x", {"y\x1b": 1})],
    "expression": Regex("(\x1b[[", "i"),
    "far date": [DatetimeMS(2**62), DatetimeMS(-(2**62))],
    "numbers": [Int64(2**63 - 1), Timestamp(2**32 - 1, 2**32 - 1)],
}
"""Values of other types and sizes that may break a reader."""

BAD_UTF8 = b"bad \xff\xfe\xed\xa0\x80 utf-8"
"""Bytes that BSON forbids in a string and that servers store nevertheless."""


def database_names() -> dict[str, str]:
    """Return the texts as database names: shortened, with the characters that the server refuses replaced."""
    refused = str.maketrans(dict.fromkeys('\0 "$./\\', "_"))
    return {name: _truncated(text.translate(refused), 50) for name, text in TEXTS.items()}


def collection_names() -> dict[str, str]:
    """Return the texts as collection names that PyMongo accepts."""
    names = {}
    for name, text in TEXTS.items():
        shown = _truncated(text.replace("\0", "_").replace("$", "_").replace("..", "__"), 120).strip(".")
        names[name] = shown or "_"
    return names


def user_names() -> list[str]:
    """Return hostile user names. The server accepts every non-empty name."""
    return [ESCAPES["clear"], MARKUP["action"], SHELL["single quote"], "a@b:c/d%40", SPOOFS["bidi"]]


def _truncated(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def control_bytes(data: bytes) -> set[int]:
    """Return the bytes that control a terminal, except line feeds. C1 characters count in their UTF-8 form."""
    found = {byte for byte in data if (byte < 0x20 and byte != 0x0A) or byte == 0x7F}
    return found | {ord(char) for char in data.decode(errors="replace") if 0x80 <= ord(char) < 0xA0}


def hidden(text: str) -> set[str]:
    """Return the characters that are invisible or reorder the text around them."""
    return {
        char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    }
