"""From where each incident could be brought back, as far as a list of them can tell. A plan proves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.catalogue.backups import list_backups
from tallyglass.restore.pre_images.settings import keeps_images
from tallyglass.restore.undo.incident_scope import why_not_undone, written
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
    the collections that keep pre-images now. ``unread`` are databases of which that is not known."""

    ends: tuple[Ts, ...] | None = None
    keeping: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()

    def of(self, incident: Incident) -> SourceAtHand:
        """Where the documents of this incident could come from."""
        if why_not_undone(incident):
            return SourceAtHand.NONE
        if written(incident) and incident.ns in self.keeping:
            return SourceAtHand.IMAGES
        if any(end < incident.limit for end in self.ends or ()):
            return SourceAtHand.BACKUP
        unread = written(incident) and incident.ns.partition(".")[0] in self.unread
        return SourceAtHand.UNKNOWN if self.ends is None or unread else SourceAtHand.NONE


async def sources_at_hand(gateway: Gateway, backup: Path | None, names: Iterable[str]) -> SourcesAtHand:
    """What there is for the collections with these ``names``, as they are shown; ``backup`` is a backup or a folder of
    them. What this user may not read counts as unknown. Raises ReadError."""
    keeping: set[str] = set()
    wanted = {name.partition(".")[0] for name in names if name}
    listed = await _databases(gateway)
    unread: set[str] = set() if listed is not None else set(wanted)
    for db in listed or ():
        if clean_name(db) in wanted:
            try:
                infos = await gateway.list_collections(db)
            except (PrivilegeError, ReadError):  # may not be read, or has a name that the driver refuses
                unread.add(clean_name(db))
                continue
            keeping |= {clean_name(str(info.ns)) for info in infos if keeps_images(info)}
            if any(info.options is None for info in infos):  # their names alone may be read
                unread.add(clean_name(db))
    return SourcesAtHand(await _ends(gateway, backup) if backup else None, frozenset(keeping), frozenset(unread))


async def _databases(gateway: Gateway) -> list[str] | None:
    """None where this user may not list them."""
    try:
        return await gateway.list_databases()
    except PrivilegeError:
        return None


async def _ends(gateway: Gateway, backup: Path) -> tuple[Ts, ...] | None:
    try:
        return tuple([one.end async for one in list_backups(backup, gateway) if one.end and not one.why])
    except (InputError, PrivilegeError):
        return None
