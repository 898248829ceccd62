"""Untrusted text is safe to show and to paste."""

from __future__ import annotations

import re
import subprocess
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallyglass.text import clean, clean_block, clean_name, shell_join, shell_quote

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
anything = st.text(st.characters(exclude_categories=[]), max_size=40)
arguments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(anything)
def test_no_control_or_hidden_character_remains(value: str) -> None:
    shown = clean(value)
    assert not {unicodedata.category(char) for char in shown} & HIDDEN
    assert clean(shown) == shown
    block = clean_block(value)
    assert not {unicodedata.category(char) for char in block.replace("\n", "")} & HIDDEN
    assert block.count("\n") == value.count("\n")


ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
# Texts made of parts of escapes, so that texts which could be confused are common.
confusable = st.text(st.sampled_from("\\u{}1bB5c\x1b\t\n\r\u202e\u0301é\udcff"), max_size=24)


def unescaped(shown: str) -> str:
    """Return the name for its escaped form: each escape is one character, everything else is literal."""
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown)


@given(anything | confusable)
@example(r"\u{1b}")
@example(r"\u{5c}u{1b}")
@example("\\\x1b")
@example("\\u{1\x1b}")
def test_clean_name_is_reversible(name: str) -> None:
    shown = clean_name(name)
    assert unescaped(shown) == name
    assert clean(shown) == shown
    assert not {unicodedata.category(char) for char in shown} & HIDDEN


def test_ordinary_names_are_unchanged() -> None:
    for name in (r"C:\temp\users", r"\\server\share", r"^\d+\n$", r"\u{", r"\u{x}", "shop.orders", "Größe 表"):
        assert clean_name(name) == name
    assert clean_name("a\n" * 300, 4) == r"a\u{a}a\u{a}…+596"


def test_clean_alone_would_make_names_look_alike() -> None:
    assert clean("\x1b") == clean(r"\u{1b}")
    assert clean_name("\x1b") != clean_name(r"\u{1b}")


def test_limits_the_length_and_counts_omitted_characters() -> None:
    assert clean("x" * 1_000_000, 10) == "x" * 10 + "…+999990"
    assert len(clean("\x1b" * 1_000_000, 10)) < 100
    assert clean("a" + "\u0301" * 5000, 400).count("\\u{301}") == 397
    assert clean_block("line\n" * 1000, 20).endswith("…+4980")


@settings(max_examples=15, deadline=None)
@given(st.lists(arguments, min_size=30, max_size=30))
def test_bash_receives_the_exact_bytes(words: list[str]) -> None:
    line = shell_join(["printf", "%s\\0", *words])
    assert line.isascii()
    assert line.isprintable()
    output = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert output == b"".join(word.encode() + b"\0" for word in words)


def test_quoted_words_have_no_effect_in_bash() -> None:
    words = [
        "it's",
        "'",
        "''",
        "a'$(echo x)'b",
        "$(echo x)",
        "`echo x`",
        "a\\b",
        "\\'",
        "\x1b'\\n",
        "é'",
        "~",
        "=ls",
        "",
        " ",
        "!!",
    ]
    line = shell_join(["printf", "%s\\0", *words])
    assert line.isprintable()
    output = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert output == b"".join(word.encode() + b"\0" for word in words)


@pytest.mark.parametrize(
    "char", ["\u3164", "\u2800", "\u00ad", "\u200b", "\u202e", "\U0001f3fd", "\ufe0f", "\x7f", "\x9b"]
)
def test_invisible_characters_become_visible(char: str) -> None:
    assert clean(f"a{char}b") == clean_name(f"a{char}b") == f"a\\u{{{ord(char):x}}}b"


def test_refuses_nul_in_an_argument() -> None:
    with pytest.raises(ValueError, match="NUL"):
        shell_quote("a\0b")
