"""From where each incident could be brought back, as far as a list of them can tell. A plan proves it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bson import MaxKey
from bson.binary import UUID_SUBTYPE, Binary

from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.catalogue.backups import list_backups
from tallyglass.restore.timeline.identity import list_live
from tallyglass.restore.undo.incident_scope import why_not_undone, written
from tallyglass.restore.undo.sources.images import PRE_IMAGES
from tallyglass.text import clean_name


class SourceAtHand(StrEnum):
    """Where the documents of an incident could come from."""

    IMAGES = "images"
    BACKUP = "backup"
    NONE = "no"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class SourcesAtHand:
    """What there is: when the backups ended that the oplog continues, None if none is named or none can be read, and
    the incidents (:func:`name_of`) with a pre-image from their span, and those without. Of any other incident it is
    not known: it was not looked for, may not be read, or the incident is a transaction. ``unjudged``: another backup is
    there that may serve all the same, such as data files with a server, or one that slices of the oplog elsewhere
    continue."""

    ends: tuple[Ts, ...] | None = None
    imaged: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    unjudged: bool = False

    def of(self, incident: Incident) -> SourceAtHand:
        """Where the documents of this incident could come from."""
        if why_not_undone(incident):
            return SourceAtHand.NONE
        name = name_of(incident)
        if name in self.imaged:
            return SourceAtHand.IMAGES
        if any(end < incident.limit for end in self.ends or ()):
            return SourceAtHand.BACKUP
        imageless = name in self.without or not (written(incident) or incident.kind == "transaction")
        known = self.ends is not None and not self.unjudged and imageless
        return SourceAtHand.NONE if known else SourceAtHand.UNKNOWN


def name_of(incident: Incident) -> str:
    """What names an incident here, also while it goes on."""
    return f"{incident.first} {incident.ns}"


async def sources_at_hand(gateway: Gateway, backup: Path | None, incidents: Collection[Incident]) -> SourcesAtHand:
    """What there is for these incidents; ``backup`` is a backup or a folder of them. What this user may not read counts
    as unknown. Raises ReadError."""
    wanted = [one for one in incidents if written(one) and not why_not_undone(one)]
    uuids = await _uuids(gateway, {one.ns.partition(".")[0] for one in wanted})
    oldest: dict[str, Ts | None] = {}
    imaged, without = set[str](), set[str]()
    try:
        for one in wanted:
            if one.ns not in uuids:
                continue
            uuid = uuids[one.ns]
            if one.ns not in oldest:
                oldest[one.ns] = await _first_image(gateway, uuid, {}, {"ts": MaxKey()})
            since = oldest[one.ns]
            span = {"ts": stamp(one.first)}, {"ts": stamp(one.last), "applyOpsIndex": MaxKey()}
            held = since is not None and since <= one.last and await _first_image(gateway, uuid, *span)
            (imaged if held else without).add(name_of(one))
    except PrivilegeError:  # of no collection then
        imaged, without = set(), set()
    ends, unjudged = await _ends(gateway, backup) if backup else (None, False)
    return SourcesAtHand(ends, frozenset(imaged), frozenset(without), unjudged)


async def _first_image(
    gateway: Gateway, uuid: bytes, low: Mapping[str, object], high: Mapping[str, object]
) -> Ts | None:
    """The entry of the first image of a collection from one key to another; None if there is none."""
    collection = {"nsUUID": Binary(uuid, UUID_SUBTYPE)}
    bounds = {"$gte": {**collection, **low}, "$lte": {**collection, **high}}
    found = await gateway.find_one(PRE_IMAGES, {"_id": bounds}, projection={"_id": 1}, sort=[("_id", 1)])
    return Ts(found["_id"]["ts"].time, found["_id"]["ts"].inc) if found else None


async def _uuids(gateway: Gateway, databases: Collection[str]) -> dict[str, bytes]:
    """The UUID of each collection in the databases with these names, as they are shown; without those that this user
    may not read."""
    try:
        listed = await gateway.list_databases()
    except PrivilegeError:
        return {}
    live = await list_live(gateway, (db for db in listed if clean_name(db) in databases))
    return {clean_name(ns): uuid for uuid, ns in live.uuids.items()}


async def _ends(gateway: Gateway, backup: Path) -> tuple[tuple[Ts, ...] | None, bool]:
    try:
        found = [one async for one in list_backups(backup, gateway)]
    except (InputError, PrivilegeError):
        return None, False
    return tuple(one.end for one in found if one.end and not one.why), any(one.why for one in found)
