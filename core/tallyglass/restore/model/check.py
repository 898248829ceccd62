"""One fact that was checked of a plan, and many that say the same as one with a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum


class Level(StrEnum):
    """The level of a check."""

    OK = "ok"
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Check:
    """One fact that was checked. ``id`` is stable and short, such as ``coverage`` or ``backup-after-point``."""

    id: str
    level: Level
    title: str
    advice: str = ""


Checks = Iterator[Check]
"""The result of a check function."""


def ok(name: str, title: str) -> Check:
    """A check that passed."""
    return Check(name, Level.OK, title)


def warn(name: str, title: str, advice: str = "") -> Check:
    """A warning that does not stop the restore."""
    return Check(name, Level.WARN, title, advice)


def block(name: str, title: str, advice: str = "") -> Check:
    """A check that blocks what follows it: the steps of a plan, a restore onto a spare, or the return from one."""
    return Check(name, Level.BLOCK, title, advice)


STAYS = "not-undone"
"""The id of the check that says what a plan without an incident leaves damaged: a run of it never ends with 0."""


LETS_GO = "expired-by-accident"
"""The id of the check that says that the server may have removed documents by a definition that is set back."""


def worst(checks: Iterable[Check]) -> Level:
    """The worst level among some checks."""
    levels = {check.level for check in checks}
    return next((level for level in (Level.BLOCK, Level.WARN) if level in levels), Level.OK)


NAMED = 12
"""Subjects that one check lists; more are counted."""


def merged_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks in order. Those with one id, level and advice whose titles are ``SUBJECT: the same text`` become one:
    ``80 namespaces: the same text (a, b, ...)``."""
    groups: dict[tuple[str, ...], list[Check]] = {}
    for check in checks:
        subject, found, text = check.title.partition(": ")
        key = (check.id, check.level.value, check.advice, text, "" if found else subject)
        groups.setdefault(key, []).append(check)
    return tuple(_merged(group) for group in groups.values())


def _merged(group: list[Check]) -> Check:
    if len(set(group)) == 1:
        return group[0]
    subjects = [check.title.partition(": ")[0] for check in group]
    text = group[0].title.partition(": ")[2]
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    listed = ", ".join(subjects[:NAMED])
    return replace(group[0], title=f"{len(group)} namespaces: {text} They are {listed}{more}.")
