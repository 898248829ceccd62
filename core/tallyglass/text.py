r"""Make untrusted text safe to show on a terminal, and safe to paste into a shell.

Every string that comes from a server (names, ids, documents, error texts) passes :func:`clean` before
it may reach a screen, and a name :func:`clean_name`. Nothing is deleted: what would act on a terminal, or would
hide, becomes a visible escape such as ``\u{1b}``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable

CELL_LIMIT = 400
"""Characters of one value that :func:`clean` keeps unless told otherwise."""

# Invisible or blank characters outside the categories that are always escaped.
_FILLERS = frozenset("\u3164\u115f\u1160\uffa0\u00ad\ufe0e\ufe0f\u2800\u034f\u17b4\u17b5")
# Some terminals draw a skin tone onto the character before it, others into two cells of its own.
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_UNSURE = _FILLERS | _SKIN_TONES
_MARKS = frozenset({"Mn", "Me"})
_MARKS_PER_BASE = 2

_PRINTABLE_ASCII = re.compile(r"[\x20-\x7e]*\Z")
_LOOKS_ESCAPED = re.compile(r"\\(?=u\{[0-9a-fA-F]+\})")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
_LONG_FORMS = {ord(char): f"\\u{{{ord(char):x}}}" for char in "\t\n\r"}
# One = at most, and not in front: zsh takes =ls, and with one of its options --file==ls, for the path of ls.
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_@%+:,./-]+(=[A-Za-z0-9_@%+:,./-]*)?\Z")


def clean(value: str, limit: int = CELL_LIMIT) -> str:
    r"""Return ``value`` as one line of visible characters, at most about ``limit`` characters of it.

    Control, format, private, unassigned and surrogate characters, separators, invisible fillers and skin tones
    become ``\u{hex}`` (TAB, LF and CR the short ``\t``, ``\n``, ``\r``); a third and further combining mark
    on one base too. A longer value ends in ``…+N`` with the number of characters left out.
    """
    return _bounded(_shown(value[:limit]), len(value) - limit)


def clean_name(value: str, limit: int = CELL_LIMIT) -> str:
    r"""Like :func:`clean` for a name as it comes from a server: two that differ never come out the same.

    TAB, LF and CR have the long form too, and a name that holds the text of an escape has its backslash escaped:
    ``\u{5c}u{1b}``. So every ``\u{hex}`` stands for one character, and any other backslash for itself. Only names
    longer than ``limit`` can come out alike. What has passed here may pass :func:`clean` any number of times.
    """
    kept = value[:limit]
    if "\\" in kept:
        kept = _LOOKS_ESCAPED.sub(r"\\u{5c}", kept)
    return _bounded(_shown(kept if kept.isprintable() else kept.translate(_LONG_FORMS)), len(value) - limit)


def meant(shown: str) -> str:
    """The name that :func:`clean_name` made ``shown`` of, where it is not cut."""
    return _ESCAPED.sub(lambda found: chr(code) if (code := int(found[1], 16)) <= sys.maxunicode else found[0], shown)


def _shown(text: str) -> str:
    return text if text.isascii() and text.isprintable() else "".join(_visible(text))


def _bounded(text: str, left_out: int) -> str:
    return f"{text}…+{left_out}" if left_out > 0 else text


def clean_block(value: str, limit: int = 200_000) -> str:
    """Like :func:`clean` for text of several lines: line feeds stay, everything else is made visible."""
    kept, rest = value[:limit], len(value) - limit
    lines = "\n".join(clean(line, limit) for line in kept.split("\n"))
    return f"{lines}\n…+{rest}" if rest > 0 else lines


def _visible(value: str) -> Iterable[str]:
    marks = 0
    for char in value:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if category in _HIDDEN or char in _UNSURE or marks > _MARKS_PER_BASE:
            yield _escape(char)
        else:
            yield char


def _escape(char: str) -> str:
    return {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(char) or f"\\u{{{ord(char):x}}}"


def shell_quote(word: str) -> str:
    r"""Quote one argument so that bash and zsh receive exactly its bytes, from a script and when pasted.

    Printable ASCII goes into single quotes; anything else into the ``$'\xHH'`` form, since control
    bytes inside single quotes still act on an interactive line editor. The result is printable ASCII
    on one line. dash does not know ``$'..'``.

    Raises ValueError for a NUL, which no argument can hold.
    """
    if "\0" in word:
        raise ValueError("an argument cannot hold a NUL")
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
    """One command line from an argument list, each word through :func:`shell_quote`."""
    return " ".join(shell_quote(word) for word in argv)
