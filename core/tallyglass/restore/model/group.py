"""Many checks that say the same of one namespace each, as one check with a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tallyglass.restore.model.plan import Check

NAMED = 12
"""Subjects that one check lists; more are counted."""


def merged_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks in order. Those with one id, level and advice whose titles are ``SUBJECT: the same text`` become one:
    ``80 namespaces: the same text (a, b, ...)``."""
    groups: dict[tuple[str, ...], list[Check]] = {}
    for check in checks:
        subject, found, text = check.title.partition(": ")
        key = (check.id, check.level.value, check.advice, text if found else check.title, subject if not found else "")
        groups.setdefault(key, []).append(check)
    return tuple(_merged(group) for group in groups.values())


def _merged(group: list[Check]) -> Check:
    if len(group) == 1:
        return group[0]
    subjects = [check.title.partition(": ")[0] for check in group]
    text = group[0].title.partition(": ")[2]
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    listed = ", ".join(subjects[:NAMED])
    return replace(group[0], title=f"{len(group)} namespaces: {text} They are {listed}{more}.")
