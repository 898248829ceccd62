"""The counters of one collection: turns the documents of one query into trackers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import partial

from tallyglass.counters.follow.group import GROUP_ABOVE, MOST_COMPARED, Group
from tallyglass.counters.follow.pools import PoolSpan, as_pool
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history.oplog_samples import PastValue, pool_levels
from tallyglass.counters.numbers import Number, numeric_type, read_number, whole
from tallyglass.counters.pacer import rest
from tallyglass.counters.recognise.config import Rule
from tallyglass.counters.recognise.discovery import MOST_READ, Query
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.identity import Identity, document_key
from tallyglass.counters.recognise.recogniser import Recogniser, bound_of, label, may_have_target
from tallyglass.counters.recognise.shapes import Match, dig
from tallyglass.counters.snapshot import NumericType, Semantics
from tallyglass.mongo.gateway import Document, Gateway, Namespace, closing
from tallyglass.text import clean_name


@dataclass(slots=True)
class FoundCounters:
    """The matches in one document, and the trackers for them.

    ``form`` is what they depend on, ``unnamed`` what the document is beside counters of that shape, if it matches
    nothing by itself.
    """

    matches: tuple[Match, ...]
    form: int | None
    trackers: tuple[Tracker, ...] = ()
    unnamed: tuple[Match, ...] = ()


_BATCH = 1_000  # documents in an answer: it is decoded at once, which blocks the event loop
_ROWS_A_REST = 16  # documents between two looks at the clock, which cost more than one of them

RecognisedDocument = tuple[Hashable, FoundCounters, Document]


@dataclass(slots=True)
class CounterCollection:
    """One collection that holds counters. ``trackers`` are the ones to show, pools and groups first.

    Above ``group_above`` of one kind, counters become a group.
    """

    ns: Namespace
    query: Query = ()
    rules: InitVar[tuple[Rule, ...]] = ()
    found: dict[Hashable, FoundCounters] = field(default_factory=dict)
    pools: dict[tuple[str, str], Tracker] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    trackers: list[Tracker] = field(default_factory=list)
    truncated: bool = False
    has_past: bool = False
    group_above: int = GROUP_ABOVE
    recogniser: Recogniser = field(init=False)
    _former: dict[str, Tracker] = field(default_factory=dict)

    def __post_init__(self, rules: tuple[Rule, ...]) -> None:
        self.recogniser = Recogniser(self.ns, rules)

    def learn(self, findings: Mapping[str, UsageFinding]) -> None:
        """Apply new results of usage analysis; if they differ, all documents are recognised again."""
        if not self.recogniser.learn(findings):
            return
        # What was seen of a number stays true, however it is recognised now.
        self._former = {tracker.identity.key: tracker for found in self.found.values() for tracker in found.trackers}
        self.found.clear()
        self.groups.clear()
        self.has_past = False

    async def read(self, gateway: Gateway, at: float) -> None:
        """Read all counter documents with one query, as of ``at``, and bring the trackers up to date."""
        found = gateway.find(self.ns, dict(self.query), limit=MOST_READ + 1, batch_size=_BATCH)
        async with closing(found) as rows:
            await self.observe(rows, at)

    async def observe(self, rows: AsyncIterator[Document], at: float) -> None:
        """Bring the trackers up to date with these documents."""
        documents: dict[Hashable, Document] = {}
        waiting: dict[str, list[Hashable]] = {}
        count = 0
        self.truncated = False
        for group in self.groups.values():
            group.begin(at)
        async for row in rows:
            if count == MOST_READ:
                self.truncated = True
                break
            count += 1
            key = document_key(row.get("_id"))
            if not (self._observe_member(key, row) or self._join_groups(key, row)):
                documents[key] = row
                found = self._recognise(key, row)
                if not found.unnamed and self._may_be_grouped(row, found.matches):
                    self._gather(key, found, waiting, documents, at)
            if count % _ROWS_A_REST == 0:
                await rest()
        for removed in self.found.keys() - documents.keys():
            del self.found[removed]
        self._add_unnamed(documents)
        trackers = [tracker async for tracker in self._pool_trackers(documents, at)]
        trackers += [tracker async for tracker in self._group_trackers() if tracker.is_listed]
        for key, row in documents.items():
            trackers += self._observe(row, self.found[key], at)
            await rest()
        self._former.clear()
        self.trackers = trackers

    def paths(self) -> tuple[str, ...]:
        """The paths of all followed numbers in this collection."""
        return tuple({tracker.identity.path: None for tracker in self.trackers})

    def add_past(self, values: Mapping[Hashable, Mapping[str, list[PastValue]]]) -> None:
        """Give the trackers the values that their documents had before the first look."""
        for key, by_path in values.items():
            found = self.found.get(key)
            for tracker in found.trackers if found else ():
                tracker.add_past(by_path.get(tracker.identity.path, []))
            for path, group in self.groups.items():
                if key in group.followed:
                    group.followed[key].add_past(by_path.get(path, []))
        for (path, _), tracker in self.pools.items():
            points = {key: by_path[path] for key, by_path in values.items() if path in by_path}
            present = {cell.key: cell.value for cell in tracker.cells}
            levels = pool_levels(points, present, int(tracker.value))
            pasts = [PastValue(at, round(level), tracker.kind) for at, level in levels]
            tracker.add_past(pasts, steps=sum(len(rows) for rows in points.values()))

    async def follow_active(self, gateway: Gateway, values: Mapping[Hashable, Mapping[str, list[PastValue]]]) -> None:
        """Follow individually the group members whose value changed in the past."""
        for path, group in self.groups.items():
            # A key that is not the id itself is its BSON: such members are not followed until their value changes.
            active = [
                key
                for key, by_path in values.items()
                if not isinstance(key, bytes) and group.moved(key, by_path.get(path, ()))
            ]
            wanted = group.unfollowed(active)
            if wanted:
                async for row in gateway.find(self.ns, {"_id": {"$in": wanted}}, limit=len(wanted)):
                    group.add_followed(document_key(row["_id"]), row)

    def holds(self, key: Hashable) -> bool:
        """Whether the document with this key exists, as of the last reading."""
        return key in self.found or any(key in group for group in self.groups.values())

    def has_many(self, path: str) -> bool:
        """Whether the counters at a path are shown as one row."""
        return path in self.groups or any(path == pooled for pooled, _ in self.pools)

    def all_trackers(self) -> Iterable[Tracker]:
        """The trackers to show, and the group members that are followed individually."""
        yield from self.trackers
        for group in self.groups.values():
            yield from group.followed.values()

    def _observe_member(self, key: Hashable, row: Document) -> bool:
        """Update the groups that this document is a member of; return whether there is any."""
        is_member = False
        for path, group in self.groups.items():
            if key in group:
                read = read_number(dig(row, path), text=self.recogniser.is_text(path))
                if read is None:
                    continue
                group.observe(key, row, *read)
                is_member = True
        return is_member

    def _join_groups(self, key: Hashable, row: Document) -> bool:
        """Add a new document to the groups of all its numbers; return False if that is not possible."""
        if not self.groups or key in self.found:
            return False
        matches = self.recogniser.matches(row)
        if not self._may_be_grouped(row, matches):
            return False
        joined: list[tuple[Group, tuple[Number, NumericType]]] = []
        for match in matches:
            group, read = self.groups.get(match.path), read_number(dig(row, match.path), text=match.text)
            if group is None or read is None:
                return False
            joined.append((group, read))
        for group, read in joined:
            group.observe(key, row, *read)
        return True

    def _recognise(self, key: Hashable, row: Document) -> FoundCounters:
        """What is found in a document; what was found before, if it still has that form."""
        known, form = self.found.get(key), self.recogniser.form_of(row)
        if known is not None and form is not None and known.form == form:
            return known
        matches = self.recogniser.matches(row)
        unnamed = () if matches else self.recogniser.unnamed(row)
        if known is not None:
            if unnamed == known.unnamed and (unnamed or matches == known.matches):
                known.form = form
                return known
            self._former |= {tracker.identity.key: tracker for tracker in known.trackers}
        found = self.found[key] = FoundCounters(matches, form, unnamed=unnamed)
        return found

    def _add_unnamed(self, documents: Mapping[Hashable, Document]) -> None:
        """Make guesses of documents that differ from the counters beside them only in what their ``_id`` is.

        Of more than make a group, only those near a limit: they join no group, whose members are less doubtful.
        """
        shapes = self.recogniser.shapes
        beside = [
            (key, found)
            for key, found in (self.found.items() if shapes else ())
            if found.unnamed and found.unnamed[0].shape.name in shapes
        ]
        for key, found in beside:
            if found.matches:
                continue
            if len(beside) <= self.group_above or self.recogniser.is_near_limit(documents[key], found.unnamed[0]):
                found.matches = found.unnamed

    def _may_be_grouped(self, row: Document, matches: tuple[Match, ...]) -> bool:
        """Whether no number of a document needs a row of its own: one with a range, in a rule, or with ids of its own
        that it can be compared with."""
        if not matches or any(match.bound_key or match.rule_number or self._is_compared(match) for match in matches):
            return False
        return not self.recogniser.is_ruled(row)

    def _is_compared(self, match: Match) -> bool:
        return bool(match.targets) and len(self.recogniser.findings[match.path].by_document) <= MOST_COMPARED

    def _gather(
        self,
        key: Hashable,
        found: FoundCounters,
        waiting: dict[str, list[Hashable]],
        documents: dict[Hashable, Document],
        at: float,
    ) -> None:
        """Collect documents of one kind; above a limit they become a group and leave ``documents``."""
        made = False
        for match in found.matches:
            path = match.path
            keys = waiting.setdefault(path, [])
            keys.append(key)
            above = GROUP_ABOVE if may_have_target(match) else self.group_above
            if path not in self.groups and len(keys) <= above:
                continue
            group = self.groups.get(path)
            if group is None:
                row = documents[key]
                identity = self.recogniser.identify_group(match, row)
                if identity is None:
                    continue
                group = self.groups[path] = Group(identity, path, partial(self.follow_member, path), above)
                group.begin(at)
                self.has_past, made = False, True
            for member in keys:
                row = documents[member]
                read = read_number(dig(row, path), text=match.text)
                if read is not None:
                    group.observe(member, row, *read)
            keys.clear()
        paths = [match.path for match in found.matches]
        if all(path in self.groups for path in paths):
            self._drop_grouped(documents, [*documents] if made else [key])

    def _drop_grouped(self, documents: dict[Hashable, Document], keys: Iterable[Hashable]) -> None:
        """Drop the ``keys`` of documents whose numbers are all in groups."""
        for key in keys:
            found = self.found.get(key)
            if found and found.matches and all(key in self.groups.get(match.path, ()) for match in found.matches):
                del documents[key]
                del self.found[key]

    def follow_member(self, path: str, row: Document) -> Tracker | None:
        """The tracker of one member of a group, from its document."""
        matches = self.recogniser.matches(row)
        match = next((match for match in matches if match.path == path), None)
        identity = self.recogniser.identify(row, match, matches) if match else None
        # The largest id of the collection cannot be compared with the counter of one tenant.
        if identity and identity.targets:
            identity = replace(identity, targets=())
        return Tracker(identity) if identity else None

    def _observe(self, row: Document, found: FoundCounters, at: float) -> Iterable[Tracker]:
        """Bring the trackers of one document up to date; returns those to show, whose numbers are still there."""
        if not found.matches:
            return ()
        if not found.trackers and not self._is_pooled(found):
            found.trackers = tuple(
                self._tracker(self._told_apart(identity) if found.unnamed else identity)
                for match in found.matches
                if (identity := self.recogniser.identify(row, match, found.matches)) is not None
            )
        shown: list[Tracker] = []
        bounds = {match.path: match for match in found.matches if match.bound_key}
        for tracker in found.trackers:
            match = bounds.get(tracker.identity.path)
            if match and tracker.identity.bound_name == clean_name(match.bound_key):
                tracker.set_bound(bound_of(row, match))
            read = read_number(dig(row, tracker.identity.path), text=tracker.identity.text)
            if read is not None:
                tracker.observe(*read, at)
                shown += [tracker] * tracker.is_listed
        return shown

    def _told_apart(self, identity: Identity) -> Identity:
        """The identity of a counter without a name; if another has what it shows for a name, with its type."""
        if identity.id not in self.found:
            return identity
        kind = type(identity.doc_id).__name__
        return replace(identity, id=f"{identity.id} ({kind})", key=f"{identity.key} ({kind})")

    def _tracker(self, identity: Identity) -> Tracker:
        """The tracker that followed this number before it was recognised again, with all that it saw, or a new one."""
        former = self._former.pop(identity.key, None)
        return former if former is not None and former.recognise(identity) else Tracker(identity)

    def _is_pooled(self, found: FoundCounters) -> bool:
        return not found.unnamed and any((match.path, match.bound_key) in self.pools for match in found.matches)

    async def _pool_trackers(self, documents: dict[Hashable, Document], at: float) -> AsyncIterator[Tracker]:
        by_span: dict[tuple[str, str], list[Hashable]] = {}
        for key, found in self.found.items():
            if len(found.matches) == 1 and found.matches[0].bound_key and not found.unnamed:
                match = found.matches[0]
                by_span.setdefault((match.path, match.bound_key), []).append(key)
        for removed in [span for span in self.pools if span not in by_span]:
            del self.pools[removed]
        for span, keys in by_span.items():
            rows = [(key, self.found[key], documents[key]) for key in keys]
            await rest()
            tracker = self._observe_pool(span, rows, at)
            await rest()
            if tracker:
                yield tracker

    async def _group_trackers(self) -> AsyncIterator[Tracker]:
        """End the reading of the groups; one without members is dropped."""
        for path, group in list(self.groups.items()):
            group.finish()
            if len(group):
                yield group.tracker
            else:
                del self.groups[path]
            await rest()

    def _observe_pool(self, group: tuple[str, str], rows: list[RecognisedDocument], at: float) -> Tracker | None:
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
            identity = self.recogniser.identify_pool(group, rows[0][1].matches[0])
            if identity is None:
                return None
            tracker = self.pools[group] = Tracker(identity)
        doubles = sum(kind is NumericType.DOUBLE for kind in kinds)
        tracker.notes = (f"{doubles} of its documents are doubles.",) if doubles else ()
        kind = NumericType.DOUBLE if doubles else max(kinds, key=kinds.count)
        tracker.observe_pool(cells, kind, at)
        return tracker


def _spans(path: str, bound_key: str, rows: Iterable[RecognisedDocument]) -> tuple[list[PoolSpan], list[NumericType]]:
    spans: list[PoolSpan] = []
    kinds: list[NumericType] = []
    for key, found, row in rows:
        match = found.matches[0]
        raw, last = dig(row, path), whole(dig(row, bound_key))
        value, kind = whole(raw), numeric_type(raw)
        if value is None or last is None or kind is None:
            continue
        first = whole(dig(row, match.start_key)) if match.start_key else None
        step = 0 if match.shape.semantics is Semantics.NEXT else 1
        spans.append(PoolSpan(key, label(match, row), value, value + step, last, first))
        kinds.append(kind)
    return spans, kinds
