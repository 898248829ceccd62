"""The counters of one collection: from the documents that one query yields to trackers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern

from tallyglass.counters.follow.pools import PoolSpan, as_pool
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history.oplog_samples import Past, pool_levels
from tallyglass.counters.numbers import as_number, numeric_type
from tallyglass.counters.pacer import Pacer
from tallyglass.counters.recognise.config import IdField, Rule
from tallyglass.counters.recognise.discovery import MOST_READ, CounterPlace
from tallyglass.counters.recognise.guess import Signature, guess, signature_of
from tallyglass.counters.recognise.identity import Identity, apply_rule, counter_key, document_key, id_text, label_of
from tallyglass.counters.recognise.libraries import recognise
from tallyglass.counters.recognise.shapes import Match, Shape, ValueKind, dig
from tallyglass.counters.snapshot import NumericType, Semantics
from tallyglass.mongo.gateway import Document, Gateway, Namespace
from tallyglass.text import clean_name


@dataclass(slots=True)
class FoundCounters:
    """What is known about one document: its matches, and the trackers for them."""

    matches: tuple[Match, ...]
    label: str = ""
    trackers: tuple[Tracker, ...] = ()


_MOST_SIGNATURES = 256
# A batch is decoded in one go, which holds the loop.
_BATCH = 1_000

Row = tuple[Hashable, FoundCounters, Document]


@dataclass(slots=True)
class CounterCollection:
    """One collection that holds counters. ``trackers`` are those to show, pools first."""

    place: CounterPlace
    rules: tuple[Rule, ...] = ()
    found: dict[Hashable, FoundCounters] = field(default_factory=dict)
    pools: dict[tuple[str, str], Tracker] = field(default_factory=dict)
    trackers: list[Tracker] = field(default_factory=list)
    truncated: bool = False
    has_past: bool = False
    _signatures: dict[Signature, tuple[Match, ...]] = field(default_factory=dict)

    @property
    def ns_text(self) -> str:
        """The namespace, safe to show."""
        return clean_name(str(self.place.ns))

    async def read(self, gateway: Gateway, at: float, pacer: Pacer) -> None:
        """Read all counter documents with one query, as of ``at``, and bring the trackers up to date."""
        rows = gateway.find(self.place.ns, dict(self.place.query), limit=MOST_READ, batch_size=_BATCH)
        await self.take(rows, at, pacer)

    async def take(self, rows: AsyncIterator[Document], at: float, pacer: Pacer) -> None:
        """Bring the trackers up to date with these documents."""
        documents: dict[Hashable, Document] = {}
        async for row in rows:
            key = document_key(row.get("_id"))
            documents[key] = row
            if key not in self.found:
                self.found[key] = self._recognise(row)
            await pacer.rest()
        self.truncated = len(documents) >= MOST_READ
        for gone in [key for key in self.found if key not in documents]:
            del self.found[gone]
        trackers = [tracker async for tracker in self._pool_trackers(documents, at, pacer)]
        for key, row in documents.items():
            found = self.found[key]
            if found.matches:
                self._observe(row, found, at)
                trackers.extend([tracker for tracker in found.trackers if tracker.is_counter])
            await pacer.rest()
        if trackers != self.trackers:
            self.trackers = trackers

    def paths(self) -> tuple[str, ...]:
        """The paths of all numbers that are followed here."""
        return tuple({tracker.identity.path: None for tracker in self.trackers})

    def add_past(self, values: Mapping[Hashable, Mapping[str, list[Past]]]) -> None:
        """Give the trackers the values that their documents had before the first look."""
        for key, by_path in values.items():
            found = self.found.get(key)
            for tracker in found.trackers if found else ():
                tracker.add_past(by_path.get(tracker.identity.path, []))
        for (path, _), tracker in self.pools.items():
            points = {key: by_path[path] for key, by_path in values.items() if path in by_path}
            present = {cell.key: cell.value for cell in tracker.cells}
            levels = pool_levels(points, present, int(tracker.value))
            pasts = [Past(at, level, tracker.kind) for at, level in levels]
            tracker.add_past(pasts, steps=sum(len(rows) for rows in points.values()))

    def _recognise(self, row: Document) -> FoundCounters:
        name = self.place.ns.collection
        for rule in self.rules:
            if rule.field and _is_for(rule, row.get("_id")) and numeric_type(dig(row, rule.field)) is not None:
                return FoundCounters((Match(_configured_shape(rule.field), rule.field, 1.0),), id_text(row.get("_id")))
        signature = signature_of(row)
        matches = self._signatures.get(signature)
        if matches is None:
            matches = tuple(recognise(name, row))
            # What lies within a value, or at a name with a meaning, may differ between documents of one signature.
            if len(self._signatures) < _MOST_SIGNATURES and not any(_is_deep(value) for value in row.values()):
                self._signatures[signature] = matches
        matches = matches or tuple(guess(name, row))
        return FoundCounters(matches, label_of(matches[0].shape, matches[0].path, row) if matches else "")

    def _observe(self, row: Document, found: FoundCounters, at: float) -> None:
        if found.matches and not found.trackers and not self._is_pooled(found):
            found.trackers = tuple(
                Tracker(identity)
                for match in found.matches
                if (identity := self._identify(row, match, found)) is not None
            )
        for tracker in found.trackers:
            raw = dig(row, tracker.identity.path)
            kind = numeric_type(raw)
            if kind is not None:
                tracker.observe(as_number(raw), kind, at)

    def _is_pooled(self, found: FoundCounters) -> bool:
        return any((match.path, match.bound_key) in self.pools for match in found.matches)

    def _identify(self, row: Document, match: Match, found: FoundCounters) -> Identity | None:
        ns, shape = self.place.ns, match.shape
        rule = self._rule_for(row.get("_id"))
        if rule and rule.hide:
            return None
        ns_text = intern(self.ns_text)
        identity = Identity(
            key=counter_key(ns_text, row.get("_id"), match.path),
            ns=ns,
            ns_text=ns_text,
            doc_id=row.get("_id"),
            id=found.label if len(found.matches) == 1 else label_of(shape, match.path, row),
            path=match.path,
            field=intern(clean_name(match.path)),
            shape=shape.name,
            library=shape.library,
            semantics=shape.semantics,
            bound=_whole(row.get(match.bound_key)) if match.bound_key else None,
            bound_name=clean_name(match.bound_key) if match.bound_key else "MAX_VALUE",
            start=_whole(row.get(match.start_key)) or 0 if match.start_key else 0,
            consumers=shape.consumers,
            confidence=match.confidence,
            targets=tuple(IdField(Namespace(ns.db, name), path) for name, path in shape.target(row)),
        )
        return apply_rule(identity, rule) if rule else identity

    def _rule_for(self, identity: object) -> Rule | None:
        return next((rule for rule in self.rules if _is_for(rule, identity)), None)

    async def _pool_trackers(
        self, documents: dict[Hashable, Document], at: float, pacer: Pacer
    ) -> AsyncIterator[Tracker]:
        groups: dict[tuple[str, str], list[Hashable]] = {}
        for key, found in self.found.items():
            if len(found.matches) == 1 and found.matches[0].bound_key:
                match = found.matches[0]
                groups.setdefault((match.path, match.bound_key), []).append(key)
        for gone in [group for group in self.pools if group not in groups]:
            del self.pools[gone]
        for group, keys in groups.items():
            rows = [(key, self.found[key], documents[key]) for key in keys]
            await pacer.rest()
            tracker = self._observe_pool(group, rows, at)
            await pacer.rest()
            if tracker:
                yield tracker

    def _observe_pool(self, group: tuple[str, str], rows: list[Row], at: float) -> Tracker | None:
        path, bound_key = group
        spans, kinds = _spans(path, bound_key, rows)
        cells = as_pool(spans) if len(spans) == len(rows) else None
        if cells is None:
            self.pools.pop(group, None)
            return None
        for _, found, _ in rows:
            found.trackers = ()
        tracker = self.pools.get(group)
        if tracker is None:
            rule = next((rule for rule in self.rules if rule.id is None), None)
            if rule and rule.hide:
                return None
            tracker = self.pools[group] = Tracker(self._identify_pool(group, rows[0][1].matches[0], rule))
        doubles = sum(kind is NumericType.DOUBLE for kind in kinds)
        tracker.notes = (f"{doubles} of its documents are doubles.",) if doubles else ()
        kind = NumericType.DOUBLE if doubles else max(kinds, key=kinds.count)
        tracker.observe_pool(cells, kind, at)
        return tracker

    def _identify_pool(self, group: tuple[str, str], match: Match, rule: Rule | None) -> Identity:
        ns = self.place.ns
        identity = Identity(
            key=f"{clean_name(str(ns), 260)}/*/{clean_name(group[0], 120)}",
            ns=ns,
            ns_text=self.ns_text,
            doc_id=None,
            id="pool",
            path=group[0],
            field=clean_name(group[0]),
            shape=match.shape.name,
            library=match.shape.library,
            semantics=match.shape.semantics,
            bound_name=clean_name(group[1]),
            confidence=match.confidence,
        )
        return apply_rule(identity, rule) if rule else identity


def _spans(path: str, bound_key: str, rows: Iterable[Row]) -> tuple[list[PoolSpan], list[NumericType]]:
    spans: list[PoolSpan] = []
    kinds: list[NumericType] = []
    for key, found, row in rows:
        match = found.matches[0]
        raw, last = dig(row, path), _whole(row.get(bound_key))
        value, kind = _whole(raw), numeric_type(raw)
        if value is None or last is None or kind is None:
            continue
        first = _whole(row.get(match.start_key)) if match.start_key else None
        step = 0 if match.shape.semantics is Semantics.NEXT else 1
        spans.append(PoolSpan(key, found.label, value, value + step, last, first))
        kinds.append(kind)
    return spans, kinds


def _is_deep(value: object) -> bool:
    return isinstance(value, (Mapping, list)) or value is None


def _whole(raw: object) -> int | None:
    if numeric_type(raw) is None:
        return None
    number = as_number(raw)
    return number if isinstance(number, int) else None


def _is_for(rule: Rule, identity: object) -> bool:
    return rule.id is None or rule.id == identity


def _configured_shape(path: str) -> Shape:
    return Shape("configured", "as configured", (), path, {"_id": ValueKind.ANY}, spare_keys=True)
