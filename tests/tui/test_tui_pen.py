"""Fewer bytes, the same picture: judged by a terminal emulator."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass_tui.terminal.pen import Pen

CODES = st.sampled_from(
    ["0", "1", "2", "3", "4", "7", "9", "31", "97", "39", "44", "103", "49", "38;5;120", "48;5;7", "38;2;10;20;30",
     "48;2;1;2;3", "1;7;38;2;1;1;1;48;2;9;9;9", "", "53", "21", "39;49"]
)  # fmt: skip
RUN = st.tuples(
    st.integers(1, 5), st.integers(1, 20), st.lists(CODES, max_size=3), st.sampled_from(["ab", "  ", "é", "█", "x" * 9])
)
FRAMES = st.lists(st.lists(RUN, max_size=8), max_size=4)


def write(runs: list[tuple[int, int, list[str], str]]) -> str:
    return "\n".join(
        f"\x1b[{row};{column}H" + "".join(f"\x1b[{code}m" for code in codes) + text + "\x1b[0m"
        for row, column, codes, text in runs
    )


def picture(texts: list[str]) -> list[list[pyte.screens.Char]]:
    screen = pyte.Screen(24, 7)
    stream = pyte.Stream(screen)
    for text in texts:
        stream.feed(text)
    return [[screen.buffer[row][column] for column in range(24)] for row in range(7)]


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(FRAMES, st.integers(0, 3))
def test_the_picture_is_the_same(frames: list[list[tuple[int, int, list[str], str]]], dropped: int) -> None:
    pen = Pen()
    raw, thin = [], []
    for number, runs in enumerate(frames):
        if number == dropped:
            pen.forget()
        raw.append(write(runs))
        thin.append(pen.compress(raw[-1]))
    assert picture(thin) == picture(raw)
    assert len("".join(thin)) <= len("".join(raw)) + 8 * sum(map(len, frames))


def test_an_unchanged_style_is_not_sent_again() -> None:
    pen = Pen()
    first = pen.compress("\x1b[1;1H\x1b[38;2;1;2;3;48;2;4;5;6mab\x1b[0m")
    assert first == "\x1b[1;1H\x1b[0;38;2;1;2;3;48;2;4;5;6mab"
    assert pen.compress("\x1b[2;1H\x1b[38;2;1;2;3;48;2;4;5;6mcd\x1b[0m") == "\x1b[2;1Hcd"
    assert pen.compress("\x1b[3;1H\x1b[1;31;48;2;4;5;6me\x1b[0m") == "\x1b[3;1H\x1b[1;31me"
    assert pen.compress("\x1b[4;1Hplain") == "\x1b[4;1H\x1b[0mplain"
    pen.compress("\x1b[31mred\x1b[0m")
    assert pen.compress("\x1b[5;1H\x1b[31mf\x1b[0m\n\x1b[6;1H\x1b[31mg\x1b[0m") == "\x1b[5;1Hf\x1b[6;1Hg"
