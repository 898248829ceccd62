"""What was recognised once: a counter that is not found again is reported as missing, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.group import GroupTracker
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.history.store import KnownCounter
from tallyglass.counters.recognise.config import CountersConfig
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.snapshot import Absence, CounterView, MissingCounter
from tallyglass.moment import from_seconds
from tallyglass.mongo.gateway import Namespace

MOST_KNOWN = 5_000
"""How many counters are known at most; more are listed, but not missed."""

FORGOTTEN_AFTER = 30 * DAY
"""A counter that is gone for so long is no longer reported."""

_ROUTINE = 3
"""Documents of one collection that went at so many different times are removed as a routine, such as one a day."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one look read: the collections that exist, those that are followed, and those that could not be read.

    ``gone`` are namespaces that were asked and do not exist.
    """

    config: CountersConfig
    seen: Collection[Namespace]
    collections: Mapping[Namespace, CounterCollection]
    unread: Collection[Namespace]
    gone: Collection[Namespace]


class KnownCounters:
    """The counters of earlier looks by their key. ``changed`` holds those to be saved; None for one to be forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCounter] = {}
        self.changed: dict[str, KnownCounter | None] = {}

    def recall(self, rows: Iterable[KnownCounter]) -> None:
        """Add the counters of earlier runs."""
        self._known |= {one.key: one for one in rows}

    def namespaces(self) -> set[Namespace]:
        """The collections of all that are known and not gone."""
        return {one.ns for one in self._known.values() if one.gone_at is None}

    def count(self, present: Collection[str]) -> int:
        """How many of the counters that are ``present`` are known."""
        return sum(key in present for key in self._known)

    def learn(self, rows: Iterable[tuple[CounterView, Tracker]], now: float) -> set[str]:
        """Record the counters of a look, the most urgent first; returns their keys."""
        present: set[str] = set()
        for view, tracker in rows:
            identity = tracker.identity
            if not view.may_alarm or identity.shape == "configured":
                continue
            present.add(view.key)
            known = self._known.get(view.key)
            if known is None and len(self._known) < MOST_KNOWN:
                many = bool(tracker.cells) or isinstance(tracker, GroupTracker)
                self._set(KnownCounter(view.key, identity.ns, view.id, identity.path, identity.doc_id, many, now))
            elif known is not None and known.gone_at is not None:
                self._set(replace(known, gone_at=None))
        return present

    def missing(self, present: Collection[str], here: Surroundings, now: float) -> tuple[MissingCounter, ...]:
        """The known counters that are not ``present``, and why."""
        found: list[tuple[KnownCounter, Absence]] = []
        for one in [one for key, one in self._known.items() if key not in present]:
            if not here.config.allows(one.ns) or _is_hidden(one, here.config):
                continue
            absence = _absence(one, here)
            if absence is None or (one.gone_at is not None and now - one.gone_at > FORGOTTEN_AFTER):
                del self._known[one.key]
                self.changed[one.key] = None
                continue
            if absence is Absence.GONE and one.gone_at is None:
                one = replace(one, gone_at=now)
                self._set(one)
            found.append((one, absence))
        routine = _routine(one for one, _ in found)
        return tuple(
            MissingCounter(
                ns=one.ns_text,
                id=one.id,
                absence=absence,
                since=None if one.gone_at is None else from_seconds(one.gone_at),
                routine=(one.ns, one.path) in routine or one.ns not in here.seen,
            )
            for one, absence in found
        )

    def _set(self, one: KnownCounter) -> None:
        self._known[one.key] = self.changed[one.key] = one


def _absence(one: KnownCounter, here: Surroundings) -> Absence | None:
    """Why a counter is missing; None if it is now shown in another form, alone instead of in a group or in one."""
    collection = here.collections.get(one.ns)
    if one.ns not in here.seen:
        return Absence.GONE if one.ns in here.gone or one.gone_at is not None else Absence.NOT_READ
    if collection is None or one.ns in here.unread or collection.truncated:
        return Absence.NOT_READ
    if one.many:
        return None if collection.trackers else Absence.GONE
    if collection.has_many(one.path):
        return None
    return Absence.DOUBTED if collection.holds(document_key(one.document)) else Absence.GONE


def _is_hidden(one: KnownCounter, config: CountersConfig) -> bool:
    return any(rule.hide and rule.wants(one.document) for rule in config.rules_for(one.ns))


def _routine(rows: Iterable[KnownCounter]) -> set[tuple[Namespace, str]]:
    """The numbers whose documents go one after the other."""
    hours: dict[tuple[Namespace, str], set[int]] = {}
    for one in rows:
        if one.gone_at is not None:
            hours.setdefault((one.ns, one.path), set()).add(int(one.gone_at // HOUR))
    return {number for number, at in hours.items() if len(at) >= _ROUTINE}
