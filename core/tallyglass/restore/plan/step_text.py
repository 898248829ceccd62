"""One step as text: the same on the screen, in the folder, and before the script asks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tallyglass.restore.model.step import Command, Proof
from tallyglass.restore.tools.files import WIDTH, fold_shell
from tallyglass.text import clean, shell_quote

_LABEL = 9


def step_text(number: int, total: int, step: Command) -> Iterator[str]:
    """The title, the line to paste, and what it does. ``steps.txt`` consists of these."""
    yield f"[{number}/{total}] {step.phase}: {clean(step.title)}"
    first, *rest = fold_line(step).split("\n")
    yield f"  $ {first}"
    yield from (f"  {line}" for line in rest)
    yield from _labelled("does", step.effect.value)
    if step.seconds is not None:
        yield from _labelled("takes", duration(step.seconds))
    yield from _labelled("why", clean(step.why, 1_000))
    for count in step.counts:
        yield from _labelled("count", clean(count))
    yield from _labelled("undo", clean(step.undo, 1_000))
    yield from _labelled("ends", _end_of(step.proof))


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


def _end_of(proof: Proof) -> str:
    """What a step prints at its end where it did all its work."""
    lines = [] if proof.applied is None else [f"applied {proof.applied} oplog entries"]
    lines += [] if proof.restored is None else ["0 document(s) failed to restore."]
    return " and ".join(f'"{line}"' for line in lines)


def _labelled(label: str, text: str) -> Iterator[str]:
    if not text:
        return
    head = f"  {label + ':':<{_LABEL - 2}}"
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * _LABEL, break_long_words=False, break_on_hyphens=False
    )
