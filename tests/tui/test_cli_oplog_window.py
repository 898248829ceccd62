"""A time outside the oplog's window is refused or reported: nothing else is read in its place."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from bson import Timestamp

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass_tui.cli import oplog_window
from tallyglass_tui.cli.oplog_window import require_window

OLDEST, NEWEST = 1_000_000, 2_000_000


class TwoEntries:
    """An oplog as far as its ends are asked for."""

    async def find_one(self, *_: Any, sort: Any, **__: Any) -> dict[str, Timestamp]:
        return {"ts": Timestamp(OLDEST if sort[0][1] == 1 else NEWEST, 1)}


async def check(since: int | None, until: int | None = None, **how: bool) -> frozenset[str]:
    ends = (None if second is None else Ts(second, 1) for second in (since, until))
    return await require_window({"": TwoEntries()}, *ends, 5.0, **how)  # type: ignore[dict-item]


async def test_times_outside_the_oplog_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="--until is before the oldest entry"):
        await check(None, OLDEST)
    with pytest.raises(InputError, match="--since is in the future"):
        await check(2**32 - 1)
    await check(2**32 - 1, follow=True)
    await check(OLDEST, NEWEST)
    assert await check(NEWEST + 30) == await check(None) == frozenset()
    assert capsys.readouterr().err == ""
    await check(NEWEST + 3600)
    assert "60 min before --since: the clock here may be ahead" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [True, False])
async def test_a_lost_beginning_is_reported_and_needs_confirmation(
    answer: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await check(OLDEST - 7200) == {""}
    assert "begins at 1970-01-12 13:46:40Z, 2 h 00 after --since" in capsys.readouterr().err
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)

    async def confirmed(_: str, *, default: bool) -> bool:
        return answer

    monkeypatch.setattr(oplog_window, "confirmed", confirmed)
    if answer:
        await check(OLDEST - 7200)
    else:
        with pytest.raises(InputError, match="Nothing was read"):
            await check(OLDEST - 7200)
