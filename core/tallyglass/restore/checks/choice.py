"""Checks of a namespace that is wanted under another name."""

from __future__ import annotations

from tallyglass.restore.model.check import Checks, block
from tallyglass.restore.proof.findings import Findings
from tallyglass.text import clean_name


def chosen(found: Findings) -> Checks:
    """Whether it existed at the point, and the name is unused."""
    choice, assessed = found.inputs.choice, found.assessed
    if choice is None or assessed is None:
        return
    item = next((item for item in assessed.replayed.expected if item.ns == choice.ns), None)
    shown = clean_name(choice.ns)
    if item is None:
        yield block("not-at-point", f"{shown} did not exist at the point, or is not in the backup.")
    elif item.kind != "collection":
        yield block(
            "not-at-point", f"{shown} was a {item.kind} at the point: only collections come under another name."
        )
    if assessed.target_taken:
        yield block("target-taken", f"{clean_name(choice.target)} exists already.", "Give another name with --as.")
