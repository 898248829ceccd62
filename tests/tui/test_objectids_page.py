"""The ObjectIds page: any pasted text, the parts of an id, and a moment with its ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId
from textual import events

from tallyglass.errors import InputError
from tallyglass_tui.objectids import cells as id_cells
from tallyglass_tui.objectids.page import ObjectIdsPage
from tallyglass_tui.widgets.input_line import InputLine

NOW = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)
OLDER, NEWER = "65a0b1c2d3e4f5a6b7c8d9e0", "6b00a4aa2bf50d7c091d7422"


@asynccontextmanager
async def page(screen_at: Any, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Any]:
    async with screen_at(size) as screen:
        await screen.press("2")
        assert isinstance(screen.app.screen, ObjectIdsPage)
        yield screen


async def paste(screen: Any, text: str) -> None:
    screen.app.post_message(events.Paste(text))
    await screen.pilot.pause()
    await screen.pilot.pause()


async def fill(screen: Any, text: str) -> None:
    """Put a text into the line that is open, and press Enter."""
    screen.app.screen.query_one(InputLine).value = text
    await screen.press("enter")


async def test_ids_in_any_pasted_text_are_taken_apart(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await paste(screen, f'log [red line] {{"_id": ObjectId("{NEWER}")}}\r\nand [/x] {OLDER.upper()} {OLDER}')
        text = screen.text
        for digits in (NEWER, OLDER):
            assert digits in text
            assert f"{ObjectId(digits).generation_time:%Y-%m-%d %H:%M:%SZ}" in text
        assert "2 ObjectIds" in text
        assert "2bf50d7c09" in text
        assert "machine 2bf50d, pid 31753" in text
        assert f"{0x1D7422:,}" in text
        await screen.press("y")
        assert screen.app.clipboard == f"{NEWER} 2026-11-20T19:51:06Z"


async def test_a_text_without_ids_says_so_and_changes_nothing(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await paste(screen, NEWER)
        await paste(screen, "nothing here \x1b[2J [/red]")
        text = screen.text
        assert "That text contains no ObjectId" in text
        assert NEWER in text
        assert "\x1b" not in text


async def test_a_moment_gives_its_first_id_and_a_filter_that_finds_what_was_made_then(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("m")
        await fill(screen, "2026-11-20T18:06:14Z..2026-11-20T19:06:14Z")
        await screen.press("y")
        first = ObjectId.from_datetime(NOW)
        assert screen.app.clipboard == f'ObjectId("{first}")'
        await screen.press("down", "y")
        assert screen.app.clipboard == 'ObjectId("6b009a25ffffffffffffffff")', "the last of the range, not of its start"
        await screen.press("end", "y")
        last = ObjectId.from_datetime(NOW.replace(hour=19))
        assert screen.app.clipboard == f'{{"_id": {{"$gte": ObjectId("{first}"), "$lt": ObjectId("{last}")}}}}'


async def test_enter_takes_the_time_of_an_id_as_the_moment(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await paste(screen, OLDER)
        await screen.press("enter", "tab", "y")
        assert screen.app.clipboard == f'ObjectId("{OLDER[:8]}{"0" * 16}")'


async def test_a_moment_that_cannot_be_read_is_one_sentence(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("m")
        await paste(screen, "tomorrow-ish\n[/x]")
        assert "is not a time" in screen.text, "a refused paste of several lines stays in the line"
        await screen.press("enter")
        assert "is not a time" in screen.text
        await fill(screen, "tomorrow-ish")
        assert "is not a time" in screen.text


async def test_letters_go_to_the_box_while_it_is_open_and_esc_leaves_it(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("i", *"q1c", "escape")
        assert isinstance(screen.app.screen, ObjectIdsPage)
        assert not screen.app.screen.query_one("#input").display


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (200, 50)])
async def test_the_filter_is_shown_whole(screen_at: Any, size: tuple[int, int]) -> None:
    async with page(screen_at, size) as screen:
        assert "filter" not in screen.text
        await paste(screen, f"{NEWER} {OLDER}")
        assert "filter" not in screen.text, "nobody asked for a moment yet"
        await screen.press("m", "enter")
        text = screen.text.replace(" ", "").replace("\n", "")
        span = id_cells.parse_span("now-1d")
        assert span.filter[:20].replace(" ", "") in text
        assert '")}}' in text


def test_a_span_is_a_moment_until_now_or_two_moments() -> None:
    assert id_cells.parse_span("now-1d", NOW).end == NOW
    assert (id_cells.parse_span("2026-11-21Z", NOW).end - id_cells.parse_span("2026-11-21Z", NOW).start).seconds == 1
    assert id_cells.parse_span("now-2h..now-1h", NOW).start.hour == 16
    for wrong in (
        "now .. now-1h",
        "x",
        "now..y",
        "1969-12-31",
        "9999-12-31T23:59:59Z",
        "now..9999-12-31T23:59:59.9Z",
        "..",
        "",
    ):
        with pytest.raises(InputError):
            id_cells.parse_span(wrong, NOW)
