"""A plan as one JSON document, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names as designed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tallyglass.errors import InputError
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Accident
from tallyglass.text import clean
from tallyglass.typed_json import Misfit, built, plain

FORMAT = 7
"""The version of the document. It changes with every field that is added, removed or read in another way."""

_ADDED = frozenset({"format", "level"})
"""Fields of the document that are not of the plan."""


def to_json(plan: Plan, indent: int | None = None, *, packed: bool = False) -> str:
    """The plan as ASCII JSON: ``format, point, start, limit, checks, commands, loss, reissue`` and all else it
    holds. ``packed`` writes long lists of like objects as tables, for the plan's folder."""
    document = {"format": FORMAT} | plain(plan, packed) | {"level": plan.level.value}
    return json.dumps(document, ensure_ascii=True, indent=indent, separators=(",", ":") if packed else None)


def from_json(text: str) -> Plan:
    """The plan that :func:`to_json` wrote. Raises InputError for anything else: another format, a field that is missing
    or not known, a value of the wrong type. Nothing is filled in: a plan without its expectations would verify
    nothing."""
    advice = "Write one with tallyglass restore plan --json."
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("That file is not a plan.", advice) from None
    if not isinstance(document, Mapping) or "limit" not in document:
        raise InputError("That file is not a plan.", advice)
    if document.get("format") != FORMAT:
        found = clean(str(document.get("format", "none")), 20)
        raise InputError(f"That plan is of format {found}; this version reads format {FORMAT}.", "Plan again.")
    try:
        plan: Plan = built(Plan, {name: field for name, field in document.items() if name not in _ADDED}, "plan")
    except Misfit as error:
        raise InputError(f"That plan is incomplete: {error}.", advice) from None
    except (ValueError, TypeError, InputError):
        raise InputError("That plan is incomplete: a value cannot be read.", advice) from None
    if document.get("level") != plan.level.value:
        raise InputError("That plan is incomplete: its level is not that of its checks.", advice)
    return plan


def accident_to_json(accident: Accident) -> str:
    """What a plan undoes, as ASCII JSON."""
    return json.dumps(plain(accident), ensure_ascii=True, separators=(",", ":"))


def accident_from_json(text: str) -> Accident:
    """The accident that :func:`accident_to_json` wrote. Raises InputError for anything else."""
    try:
        accident: Accident = built(Accident, json.loads(text), "accident")
    except (Misfit, ValueError, TypeError) as error:
        raise InputError("What an earlier return undid cannot be read.", "Another version wrote it.") from error
    return accident
