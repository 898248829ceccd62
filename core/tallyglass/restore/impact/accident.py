"""Attributes operations after the point to the accident, by what they change.

The server's oplog does not say which statement an entry came from. An ``updateMany`` leaves entries without a session,
and so does every write of a client with ``retryWrites=false``; both may stand side by side in the same second. What
tells them apart is what they change: the paths, and the values where one statement sets the same value everywhere.

A pipeline update is logged as the shorter of the difference and the whole document. So the same statement may leave
both forms, and a document that is set as a whole is compared with what was there before (:func:`refined`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.impact.incident_scope import is_sent_by
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.patch import Path, Value, changed_paths, differing, get, is_replacement

REMOVING = frozenset({"drop", "dropDatabase", "emptycapped", "renameCollection"})
"""Commands after which the documents of a collection are no longer under its name."""

Shape = frozenset[Path]

Changes = dict[Path, Value | None]
"""The paths that an update changes, and the value that it leaves at each; the path of the whole document is empty."""

WHOLE: Path = ()


def changes_of(o: bytes) -> Changes:
    """What an update changes, as it is logged. Raises Malformed."""
    return {WHOLE: (walk.DOCUMENT, o)} if is_replacement(o) else dict(changed_paths(o))


def refined(changes: Changes, before: bytes, paths: Set[Path]) -> Changes:
    """The same, with a document that is set as a whole at one of ``paths`` replaced by the parts in which it differs
    from the document ``before``. Raises Malformed."""
    result: Changes = {}
    for path, value in changes.items():
        held = get(before, path) if path else (walk.DOCUMENT, before)
        if path not in paths or value is None or held is None or value[0] != walk.DOCUMENT or held[0] != walk.DOCUMENT:
            result[path] = value
            continue
        for below in differing(held[1], value[1], path):
            result[below] = get(value[1], below[len(path) :])
    return result


@dataclass(slots=True)
class Signature:
    """What the accident's updates change: ``paths``, and ``values`` where all of them leave the same one.

    ``computed`` holds the paths at which each leaves another value: those of two statements that compute the same field
    cannot be told apart. ``first`` and ``last`` bound them; None where that is not known. ``ambiguous`` means that
    these may be the updates of another client.
    """

    paths: Shape
    values: dict[Path, Value | None]
    first: Ts | None = None
    last: Ts | None = None
    ambiguous: bool = False

    @property
    def computed(self) -> Shape:
        """The paths without a common value."""
        return self.paths - set(self.values)

    def fits(self, changes: Changes) -> bool:
        """Whether an update changes nothing but these paths, and leaves the common values."""
        common = [path for path in changes if path in self.values]
        if not changes.keys() <= self.paths or not (common or changes.keys() == self.paths):
            return False
        return all(changes[path] == self.values[path] for path in common)

    def spans(self, ts: Ts) -> bool:
        """Whether an update at ``ts`` may be one of them."""
        return (self.first is None or self.first <= ts) and (self.last is None or ts <= self.last)

    def may_fit(self, changes: Changes) -> bool:
        """Whether an update changes some of the computed paths alone: of the accident where a document had the common
        values before, or of somebody else."""
        return bool(changes) and changes.keys() < self.paths and changes.keys() <= self.computed


@dataclass(slots=True)
class _ShapeGroup:
    """The updates of one shape. One statement touches a document once, and its updates stand close together."""

    first: Ts
    last: Ts
    begin: int
    end: int
    count: int = 0
    repeats: int = 0
    ids: set[bytes] = field(default_factory=set)
    values: dict[Path, Counter[Value | None]] = field(default_factory=dict)


_MOST_VALUES = 50
"""Different values of one path that are counted; a path with more has no common value."""

_COMMON = 0.9
"""The share of a group's entries that must leave the same value for it to be what the statement set."""


_SLACK_MILLIS = 50
"""Added to the time that a group takes, so that a handful of updates in one millisecond is no dense group."""


class SignatureSearch:
    """Feed the updates within the accident's span; the densest shape that hits each document once is the accident's.

    The commonest one may be that of an application that writes without sessions all the time.
    """

    def __init__(self) -> None:
        self._groups: dict[Shape, _ShapeGroup] = {}

    def feed(self, changes: Changes, key: bytes = b"", ts: Ts = ZERO, millis: int = 0) -> None:
        """Take one update of the document ``key``, written at ``ts`` and ``millis`` of the server's clock."""
        group = self._groups.setdefault(frozenset(changes), _ShapeGroup(ts, ts, millis, millis))
        group.count += 1
        group.last, group.end = ts, max(group.end, millis)
        group.repeats += key in group.ids
        group.ids.add(key)
        for path, value in changes.items():
            counts = group.values.setdefault(path, Counter())
            if len(counts) <= _MOST_VALUES:
                counts[value] += 1

    def signature(self, first: Changes | None = None) -> Signature | None:
        """The accident's; that of the update ``first`` where it is known to be the accident's own."""
        if not self._groups:
            return None
        least = frozenset(first or ())
        # Where a document had one of the values before, its entry lacks that path.
        wider = [one for one in self._groups if one >= least] or list(self._groups)
        shape = max(wider, key=lambda one: (not self._groups[one].repeats, self._density(one), len(one)))
        densest = shape
        supersets = [one for one in wider if one > shape and not self._groups[one].repeats]
        shape = max(supersets, key=lambda one: self._groups[one].count) if supersets else shape
        group = self._groups[shape]
        rivals = [one for one in wider if not (one <= shape or shape <= one) and not self._groups[one].repeats]
        close = any(self._density(one) > self._density(densest) / 2 and self._groups[one].count > 1 for one in rivals)
        values: dict[Path, Value | None] = {}
        for path, counts in group.values.items():
            value, count = counts.most_common(1)[0]
            if count >= _COMMON * group.count and value != (0, b""):
                values[path] = value
        if first:
            return Signature(shape, values)
        begin, end = min(group.first, self._groups[densest].first), max(group.last, self._groups[densest].last)
        return Signature(shape, values, begin, end, close or (group.repeats > 0 and shape != set(values)))

    def _density(self, shape: Shape) -> float:
        group = self._groups[shape]
        return group.count / (group.end - group.begin + _SLACK_MILLIS)


@dataclass(slots=True)
class Attribution:
    """Decides for each operation whether it is the accident's. ``signature`` is needed for updates only."""

    accident: Accident
    signature: Signature | None = None

    def owns(self, entry: Entry, whole: Entry) -> bool:
        """Whether an operation that takes effect with ``whole`` is the accident's; updates by signature are decided by
        :meth:`owns_update`."""
        one = self.accident
        if not self.spans(whole.ts):
            return False
        if one.kind == "transaction":
            return whole.txn is not None and whole.ts == one.first
        if entry.op == "c":
            return one.kind in ("removal", "everything") and entry.command in REMOVING
        if entry.op != "d":
            return False
        return one.kind == "everything" or (one.kind == "deletes" and self.same_sender(whole))

    def spans(self, ts: Ts) -> bool:
        """Whether ``ts`` is within the accident's span."""
        return self.accident.first <= ts and (self.accident.last is None or ts <= self.accident.last)

    def spans_updates(self, ts: Ts) -> bool:
        """The same for its updates, which may end earlier."""
        until = self.accident.updates_last or self.accident.last
        return self.accident.first <= ts and (until is None or ts <= until)

    def same_sender(self, whole: Entry) -> bool:
        """Whether a write may come from the client that caused the accident."""
        return is_sent_by(whole, self.accident.session)

    def owns_update(self, changes: Changes, ts: Ts) -> bool:
        """Whether an update by the same sender is the accident's."""
        one = self.signature
        return one is not None and self.spans_updates(ts) and one.spans(ts) and one.fits(changes)

    def doubts_update(self, changes: Changes, ts: Ts) -> bool:
        """Whether an update by the same sender that is not known to be the accident's may be: it changes the computed
        paths alone, or all paths at the same time but to other values, as a statement that computes them may."""
        one = self.signature
        if one is None or not self.spans(ts):
            return False
        return one.may_fit(changes) or (self.spans_updates(ts) and one.spans(ts) and changes.keys() == one.paths)

    def resembles(self, changes: Changes, ts: Ts) -> bool:
        """Whether an update by the same sender looks like the accident's, though it is outside its span: then computed
        values within the span may be others' too."""
        one = self.signature
        return one is not None and bool(one.computed) and one.fits(changes) and not self.owns_update(changes, ts)


def update_of(entry: Entry) -> bytes:
    """The ``o`` of an entry, undecoded. Raises Malformed where it has none."""
    if entry.head.o is None:
        raise Malformed("an update without its change")
    return entry.head.raw[entry.head.o.start : entry.head.o.end]
