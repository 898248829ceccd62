"""Attributes operations after the point to the accident, by what they change.

The server's oplog does not say which statement an entry came from. An ``updateMany`` leaves entries without a session,
and so does every write of a client with ``retryWrites=false``; both may stand side by side in the same second. What
tells them apart is what they change: the plan finds the effect of the accident (:mod:`.effects`), and here each update
is compared with it.

An entry holds only what changed. So one statement leaves different entries: without the paths at which a document had
the value already, and with the whole document where that is shorter than the difference. Both are completed from the
document before the entry (:func:`completed`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Changes, Path, build, differing, get
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.model.undo import NEVER, Accident, FieldChange
from tallyglass.restore.undo.incident_scope import is_sent_by
from tallyglass.restore.undo.values import is_number, related

REMOVING = frozenset({"drop", "dropDatabase", "emptycapped", "renameCollection"})
"""Commands after which the documents of a collection are no longer under its name."""


@dataclass(frozen=True, slots=True)
class UpdateEffect:
    """What every update of one statement leaves: the same value at each path of ``constants``, None for a field that
    is removed, and some value at each path of ``computed``. No update leaves a path of ``always`` as it was."""

    constants: Changes = field(default_factory=dict)
    computed: frozenset[Path] = frozenset()
    always: frozenset[Path] = frozenset()

    @property
    def paths(self) -> frozenset[Path]:
        """The paths that the statement sets."""
        return self.computed.union(self.constants)

    def agrees(self, changes: Changes) -> bool:
        """Whether an update changes nothing but these paths, and to no other value than the common one."""
        return changes.keys() <= self.paths and all(
            changes[path] == value for path, value in self.constants.items() if path in changes
        )

    def explains(self, changes: Changes) -> bool:
        """Whether an update may be of a statement with this effect, on a document that had the values that it lacks."""
        return bool(changes) and changes.keys() >= self.always and self.agrees(changes)

    def fits(self, changes: Changes) -> bool:
        """Whether an update that was completed has this effect."""
        return self.agrees(changes) and changes.keys() >= self.paths

    def may_fit(self, changes: Changes) -> bool:
        """Whether an update may be of this statement, though it is not known to be: it lacks paths at which its
        document may have had the value, or leaves other numbers at all paths, as a statement that computes may."""
        if self.agrees(changes):
            return self.explains(changes)
        other = [(changes.get(path), value) for path, value in self.constants.items() if changes.get(path) != value]
        return changes.keys() == self.paths and all(is_number(one) and is_number(value) for one, value in other)

    def sets_below(self, path: Path) -> bool:
        """Whether the statement sets a part of what is at a path."""
        return any(len(path) < len(one) and one[: len(path)] == path for one in self.paths)

    def touches(self, paths: Collection[Path]) -> bool:
        """Whether a write to some paths may do a part of it; both are none for deletes."""
        if not paths or not self.paths:
            return not paths and not self.paths
        return any(related(one, other) for one in paths for other in self.paths)

    def stored(self) -> tuple[FieldChange, ...]:
        """The effect as a plan holds it."""
        found = [
            FieldChange(_names(path), "" if value is None else (bytes((value[0],)) + value[1]).hex())
            for path, value in self.constants.items()
        ]
        return (*found, *(FieldChange(_names(path), None, path in self.always) for path in sorted(self.computed)))

    @classmethod
    def of(cls, stored: tuple[FieldChange, ...]) -> UpdateEffect | None:
        """The effect that a plan holds; None where it holds none."""
        rows = [(tuple(map(bytes.fromhex, one.path)), one.value, one.always) for one in stored]
        constants: Changes = {}
        for path, text, _ in rows:
            if text is not None:
                value = bytes.fromhex(text)
                constants[path] = (value[0], value[1:]) if value else None
        computed = frozenset(path for path, text, _ in rows if text is None)
        return cls(constants, computed, frozenset(path for path, _, always in rows if always)) if rows else None


def _names(path: Path) -> tuple[str, ...]:
    return tuple(name.hex() for name in path)


def completed(changes: Changes, before: bytes, effect: UpdateEffect) -> Changes:
    """What the statement with this effect would have set, if it left this entry on the document ``before``.

    A document that is set as a whole counts as the parts in which it differs, all of it where there was none; a path at
    which the document had the common value already counts as set. Raises Malformed, and Unfit where one field name
    is there twice.
    """
    result: Changes = {}
    for path, value in changes.items():
        held = get(before, path) if path else (walk.DOCUMENT, before)
        above = effect.sets_below(path)
        if not above or value is None or value[0] != walk.DOCUMENT or (held and held[0] != walk.DOCUMENT):
            result[path] = value
            continue
        for below in differing(held[1] if held else build({}), value[1], path):
            result[below] = get(value[1], below[len(path) :])
    for path, value in effect.constants.items():
        if path and path not in result and get(before, path) == value:
            result[path] = value
    return result


@dataclass(frozen=True, slots=True)
class Attribution:
    """Decides for each operation whether it is the accident's."""

    accident: Accident

    @property
    def effect(self) -> UpdateEffect | None:
        """The effect of its updates; None where they are known otherwise, or there are none."""
        return UpdateEffect.of(self.accident.effect)

    def owns(self, entry: Entry, whole: Entry) -> bool:
        """Whether an operation that takes effect with ``whole`` is the accident's; updates with an effect are compared
        with that afterwards."""
        one = self.accident
        if not self.spans(whole.ts):
            return False
        if one.kind == "transaction":
            return True  # its span is one entry
        if entry.op == "c":
            return one.kind in ("removal", "everything") and entry.command in REMOVING
        if entry.op == "u":
            by_command = one.command is not None and whole.txn_number == one.command
            return one.updates and by_command and self.same_sender(whole)
        if entry.op != "d":
            return False
        return one.kind == "everything" or (one.kind == "deletes" and self.same_sender(whole))

    def spans(self, ts: Ts) -> bool:
        """Whether ``ts`` is within the accident's span."""
        return self.accident.first <= ts <= (self.accident.last or NEVER)

    def spans_updates(self, ts: Ts) -> bool:
        """Whether ``ts`` is within the span of its updates, which may end earlier."""
        return self.accident.first <= ts <= self.accident.updates_end

    def same_sender(self, whole: Entry) -> bool:
        """Whether a write may come from the client that caused the accident."""
        return is_sent_by(whole, self.accident.session)

    def may_own_update(self, whole: Entry) -> bool:
        """Whether the effect decides if an update is the accident's."""
        return self.accident.updates and self.accident.command is None and self.same_sender(whole)


def update_of(entry: Entry) -> bytes:
    """The ``o`` of an entry, undecoded. Raises Malformed where it has none."""
    if entry.o_at is None:
        raise Malformed("an update without its change")
    return entry.raw[entry.o_at.start : entry.o_at.end]


def millis_of(whole: Entry) -> int:
    """When an entry was written by the server's clock, in milliseconds; of one that does not say, its whole second."""
    return whole.wall_millis or whole.ts.t * 1_000


def seconds_before(ts: Ts, seconds: int) -> Ts:
    """So many seconds before an entry, or the beginning."""
    return Ts(max(ts.t - seconds, 1), 0)
