"""A question at a terminal ends with what is typed, and with the task that asks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import click
import pytest

from tallyglass_tui.cli.question import confirmed


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What is written to it is typed at the terminal that is stdin."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield ours
    os.close(ours)


@pytest.mark.parametrize(
    ("typed", "default", "answer"),
    [(b"\n", True, True), (b"\n", False, False), (b"Yes\n", False, True), (b"what?\nn\n", True, False)],
)
async def test_enter_is_the_default_and_what_is_no_answer_is_asked_again(
    keyboard: int, capsys: pytest.CaptureFixture[str], typed: bytes, default: bool, answer: bool
) -> None:
    os.write(keyboard, typed)
    assert await confirmed("Go on?", default=default) is answer
    assert capsys.readouterr().err.count(f"Go on? [{'Y/n' if default else 'y/N'}]: ") == typed.count(b"\n")


async def test_ctrl_c_leaves_no_thread_that_reads_the_terminal(keyboard: int) -> None:
    threads = threading.active_count()
    asking = asyncio.create_task(confirmed("Go on?", default=True))
    await asyncio.sleep(0)
    assert threading.active_count() == threads
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_the_end_of_the_terminal_is_no_answer(keyboard: int) -> None:
    os.write(keyboard, b"\x04")
    with pytest.raises(click.Abort):
        await confirmed("Go on?", default=True)
