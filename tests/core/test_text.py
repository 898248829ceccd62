"""Untrusted text is safe to show, and safe to paste."""

from __future__ import annotations

import subprocess
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass.text import clean, clean_block, shell_join, shell_quote

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
anything = st.text(st.characters(exclude_categories=[]), max_size=40)
arguments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(anything)
def test_nothing_that_acts_or_hides_is_left(value: str) -> None:
    shown = clean(value)
    assert not {unicodedata.category(char) for char in shown} & HIDDEN
    assert clean(shown) == shown
    block = clean_block(value)
    assert not {unicodedata.category(char) for char in block.replace("\n", "")} & HIDDEN
    assert block.count("\n") == value.count("\n")


@given(anything, anything)
def test_two_names_never_look_the_same(one: str, other: str) -> None:
    if one != other and "\\" not in one + other:
        assert clean(one) != clean(other)


def test_the_length_is_bounded_and_what_is_left_out_is_counted() -> None:
    assert clean("x" * 1_000_000, 10) == "x" * 10 + "…+999990"
    assert len(clean("\x1b" * 1_000_000, 10)) < 100
    assert clean("a" + "\u0301" * 5000, 400).count("\\u{301}") == 397
    assert clean_block("line\n" * 1000, 20).endswith("…+4980")


@settings(max_examples=15, deadline=None)
@given(st.lists(arguments, min_size=30, max_size=30))
def test_bash_receives_exactly_the_bytes(words: list[str]) -> None:
    line = shell_join(["printf", "%s\\0", *words])
    assert line.isascii()
    assert line.isprintable()
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert said == b"".join(word.encode() + b"\0" for word in words)


def test_an_argument_cannot_hold_a_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        shell_quote("a\0b")
