"""Keys that arrive faster than they are handled act as if they had been typed slowly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import Key

from builders.counters import counter, snapshot
from idle import wait_until_idle

SPECIAL = {"slash": "/", "colon": ":", "enter": "\r", "escape": None}


async def type_quickly(screen: Any, keys: tuple[str, ...], turns: int) -> None:
    """Send keys with so many turns of the loop between them, then wait until all of them have been handled."""
    for key in keys:
        screen.app.post_message(Key(key, SPECIAL.get(key, key)))
        for _ in range(turns):
            await asyncio.sleep(0)
    await wait_until_idle(screen.app)


@pytest.mark.parametrize("turns", [0, 3, *(pytest.param(turns, marks=pytest.mark.long) for turns in (1, 2, 5, 8, 13))])
async def test_keys_behind_esc_a_filter_and_enter_reach_what_these_opened(screen_at: Any, turns: int) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1), counter(2), counter(7)))
        await screen.press("enter")
        assert screen.app.page._opened == "k1"
        await type_quickly(screen, ("escape", "slash", *"orders7", "enter", "enter"), turns)
        assert screen.app.page._filter == "orders7"
        assert screen.app.page._opened == "k7"


@pytest.mark.parametrize("turns", [0, 3])
async def test_keys_behind_the_palette_are_typed_into_it(screen_at: Any, turns: int) -> None:
    async with screen_at() as screen:
        await type_quickly(screen, ("colon", *"quit"), turns)
        assert screen.app.screen.query_one("Input").value == "quit"


@pytest.mark.parametrize("key", ["colon", "question_mark"])
async def test_what_covers_a_page_may_be_closed_twice(screen_at: Any, key: str) -> None:
    async with screen_at() as screen:
        await screen.press(key)
        cover = screen.app.screen
        cover.dismiss()
        cover.dismiss()
        await screen.press("2")
        assert "What an ObjectId" in screen.text


async def test_a_key_whose_widget_was_removed_does_not_stop_the_next(screen_at: Any) -> None:
    async with screen_at() as screen:
        await type_quickly(screen, ("question_mark", "escape", "2", "p"), 0)
        assert screen.app.rate.paused
        assert "What an ObjectId" in screen.text
