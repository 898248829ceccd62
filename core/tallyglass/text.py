r"""Make untrusted text safe to show on a terminal and safe to paste into a shell.

Every string from a server (names, ids, documents, error texts) must pass :func:`clean`, and every name
:func:`clean_name`, before it reaches a screen. Nothing is removed: characters that would control the terminal or be
invisible become visible escapes such as ``\u{1b}``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

CELL_LIMIT = 400
"""Default limit of :func:`clean`, in characters."""
_MINUTE, _HOUR, _DAY, _YEAR = 60.0, 3600.0, 86400.0, 365.25 * 86400.0
"""Seconds."""
_FAR_YEARS = 1000
"""Years beyond which a number of them says no more than "never"."""

# Invisible or blank characters outside the categories that are always escaped.
_FILLERS = frozenset("\u3164\u115f\u1160\uffa0\u00ad\ufe0e\ufe0f\u2800\u034f\u17b4\u17b5")
# Some terminals combine a skin tone with the character before it, others draw it in two cells.
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_AMBIGUOUS = _FILLERS | _SKIN_TONES
_MARKS = frozenset({"Mn", "Me"})
_MARKS_PER_BASE = 2
"""Combining marks on one character: living scripts need two, and more can cover the lines around it."""

_PRINTABLE_ASCII = re.compile(r"[\x20-\x7e]*\Z")
_LOOKS_ESCAPED = re.compile(r"\\(?=u\{[0-9a-fA-F]+\})")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
_LONG_FORMS = {ord(char): f"\\u{{{ord(char):x}}}" for char in "\t\n\r"}
# At most one =, and not at the start: zsh expands =ls, and with an option also --file==ls, to the path of ls.
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_@%+:,./-]+(=[A-Za-z0-9_@%+:,./-]*)?\Z")


def clean(value: str, limit: int = CELL_LIMIT) -> str:
    r"""Return ``value`` as one line of visible characters, at most about ``limit`` characters of it.

    Control, format, private, unassigned and surrogate characters, separators, invisible fillers and skin tones
    become ``\u{hex}`` (TAB, LF and CR the short ``\t``, ``\n``, ``\r``); a third and further combining mark
    on one base too. A longer value ends in ``…+N``, where N is the number of characters cut off.
    """
    return _bounded(_escaped(value[:limit]), len(value) - limit)


def clean_name(value: str, limit: int = CELL_LIMIT) -> str:
    r"""Like :func:`clean` for a name from a server: different names stay different.

    TAB, LF and CR take the long form too, and the backslash of a name that contains the text of an escape is itself
    escaped: ``\u{5c}u{1b}``. So every ``\u{hex}`` stands for one character, and any other backslash for itself. Only
    names longer than ``limit`` can become equal. :func:`clean` leaves the result unchanged.
    """
    kept = value[:limit]
    if "\\" in kept:
        kept = _LOOKS_ESCAPED.sub(r"\\u{5c}", kept)
    return _bounded(_escaped(kept if kept.isprintable() else kept.translate(_LONG_FORMS)), len(value) - limit)


def plural(number: int, singular: str, plural_form: str = "") -> str:
    """``1 counter``, ``2 counters``; or ``1 entry is``, ``2 entries are`` with both forms given."""
    return f"{number:,} {singular if number == 1 else plural_form or singular + 's'}"


def duration(seconds: float) -> str:
    """About how long, in two units at most: ``45 s``, ``12 min``, ``5 h 20``, ``3 d 4 h``, ``86 d``, ``4.2 y``."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * _MINUTE:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        hours, rest = divmod(round(seconds / _MINUTE), 60)
        return f"{hours} h {rest:02d}" if hours < 10 else f"{seconds / _HOUR:.0f} h"
    if seconds < 10 * _DAY:
        days, hours = divmod(round(seconds / _HOUR), 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    if seconds < 2 * _YEAR:
        return f"{seconds / _DAY:.0f} d"
    years = seconds / _YEAR
    return f"{years:.1f} y" if years < 100 else f"{years:,.0f} y" if years < _FAR_YEARS else f">{_FAR_YEARS:,} y"


def whole_duration(seconds: int) -> str:
    """A measured span to the second, in its two largest units: ``48 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    for size, unit, below, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            return f"{whole} {unit}" + (f" {rest // below} {small}" if rest // below else "")
    return f"{seconds} s"


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Some names from a server in one line, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(clean_name, names[:most])) + more


def unescape_name(shown: str) -> str:
    """The inverse of :func:`clean_name`, for a name that was not cut."""
    return _ESCAPED.sub(lambda found: chr(code) if (code := int(found[1], 16)) <= sys.maxunicode else found[0], shown)


def _escaped(text: str) -> str:
    return text if text.isascii() and text.isprintable() else "".join(_visible(text))


def _bounded(text: str, left_out: int) -> str:
    return f"{text}…+{left_out}" if left_out > 0 else text


def clean_block(value: str, limit: int = 200_000) -> str:
    """Like :func:`clean` for text of several lines: line feeds are kept."""
    kept, rest = value[:limit], len(value) - limit
    lines = "\n".join(clean(line, limit) for line in kept.split("\n"))
    return f"{lines}\n…+{rest}" if rest > 0 else lines


def _visible(value: str) -> Iterable[str]:
    marks = 0
    for char in value:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if category in _HIDDEN or char in _AMBIGUOUS or marks > _MARKS_PER_BASE:
            yield _escape(char)
        else:
            yield char


def _escape(char: str) -> str:
    return {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(char) or f"\\u{{{ord(char):x}}}"


def shell_quote(word: str) -> str:
    r"""Quote one argument so that bash and zsh receive exactly its bytes, in a script and when pasted.

    Printable ASCII goes into single quotes; anything else into the ``$'\xHH'`` form, because control
    bytes inside single quotes still act in an interactive line editor. The result is printable ASCII
    on one line. dash does not support ``$'..'``.

    Raises ValueError for a NUL, which no argument can contain.
    """
    if "\0" in word:
        raise ValueError("an argument cannot contain NUL")
    if _NEEDS_NO_QUOTES.match(word):
        return word
    if _PRINTABLE_ASCII.match(word):
        return "'" + word.replace("'", "'\\''") + "'"
    return "$'" + "".join(_ansi_c(byte) for byte in word.encode("utf-8", "surrogateescape")) + "'"


def _ansi_c(byte: int) -> str:
    if byte in b"\\'":
        return "\\" + chr(byte)
    if 0x20 <= byte <= 0x7E:
        return chr(byte)
    return f"\\x{byte:02x}"


def shell_join(argv: Iterable[str]) -> str:
    """Return a command line from an argument list, with each word quoted by :func:`shell_quote`."""
    return " ".join(shell_quote(word) for word in argv)
