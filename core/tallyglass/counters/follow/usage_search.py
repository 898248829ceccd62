"""Searches the oplog periodically for how numbers are used; the collections of those used as ids are followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator

from tallyglass.counters.follow.past_reader import PastReader
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.discovery import MOST_READ, Discovery, trouble_of
from tallyglass.counters.recognise.finding import UsageFinding, combined
from tallyglass.counters.recognise.ids import is_indexed
from tallyglass.counters.recognise.usage import findings as findings_of
from tallyglass.counters.recognise.usage_reader import UsageReader
from tallyglass.counters.snapshot import CounterTrouble, Grade
from tallyglass.errors import PrivilegeError, ReadError, ServerError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.text import clean_name, plural

_AGAIN_SECONDS = 600.0
"""Use is searched again so often: it reads the oplog, which costs the server."""


class UsageSearch:
    """What is known of the use of numbers: ``findings`` by collection and path.

    ``oplog_seconds`` is how far back the oplog reaches, None if unknown.
    """

    def __init__(self, gateway: Gateway, discovery: Discovery, past: PastReader) -> None:
        self.findings: dict[Namespace, dict[str, UsageFinding]] = {}
        self.oplog_seconds: float | None = None
        self._gateway = gateway
        self._discovery = discovery
        self._past = past
        self._began: float | None = None
        self._reader: UsageReader | None = None
        self._cut = 0
        self._looked_up: dict[IdField, bool] = {}
        self._not_followed: dict[Namespace, CounterTrouble | None] = {}

    async def advance(self, seconds: float, known: Collection[Namespace]) -> None:
        """Read on for about ``seconds``; follow the collections ``known`` from earlier runs, and those of new findings.

        Raises ReadError if no server answers.
        """
        due = self._began is None or time.monotonic() - self._began >= _AGAIN_SECONDS
        if due and self._reader is None:
            self._began = time.monotonic()
            self._not_followed.clear()
            window = await self._past.oplog_window()
            if window is not None:
                self.oplog_seconds = float(window[1].time - window[0].time)
                self._reader = UsageReader(self._gateway, *window)
        if self._reader is not None:
            await self._read(self._reader, time.monotonic() + seconds)
        await self._follow(known)

    async def close(self) -> None:
        """End the reading of the oplog."""
        if self._reader is not None:
            await self._reader.close()

    def troubles(self) -> Iterator[CounterTrouble]:
        """What is not known yet, or not followed."""
        yield from filter(None, self._not_followed.values())
        if self._reader is not None:
            title = "More counters may be found: the oplog is still searched for ids."
            yield CounterTrouble("", title, partial=True)
        elif self._cut:
            title = (
                f"The server cut off {plural(self._cut, 'request')} for the use of numbers: a counter may be a guess."
            )
            yield CounterTrouble("", title, partial=True)

    async def _read(self, reader: UsageReader, deadline: float) -> None:
        try:
            done = await reader.advance(deadline)
        except (PrivilegeError, ReadError) as error:
            self._reader = None
            if not isinstance(error, ServerError):
                raise
            self._past.no_oplog(error)
            return
        for seen in await asyncio.to_thread(findings_of, await reader.evidence()):
            finding = seen.as_total() if await self._is_total(seen) else seen
            known = self.findings.setdefault(finding.ns, {})
            known[finding.path] = combined(known.get(finding.path), finding)
        self._cut = reader.cut
        if done:
            self._reader = None

    async def _is_total(self, finding: UsageFinding) -> bool:
        """Whether the values are only repeated: in a field of the same name that nothing looks up."""
        if not finding.is_repeated:
            return False
        for target in finding.claims:
            if target not in self._looked_up:
                try:
                    self._looked_up[target] = await is_indexed(self._gateway, target)
                except ServerError:
                    # Not known to be one: then it is shown.
                    self._looked_up[target] = True
            if self._looked_up[target]:
                return False
        return bool(finding.claims)

    async def _follow(self, known: Collection[Namespace]) -> None:
        for ns in self._discovery.seen.intersection(known) - self._not_followed.keys():
            self._discovery.follow(ns)
        for ns, by_path in self.findings.items():
            if ns not in self._discovery.seen or ns in self._discovery.places or ns in self._not_followed:
                continue
            if not any(finding.grade in (Grade.CERTAIN, Grade.LIKELY) for finding in by_path.values()):
                continue
            try:
                if await self._gateway.estimate(ns) > MOST_READ:
                    why = f"it has more than {MOST_READ:,} documents: too many to follow."
                    self._not_followed[ns] = _not_followed(ns, why, partial=True)
                elif await self._discovery.expires(ns):
                    self._not_followed[ns] = None
                else:
                    self._discovery.follow(ns)
            except ServerError as error:
                why = f"it cannot be followed: {trouble_of('', error).title}"
                self._not_followed[ns] = _not_followed(ns, why, partial=isinstance(error, PrivilegeError))


def _not_followed(ns: Namespace, why: str, *, partial: bool) -> CounterTrouble:
    return CounterTrouble(clean_name(str(ns)), f"Numbers in it are used as ids, but {why}", partial=partial)
