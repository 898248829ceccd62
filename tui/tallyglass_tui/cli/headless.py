"""What every headless command does: open the deployment, ask within a deadline, close; and print safely."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import ReadError
from tallyglass.text import clean_block
from tallyglass_tui.cli.options import Given, target_of
from tallyglass_tui.terminal.unjoined import Unjoined

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass.mongo.gateway import Gateway

Answer = TypeVar("Answer")

_CLOSE_SECONDS = 5.0

timeout_option = click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after so long without an answer.",
)


def ask(
    who: Given | Target, work: Callable[[Gateway], Awaitable[Answer]], seconds: float | None = None, **options: Any
) -> Answer:
    """Run ``work`` on the deployment that is meant, for ``seconds`` at most.

    Without ``seconds`` it takes as long as it takes: each of its reads has a deadline. ``options`` go to the client.
    Raises ReadError when the time is over, and whatever ``work`` raises.
    """
    target = target_of(who) if isinstance(who, Given) else who
    return asyncio.run(_on_target(target, work, seconds, _shorter_selection(target, seconds) | options))


async def _on_target(
    target: Target, work: Callable[[Gateway], Awaitable[Answer]], seconds: float | None, options: dict[str, Any]
) -> Answer:
    from tallyglass.mongo.client import open_gateway

    asyncio.get_running_loop().set_default_executor(Unjoined())
    gateway = open_gateway(target, **options)
    try:
        return await (work(gateway) if seconds is None else bounded(work(gateway), seconds))
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await gateway.close()


def _shorter_selection(target: Target, seconds: float | None) -> dict[str, Any]:
    """Let the driver give up before the deadline does: it knows why no server answers."""
    if seconds is None or "serverselectiontimeoutms" in target.options:
        return {}
    return {"serverSelectionTimeoutMS": int(min(5.0, seconds * 0.8) * 1000)}


async def steadily(feed: AsyncIterator[Answer], seconds: float) -> AsyncGenerator[Answer, None]:
    """What ``feed`` yields, each within ``seconds`` of the one before: a long answer is fine, a stuck one is not.

    To be used within :func:`tallyglass.mongo.gateway.closing`, which closes ``feed`` too.
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
    """``answer``, within ``seconds``. Raises ReadError when the time is over."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise out_of_time(seconds) from None


def out_of_time(seconds: float) -> ReadError:
    """The error of an answer that did not come in time."""
    return ReadError(f"No answer came within {seconds:g} s.", "The server may be overloaded; try a longer --timeout.")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A JSON document in printable ASCII alone: no control byte of the data survives in it, DEL included.

    JSON has no numbers for NaN and the infinities: they become the texts ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.
    """
    return printable_json(json.dumps(_finite(value), ensure_ascii=True, indent=indent, allow_nan=False))


def printable_json(text: str) -> str:
    """A JSON document that is ASCII already, without the one control character that may still stand in it: DEL."""
    return text.replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def write_json(rows: Iterable[Any]) -> None:
    """A JSON array to stdout, one element after the other, whatever their number."""
    opened = False
    for row in rows:
        sys.stdout.write(("," if opened else "[") + "\n  " + as_json(row, indent=2).replace("\n", "\n  "))
        opened = True
    sys.stdout.write("\n]\n" if opened else "[]\n")


def tell(text: str) -> None:
    """One line of data, or several, to stdout, with nothing in it that acts on a terminal."""
    sys.stdout.write(clean_block(text, max(len(text), 1)) + "\n")


def table(rows: Sequence[tuple[str, ...]], *, right: frozenset[int] = frozenset()) -> str:
    """Rows as aligned columns, those of ``right`` to the right; the last column is not padded."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
