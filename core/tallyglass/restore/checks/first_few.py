"""Many checks of one kind, of which a person needs to read only some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tallyglass.restore.model.check import Check, Checks


def first_few(checks: Iterable[Check], most: int = 5) -> Checks:
    """The first of some checks of one kind, and how many more there are."""
    found = list(checks)
    yield from found[:most]
    if len(found) > most:
        yield replace(found[0], title=f"And {len(found) - most:,} more like these.")
