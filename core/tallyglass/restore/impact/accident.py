"""Which operations after the point are the accident's, by what they change.

The server's oplog does not say which statement an entry came from. An ``updateMany`` leaves entries without a session,
and so does every write of a client with ``retryWrites=false``; both may stand side by side in the same second. What
tells them apart is what they change: the paths, and the values where one statement sets the same value everywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.patch import Path, Value, changed_paths, is_replacement

REMOVING = frozenset({"drop", "dropDatabase", "emptycapped", "renameCollection"})
"""Commands after which the documents of a collection are gone from its name."""

Shape = frozenset[Path]

_REPLACED: Shape = frozenset({(b"",)})
"""The shape of an update that replaces the whole document."""


def shape_of(o: bytes) -> tuple[Shape, dict[Path, Value | None]]:
    """The paths that an update changes, and the value that it leaves at each. Raises Malformed."""
    if is_replacement(o):
        return _REPLACED, {}
    values = dict(changed_paths(o))
    return frozenset(values), values


@dataclass(slots=True)
class Signature:
    """What the accident's updates change: ``paths``, and ``values`` where all of them leave the same one.

    ``computed`` holds the paths at which each leaves another value: those of two statements that compute the same field
    cannot be told apart. ``first`` and ``last`` bound them; None where that is not known. ``ambiguous`` tells that this
    may be what somebody else's updates have in common.
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

    def fits(self, o: bytes) -> bool:
        """Whether an update changes nothing but these paths, and leaves the common values."""
        shape, values = shape_of(o)
        common = [path for path in shape if path in self.values]
        if not shape <= self.paths or not (common or shape == self.paths):
            return False
        return all(values[path] == self.values[path] for path in common)

    def spans(self, ts: Ts) -> bool:
        """Whether an update at ``ts`` may be one of them."""
        return (self.first is None or self.first <= ts) and (self.last is None or ts <= self.last)

    def may_fit(self, o: bytes) -> bool:
        """Whether an update changes some of the computed paths alone: of the accident where a document had the common
        values before, or of somebody else."""
        shape, _ = shape_of(o)
        return bool(shape) and shape < self.paths and shape <= self.computed


@dataclass(slots=True)
class _Group:
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
        self._groups: dict[Shape, _Group] = {}

    def feed(self, o: bytes, key: bytes = b"", ts: Ts = ZERO, millis: int = 0) -> None:
        """Take one update of the document ``key``, written at ``ts`` and ``millis`` of the server's clock. Raises
        Malformed."""
        shape, values = shape_of(o)
        group = self._groups.setdefault(shape, _Group(ts, ts, millis, millis))
        group.count += 1
        group.last, group.end = ts, max(group.end, millis)
        group.repeats += key in group.ids
        group.ids.add(key)
        for path, value in values.items():
            counts = group.values.setdefault(path, Counter())
            if len(counts) <= _MOST_VALUES:
                counts[value] += 1

    def signature(self, first: bytes = b"") -> Signature | None:
        """The accident's; that of the update ``first`` where it is known to be the accident's own."""
        if not self._groups:
            return None
        least = shape_of(first)[0] if first else frozenset()
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
    """Decides for each operation whether it is the accident's. ``signature`` is needed for updates alone."""

    accident: Accident
    signature: Signature | None = None

    def owns(self, entry: Entry, whole: Entry) -> bool:
        """Whether an operation that takes effect with ``whole`` is the accident's. Raises Malformed."""
        one = self.accident
        if not self.spans(whole):
            return False
        if one.kind == "transaction":
            return whole.txn is not None and whole.ts == one.first
        if entry.op == "c":
            return one.kind in ("removal", "everything") and entry.command in REMOVING
        if entry.op == "d":
            return one.kind == "everything" or (one.kind == "deletes" and self.same_sender(entry, whole))
        until = one.updates_last or one.last
        if entry.op != "u" or self.signature is None or (until is not None and whole.ts > until):
            return False
        inside = self.signature.spans(whole.ts) and self.same_sender(entry, whole)
        return inside and self.signature.fits(update_of(entry))

    def spans(self, whole: Entry) -> bool:
        """Whether it took effect within the accident's span."""
        last = self.accident.last
        return self.accident.first <= whole.ts and (last is None or whole.ts <= last)

    def doubts(self, entry: Entry, whole: Entry) -> bool:
        """Whether an update within the span may be the accident's or not. Raises Malformed."""
        if entry.op != "u" or self.signature is None or not self.spans(whole) or not self.same_sender(entry, whole):
            return False
        return self.signature.may_fit(update_of(entry))

    def may_be_both(self, entry: Entry, whole: Entry) -> bool:
        """Whether an update looks like the accident's though it is outside its span: then computed values inside it
        may be others' too."""
        if entry.op != "u" or self.signature is None or not self.signature.computed or self.owns(entry, whole):
            return False
        return self.same_sender(entry, whole) and self.signature.fits(update_of(entry))

    def same_sender(self, entry: Entry, whole: Entry) -> bool:
        """A session tells one client; without one, at least those that have one are others'."""
        if self.accident.session:
            return whole.head.session == bytes.fromhex(self.accident.session)
        return not whole.retryable


def update_of(entry: Entry) -> bytes:
    """The ``o`` of an entry, undecoded. Raises Malformed where it has none."""
    if entry.head.o is None:
        raise Malformed("an update without its change")
    return entry.head.raw[entry.head.o.start : entry.head.o.end]
