"""A folder of backups: which of them the oplog can continue, and the newest that fits a point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.errors import InputError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import DATA_FILES, Contents
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.paths_of_backups import backups_of, holds_backups
from tallyglass.restore.model.source import Backup
from tallyglass.restore.saved_oplog.joined import join
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.timeline.coverage import BACK_OFF_SECONDS, NoStart, choose_start
from tallyglass.restore.timeline.identity import foreign_anchor
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.text import clean


@dataclass(frozen=True, slots=True)
class Listed:
    """One backup of a folder. ``backup`` is None where it cannot be read.

    ``why`` says why no restore from it can be proven, and is empty where nothing speaks against it. ``compared`` tells
    whether it was compared with an oplog: without that, only what the backup says of itself is known.
    """

    path: Path
    backup: Backup | None
    why: str = ""
    compared: bool = False

    @property
    def provable(self) -> bool | None:
        """Whether the oplog continues it; None if that was not compared."""
        return False if self.why else True if self.compared else None

    @property
    def end(self) -> Ts | None:
        """The time of the backup: its end, or its beginning if it records no end."""
        return (self.backup.end or self.backup.start) if self.backup else None


async def list_backups(folder: Path, gateway: Gateway | None = None) -> AsyncIterator[Listed]:
    """The backups of a folder by name, of one kind or of several. With a ``gateway`` each is compared with its oplog.

    Raises InputError for a folder without backups, and the errors of the gateway.
    """
    found = await asyncio.to_thread(backups_of, folder)
    deployment = await look_at(gateway) if gateway is not None else None
    for path in found:
        try:
            contents = await asyncio.to_thread(read_backup, path)
        except InputError as error:
            yield Listed(path, None, str(error))
            continue
        why = await why_not(gateway, contents, deployment)
        yield Listed(path, contents.backup, why, compared=gateway is not None)


async def why_not(gateway: Gateway | None, contents: Contents, deployment: Deployment | None) -> str:
    """The first reason why the oplog cannot continue a backup; empty where nothing speaks against it."""
    if (why := why_unfit(contents, deployment)) or gateway is None:
        return why
    if contents.oplog is not None:
        try:
            saved = await asyncio.to_thread(read_saved, [contents.oplog], contents.backup.start)
        except InputError as error:
            return f"Its slices cannot be read: {error}"
        gateway, joined = await join(gateway, saved)
        if saved.differs or not joined.holds:
            missing = f"entries are missing {joined.hole}"
            return f"The live oplog does not continue its slices: {saved.differs or joined.differs or missing}."
    return await why_not_continued(gateway, contents)


def why_unfit(contents: Contents, deployment: Deployment | None) -> str:
    """The first reason that the backup itself gives; empty if it gives none. Set and version are compared with those
    of ``deployment``."""
    backup = contents.backup
    if contents.problems:
        return f"It is damaged or incomplete: {contents.problems[0]}."
    if backup.form == DATA_FILES:
        return "Data files are read through a mongod that runs on them: plan with --spare."
    if backup.start is None:
        return "It does not record when it began. mongodump --oplog records that."
    if deployment is None:
        return ""
    if contents.set_name and contents.set_name != deployment.set_name:
        return f"It is from the set {contents.set_name}, not from {deployment.set_name}."
    made_by = version_pair(backup.server_version)
    if made_by is not None and made_by != version_pair(deployment.version):
        return f"It was made on MongoDB {backup.server_version}; the source runs {deployment.version}."
    return ""


async def why_not_continued(oplog: Gateway, contents: Contents) -> str:
    """Why this oplog, live or saved or both, does not continue a backup that records when it began."""
    backup = contents.backup
    assert backup.start is not None
    start = await choose_start(oplog, backup.start, 0 if backup.exact else BACK_OFF_SECONDS)
    if isinstance(start, NoStart):
        return f"The oplog does not reach back to it: {start.why}."
    foreign = await foreign_anchor(oplog, contents.anchors, start.oldest)
    return f"It is not from this oplog: {foreign}." if foreign else ""


async def newest_backup(gateway: Gateway, path: Path, limit: Ts, oplog: Path | None = None) -> Path:
    """The newest backup of a folder of them that reaches ``limit``; ``path`` itself where it is one backup. ``oplog``
    is a saved oplog that is read before the live one. Raises InputError where none fits, and the errors of the
    gateway."""
    if not await asyncio.to_thread(holds_backups, path):
        return path
    if oplog is not None:
        gateway, _ = await join(gateway, await asyncio.to_thread(read_saved, [oplog]))
    return newest_before([one async for one in list_backups(path, gateway)], limit)


def newest_before(listed: Sequence[Listed], limit: Ts) -> Path:
    """The newest provable backup that was finished before ``limit``. Raises InputError with what speaks against each
    where there is none."""
    fitting = [one for one in listed if not one.why and one.end is not None and one.end < limit]
    if fitting:
        return max(fitting, key=lambda one: (one.end or limit, one.path)).path
    newest_first = sorted(listed, key=lambda one: one.end or ZERO, reverse=True)
    reasons = [f"{clean(one.path.name, 60)}: {one.why or f'it ended at {one.end}.'}" for one in newest_first[:3]]
    backups = "The only backup there cannot" if len(listed) == 1 else f"None of the {len(listed)} backups can"
    raise InputError(f"{backups} be continued to {limit}.", "The newest: " * (len(listed) > 1) + " ".join(reasons))
