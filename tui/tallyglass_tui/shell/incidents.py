"""The incidents for all pages that show them: one shared feed, and one order."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan
from tallyglass_tui.shell.feed import Feed, Feeds

if TYPE_CHECKING:
    from tallyglass.restore.plan.at_hand import SourcesAtHand

_SOURCES_SECONDS = 300.0
"""How long what is known of backups and pre-images stands, where there is no new incident."""

_NEW_SECONDS = 5.0
"""How often it is read at most: each backup is compared with the oplog."""

_NO_END = math.inf
"""How many seconds :func:`incidents` may yield nothing: no limit, since nothing may happen. Core detects a server that
does not answer."""


def share_incidents(feeds: Feeds) -> Feed[IncidentScan]:
    """The incidents of the whole oplog, read once for all callers."""
    return feeds.share("incidents", incidents, silence=_NO_END)


async def incidents(gateway: Gateway) -> AsyncIterator[IncidentScan]:
    """All incidents that the oplog still holds, and new ones, with who wrote them as soon as the server's log shows it.
    The known ones stay while the oplog is read again."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.oplog.incidents.across_shards import watch_shards
    from tallyglass.oplog.incidents.authors import naming
    from tallyglass.oplog.incidents.incident import watch

    shards = await shards_of(gateway)
    named = naming(gateway)
    scanning = named(gateway, watch(gateway)) if shards is None else watch_shards(shards.gateways, named=named)
    whole: IncidentScan | None = None
    async with closing(scanning) as scans:
        async for scan in scans:
            if scan.done:
                whole = scan
            yield (
                replace(whole, trouble=scan.trouble or "The oplog is read again.")
                if whole and whole is not scan
                else scan
            )


def share_sources(feeds: Feeds, backup: Path | None) -> Feed[SourcesAtHand]:
    """From where the incidents could be brought back, read once for all callers."""
    return feeds.share("sources", lambda gateway: _sources(gateway, feeds, backup), silence=_NO_END)


async def _sources(gateway: Gateway, feeds: Feeds, backup: Path | None) -> AsyncIterator[SourcesAtHand]:
    """What there is, again for new incidents and after some minutes."""
    from tallyglass.restore.plan.at_hand import sources_at_hand

    known, read = set[str](), -math.inf
    while True:
        scan = feeds.latest("incidents", IncidentScan)
        found = [one for one in scan.incidents if not one.routine] if scan else []
        new = not known.issuperset(map(key_of, found))
        if found and time.monotonic() - read >= (_NEW_SECONDS if new else _SOURCES_SECONDS):
            yield await sources_at_hand(gateway, backup, found)
            known, read = set(map(key_of, found)), time.monotonic()
        await asyncio.sleep(1)


def key_of(incident: Incident) -> str:
    """What names an incident in a list, also while the list grows."""
    return f"{incident.first}/{incident.kind}/{incident.ns}"


class Urgency(IntEnum):
    """What comes first in a list."""

    LOSS = 0
    CHANGE = 1
    DEFINITION = 2
    UNSURE = 3
    """Changes of low confidence: an application may well have made them."""
    ROUTINE = 4


_MARKS = {
    Urgency.LOSS: ("!!", "bad"),
    Urgency.CHANGE: ("! ", "warn"),
    Urgency.DEFINITION: ("~ ", "muted"),
    Urgency.UNSURE: ("? ", "muted"),
    Urgency.ROUTINE: ("  ", "muted"),
}


def urgency_of(incident: Incident) -> Urgency:
    """Its place among the others."""
    if incident.routine:
        return Urgency.ROUTINE
    if incident.harm is Harm.CHANGE and incident.confidence == "low":
        return Urgency.UNSURE
    return Urgency[incident.harm.name]


def mark_of(incident: Incident) -> tuple[str, str]:
    """The two cells before an incident and the style of its title, ``bad``, ``warn`` or ``muted``. Routine writes have
    no mark; a loss of low confidence is no alarm."""
    urgency = urgency_of(incident)
    return _MARKS[Urgency.CHANGE if urgency is Urgency.LOSS and incident.confidence == "low" else urgency]


_WORDS = {
    Urgency.LOSS: ("loss", "losses"),
    Urgency.CHANGE: ("mass change", "mass changes"),
    Urgency.DEFINITION: ("definition", "definitions"),
    Urgency.UNSURE: ("not sure", "not sure"),
}


def counts_in_words(scan: IncidentScan) -> list[tuple[str, str]]:
    """How many incidents there are of each urgency, the worst first, each with its style; what is routine is not among
    them."""
    found = Counter(map(urgency_of, scan.incidents))
    return [
        (f"{found[urgency]:,} {one if found[urgency] == 1 else many}", _MARKS[urgency][1])
        for urgency, (one, many) in _WORDS.items()
        if found[urgency]
    ] or [("no incidents" if scan.done else "none yet", "muted")]


def by_urgency(incidents: Iterable[Incident]) -> list[Incident]:
    """Data loss first, then the newest first; what may be an application's and what is routine come last."""
    return sorted(incidents, key=lambda one: (urgency_of(one), -one.first.t, -one.first.i))
