"""Check, right before the spare is written, that it is still as the plan saw it: a plan may be run days later."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.model.check import Check, block, ok, warn
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.spare.spare import MARKS, VIEW_OPENER, Spare, inspect_spare
from tallyglass.restore.spare.verify import Verification
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.text import clean


async def ready(plan: Plan, spare: Gateway) -> Verification:
    """Check that the spare is not part of the source, and that it is empty unless it runs on a copy of the data files:
    mongorestore drops collections of the same names. The level is a warning if it holds leftovers of an earlier attempt
    of this restore, which may be dropped."""
    found = await inspect_spare(spare, plan.from_backup.spare)
    full = [db for db in found.databases if not await _only_opened(spare, db)]
    marked = bool(full) and await spare.find_one(MARKS, {"_id": plan.mark}) is not None
    return check_ready(plan, replace(found, databases=tuple(full)), marked=marked)


async def _only_opened(spare: Gateway, db: str) -> bool:
    """Whether a database holds only what the commands created there one step earlier."""
    names = {info.ns.collection for info in await spare.list_collections(db)}
    return names <= {VIEW_OPENER, "system.views"}


def check_ready(plan: Plan, found: Spare, *, marked: bool = False) -> Verification:
    """Check facts about the spare that are known already."""
    return Verification((_fitness(plan, found, marked),))


def _fitness(plan: Plan, found: Spare, marked: bool) -> Check:
    if found.trouble:
        return block("spare-unreachable", f"The spare does not answer: {clean(found.trouble)}")
    if found.sharded or (found.set_name and found.set_name == plan.facts.set_name):
        return block("spare-is-source", "The spare is part of the source or of a cluster.", "Name another server.")
    if version_pair(found.version) != version_pair(plan.facts.server_version):
        runs = f"The spare runs MongoDB {clean(found.version)}, not {plan.facts.server_version}."
        return block("spare-version", runs)
    if found.ttl_monitor:
        return block("spare-ttl", "The spare's TTL monitor is on.", "Set ttlMonitorEnabled=false there.")
    if found.databases and plan.from_backup.form != DATA_FILES:
        shown = clean(", ".join(found.databases[:5]))
        if marked:
            return warn("spare-not-empty", f"The spare holds what an earlier attempt of this restore left: {shown}.")
        advice = "Drop these databases there if nobody needs them, or name another server."
        return block("spare-not-empty", f"The spare is not empty: it holds {shown}.", advice)
    return ok("spare", "The spare is empty and fits the plan.")
