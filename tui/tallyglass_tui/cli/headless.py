"""Shared by the headless commands: open the deployment, ask within a deadline, close, and print safely."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import ReadError, TallyglassError
from tallyglass.moment import Ts
from tallyglass.text import clean_block
from tallyglass.typed_json import plain
from tallyglass_tui.cli.clocks import warn_of_clocks
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.options import Command, ConnectionOptions, Number, target_of
from tallyglass_tui.terminal.daemon_threads import DaemonThreadExecutor

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass.mongo.gateway import Gateway

Answer = TypeVar("Answer")

_CLOSE_SECONDS = 5.0  # a polite end of sessions on a live server takes milliseconds; a dead one must not delay the exit


def timeout_of(default: float, *names: str) -> Callable[[Command], Command]:
    """``--timeout`` with this default, also under the other ``names``."""
    return click.option(
        *names,
        "--timeout",
        "seconds",
        type=Number(min=0.1),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help="Wait at most this long.",
    )


timeout_option = timeout_of(60.0)


def ask(
    who: ConnectionOptions | Target,
    work: Callable[[Gateway], Awaitable[Answer]],
    seconds: float | None = None,
    *,
    step: float | None = None,
    **options: Any,
) -> Answer:
    """Run ``work`` on the deployment, for ``seconds`` at most.

    Without ``seconds`` there is no overall deadline, but each read has one; ``step`` is the deadline that ``work``
    itself sets for each of its steps. ``options`` go to the client.
    Raises ReadError on timeout, and whatever ``work`` raises.
    """
    target = target_of(who) if isinstance(who, ConnectionOptions) else who
    answers: list[Answer] = []

    async def run() -> None:
        # Before Python 3.12.2, asyncio.run formats the result of its task twice: megabytes of text for a large answer.
        answers.append(await _on_target(target, work, seconds, _shorter_selection(target, seconds or step) | options))

    asyncio.run(run())
    return answers[0]


async def _on_target(
    target: Target, work: Callable[[Gateway], Awaitable[Answer]], seconds: float | None, options: dict[str, Any]
) -> Answer:
    from tallyglass.mongo.client import open_deployment

    async def timed(gateway: Gateway) -> Answer:
        await warn_of_clocks(gateway)
        return await work(gateway)

    asyncio.get_running_loop().set_default_executor(DaemonThreadExecutor())
    gateway = open_deployment(target, tell=print_message, **options)
    try:
        answer = await (timed(gateway) if seconds is None else bounded(timed(gateway), seconds))
        await _print_age(gateway)
        return answer
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await gateway.close()


async def _print_age(gateway: Gateway) -> None:
    """Print how old the data were if a delayed, recovering or lagging member was read."""
    from tallyglass.deployment.members import old_data

    with contextlib.suppress(TallyglassError):
        sentence = old_data(await gateway.command("hello"))
        if sentence:
            print_message(sentence)


def _shorter_selection(target: Target, seconds: float | None) -> dict[str, Any]:
    """Let the driver time out before the deadline: it knows why no server answers."""
    if seconds is None or "serverselectiontimeoutms" in target.options:
        return {}
    before = seconds * _BEFORE_DEADLINE - _STEP_SECONDS
    return {"serverSelectionTimeoutMS": int(min(5.0, max(before, 0.1)) * 1000)}


_BEFORE_DEADLINE = 0.8
"""The part of a deadline after which the driver has to have given up; the rest is for what comes before and after."""
_STEP_SECONDS = 0.5
"""How often the driver looks whether its time is over."""


async def each_within(feed: AsyncIterator[Answer], seconds: float) -> AsyncGenerator[Answer, None]:
    """The items of ``feed``, each within ``seconds`` of the one before: a long feed is fine, a stuck one is not.

    Use it within :func:`tallyglass.mongo.gateway.closing`, which closes ``feed`` too.
    """
    from tallyglass.mongo.gateway import closing

    async with closing(feed) as rows:
        while True:
            try:
                row = await bounded(anext(rows), seconds)
            except StopAsyncIteration:
                return
            yield row


async def bounded(answer: Awaitable[Answer], seconds: float) -> Answer:
    """``answer``, within ``seconds``. Raises ReadError on timeout."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise out_of_time(seconds) from None


def out_of_time(seconds: float) -> ReadError:
    """The error for a timeout."""
    return ReadError(f"No answer came within {seconds:g} s.", "The server may be overloaded; try a longer --timeout.")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A JSON document in printable ASCII only: control characters, DEL included, are escaped.

    Times and frozen dataclasses are written as :func:`tallyglass.typed_json.plain` has them. JSON has no NaN and
    infinities: they become the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.
    """
    text = json.dumps(_finite(value), ensure_ascii=True, indent=indent, allow_nan=False, default=plain)
    return printable_json(text)


def printable_json(text: str) -> str:
    """An ASCII JSON document with DEL, the only control character that JSON leaves as it is, escaped."""
    return text.replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, Ts):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, Ts) else value


def write_json(rows: Iterable[Any]) -> None:
    """Write a JSON array to stdout, element by element."""
    opened = False
    for row in rows:
        sys.stdout.write(("," if opened else "[") + "\n  " + as_json(row, indent=2).replace("\n", "\n  "))
        opened = True
    sys.stdout.write("\n]\n" if opened else "[]\n")


def print_text(text: str) -> None:
    """Print lines of data to stdout at once, also into a pipe, without control characters."""
    sys.stdout.write(clean_block(text, max(len(text), 1)) + "\n")
    sys.stdout.flush()


def table(rows: Sequence[tuple[str, ...]], *, right: frozenset[int] = frozenset()) -> str:
    """Rows as aligned columns; ``right`` holds the right-aligned ones. The last column is not padded."""
    if not rows:
        return ""
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            padded(cell, width, right=column in right)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character takes two, an accent on its own none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 30 ms, for which a text in ASCII need not wait

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """A text, cut with an ellipsis to at most so many columns."""
    if cells(text) <= width:
        return text
    from tallyglass_tui.widgets.cells import fit

    return fit(text, width)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text with blanks up to so many columns, after it or before it (``right``)."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks
