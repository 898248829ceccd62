"""What changed from one JSON value to the next, so that a recording does not repeat what stays. Pure.

A change is ``[new]`` for another value, ``[kept in front, new items, kept behind]`` for a list whose middle is another,
and an object of changes for an object or a list of objects, by name or by index. None stands for no change.
"""

from __future__ import annotations

from typing import Any

Change = list[Any] | dict[str, Any] | None


def difference(before: Any, after: Any) -> Change:
    """The change that :func:`changed` turns ``before`` into ``after`` with."""
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {name: one for name in after if (one := difference(before[name], after[name])) is not None}
    if isinstance(before, list) and isinstance(after, list) and before and after:
        if len(before) == len(after) and isinstance(before[0], dict):
            changes = (difference(old, new) for old, new in zip(before, after, strict=True))
            return {str(index): one for index, one in enumerate(changes) if one is not None}
        return _middle(before, after)
    return [after]


def _middle(before: list[Any], after: list[Any]) -> Change:
    most = min(len(before), len(after))
    front = next((n for n in range(most) if before[n] != after[n]), most)
    most -= front
    behind = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    return [front, after[front : len(after) - behind], behind] if front or behind else [after]


def changed(before: Any, change: Any) -> Any:
    """``before`` with a change. Raises ValueError for a change that does not fit."""
    match change:
        case None:
            return before
        case [value]:
            return value
        case [int(front), list(items), int(behind)] if isinstance(before, list) and 0 <= front <= len(
            before
        ) - behind <= len(before):
            return [*before[:front], *items, *before[len(before) - behind :]]
        case dict() if isinstance(before, dict) and change.keys() <= before.keys():
            return before | {name: changed(before[name], one) for name, one in change.items()}
        case dict() if isinstance(before, list):
            found = list(before)
            for index, one in change.items():
                if not index.isdecimal() or int(index) >= len(found):
                    break
                found[int(index)] = changed(found[int(index)], one)
            else:
                return found
    raise ValueError("the change does not fit")
