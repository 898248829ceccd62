"""Compare the spare with what the plan computed, find leftovers, and give the repair statements."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson import json_util

from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.backup.backup import LEFT_OUT, TEMPORARY
from tallyglass.restore.model.check import Check, Checks, Level, block, ok, warn, worst
from tallyglass.restore.model.expiry import loaded_without_expiry
from tallyglass.restore.model.indexes import buildable, canonical_index, canonical_options, is_own_index
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
        return Verification((block("plan-blocked", blocked, "Plan again without what blocks it."),))
    checks: list[Check] = list(_read_log(plan, log)) if log is not None else []
    repair: list[str] = []
    there, unexpiring = await _collections(spare), loaded_without_expiry(plan)
    for item in plan.proof.expected:
        # Their expiry is turned off there later: the spare may be verified again.
        options = {"expireAfterSeconds": unexpiring[item.ns]} if item.ns in unexpiring else {}
        checks += await _compare(spare, item, options, there, repair)
    checks += _uncounted(plan)
    checks += _leftovers(plan, there, repair)
    right = sum(1 for check in checks if check.id == "namespace" and check.level is Level.OK)
    result = f"{right} of {len(plan.proof.expected)} collections and views are as computed."
    checks.append(ok("verified", result if plan.proof.expected else "The spare must be empty."))
    return Verification(tuple(checks), tuple(repair))


async def check_unchanged(plan: Plan, spare: Gateway) -> None:
    """Raise InputError where the spare holds fewer documents of a collection that comes back than the plan computed:
    another run emptied it, or a person used it. What it lacks would count as never having been there. Raises the errors
    of the gateway."""
    for row in plan.undo.returns:
        item = plan.proof.expected_of(row.ns)
        if item is None or item.documents is None or item.kind != "collection":  # few may read the buckets of a series
            continue
        found = await _least_count(spare, Namespace.parse(row.ns), item.documents)
        if found < item.documents:
            raise InputError(
                f"The spare was changed since it was compared with the plan: {clean_name(row.ns)} holds {found:,} "
                f"documents there, not {item.documents:,}.",
                "What it lacks is neither brought back nor accounted for. Plan again, with a spare that nothing else "
                "uses.",
            )


async def _least_count(spare: Gateway, ns: Namespace, wanted: int) -> int:
    """How many documents there are, exactly where they seem to be fewer than ``wanted``: what the server notes is not
    exact after a crash."""
    with suppress(PrivilegeError, ReadError):
        noted = (await spare.command("collStats", ns.collection, db=ns.db)).get("count", 0)
        if noted >= wanted:
            return int(noted)
    return await spare.count(ns, time_ms=COUNT_MS)


def _read_log(plan: Plan, log: Path) -> Checks:
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        raise InputError(f"{clean(str(log))} cannot be read: {error.strerror}.") from None
    applied, failed = _APPLIED.findall(text), _FAILED.match(text.rstrip("\n").rpartition("\n")[2])
    if not applied or int(applied[-1]) != plan.proof.expected_applied:
        found = applied[-1] if applied else "nothing"
        yield block("applied", f"mongorestore applied {found}; {plan.proof.expected_applied} was computed.")
    else:
        yield ok("applied", f"{plan.proof.expected_applied} operations were applied, as computed.")
    if failed is None or int(failed[1]):
        yield block("failed-documents", "mongorestore reports failed documents, or does not report how many failed.")


def _uncounted(plan: Plan) -> Checks:
    """A collection whose documents could not be counted beforehand is never taken for a compared one."""
    names = [item.ns for item in plan.proof.expected if item.documents is None and item.kind == "collection"]
    if names:
        yield warn(
            "counts-not-computed",
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
    spare: Gateway,
    item: ExpectedNamespace,
    options: dict[str, Any],
    there: dict[str, CollectionInfo],
    repair: list[str],
) -> list[Check]:
    """``options`` are those that it need not have any more."""
    shown, info = clean_name(item.ns), there.get(item.ns)
    if info is None:
        return [block("namespace", f"{shown} is missing.")]
    wrong: list[Check] = []
    if info.kind != item.kind:
        wrong.append(block("namespace", f"{shown} is a {info.kind}, not a {item.kind}."))
    if item.documents is not None:
        count = await spare.count(Namespace.parse(stored_as(item.ns, item.kind)), time_ms=COUNT_MS)
        if count != item.documents:
            wrong.append(block("documents", f"{shown} holds {count} documents; {item.documents} were computed."))
    if item.kind != "view":
        wrong += await _indexes(spare, item, repair)
    held = None if info.options is None else canonical_options({**options, **info.options}, item.kind)
    if held not in (None, item.options):
        wrong.append(block("options", f"{shown} has other options than computed.", f"Computed: {clean(item.options)}"))
    return wrong or [ok("namespace", f"{shown} is as computed.")]


async def _indexes(spare: Gateway, item: ExpectedNamespace, repair: list[str]) -> list[Check]:
    db, _, name = item.ns.partition(".")
    listed = await spare.list_indexes(Namespace(db, name))
    found = {canonical_index(spec): str(spec["name"]) for spec in listed if is_own_index(spec)}
    shown = clean_name(item.ns)
    checks = []
    for text in sorted(set(found) - set(item.indexes)):
        checks.append(block("index-surplus", f"{shown} has an index that was not computed: {clean(text)}."))
        repair.append(mongosh.command(db, {"dropIndexes": name, "index": found[text]}))
    missing = sorted(set(item.indexes) - set(found))
    for text in missing:
        checks.append(block("index-missing", f"{shown} lacks the index {clean(text)}."))
    if missing:
        specs = [buildable(json_util.loads(text), item.kind) for text in missing]
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
        checks.append(block("leftover", f"{clean_name(ns)} is {what}."))
        repair.append(mongosh.command(db, {"drop": name}))
    return checks
