"""Incidents with who wrote them: the evidence is read while the incidents are, and compared when both are there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tallyglass.errors import InputError, TallyglassError
from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Source
from tallyglass.evidence.log_files import FOUND_BYTES, foreign_files, log_beside, read_files
from tallyglass.evidence.observer import LEAST_PAUSE, Observer
from tallyglass.evidence.store import EvidenceFolder
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.incidents.across_shards import Named
from tallyglass.oplog.incidents.attribution import (
    attribute,
    bearing,
    clients_beside_ttl,
    concerning,
    needs_entries,
    why_none,
)
from tallyglass.oplog.incidents.by_log import missing, read_run, with_unusual_runs
from tallyglass.oplog.incidents.habits import SLACK_MILLIS, Habits, LoggedRun, is_shell
from tallyglass.oplog.incidents.recurrence import Reason
from tallyglass.oplog.snapshot import Authorship, Certainty, Incident, IncidentScan
from tallyglass.tasks import cancel_all

TRIES = 3
"""How often the log is read soon after a new incident that nobody is named for: a line is written when its command
ends, which may wait for other members."""

LOGGED_LIMIT = 500
"""The most acts that only the log tells; each costs a read of its part of the oplog."""

LATE_SECONDS = 60.0
"""How long the entries of an act of the log are looked for: a secondary that is behind has them later."""

_DEFINITIONS = ("collMod", "createIndexes")


@dataclass(slots=True)
class _Known:
    """Who wrote an incident, on which evidence that rests, and how often the log was read to find it."""

    found: Authorship | None = None
    near: object = None
    tries: int = 0

    @property
    def is_known(self) -> bool:
        return self.found is not None and self.found.is_known


class Authors:
    """Who wrote the incidents of one replica set, as far as its evidence shows. Remembers what was once found.

    ``logs`` are log files to read; without them the one beside the server, if there is one. For a ``shard`` they may be
    of other servers of the cluster.
    """

    def __init__(self, gateway: Gateway, observer: Observer, logs: Sequence[Path] = (), *, shard: bool = False) -> None:
        self._shard = shard
        self._gateway = gateway
        self._observer = observer
        self._logs = logs
        self._files: Sequence[Path] = ()
        self._files_read = False
        self._known: defaultdict[object, _Known] = defaultdict(_Known)
        self._up_to_date: set[object] = set()
        """Incidents that were compared with the newest evidence, as they began."""
        self._habits = Habits(observer.book)
        observer.book.heard = self._habits.note
        self._logged: dict[object, tuple[Incident | None, float]] = {}
        """What the log alone tells to be an act, by when it began: None where the oplog has no such entries. And when
        they were first looked for."""

    async def begin(self) -> None:
        """Read the server's memory of its log, before more of it is overwritten, unless there are files."""
        kept = self._observer.folder is not None and self._observer.folder.by_member()
        beside = None if self._logs or kept else await log_beside(self._gateway)
        self._files = self._logs or ([beside] if beside else [])
        if not self._files and not kept:
            await self._read()

    async def added_to(self, scan: IncidentScan) -> IncidentScan:
        """The scan with the evidence in each incident that is not routine. Raises InputError for a log file, or a file
        of a folder of evidence, that was named and cannot be read."""
        acting = [one for one in scan.incidents if not one.routine]
        known = {_key(one): self._known[_key(one)] for one in acting}
        unknown = any(one.tries < TRIES and not one.is_known for one in known.values())
        first, self._files_read = not self._files_read, True
        if first:
            await self._read_files([*acting, *(one for one in scan.incidents if one.kind == "ttl")])
        if self._observer.is_due(urgent=unknown) or (first and unknown):
            await self._read(urgent=unknown)
            for tried in known.values():
                tried.tries += 1
        scan = with_unusual_runs(scan, self._observer.book)
        logged = await self._by_log(scan)
        acting = [*(one for one in scan.incidents if not one.routine), *logged]
        found = {_key(one): await self._of(one) for one in acting}
        self._known = defaultdict(_Known, {key: self._known[key] for key in found})
        book, defined = self._observer.book, {one.ns for one in acting if one.kind in _DEFINITIONS}
        shown = (replace(one, evidence=found.get(_key(one))) for one in (*logged, *scan.incidents))
        told = tuple(_by_person(as_routine(_by_server(one, book, defined), book, self._habits)) for one in shown)
        return replace(scan, incidents=told, running=await self._observer.read_running())

    async def _by_log(self, scan: IncidentScan) -> list[Incident]:
        """The acts that the log alone tells. Their numbers come after those of the entries, which stay the same."""
        last, found, oldest = max((one.number for one in scan.incidents), default=0), list[Incident](), scan.reached
        if not scan.done or scan.ns or oldest is None:
            return []
        runs = {
            (run.largest.ns, run.largest.op, run.began, run.documents): run
            for run in missing(scan.incidents, self._habits)
            if run.began >= oldest.t * 1_000
        }
        self._logged = {key: one for key, one in self._logged.items() if key in runs}
        for key, run in runs.items():
            one = await self._logged_act(key, run)
            if one is not None:
                found.append(replace(one, number=last + len(found) + 1))
        return found

    async def _logged_act(self, key: object, run: LoggedRun) -> Incident | None:
        """An act of the log with its entries, which are looked for again for a while if they are not there."""
        now = asyncio.get_running_loop().time()
        found, since = self._logged.get(key, (None, now))
        is_new = key not in self._logged and len(self._logged) < LOGGED_LIMIT
        again = key in self._logged and now - since <= LATE_SECONDS and self._observer.is_due(urgent=True)
        if found is None and (is_new or again):
            self._observer.spend()
            with suppress(TallyglassError):
                found = await read_run(self._gateway, run, self._observer.book)
                self._logged[key] = (found, since)
        return found

    async def _read(self, *, urgent: bool = False) -> None:
        self._up_to_date.clear()
        await self._observer.read(urgent=urgent)

    async def _of(self, incident: Incident) -> Authorship:
        known, book, reads = self._known[_key(incident)], self._observer.book, needs_entries(incident)
        near = bearing(incident, book)
        if known.found is not None and (known.is_known or near == known.near):
            return known.found
        if known.found is None and reads and _beginning(incident) in self._up_to_date:
            # It has grown since: its new entries are later than the evidence.
            return Authorship(Certainty.NONE, reason=why_none(incident, book))
        known.near = near
        self._up_to_date.add(_beginning(incident))
        try:
            self._observer.spend(int(reads))
            known.found = await attribute(self._gateway, incident, book)
        except TallyglassError as error:
            known.found = Authorship(Certainty.NONE, reason=f"Its entries could not be read again: {error}")
        return known.found

    async def _read_files(self, acting: Sequence[Incident]) -> None:
        """Read the log files before the server's own memory of the log, so that each line is read once."""
        files = self._files
        most = 0 if self._logs else FOUND_BYTES
        observer, wanted = self._observer, concerning(acting)
        others: Sequence[Path] = await foreign_files(self._gateway, files) if self._shard and self._logs else ()
        try:
            if files:
                reading = asyncio.to_thread(read_files, observer.book, files, wanted, most=most, others=others)
                observer.last_lines[""] = await reading
        except InputError:
            if self._logs:
                raise
        for member, kept in (observer.folder.by_member() if observer.folder else {}).items():
            others = kept if self._shard and member not in self._own_names() else ()
            reading = asyncio.to_thread(read_files, observer.book, kept, wanted, others=others)
            observer.last_lines[member] = await reading

    def _own_names(self) -> set[str]:
        """The members of this set as the folder of evidence names them."""
        return {EvidenceFolder.name_of(member) for member in self._gateway.members()}


async def attributed(
    scans: AsyncIterator[IncidentScan], authors: Authors, *, seconds: float = LEAST_PAUSE
) -> AsyncIterator[IncidentScan]:
    """The scans with who wrote the incidents, and again when that becomes known later, looked for every ``seconds``.

    Raises the errors of ``scans``, and those of :meth:`Authors.added_to`.
    """
    latest: IncidentScan | None = None
    shown: IncidentScan | None = None
    await authors.begin()
    async with closing(scans) as found:
        coming = asyncio.ensure_future(anext(found))
        try:
            while True:
                await asyncio.wait({coming}, timeout=seconds)
                if coming.done():
                    try:
                        latest = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = asyncio.ensure_future(anext(found))
                if latest is None:
                    continue
                scan = await authors.added_to(latest) if latest.done else latest
                if scan != shown:
                    shown = scan
                    yield scan
        finally:
            await cancel_all([coming])


def naming(gateway: Gateway, logs: Sequence[Path] = (), folder: EvidenceFolder | None = None) -> Named:
    """What adds to the scans of a replica set who wrote the incidents, from log files and a folder of evidence too.

    For shards, ``gateway`` is the router: a shard knows only the router's connections, whose own log has the clients.
    """

    def named(one: Gateway, scans: AsyncIterator[IncidentScan]) -> AsyncIterator[IncidentScan]:
        router = None if one is gateway or isinstance(gateway, ClusterGateway) else gateway
        observer = Observer(one, router=router, folder=folder)
        return attributed(scans, Authors(one, observer, logs, shard=one is not gateway))

    return named


def _by_server(incident: Incident, book: Book, defined: Collection[str]) -> Incident:
    """An incident that the log tells to be the pass of a TTL index, as routine, unless the index may have been changed
    by a person: ``defined`` are the collections whose definition was changed. Routine of such an index with the deletes
    of clients that the log has beside it."""
    if incident.kind == "ttl":
        beside = clients_beside_ttl(incident, book)
        return replace(incident, note="; ".join(filter(None, (incident.note, beside)))) if beside else incident
    who = incident.evidence.who if incident.evidence else None
    if incident.routine or who is None or not who.server or incident.ns in defined:
        return incident
    return replace(incident, kind="ttl", reason=Reason.TTL, title=f"TTL on {incident.ns}", note=who.statement)


def _beginning(incident: Incident) -> object:
    """What an incident is known by however it grows."""
    return (incident.kind, incident.ns, incident.first, incident.session)


def _by_person(incident: Incident) -> Incident:
    """An incident with high confidence where the evidence names a shell, whatever made it low."""
    who = incident.evidence.who if incident.evidence else None
    if incident.routine or incident.confidence != "low" or who is None or not is_shell(who.application):
        return incident
    return replace(incident, confidence="high")


def _key(incident: Incident) -> object:
    """What an incident is known by: one that has grown is another."""
    return (_beginning(incident), incident.last, incident.ops)


def as_routine(incident: Incident, book: Book, habits: Habits) -> Incident:
    """An incident whose statements the log knows, all of them run by their applications at other times too, as
    routine."""
    known = incident.evidence is not None and incident.evidence.is_known
    if incident.routine or not incident.op or incident.sessions or not known:
        return incident
    first, last = incident.walls
    own = [
        one
        for one in book.statements(incident.ns, incident.op, first, last + SLACK_MILLIS)
        if one.source is Source.LOG and one.in_session is not True and one.began <= last
    ]
    reasons = {habits.judge(one, first, last) for one in own}
    if not reasons or "" in reasons:
        return incident
    note = "; ".join(filter(None, (*sorted(reasons), incident.note)))
    return replace(incident, kind="job", reason=Reason.RECURS, title=f"routine: {incident.title}", note=note)
