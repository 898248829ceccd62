"""Keys that come before there is anything to move in."""

from __future__ import annotations

from typing import Any


async def test_wrapping_before_the_first_row_ends_nothing(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("3", "ctrl+w")
        assert "Reading the oplog" in screen.text
