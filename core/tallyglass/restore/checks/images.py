"""Checks of the pre-images of an incident before they are read: can there be any?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tallyglass.deployment.cluster import Deployment
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo
from tallyglass.oplog.incidents.verdict import MAYBE_TTL
from tallyglass.oplog.snapshot import Harm, Incident, time_series_of
from tallyglass.restore.checks.all_checks import tested
from tallyglass.restore.checks.installed_tools import installed_tools
from tallyglass.restore.model.check import Check, block, warn
from tallyglass.restore.pre_images.settings import ROLE, SINCE
from tallyglass.restore.proof.returns import can_be_made
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.restore.undo.incident_scope import written
from tallyglass.text import clean_name

_SUFFIX = "_" * 40
"""As long as what the names of staging collections have more than that of the collection, or longer."""
GONE = (
    "If it was renamed, rename it back and plan again: its pre-images are held. A drop leaves none: restore from a "
    "backup and the oplog."
)


def possible(deployment: Deployment, incident: Incident) -> Iterator[Check]:
    """Checks of an undo from pre-images that need no entry of the incident."""
    version = version_pair(deployment.version)
    if deployment.sharded or not deployment.has_oplog:
        yield block("images-sharded", "Pre-images are read from one replica set alone.", "Restore each shard.")
    if version is not None and version < SINCE:
        yield block("images-version", f"MongoDB {deployment.version} keeps no pre-images; 6.0 and later do.")
    if incident.harm is Harm.DEFINITION:
        yield block(
            "images-kind",
            f"{incident.title}: this changes no document itself.",
            "If documents expired by it, plan for the incident of their deletes.",
        )
    elif not written(incident) and incident.kind not in ("transaction", "ttl"):
        yield block(
            "images-kind",
            f"{incident.title}: no pre-images are kept of what a command removes or replaces.",
            "Restore from a backup and the oplog.",
        )
    elif time_series_of(incident.ns):
        yield block(
            "images-kind",
            f"{incident.title}: a time-series collection cannot keep pre-images.",
            "Restore from a backup and the oplog.",
        )
    if incident.kind == "ttl" or MAYBE_TTL in incident.note:
        yield warn(
            "images-ttl",
            "A TTL index deleted these documents and would delete them again."
            if incident.kind == "ttl"
            else "The collection has a TTL index: if it deleted these documents, it would delete them again.",
            "Drop it, or raise its expireAfterSeconds with collMod first: what would expire is left out otherwise.",
        )


def before_reading(deployment: Deployment, incident: Incident) -> Iterator[Check]:
    """These, and those of the server and of the tools that are installed here."""
    yield from possible(deployment, incident)
    yield from tested(deployment)
    yield from installed_tools(toolset.installed(), toolset.needed_for(deployment.version, plain=True))


def reached(oldest: Ts | None, majority: Ts | None, limit: Ts) -> Iterator[Check]:
    """Checks that the oplog, from ``oldest`` to the newest entry of a majority, has the point."""
    if oldest is None or oldest > limit:
        first = oldest or "unknown"
        yield block("coverage", f"The oplog no longer reaches back to {limit}: it begins at {first}.")
    if majority is None or limit > majority:
        yield block("not-majority", f"{limit} is not on a majority of the members yet.", "Plan again.")


def refused(error: InputError | PrivilegeError) -> Check:
    """The check that blocks where the URI cannot be used, or this user may not read what such a plan needs."""
    if isinstance(error, InputError):
        return block("uri", str(error))
    return block("images-privilege", error.title, f"In mongosh: {ROLE}")


def collections(
    names: list[str], live: dict[str, CollectionInfo], renamed: Mapping[str, str], incident: Incident
) -> Iterator[Check]:
    """Checks that the collections of the incident still exist under their names, and that copies of them can be
    named."""
    gone = [clean_name(name) for name in names if name not in live] if names else [incident.ns]
    for shown in gone:
        yield block("images-collection", f"{shown} no longer exists.", GONE)
    for name, there in renamed.items():
        shown = clean_name(name)
        yield block(
            "images-collection", f"{shown} was renamed to {clean_name(there)}, and is another one by now.", GONE
        )
    for name in names:
        if written(incident) == "d" and name in live and (live[name].options or {}).get("capped"):
            yield warn(
                "images-capped",
                f"{clean_name(name)} is capped: what comes back becomes its newest. Without room for all of it, it is "
                "left out and listed: the server would remove the oldest for it.",
                "Compare size and maxSize of its stats() first.",
            )
        if not can_be_made(name + _SUFFIX):
            yield block("images-name", f"{clean_name(name)}: its name cannot be lengthened for a copy.")
