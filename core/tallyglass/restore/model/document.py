"""A plan as one JSON document, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names as designed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.proof import PlanProof
from tallyglass.restore.model.source import WITH_BACKUP, Backup, FromBackup, FromImages
from tallyglass.restore.model.step import PlanSteps
from tallyglass.restore.model.undo import Accident, PlanUndo
from tallyglass.restore.model.way import FROM_IMAGES, WITHOUT_SPARE
from tallyglass.text import clean
from tallyglass.typed_json import Misfit, built, plain

FORMAT = 10
"""The version of the document. It changes with every field that is added, removed or read in another way."""


@dataclass(frozen=True, slots=True)
class _Top:
    """What a document has beside the fields of the records of a plan."""

    format: int
    point: Ts
    level: Level
    checks: tuple[Check, ...]


def to_json(plan: Plan, indent: int | None = None, *, packed: bool = False) -> str:
    """The plan as ASCII JSON: ``format, point, start, limit, checks, commands, loss, reissue`` and all else it
    holds, without its records. ``packed`` writes lists of like objects as tables, but for the steps, for the folder."""
    source = plan.source if isinstance(plan.source, FromBackup) else _as_backup(plan.source)
    top = _Top(FORMAT, plan.facts.limit, plan.level, plan.checks)
    document: dict[str, Any] = {}
    for record in (top, plan.facts, source, plan.proof, plan.undo, plan.steps):
        document |= plain(record, packed and record is not plan.steps)
    return json.dumps(document, indent=indent, separators=(",", ":") if packed else None)


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
        top, facts, source, *others = _records(document)
    except Misfit as error:
        raise InputError(f"That plan is incomplete: {error}.", advice) from None
    except (ValueError, TypeError, InputError):
        raise InputError("That plan is incomplete: a value cannot be read.", advice) from None
    proof, undo, steps = others
    plan = Plan(facts, _from_images(source) or source, proof, undo, top.checks, steps)
    if top.level is not plan.level:
        raise InputError("That plan is incomplete: its level is not that of its checks.", advice)
    return plan


def _records(document: Mapping[str, Any]) -> list[Any]:
    """The records whose fields the document has. Raises what :func:`built` raises."""
    rest = dict(document)
    found = []
    for kind in (_Top, PlanFacts, FromBackup, PlanProof, PlanUndo, PlanSteps):
        found.append(built(kind, {one.name: rest.pop(one.name) for one in fields(kind) if one.name in rest}, "plan"))
    for name in rest:
        raise Misfit(f"plan has {clean(str(name), 40)}, which is not known")
    return found


def _as_backup(source: FromImages) -> FromBackup:
    """A document tells of pre-images as of a backup of that form."""
    backup = source.backup or Backup(source.path, source.form, False, None, None, source.form)
    return FromBackup(replace(backup, bytes=source.bytes), "")


def _from_images(source: FromBackup) -> FromImages | None:
    backup = source.backup
    if backup.form not in (FROM_IMAGES, WITH_BACKUP, WITHOUT_SPARE):
        return None
    return FromImages(backup.bytes, None if backup.form == FROM_IMAGES else replace(backup, bytes=0))


def accident_to_json(accident: Accident) -> str:
    """What a plan undoes, as ASCII JSON."""
    return json.dumps(plain(accident), separators=(",", ":"))


def accident_from_json(text: str) -> Accident:
    """The accident that :func:`accident_to_json` wrote. Raises InputError for anything else."""
    try:
        accident: Accident = built(Accident, json.loads(text), "accident")
    except (Misfit, ValueError, TypeError) as error:
        raise InputError("What an earlier return undid cannot be read.", "Another version wrote it.") from error
    return accident
