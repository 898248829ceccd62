"""The line that / opens: keys that came in one go with it, and texts that cannot be shown as they are."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key

from at_rest import set_forwarded
from tallyglass_tui.widgets.filter_box import FilterBox


async def test_keys_typed_in_one_go_are_for_the_line(screen_at: Any) -> None:
    async with screen_at() as screen:
        for key in ("slash", "q", "p", "s", "enter"):
            screen.app.post_message(Key(key, {"slash": "/", "enter": "\r"}.get(key, key)))
        for _ in range(50):
            await screen.pilot.pause()
            if screen.app.page._filter:
                break
        assert screen.app.page._filter == "qps"
        assert screen.app.return_code is None
        assert not screen.app.pace.paused


@pytest.mark.parametrize(
    ("keys", "typed"),
    [
        (("ctrl+u", "n", "e", "w"), "new"),
        (("backspace", "b", "backspace", "c"), "olc"),
        (("home", "x", "end", "y"), "xoldy"),
    ],
)
async def test_edits_come_in_the_order_of_their_keys(screen_at: Any, keys: tuple[str, ...], typed: str) -> None:
    async with screen_at() as screen:
        screen.app.page._set_filter("old")
        await screen.pilot.pause()
        for key in ("slash", *keys, "enter"):
            screen.app.post_message(Key(key, key if len(key) == 1 else {"slash": "/"}.get(key)))
        for _ in range(50):
            await screen.pilot.pause()
            if screen.app.page._filter != "old":
                break
        assert screen.app.page._filter == typed


async def test_a_key_that_went_elsewhere_before_the_line_was_open_comes_first(screen_at: Any) -> None:
    async with screen_at() as screen:
        page = screen.app.page
        page._set_filter("old")
        await screen.pilot.pause()
        elsewhere, here, enter = Key("ctrl+u", None), [Key(char, char) for char in "new"], Key("enter", "\r")
        for key in (elsewhere, *here, enter):
            set_forwarded(key)
        screen.app.focused.post_message(elsewhere)
        page.action_filter()
        for key in (*here, enter):
            page.query_one(FilterBox).post_message(key)
        for _ in range(50):
            await screen.pilot.pause()
            if page._filter != "old":
                break
        assert page._filter == "new"


async def test_the_next_line_keeps_its_keys_from_what_the_last_one_set_off(screen_at: Any) -> None:
    async with screen_at() as screen:
        page = screen.app.page
        box = page.query_one(FilterBox)
        for _ in range(5):
            box.open()
            page._set_filter("a")
            page.post_message(FilterBox.Taken(box, "b"))
            for _ in range(5):
                await screen.pilot.pause()
            assert screen.app.focused is box
            screen.app.post_message(Key("escape", None))
            await screen.pilot.pause()


async def test_a_text_that_cannot_be_shown_stays_as_it_is_until_it_is_edited(screen_at: Any) -> None:
    async with screen_at() as screen:
        box = screen.app.screen.query_one(FilterBox)
        for typed, taken in (((), "a\x1b[2Jb"), (("c",), r"a\u{1b}[2Jbc")):
            box.open("a\x1b[2Jb")
            assert box.value == r"a\u{1b}[2Jb"
            await screen.press(*typed, "enter")
            assert screen.app.page._filter == taken
