"""Compare the spare with what the plan computed, find leftovers, and give the repair statements."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from bson import json_util

from tallyglass.errors import InputError
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.backup.backup import LEFT_OUT, TEMPORARY
from tallyglass.restore.model.check import Check, Level, worst
from tallyglass.restore.model.indexes import canonical_index, canonical_options, is_own_index
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace, stored_as
from tallyglass.restore.tools import mongosh
from tallyglass.text import clean, clean_name, first_names

COUNT_MS = 3_600_000
"""How long counting one collection may take."""

# Matches whole lines of the tool: names from the data can appear in other lines.
_APPLIED = re.compile(r"^\S+\tapplied (\d+) oplog entries$", re.MULTILINE)
_FAILED = re.compile(r"^\S+\t\d+ document\(s\) restored successfully\. (\d+) document\(s\) failed to restore\.$")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was compared, and the mongosh statements that repair what can be repaired; run them on the spare."""

    checks: tuple[Check, ...]
    repair: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The worst level among the checks: anything but what was computed blocks the return."""
        return worst(self.checks)


async def verify(plan: Plan, spare: Gateway, *, log: Path | None = None) -> Verification:
    """Compare the spare with ``plan``. ``log`` is what mongorestore wrote. Raises the gateway's errors, and InputError
    for a log that cannot be read."""
    if plan.level is Level.BLOCK:
        blocked = "Nothing was verified: the plan is blocked, and what it computed is not proven."
        return Verification((Check("plan-blocked", Level.BLOCK, blocked, "Plan again without what blocks it."),))
    checks: list[Check] = list(_read_log(plan, log)) if log is not None else []
    repair: list[str] = []
    there = await _collections(spare)
    for item in plan.proof.expected:
        async for check in _compare(spare, item, there, repair):
            checks.append(check)
    checks += _uncounted(plan)
    checks += _leftovers(plan, there, repair)
    right = sum(1 for check in checks if check.id == "namespace" and check.level is Level.OK)
    result = f"{right} of {len(plan.proof.expected)} collections and views are as computed."
    checks.append(Check("verified", Level.OK, result if plan.proof.expected else "The spare must be empty."))
    return Verification(tuple(checks), tuple(repair))


def _read_log(plan: Plan, log: Path) -> Iterator[Check]:
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        raise InputError(f"{clean(str(log))} cannot be read: {error.strerror}.") from None
    applied, failed = _APPLIED.findall(text), _FAILED.match(text.rstrip("\n").rpartition("\n")[2])
    if not applied or int(applied[-1]) != plan.proof.expected_applied:
        found = applied[-1] if applied else "nothing"
        yield Check(
            "applied", Level.BLOCK, f"mongorestore applied {found}; {plan.proof.expected_applied} was computed."
        )
    else:
        yield Check("applied", Level.OK, f"{plan.proof.expected_applied} operations were applied, as computed.")
    if failed is None or int(failed[1]):
        yield Check(
            "failed-documents",
            Level.BLOCK,
            "mongorestore reports failed documents, or does not report how many failed.",
        )


def _uncounted(plan: Plan) -> Iterator[Check]:
    """A collection whose documents could not be counted beforehand is never taken for a compared one."""
    names = [item.ns for item in plan.proof.expected if item.documents is None and item.kind == "collection"]
    if names:
        yield Check(
            "counts-not-computed",
            Level.WARN,
            f"{first_names(names)}: how many documents they must hold was not computed, so that was not compared.",
            "Compare them yourself before they are returned.",
        )


async def _collections(spare: Gateway) -> dict[str, CollectionInfo]:
    found: dict[str, CollectionInfo] = {}
    for db in await spare.list_databases():
        if db not in LEFT_OUT:
            found |= {str(info.ns): info for info in await spare.list_collections(db)}
    return found


async def _compare(
    spare: Gateway, item: ExpectedNamespace, there: dict[str, CollectionInfo], repair: list[str]
) -> AsyncIterator[Check]:
    shown = clean_name(item.ns)
    info = there.get(item.ns)
    if info is None:
        yield Check("namespace", Level.BLOCK, f"{shown} is missing.")
        return
    wrong = False
    if info.kind != item.kind:
        wrong = True
        yield Check("namespace", Level.BLOCK, f"{shown} is a {info.kind}, not a {item.kind}.")
    if item.documents is not None:
        count = await spare.count(Namespace.parse(stored_as(item.ns, item.kind)), time_ms=COUNT_MS)
        if count != item.documents:
            wrong = True
            yield Check("documents", Level.BLOCK, f"{shown} holds {count} documents; {item.documents} were computed.")
    if item.kind == "collection":
        for check in await _indexes(spare, item, repair):
            wrong = True
            yield check
    if item.kind != "timeseries" and info.options is not None and canonical_options(info.options) != item.options:
        wrong = True
        yield Check(
            "options", Level.BLOCK, f"{shown} has other options than computed.", f"Computed: {clean(item.options)}"
        )
    if not wrong:
        yield Check("namespace", Level.OK, f"{shown} is as computed.")


async def _indexes(spare: Gateway, item: ExpectedNamespace, repair: list[str]) -> list[Check]:
    db, _, name = item.ns.partition(".")
    listed = await spare.list_indexes(Namespace(db, name))
    found = {canonical_index(spec): str(spec["name"]) for spec in listed if is_own_index(spec)}
    shown = clean_name(item.ns)
    checks = []
    for text in sorted(set(found) - set(item.indexes)):
        checks.append(
            Check("index-surplus", Level.BLOCK, f"{shown} has an index that was not computed: {clean(text)}.")
        )
        repair.append(mongosh.command(db, {"dropIndexes": name, "index": found[text]}))
    missing = sorted(set(item.indexes) - set(found))
    for text in missing:
        checks.append(Check("index-missing", Level.BLOCK, f"{shown} lacks the index {clean(text)}."))
    if missing:
        specs = [json_util.loads(text) for text in missing]
        repair.append(mongosh.command(db, {"createIndexes": name, "indexes": specs}))
    return checks


def _leftovers(plan: Plan, there: dict[str, CollectionInfo], repair: list[str]) -> list[Check]:
    known = {item.ns for item in plan.proof.expected}
    known |= {f"{item.ns.partition('.')[0]}.system.views" for item in plan.proof.expected}
    known |= {stored_as(item.ns, item.kind) for item in plan.proof.expected}
    checks = []
    for ns in sorted(set(there) - known):
        db, _, name = ns.partition(".")
        what = "a temporary collection" if TEMPORARY.match(name) else "a collection that was not computed"
        checks.append(Check("leftover", Level.BLOCK, f"{clean_name(ns)} is {what}."))
        repair.append(mongosh.command(db, {"drop": name}))
    return checks
