"""A plan in a separate process: what it receives, and that it ends with the dashboard or when it is stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from tallyglass.connection.secret import Secret
from tallyglass.connection.target import Target
from tallyglass.moment import Ts
from tallyglass_tui.restore.draft import Draft, Planned
from tallyglass_tui.restore.plan_process import plan_apart

PASSWORD = "a-password-that-nobody-sees"
SILENT = Target.parse("mongodb://user@127.0.0.1:1/?serverSelectionTimeoutMS=60000").with_password(Secret(PASSWORD))


def children() -> list[Path]:
    found = Path("/proc/self/task").glob("*/children")
    return [Path("/proc") / pid for file in found for pid in file.read_text().split()]


async def becomes(question: Callable[[], Any]) -> Any:
    """What ``question`` answers as soon as it is true."""
    async with asyncio.timeout(60):
        while not (answer := question()):  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.02)
        return answer


def planner() -> Path | None:
    return next((one for one in children() if b"plan-for-screen" in (one / "cmdline").read_bytes()), None)


def is_asleep_in_threads(process: Path) -> bool:
    """Whether it has read its request: it then waits for the server, with a thread that watches the pipe."""
    return len(list((process / "task").iterdir())) > 1


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
async def test_nothing_of_the_password_is_seen_and_stopping_ends_it(tmp_path: Path) -> None:
    async with aclosing(cast(Any, plan_apart(SILENT, Draft(Ts(1, 1), backup=str(tmp_path))))) as answers:
        asked = asyncio.ensure_future(anext(answers))
        process = await becomes(planner)
        await becomes(lambda: is_asleep_in_threads(process))
        shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        assert PASSWORD.encode() not in shown
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert not process.exists(), "it ended before the iterator did"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
async def test_the_end_of_the_planner_is_reported_with_its_cause(tmp_path: Path) -> None:
    async with aclosing(cast(Any, plan_apart(SILENT, Draft(Ts(1, 1), backup=str(tmp_path))))) as answers:
        asked = asyncio.ensure_future(anext(answers))
        process = await becomes(planner)
        os.kill(int(process.name), 9)
        assert await asked == Planned(None, "The planner ended before its answer (signal 9).", "r plans again.")


async def test_a_planner_whose_dashboard_is_gone_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallyglass_tui.restore import plan_process

    kept: list[Any] = []
    start = asyncio.create_subprocess_exec

    async def note(*argv: str, **how: Any) -> Any:
        kept.append(await start(*argv, **how))
        return kept[-1]

    monkeypatch.setattr(plan_process.asyncio, "create_subprocess_exec", note)
    async with aclosing(cast(Any, plan_apart(SILENT, Draft(Ts(1, 1), backup=str(tmp_path))))) as answers:
        asked = asyncio.ensure_future(anext(answers))
        process = await becomes(lambda: kept and kept[0])
        process.stdin.close()
        assert (await asked).title == "The planner ended before its answer (exit 1)."
