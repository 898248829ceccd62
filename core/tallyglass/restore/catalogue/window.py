"""The recoverable window: from when to when every second can be restored, from what is stored and the live oplog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

from tallyglass.counters.metrics import MetricFamily, known_families
from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.errors import DeploymentError, InputError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import edge
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.backup.bson_file import BrokenFile, documents
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.backups import Listed, why_not_continued, why_unfit
from tallyglass.restore.catalogue.paths_of_backups import backups_of
from tallyglass.restore.saved_oplog.joined import join, only_saved
from tallyglass.restore.saved_oplog.saved_oplog import SavedOplog, read_runs
from tallyglass.restore.timeline import coverage
from tallyglass.text import clean, clean_name


class Status(IntEnum):
    """The states of a monitoring system, as exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Stretch:
    """All positions between two, both inclusive."""

    first: Ts
    last: Ts


@dataclass(frozen=True, slots=True)
class RecoverableWindow:
    """``oplog`` are the stretches without a missing entry, ``restorable`` those at which every second can be restored;
    both are sorted and do not touch. ``newest`` is the newest entry of the server that a majority has, None without a
    server. ``hours_left`` is how long the server still holds what continues the newest of ``oplog`` that is stored;
    None if that is not known, or nothing is stored. ``problems`` are about damaged slices."""

    bases: tuple[Listed, ...]
    oplog: tuple[Stretch, ...]
    restorable: tuple[Stretch, ...]
    newest: Ts | None = None
    hours_left: float | None = None
    problems: tuple[str, ...] = ()

    @property
    def newest_base(self) -> Listed | None:
        """The base that ended last, or that cannot be read."""
        dated = [one for one in self.bases if one.end is not None]
        return max(dated, key=lambda one: one.end or ZERO, default=next(iter(self.bases), None))

    @property
    def holes(self) -> tuple[Stretch, ...]:
        """What cannot be restored since the first moment that can; its ends are positions beside it."""
        found = [Stretch(one.last, other.first) for one, other in pairwise(self.restorable)]
        if self.restorable and self.newest is not None and self.restorable[-1].last < self.newest:
            found.append(Stretch(self.restorable[-1].last, self.newest))
        return tuple(found)

    @property
    def seconds(self) -> int:
        """How long the newest stretch is at which every second can be restored."""
        return self.restorable[-1].last.t - self.restorable[-1].first.t if self.restorable else 0


@dataclass(frozen=True, slots=True)
class OplogReader:
    """One oplog without a hole, and where it can be read."""

    stretch: Stretch
    gateway: Gateway


async def find_window(
    folders: Sequence[Path], slices: Sequence[Path] = (), gateway: Gateway | None = None
) -> RecoverableWindow:
    """The window that :func:`prove_window` finds, and its errors."""
    return (await prove_window(folders, slices, gateway))[0]


async def prove_window(
    folders: Sequence[Path], slices: Sequence[Path] = (), gateway: Gateway | None = None
) -> tuple[RecoverableWindow, tuple[OplogReader, ...]]:
    """Prove each backup in ``folders`` against the slices in ``slices`` and beside the backups, and the live oplog.

    Returns the window, and the oplogs that it rests on. Reads every slice and every backup once. Raises InputError for
    a folder without backups or slices, DeploymentError and ReadError for a server that does not show its oplog, and the
    errors of the gateway.
    """
    deployment = await look_at(gateway) if gateway is not None else None
    if deployment is not None and not deployment.has_oplog:
        raise DeploymentError("There is no oplog to compare with here.", deployment.no_oplog_because())
    read = await asyncio.to_thread(_read_all, folders)
    stored = {found.oplog for _, found in read if isinstance(found, Contents) and found.oplog is not None}
    paths = tuple(dict.fromkeys((*slices, *sorted(stored))))
    runs = await asyncio.to_thread(read_runs, paths) if paths else ()
    oplogs, newest = await _oplogs(runs, gateway)
    bases, restorable = [], []
    for path, found in read:
        base, stretch = await _judge(path, found, oplogs, deployment)
        bases.append(base)
        restorable += [stretch] if stretch is not None else []
    hours = await coverage.hours_left(gateway, runs[-1].last) if gateway is not None and runs else None
    differs = tuple(f"the slices are not of one oplog: {run.differs}" for run in runs if run.differs)
    window = RecoverableWindow(
        tuple(bases),
        _merged(one.stretch for one in oplogs),
        _merged(restorable),
        newest,
        hours,
        (*(runs[-1].problems if runs else ()), *differs),
    )
    return window, tuple(oplogs)


def _read_all(folders: Sequence[Path]) -> list[tuple[Path, Contents | InputError]]:
    found: list[tuple[Path, Contents | InputError]] = []
    for path in dict.fromkeys(path for folder in folders for path in backups_of(folder)):
        try:
            contents = read_backup(path)
            found.append((path, replace(contents, problems=(*contents.problems, *_damage(contents)))))
        except InputError as error:
            found.append((path, error))
    return found


def _damage(contents: Contents) -> Iterator[str]:
    """What is found when all documents are read; an archive was read whole before."""
    for stored in contents.collections.values():
        try:
            for _ in documents(stored.data, stored.stated) if stored.data is not None else ():
                pass
        except BrokenFile as error:
            yield f"{clean_name(stored.ns)}: {error}"


async def _oplogs(runs: Sequence[SavedOplog], gateway: Gateway | None) -> tuple[list[OplogReader], Ts | None]:
    """Each run of slices, continued by the live oplog where that joins it, and the live oplog by itself."""
    if gateway is None:
        return [OplogReader(Stretch(run.first, run.last), only_saved(run)) for run in runs], None
    oldest, newest = await edge(gateway, 1), await coverage.majority(gateway)
    if newest is None:
        raise ReadError("The server does not say which entries a majority of the members has.")
    found = []
    for run in runs:
        joined, state = await join(gateway, run)
        last = max(run.last, newest) if state.holds else run.last
        found.append(OplogReader(Stretch(run.first, last), joined if state.holds else only_saved(run)))
    if oldest is not None:
        found.append(OplogReader(Stretch(oldest.ts, newest), gateway))
    return found, newest


async def _judge(
    path: Path, found: Contents | InputError, oplogs: Sequence[OplogReader], deployment: Deployment | None
) -> tuple[Listed, Stretch | None]:
    """A backup, and what can be restored from it."""
    if isinstance(found, InputError):
        return Listed(path, None, str(found)), None
    why, backup = why_unfit(found, deployment), found.backup
    if why or backup.start is None:
        return Listed(path, backup, why), None
    if backup.end is None:
        # The first moments after its beginning may lie before its end, when it is no base for them.
        return Listed(path, backup, "It does not record when it ended. mongodump --oplog records that."), None
    end = backup.end
    reaching = [one for one in oplogs if end <= one.stretch.last]
    why = f"No oplog reaches to {end}."
    for one in sorted(reaching, key=lambda one: one.stretch.last, reverse=True):
        why = await why_not_continued(one.gateway, found)
        if not why:
            return Listed(path, backup, compared=True), Stretch(end, one.stretch.last)
    return Listed(path, backup, why, compared=True), None


def _merged(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    found: list[Stretch] = []
    for one in sorted(stretches, key=lambda one: one.first):
        if found and one.first <= found[-1].last:
            found[-1] = Stretch(found[-1].first, max(found[-1].last, one.last))
        else:
            found.append(one)
    return tuple(found)


def judge(window: RecoverableWindow, *, least_hours: float, head_room_hours: float) -> tuple[Status, tuple[str, ...]]:
    """The state for a monitoring system, and its reasons, the worst first.

    CRITICAL if nothing can be restored, the newest base cannot be proven, or what is newest cannot be restored; WARNING
    for a hole, a damaged slice, less than ``least_hours`` of window or ``head_room_hours`` until the live oplog no
    longer continues what is stored.
    """
    critical, warning = [], []
    if not window.restorable:
        critical.append("nothing can be restored")
    base = window.newest_base
    if base is not None and base.why:
        critical.append(f"the newest base, {clean(base.path.name, 60)}, cannot be proven: {base.why}")
    unfit = [one for one in window.bases if one.why and not one.compared and one is not base]
    warning += [f"the base {clean(one.path.name, 60)} cannot be used: {one.why}" for one in unfit]
    for hole in window.holes:
        if hole.last == window.newest:
            critical.append(f"nothing after {hole.first.time:%Y-%m-%dT%H:%M:%SZ} can be restored")
        else:
            warning.append(f"a hole from {hole.first.time:%Y-%m-%dT%H:%M:%SZ} to {hole.last.time:%Y-%m-%dT%H:%M:%SZ}")
    warning += window.problems
    if window.restorable and window.seconds < least_hours * 3600:
        warning.append(f"the window is {window.seconds / 3600:.1f} h long, less than {least_hours:g} h")
    if window.hours_left is not None and window.hours_left < head_room_hours:
        warning.append(f"in {window.hours_left:.1f} h the live oplog no longer continues the newest slice")
    status = Status.CRITICAL if critical else Status.WARNING if warning else Status.OK
    return status, (*critical, *warning)


def families(window: RecoverableWindow, status: int) -> list[MetricFamily]:
    """The window as metrics; unknown values are left out."""
    newest = window.restorable[-1] if window.restorable else None
    values: dict[str, tuple[str, float | None]] = {
        "status": ("0 ok, 1 warning, 2 critical, 3 unknown.", status),
        "seconds": ("How long every second up to the end can be restored.", window.seconds),
        "start_timestamp_seconds": ("The first moment of that.", newest.first.t if newest else None),
        "end_timestamp_seconds": ("The last moment of that.", newest.last.t if newest else None),
        "holes": ("Holes since the first moment that can be restored.", len(window.holes)),
        "head_room_seconds": (
            "How long the live oplog continues the newest slice.",
            window.hours_left * 3600 if window.hours_left is not None else None,
        ),
    }
    return known_families("restore_window", values)
