"""A plan in a separate process: keys stay responsive, its memory is freed at the end, and it can be stopped at once.

Request and answers go through pipes, each prefixed with its length, so the password is in no argument, environment or
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import tempfile
from collections.abc import AsyncIterator
from typing import IO

from tallyglass.connection.secret import Secret
from tallyglass.connection.target import Driver, Target
from tallyglass.text import clean
from tallyglass_tui import bound
from tallyglass_tui.restore.draft import Draft, First, Planned, Reading
from tallyglass_tui.this_program import this_program

COMMAND = ("restore", "plan-for-screen")
_LENGTH = 4
"""Bytes before each message, its length."""


async def plan_apart(target: Target, draft: Draft) -> AsyncIterator[Planned | First | Reading]:
    """Yields the quick answer and the progress of the plan, then the plan. The process ends with this iterator."""
    with tempfile.TemporaryFile() as words:
        process = await asyncio.create_subprocess_exec(
            *this_program(), *COMMAND,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=words, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                # The pipe stays open: the process ends once the other end is closed.
                process.stdin.write(_frame(pickle.dumps((_connections(target), draft))))
                await process.stdin.drain()
                while True:
                    size = int.from_bytes(await process.stdout.readexactly(_LENGTH), "big")
                    found = pickle.loads(await process.stdout.readexactly(size))
                    yield found
                    if isinstance(found, Planned):
                        return
            status = await process.wait()
            why = f"The planner ended before its answer ({_why(status, words)})."
            yield Planned(None, why, f"{bound.key('restore.plan', 'r')} plans again.")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def read_request(pipe: IO[bytes]) -> tuple[Target, Draft]:
    """The request that the process was started for."""
    connections, draft = pickle.loads(_read(pipe))
    targets = [
        Target(uri, tuple((name, Secret(value)) for name, value in secrets), Driver(driver))
        for uri, secrets, driver in connections
    ]
    return Target.of_shards(targets), draft


def write_answer(pipe: IO[bytes], answer: Planned | First | Reading) -> None:
    """Send the dashboard the quick answer, the progress of the plan, or the plan."""
    pipe.write(_frame(pickle.dumps(answer)))
    pipe.flush()


def _connections(target: Target) -> list[tuple[str, list[tuple[str, str]], str]]:
    return [
        (one.uri, [(name, secret.reveal()) for name, secret in one.secrets], one.driver.value)
        for one in target.shards or (target,)
    ]


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(_LENGTH, "big") + content


def _read(pipe: IO[bytes]) -> bytes:
    return pipe.read(int.from_bytes(pipe.read(_LENGTH), "big"))


def _why(status: int, words: IO[bytes]) -> str:
    """The last line that the process printed, or how it ended."""
    words.seek(0)
    lines = words.read(100_000).decode("utf-8", "replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "")
    return clean(said, 300) or (f"signal {-status}" if status < 0 else f"exit {status}")
