"""Keys that come before there is anything to move in."""

from __future__ import annotations

from typing import Any

from builders.incidents import incident
from tallyglass.oplog.snapshot import IncidentScan


async def test_wrapping_before_the_first_row_ends_nothing(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.press("3", "ctrl+w")
        assert "Reading the oplog" in screen.text


async def test_a_key_for_a_row_is_named_once_there_is_one(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("4")
        await screen.put("incidents", IncidentScan((), 1, None, done=True))
        assert " Report " not in screen.lines[-1]
        await screen.put("incidents", IncidentScan((incident(1, 1795197974),), 1, None, done=True))
        assert " Report " in screen.lines[-1]
