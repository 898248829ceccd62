"""What the palette finds in addition to keys: counters, collections, incidents, times, ObjectIds and profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import Hit, Hits, Provider
from textual.content import Content

from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.errors import InputError
from tallyglass.moment import AmbiguousTime, parse_since
from tallyglass.objectid import decode, find_all
from tallyglass.oplog.filter.query import words_for
from tallyglass.oplog.snapshot import IncidentScan
from tallyglass_tui import clock
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.incidents import by_urgency
from tallyglass_tui.shell.messages import (
    CounterRequested,
    ObjectIdsRequested,
    OplogRequested,
    RestoreRequested,
    SearchRequested,
    Visit,
)

if TYPE_CHECKING:
    from tallyglass_tui.shell.protocol import Shell

_MOST_HITS = 20
"""The most hits of one kind that are shown."""

_READ_SCORE = 100.0
"""Above the score of any fuzzy match."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """One item that can be found: its name, what choosing it does, and the action. ``does`` holds no text from the
    server."""

    title: str
    does: str
    run: Callable[[], None]


class Finder(Provider):
    """Finds items by fuzzy name; recognises times and ObjectIds by their form."""

    async def search(self, query: str) -> Hits:
        """Times and ids first, then the best matches of each kind."""
        for place, found in enumerate(self._read(query)):
            yield Hit(_READ_SCORE - place, Content(found.title), found.run, found.title, found.does)
        matcher = self.matcher(query)
        for kind in (self._counters(), self._incidents(), self._collections(), self._profiles()):
            scored = ((matcher.match(found.title), found) for found in kind)
            best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])[:_MOST_HITS]
            for score, found in best:
                yield Hit(score, Content(found.title), found.run, found.title, found.does)

    @property
    def _shell(self) -> Shell:
        return cast("Shell", self.app)

    def _visit(self, message: Visit) -> Callable[[], None]:
        return partial(self._shell.visit, message)

    def _read(self, query: str) -> Iterator[PaletteEntry]:
        """What the query means as a time, or as a text with ObjectIds."""
        for digits in find_all(query)[:_MOST_HITS]:
            made = fmt.moment(decode(digits).time)
            yield PaletteEntry(
                f"ObjectId {digits}", f"Created {made}: show its parts", self._visit(ObjectIdsRequested(digits))
            )
        if not any(char.isdigit() for char in query):
            return
        try:
            at = parse_since(query, clock.now())
        except AmbiguousTime as error:
            yield PaletteEntry(str(error), "Type which of the two is meant", lambda: None)
            return
        except InputError:
            return
        meaning = fmt.typed_time(at.time)
        yield PaletteEntry(f"Oplog at {meaning}", "Show the entries from this time on", self._visit(OplogRequested(at)))
        yield PaletteEntry(
            f"ObjectIds of {meaning}", "Show the first and last id", self._visit(ObjectIdsRequested(query))
        )
        yield PaletteEntry(
            f"Restore to {meaning}", "Plan a restore to just before it", self._visit(RestoreRequested(at))
        )

    def _counters(self) -> Iterator[PaletteEntry]:
        snapshot = self._shell.feeds.latest("counters", CountersSnapshot)
        for counter in snapshot.counters if snapshot else ():
            left = fmt.time_left(counter.forecast, clock.now())
            name = f"{counter.ns} {counter.id}".rstrip()
            yield PaletteEntry(
                f"Counter {name}", f"Open it; {fmt.ENDS}: {left}", self._visit(CounterRequested(counter.key))
            )

    def _incidents(self) -> Iterator[PaletteEntry]:
        scan = self._shell.feeds.latest("incidents", IncidentScan)
        for incident in by_urgency(scan.incidents) if scan else ():
            when = fmt.moment(incident.first.time)
            yield PaletteEntry(
                f"Incident {incident.title}",
                f"{when}: plan a restore to just before it",
                self._visit(RestoreRequested(incident=incident)),
            )

    def _collections(self) -> Iterable[PaletteEntry]:
        counters = self._shell.feeds.latest("counters", CountersSnapshot)
        scan = self._shell.feeds.latest("incidents", IncidentScan)
        names = {counter.ns for counter in counters.counters} if counters else set()
        names |= {incident.ns for incident in scan.incidents} if scan else set()
        for name in sorted(filter(None, names)):
            yield PaletteEntry(
                f"Collection {name}", "Follow its entries in the oplog", self._visit(SearchRequested(words_for(name)))
            )

    def _profiles(self) -> Iterator[PaletteEntry]:
        for name in self._shell.profiles:
            yield PaletteEntry(f"ctx {name}", "Switch to this profile", partial(self._shell.switch_profile, name))
