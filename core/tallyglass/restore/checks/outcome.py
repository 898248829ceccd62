"""The three outcomes of a check."""

from __future__ import annotations

from collections.abc import Iterator

from tallyglass.restore.model.check import Check, Level

Checks = Iterator[Check]
"""The result of a check function."""


def ok(name: str, title: str) -> Check:
    """A check that passed."""
    return Check(name, Level.OK, title)


def warn(name: str, title: str, advice: str = "") -> Check:
    """A warning that does not stop the restore."""
    return Check(name, Level.WARN, title, advice)


def block(name: str, title: str, advice: str = "") -> Check:
    """A check that blocks the plan."""
    return Check(name, Level.BLOCK, title, advice)
