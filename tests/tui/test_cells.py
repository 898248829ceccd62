"""Texts in a number of cells: what is cut, where a line breaks, and what stays whole."""

from __future__ import annotations

import pytest

from tallyglass_tui.widgets.cells import at_most, fit, fit_middle, hanging, whole_pieces, wrap, wrap_cells, wrap_words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (fit("orders", 6), "orders"),
        (fit("orders", 8), "orders  "),
        (fit("orders", 8, right=True), "  orders"),
        (fit("orders", 5), "orde…"),
        (fit("orders", 1), "…"),
        (fit("orders", 0), ""),
        (fit("注文注文", 5), "注文…"),
        (fit("e\u0301" * 6, 6), "e\u0301" * 6),  # an accent takes no cell of its own
        (fit_middle("shop.orders", 11), "shop.orders"),
        (fit_middle("shop.orders", 10), "shop…rders"),
        (fit_middle("shop.orders", 9), "shop…ders"),
        (fit_middle("shop.orders", 8), "sho…ders"),
        (fit_middle("shop.orders", 7), "shop.o…"),  # too narrow for two ends
        (fit_middle("a注文注文注文注文z", 10), "a注 …注文z"),
        (fit_middle("abcdefgxx注z", 9), "abcd…x注z"),
    ],
)
def test_a_text_takes_just_its_cells(text: str, wanted: str) -> None:
    assert text == wanted


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (wrap("one two three", 7), ["one two", "   thr…"]),
        (wrap("one two three", 8), ["one two ", "   three"]),
        (wrap("one two three", 13), ["one two three"]),
        (wrap(" one two", 5, indent=" "), [" one ", " two "]),
        (wrap_words("one two three", 7), ["one two", "three"]),
        (wrap_words("one two three", 6), ["one", "two", "three"]),
        (wrap_words("one\n\ntwo", 6), ["one", "", "two"]),
        (wrap_words("a longest word", 4), ["a", "long", "est", "word"]),
        (wrap_words("longest a word", 4), ["long", "est", "a", "word"]),
        (wrap_words("takes 12 min now", 9), ["takes", "12 min", "now"]),  # a number stays with its unit
        (wrap_words("takes 12 MB now", 9), ["takes 12", "MB now"]),
        (wrap_words("2 a 3 b", 3), ["2 a", "3 b"]),
        (wrap_cells("abcdef", 3), ["abc", "def"]),
        (wrap_cells("abcdefg", 3), ["abc", "def", "g"]),
        (wrap_cells("注文注文", 5), ["注文", "注文"]),
        (at_most(["one", "two"], 2, 9), ["one", "two"]),
        (at_most(["one", "two", "three"], 2, 9), ["one", "two three"]),
        (at_most(["one", "two", "three"], 2, 6), ["one", "two t…"]),
    ],
)
def test_a_text_breaks_between_its_words(lines: list[str], wanted: list[str]) -> None:
    assert lines == wanted


@pytest.mark.parametrize(
    ("width", "kept"),
    [(9, "one two x"), (8, "one two "), (7, "one "), (4, "one "), (3, "one "), (0, "one ")],
)
def test_pieces_that_do_not_fit_are_left_out_but_the_first(width: int, kept: str) -> None:
    pieces = [("one ", "a"), ("two ", "b"), ("x", "c")]
    found = whole_pieces(pieces, width)
    assert found == pieces[: len(found)]
    assert "".join(text for text, _ in found) == kept


def test_lines_hang_beside_their_head() -> None:
    lines = hanging(("注文 ", "bad"), [("one", ""), ("two", "muted"), ("three", "")])
    assert lines[0] == [("注文 ", "bad"), ("one", "")]
    assert lines[1:] == [[("     ", ""), ("two", "muted")], [("     ", ""), ("three", "")]]
