"""One document after the return, judged from the oplog and the live data.

It follows the document as it is, and what the accident left in it; it shares neither the two worlds of the repair nor
its decisions, so that an error there is found here. Every doubt counts as damage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    Path,
    Unfit,
    Value,
    apply_update,
    changes_of,
    differing,
    get,
    parse,
    put,
    repeats_name,
)
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.undo.expiry import decides
from tallyglass.restore.undo.increments import FACTORS, Increments, increased, is_increment
from tallyglass.restore.undo.values import (
    NUMBERS,
    contains,
    counts_as_number,
    is_moved_date,
    is_number,
    may_be_upsert,
    number,
)


class DocumentState(StrEnum):
    """What a document is after the return, as a sentence for a person."""

    RIGHT = "It is as it would be without the accident."
    HOLDS = "It still holds what the accident left."
    MISSING = "The accident removed it, and it is not there."
    COMPUTED = "Others may have computed what it holds from what the accident left: compare it manually."
    REPLACED = "The accident removed it, and others inserted another document with its _id."
    INSERTED = "The accident inserted it, and it stays: remove it manually if nobody needs it."
    LATE = "Others replaced or removed it while the return wrote, which came after them: compare it manually."
    TWICE = "It has one field name twice, which no update leaves as it is: repair it manually."
    SAME = "An update set here what the accident set, within a minute of it: compare it manually."
    BESIDE = "It was inserted amid the accident's updates, as $merge or an upsert does: remove it if nobody needs it."
    EARLIER = "It came back with what an incident left that was undone while it was not there: undo that one again."
    EXPIRED = (
        "It was deleted without a session while a field of a TTL index held what the accident left: it may have "
        "expired by the accident. Insert it manually if it should be there."
    )
    RENAMED = (
        "It was removed with its collection, which came back since by a rename, without it: insert it manually if it "
        "should be there."
    )
    UNCLEAR = "What the accident changed and what others changed cannot be separated: compare it manually."
    DIFFERS = "It is not what the oplog says that it is: compare it manually."


@dataclass(slots=True)
class DocumentTrace:
    """Feed the operations on one document in order: :meth:`accident` those that were undone, :meth:`repair` those that
    a return wrote, :meth:`others` all others. ``document`` is the document as it is; None where there is none."""

    document: bytes | None
    increments: Increments = field(default_factory=dict)
    """The numbers to which others only add."""
    expiring: Collection[str] = ()
    """The fields by which a TTL index removes documents."""
    changed: dict[Path, Value | None] = field(default_factory=dict)
    """Where it still holds what the accident left, or what was computed from that: the value that it would have."""
    computed: set[Path] = field(default_factory=set)
    left: dict[Path, tuple[Value | None, Value | None]] = field(default_factory=dict)
    """What the accident ever left at a path, and what was there before."""
    removed: bytes | None = None
    """The document that the accident removed, or made expire, as it would be."""
    expired: bool = False
    """Whether the accident may have made it expire."""
    inserted: bool = False
    unclear: bool = False
    twice: bool = False
    """Whether it has, or had, one field name twice where an operation changes it."""
    hit: bool = False
    """Whether the accident changed it at all."""
    brought_back: bool = False
    """Whether an operation set back what the accident changed."""
    theirs: bool = False
    """Whether others deleted it, or wrote something of their own over what the accident left."""

    late: bool = False
    """Whether a return brought back what others had removed since it was computed."""

    @property
    def state(self) -> DocumentState:
        """What the document is after the operations so far."""
        if self.unclear:
            return DocumentState.TWICE if self.twice else DocumentState.UNCLEAR
        if self.document is None:
            gone = DocumentState.EXPIRED if self.expired else DocumentState.MISSING
            return DocumentState.RIGHT if self.removed is None else gone
        if self.late:
            return DocumentState.LATE
        if self.removed is not None:
            return DocumentState.REPLACED
        if self.inserted:
            return DocumentState.INSERTED
        if self.computed:
            return DocumentState.COMPUTED
        if self.changed and any(map(repeats_name, filter(None, self.changed.values()))):
            return DocumentState.TWICE
        return DocumentState.HOLDS if self.changed else DocumentState.RIGHT

    def accident(self, op: str, o: bytes) -> None:
        """An operation that was undone: i, u or d."""
        with self._in_doubt(o):
            before = self.document
            if op == "d":
                if before is not None:
                    self.hit = True
                    self.unclear |= bool(self.computed) or self.removed is not None  # others may have upserted it
                    self.removed = None if self.inserted else self._without_accident(before)
                    self.expired = False
                self.document, self.inserted = None, False
                self.changed.clear()
                return
            self.hit = True
            if op == "i" and before is None and self.removed is None:
                self.document, self.inserted = o, True
                return
            if before is None or op == "i":
                before, self.removed = before if before is not None else self.removed, None
            self.document = after = o if op == "i" or before is None else apply_update(before, o)
            if before is None or self.inserted:
                self.unclear |= before is None
                return
            for path in differing(before, after):
                self._change(path, get(before, path), get(after, path))

    def undone(self, op: str, o: bytes) -> None:
        """An operation that another return undid: what it left is as little wanted."""
        hit = self.hit
        self.accident(op, o)
        self.hit = hit

    def others(self, op: str, o: bytes, *, may_be_expiry: bool = False) -> None:
        """An operation that was not undone; also a delete that may be the TTL monitor's."""
        before = self.document
        with self._in_doubt(o):
            if may_be_expiry and before is not None and decides(self.changed, self.expiring):
                self.unclear |= bool(self.computed)
                self.removed, self.document, self.expired = self._without_accident(before), None, True
                self.changed.clear()
            else:
                self._others(op, o)

    def repair(self, op: str, o: bytes) -> None:
        """An operation by which a return set back what :meth:`accident` and :meth:`undone` were given."""
        with self._in_doubt(o):
            before = self.document
            if before is None:
                self.late |= self.removed is None
                good, after = self.removed or o, o
            else:
                good, after = self._without_accident(before), apply_update(before, o)
            still = {path: get(good, path) for path in differing(after, good)} if after != good else {}
            for path in self.changed.keys() - still.keys():
                self.brought_back = True
                if path in self.left and self.left[path][0] == get(after, path):
                    self.left[path] = None, self.changed[path]  # by others' increments it would be what was left
            self.brought_back |= before is None and not still
            self.unclear |= not self.computed <= still.keys() or (before is None and op == "u")
            self.removed = None if before is None else self.removed
            self.document, self.changed = after, still

    @contextmanager
    def _in_doubt(self, o: bytes) -> Iterator[None]:
        """Follow an operation, which may not fit the document."""
        before = self.document
        try:
            yield
        except (Unfit, Malformed):
            self.doubt(before, o)

    def doubt(self, before: bytes | None, o: bytes) -> None:
        """Nobody can say what the document would be: whose the operation is, or what it does, is not clear."""
        self.unclear = True
        with suppress(Malformed):
            self.twice |= any(repeats_name((walk.DOCUMENT, raw)) for raw in (before, o) if raw)

    def _change(self, path: Path, before: Value | None, after: Value | None) -> None:
        if path in self.changed:
            before = self.changed.pop(path)
            self.unclear |= path in self.computed
        self.unclear |= any(one[: len(path)] == path or path[: len(one)] == one for one in self.changed)
        self.left[path] = after, before
        if after != before:
            self.changed[path] = before

    def _without_accident(self, document: bytes) -> bytes:
        for path, value in self.changed.items():
            document = put(document, path, value)
        return document

    def _others(self, op: str, o: bytes) -> None:
        before = self.document
        if op == "d":
            self._delete(before)
        elif op == "u" and before is None:
            self.unclear = True
        else:
            self.document = after = o if op == "i" or before is None else apply_update(before, o)
            if self.removed is not None and _is_alike(after, self.removed) and not may_be_upsert(after):
                self.removed, self.brought_back = None, True
            if before is not None:
                self._follow(before, after, set(changes_of(o)) if op == "u" else set())
            self._find_again(after)

    def _delete(self, before: bytes | None) -> None:
        """Others removed the document, or what the accident had left of it."""
        self.theirs |= before is not None and (bool(self.changed) or self.inserted or self.removed is not None)
        self.document = self.removed = None
        self.inserted = False
        self.changed.clear()
        self.computed.clear()

    def _follow(self, before: bytes, after: bytes, written: set[Path]) -> None:
        """What the accident left was changed, copied, or ``written`` again with what holds it."""
        held = _Held(self.changed, before)
        for path in list(self.changed):
            if _differs(before, after, path):
                self._overwrite(path, before, after, held)
            elif any(path[:length] in written for length in range(len(path))):
                self.computed.add(path)  # meant, or written back after it was read
        self._find_copies(before, after, held)

    def _find_again(self, after: bytes) -> None:
        """What the accident had left is there once more: written back after it was read, or meant."""
        for path, (bad, good) in self.left.items():
            if bad is not None and path not in self.changed and get(after, path) == bad and bad != good:
                self.changed[path] = good
                self.computed.add(path)

    def _find_copies(self, before: bytes, after: bytes, held: _Held) -> None:
        """Others wrote elsewhere what may come from what the accident left."""
        for path in differing(before, after) if held.values else ():
            value = get(after, path)
            if value is None or path in self.left or path in self.changed:
                continue
            if is_increment(self.increments, path, get(before, path), value):
                continue
            if held.may_give(value, path):
                self.changed[path] = get(before, path)
                self.computed.add(path)

    def _overwrite(self, path: Path, before: bytes, after: bytes, held: _Held) -> None:
        """Others changed what the accident left at a path, when ``held`` was there."""
        value = get(after, path)
        if path not in self.computed and (
            total := increased(self.increments, path, get(before, path), value, self.changed[path])
        ):
            self.changed[path] = total
        elif self._may_be_computed(path, value, before, after) or (value and held.may_give(value, path)):
            self.computed.add(path)
        else:
            del self.changed[path]
            self.computed.discard(path)
            self.theirs = True

    def _may_be_computed(self, path: Path, value: Value | None, before: bytes, after: bytes) -> bool:
        """Whether a value may come from what the accident left: a number (``$inc``, ``$mul``), a date that was moved, a
        part of a document or an array, a text that contains it, or a field that was renamed. A constant does not."""
        held = get(before, path)
        if value is None:
            parts = [part for length in range(len(path)) if (part := get(before, path[: length + 1])) is not None]
            return any(get(after, one) in parts for one in differing(before, after))
        if is_number(value):
            return counts_as_number(held)
        if value[0] in (walk.DOCUMENT, walk.ARRAY) or is_moved_date(value, held):
            return True
        return any(contains(value, bad) for bad, _ in self.left.values())


def _is_alike(one: bytes, other: bytes | None) -> bool:
    """Whether two documents have the same fields, in any order."""
    return other is not None and (one == other or not any(differing(one, other)))


def _differs(before: bytes, after: bytes, path: Path) -> bool:
    """Whether an update changed what is at a path, or removed the document that held it."""
    if get(before, path) != get(after, path):
        return True
    return len(path) > 1 and get(before, path[:-1]) is not None and get(after, path[:-1]) is None


_REFERENCES = frozenset({walk.OBJECT_ID, walk.BINARY})
"""Types of which each value is rare: an equal one in another field was copied."""
_SUMMANDS = (0, 1, -1, 10, 100)
"""What is usually added to numbers, beside a factor; any two numbers are related by some factor and summand."""


class _Held:
    """What the accident left in a document, each with what would be there, and all numbers of the document."""

    def __init__(self, changed: dict[Path, Value | None], document: bytes) -> None:
        self.values = [(path, pair) for path in changed for pair in _parts(get(document, path), changed[path])]
        self._numbers = list(_numbers_of(document)) if changed else []

    def may_give(self, value: Value, at: Path) -> bool:
        """Whether others may have computed a value at a path from what the accident left at another."""
        return any(path != at and _may_come_from(value, *pair, self._numbers) for path, pair in self.values)


def _may_come_from(value: Value, bad: Value | None, good: Value | None, fields: Sequence[float]) -> bool:
    """Whether others may have computed a value from what the accident left in another field: a number by one of the
    usual formulas, also with one of the document's numbers ``fields``; a date that was moved; a text from a text in it;
    an identifier that was copied; zero from the lack of a number, and any text from the lack of one, since a program
    may have any default for it."""
    if is_moved_date(value, bad) or (value == bad and value[0] in _REFERENCES):
        return True
    texts = frozenset({walk.STRING})
    kinds = NUMBERS if is_number(value) else texts if value[0] in texts else frozenset[int]()
    if bad is None or bad[0] not in kinds:
        return good is not None and good[0] in kinds and (kinds is texts or not any(value[1]))
    if kinds is texts:
        return bad[1][4:-1] in value[1][4:-1]
    one, result = number(bad), number(value)
    if one is None or result is None:
        return value == bad
    usual = any(result == one * factor + summand for factor in FACTORS for summand in _SUMMANDS)
    return usual or any(result in (one + other, one - other, other - one, one * other) for other in fields)


def _parts(bad: Value | None, good: Value | None) -> Iterator[tuple[Value | None, Value | None]]:
    """What the accident left and what would be there, each with the same part of the other; of documents their fields
    too."""
    yield bad, good
    below = [parse(one[1]) if one is not None and one[0] == walk.DOCUMENT else {} for one in (bad, good)]
    for name in below[0].keys() | below[1].keys():
        if below[0].get(name) != below[1].get(name):
            yield from _parts(below[0].get(name), below[1].get(name))


def _numbers_of(document: bytes) -> Iterator[float]:
    """The numbers in a document and in those within it, but for one that has a field name twice."""
    for value in parse(document).values():
        found = number(value)
        if found is not None:
            yield found
        elif value[0] == walk.DOCUMENT:
            with suppress(Unfit):
                yield from _numbers_of(value[1])
