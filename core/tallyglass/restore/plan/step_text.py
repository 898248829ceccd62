"""One step as text: the same on the screen, in the folder, and before the script asks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tallyglass.restore.model.plan import Command, RunMode
from tallyglass.restore.tools.files import WIDTH, fold_shell
from tallyglass.text import clean, shell_quote

_LABEL = 9


def step_text(number: int, total: int, step: Command) -> Iterator[str]:
    """The title, the line to paste, and what it does. ``steps.txt`` consists of these, and the script reads it."""
    yield f"[{number}/{total}] {step.phase}: {clean(step.title)}"
    first, *rest = fold_line(step).split("\n")
    yield f"  $ {first}"
    yield from (f"  {line}" for line in rest)
    yield from _labelled("does", step.effect.value)
    if step.seconds is not None:
        yield from _labelled("takes", f"{duration(step.seconds)} ({max(1, round(step.seconds))} s)")
    yield from _labelled("why", clean(step.why, 1_000))
    for count in step.counts:
        yield from _labelled("count", clean(count))
    yield from _labelled("undo", clean(step.undo, 1_000))
    yield from _labelled("check", step.proof)
    if step.mode is not RunMode.ONCE:
        yield from _labelled("mode", step.mode.value)
    if step.exits != (0,):
        yield from _labelled("exits", " ".join(map(str, step.exits)))


def fold_line(step: Command) -> str:
    """The command line of a step, wrapped before options if it is long; it can still be pasted."""
    return fold_shell(step.shell, [shell_quote(word) for word in step.argv])


def duration(seconds: float) -> str:
    """An estimate in words."""
    if seconds < 1:
        return "about 1 s"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7_200 else f"about {seconds / 3_600:.1f} h"


def _labelled(label: str, text: str) -> Iterator[str]:
    if not text:
        return
    head = f"  {label + ':':<{_LABEL - 2}}"
    if label == "check":
        yield head + text
        return
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * _LABEL, break_long_words=False, break_on_hyphens=False
    )
