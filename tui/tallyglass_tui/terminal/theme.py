"""The themes: one of our own for true colour, and the terminal's own sixteen colours, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.cells import cell_len
from textual.theme import BUILTIN_THEMES, Theme

_PLAIN_TERMINALS = frozenset({"linux", "vt100", "vt102", "vt220", "ansi", "cons25"})

TALLYGLASS = Theme(
    name="tallyglass",
    primary="#7fb4ca",
    secondary="#8a9a7b",
    warning="#e6c384",
    error="#ff5d62",
    success="#98bb6c",
    accent="#7fb4ca",
    foreground="#dcd7ba",
    background="#16161d",
    surface="#1f1f28",
    panel="#363646",
    dark=True,
)

# Textual's own has warnings in bright red, which looks like an error. Yellow is not readable on white. In its lists the
# row of the cursor is bright white on blue; many light palettes have a grey in place of bright white.
ANSI_LIGHT = replace(
    BUILTIN_THEMES["ansi-light"],
    warning="ansi_magenta",
    accent="ansi_blue",
    variables=BUILTIN_THEMES["ansi-light"].variables | {"block-cursor-background": "ansi_black"},
)


def choose_theme(environ: Mapping[str, str], ssh: bool) -> str:
    """The theme that suits this terminal: ``$TALLYGLASS_THEME``, else by what it says of its colours.

    The sixteen-colour themes cost half the bytes of true colour, so a remote link gets one of them; they also
    leave background and text to the terminal, which makes a light one readable.
    """
    wanted = environ.get("TALLYGLASS_THEME", "")
    if wanted:
        return wanted
    plain = ssh or "NO_COLOR" in environ or environ.get("COLORTERM", "") not in ("truecolor", "24bit")
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    light = background in ("7", "15")
    if plain or light:
        return "ansi-light" if light else "ansi-dark"
    return TALLYGLASS.name


def needs_plain_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether bars and graphs should keep to ASCII: the Linux console and old terminals lack the block characters.

    ``$TALLYGLASS_ASCII`` set to 1 or 0 decides.
    """
    if environ.get("TALLYGLASS_ASCII") == "0":
        return False
    return sends_ascii_only(environ) or environ.get("TERM", "").partition("-")[0] in _PLAIN_TERMINALS


def sends_ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether nothing but ASCII may be sent: the locale is C, or its character set is not UTF-8.

    ``$TALLYGLASS_ASCII`` set to 1 or 0 decides. Without any locale, UTF-8 is assumed.
    """
    wanted = environ.get("TALLYGLASS_ASCII", "")
    if wanted in ("0", "1"):
        return wanted == "1"
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    # Where the locale is C, Python itself sets LC_CTYPE (PEP 538).
    if locale == "C.UTF-8" and not environ.get("LC_ALL") and environ.get("LANG") in ("C", "POSIX"):
        locale = "C"
    return locale in ("C", "POSIX") or ("." in locale and "utf" not in locale.lower())


def to_ascii(text: str) -> str:
    """``text`` in as many cells of ASCII, for a terminal with another character set."""
    return text if text.isascii() else "".join(_ASCII.get(char) or _unknown(char) for char in text)


_ASCII = dict(zip("·…─━│┃╭╮╰╯┌┐└┘├┤┬┴┼▲▼⏎↑↓←→─┊▔▁▂▃▄▅▆▇", ".~--||+++++++++++++^v<^v<>-|--||||||", strict=True))


def _unknown(char: str) -> str:
    return char if char.isascii() else "?" * cell_len(char)
