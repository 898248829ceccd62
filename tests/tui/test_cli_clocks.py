"""A time that counts from now is one of the clock here: where the server's tells another time, a command says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from tallyglass.moment import counts_from_now, parse_since
from tallyglass_tui.cli.clocks import warn_of_clocks
from tallyglass_tui.cli.options import time_of


class Server:
    """Answers ``hello`` with a clock so many seconds ahead."""

    def __init__(self, ahead: float) -> None:
        self.ahead, self.asked = ahead, 0

    async def command(self, name: str) -> dict[str, Any]:
        assert name == "hello"
        self.asked += 1
        return {"localTime": datetime.now(UTC) + timedelta(seconds=self.ahead)}


@pytest.mark.parametrize(
    ("text", "ahead", "said"),
    [
        ("-5m", 3600, "the server's clock is 60 min ahead of the one here, and --before counts from the clock here."),
        ("5 min ago", -3600, "the server's clock is 60 min behind the one here"),
        ("now-1d", 20, ""),
        ("1795197974:14", 3600, ""),
    ],
)
async def test_a_relative_time_is_warned_of_where_the_clocks_differ(
    text: str, ahead: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server: Any = Server(ahead)
    with click.Context(click.Command("plan")):
        time_of("--before", text)
        await warn_of_clocks(server)
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert ([said in line for line in warned], server.asked) == ([True] * bool(said), int(":" not in text))


@pytest.mark.parametrize("text", ["now", " -5m", "now - 1d12h", "2 hours ago", "2 Hours AGO"])
def test_what_counts_from_now_moves_with_the_clock(text: str) -> None:
    now = datetime(2026, 11, 20, 18, tzinfo=UTC)
    assert counts_from_now(text)
    assert parse_since(text, now) != parse_since(text, now + timedelta(hours=1))


@pytest.mark.parametrize("text", ["2026-11-20T18:06:14Z", "1795197974", "yesterday 14:30Z", "Timestamp(1795197974, 1)"])
def test_what_names_a_moment_does_not(text: str) -> None:
    assert not counts_from_now(text)
