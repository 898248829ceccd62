"""What was recognised once: a counter that is not found again is reported as missing, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from contextlib import suppress
from dataclasses import replace

from tallyglass.counters.follow.collections import FollowedCollections
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.history.store import KnownCounter
from tallyglass.counters.recognise.config import CountersConfig
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import Absence, CounterView, Flag, MissingCounter
from tallyglass.errors import ServerError
from tallyglass.moment import from_seconds
from tallyglass.mongo.gateway import Gateway, Namespace

MOST_KNOWN = 5_000
"""How many counters are known at most; more are listed, but not missed."""

FORGOTTEN_AFTER = 30 * DAY
"""A counter that is gone for so long is no longer reported."""

_MOST_ASKED = 100
"""Counters whose documents are read one by one in a look: a tenth of a second."""

_ROUTINE = 3
"""Documents of one collection that went at so many different times are removed as a routine, such as one a day."""


class KnownCounters:
    """The counters of earlier looks by their key. ``changed`` holds those to be saved; None for one to be forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCounter] = {}
        self.changed: dict[str, KnownCounter | None] = {}
        self._asked: set[Namespace | str] = set()
        self._gone: set[Namespace | str] = set()

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
            if not view.may_alarm:
                continue
            present.add(view.key)
            known = self._known.get(view.key)
            targets = tuple(dict.fromkeys(target.ns for target in identity.targets)) if view.drift is not None else ()
            if known is None and len(self._known) < MOST_KNOWN:
                facts = (view.key, identity.ns, view.id, identity.path, identity.doc_id, tracker.stands_for_many, now)
                self._set(KnownCounter(*facts, configured=identity.shape == "configured", targets=targets))
            elif known is not None and (known.gone_at is not None or (targets and targets != known.targets)):
                self._set(replace(known, gone_at=None, targets=targets or known.targets))
        for told in (self._asked, self._gone):
            told -= told & present
        return present

    async def find_gone(
        self, gateway: Gateway, seen: Collection[Namespace], present: Collection[str], followed: FollowedCollections
    ) -> None:
        """Ask once for each collection that is not ``seen``: a user with fewer privileges does not see all that exist;
        and for each counter that is not ``present`` though its document is: without its number it is gone as well.

        Raises ReadError if no server answers.
        """
        doubted = [
            one
            for key, one in self._known.items()
            if key not in present and one.ns in seen and self._absence(one, followed) is Absence.DOUBTED
        ]
        for one in [one for one in doubted if one.key not in self._asked][:_MOST_ASKED]:
            self._asked.add(one.key)
            shown = {one.path.partition(".")[0]: 1}
            with suppress(ServerError):
                row = await gateway.find_one(one.ns, {"_id": one.document}, projection=shown)
                if row is not None and dig(row, one.path) is None:
                    self._gone.add(one.key)
        for ns in self.namespaces() - self._asked.union(seen):
            self._asked.add(ns)
            with suppress(ServerError):
                if await gateway.find_one(ns, {}, projection={"_id": 1}) is None:
                    self._gone.add(ns)

    def missing(
        self,
        present: Collection[str],
        config: CountersConfig,
        seen: Set[Namespace],
        followed: FollowedCollections,
        now: float,
    ) -> tuple[MissingCounter, ...]:
        """The known counters that are not ``present``, and why; not those that are acknowledged. ``seen`` exist."""
        found: list[tuple[KnownCounter, Absence]] = []
        for one in [one for key, one in self._known.items() if key not in present]:
            if not config.allows(one.ns) or _is_hidden(one, config):
                continue
            absence = self._absence(one, followed) if one.ns in seen else self._absence_of_collection(one)
            if absence is None or (one.gone_at is not None and now - one.gone_at > FORGOTTEN_AFTER):
                del self._known[one.key]
                self.changed[one.key] = None
                continue
            if absence is Absence.GONE and one.gone_at is None:
                one = replace(one, gone_at=now)
                self._set(one)
            found.append((one, absence))
        routine = _routine(one for one, _ in found)
        served = {ns for key in present if key in self._known for ns in self._known[key].targets}
        # Its ids are there and no other counter goes on with them: what uses it next begins at the start.
        needed = {one.key for one, _ in found if served.isdisjoint(one.targets) and not seen.isdisjoint(one.targets)}
        return tuple(
            MissingCounter(
                ns=one.ns_text,
                id=one.id,
                absence=absence,
                since=None if one.gone_at is None else from_seconds(one.gone_at),
                routine=(one.ns, one.path) in routine or (one.ns not in seen and one.key not in needed),
            )
            for one, absence in found
            if Flag.GONE not in config.acknowledged(f"{one.ns_text} {one.id}", from_seconds(now))
        )

    def _absence_of_collection(self, one: KnownCounter) -> Absence:
        return Absence.GONE if one.ns in self._gone or one.gone_at is not None else Absence.NOT_READ

    def _absence(self, one: KnownCounter, followed: FollowedCollections) -> Absence | None:
        """Why a counter is missing; None if it is now shown in another form, alone instead of in a group or in one."""
        collection = followed.by_ns.get(one.ns)
        if collection is None or one.ns in followed.unread or collection.truncated:
            return Absence.NOT_READ
        if one.many:
            return None if collection.trackers else Absence.GONE
        if collection.has_many(one.path):
            return None
        if one.key in self._gone or not collection.holds(document_key(one.document)):
            return Absence.GONE
        # What a rule named is a counter as long as the rule is there.
        return None if one.configured else Absence.DOUBTED

    def _set(self, one: KnownCounter) -> None:
        self._known[one.key] = self.changed[one.key] = one


def _is_hidden(one: KnownCounter, config: CountersConfig) -> bool:
    return any(rule.hide and rule.wants(one.document) for rule in config.rules_for(one.ns))


def _routine(rows: Iterable[KnownCounter]) -> set[tuple[Namespace, str]]:
    """The numbers whose documents go one after the other."""
    hours: dict[tuple[Namespace, str], set[int]] = {}
    for one in rows:
        if one.gone_at is not None:
            hours.setdefault((one.ns, one.path), set()).add(int(one.gone_at // HOUR))
    return {number for number, at in hours.items() if len(at) >= _ROUTINE}
