"""One document as it is, and as it would be without the accident: both from its copy at the point and the oplog."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from tallyglass.moment import Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    ChangeKind,
    Fields,
    Path,
    Unfit,
    Value,
    apply_update,
    build,
    changes_of,
    differing,
    each_change,
    get,
    is_replacement,
    parse,
    put,
    repeats_name,
)
from tallyglass.restore.backup.archive import LARGEST
from tallyglass.restore.undo.expiry import decides
from tallyglass.restore.undo.increments import Increments, increased
from tallyglass.restore.undo.values import (
    contains,
    counts_as_number,
    is_moved_date,
    is_number,
    may_be_upsert,
    related,
    updated,
)


class Verdict(StrEnum):
    """What to do about a document that the accident touched."""

    DAMAGED = "damaged"
    """It differs from what it would be without the accident, and can be repaired."""
    WHOLE = "whole"
    """It is as it would be without the accident."""
    LEFT = "left"
    """Others deleted it or wrote the same field since: their change stays."""
    UNCLEAR = "unclear"
    """What the accident changed and what others changed cannot be separated."""


@dataclass(slots=True)
class Counterfactual:
    """Feed the operations on one document in order. ``actual`` is the document as it is, ``wanted`` as it would be
    without the accident's operations; None where there is none.

    Where the two differ, an entry of others says what they left, and seldom what they did: a number may have been set,
    or added to what the accident left. Such paths are ``doubts`` until others set them to what can only be theirs,
    unless their ``increments`` are known.
    """

    actual: bytes | None
    wanted: bytes | None
    increments: Increments = field(default_factory=dict)
    expiring: Collection[str] = ()
    """The fields by which a TTL index removes documents."""
    overwritten: bool = False
    unclear: bool = False
    doubts: set[Path] = field(default_factory=set)
    left: set[Value] = field(default_factory=set)
    """The values that the accident's updates left."""

    @property
    def verdict(self) -> Verdict:
        """The result after all operations."""
        if self.unclear or self.doubts:
            return Verdict.UNCLEAR
        if self.actual == self.wanted:
            return Verdict.LEFT if self.overwritten or self.wanted is None else Verdict.WHOLE
        return Verdict.LEFT if self.wanted is None else Verdict.DAMAGED

    def accident(self, op: str, o: bytes) -> None:
        """An operation that the accident did, or that an earlier return undid: i, u or d. Raises Malformed for broken
        BSON."""
        if op != "u":
            self.actual = o if op == "i" else None
            return
        try:
            before = self.actual
            if before is not None:
                self.actual = after = apply_update(before, o)
                self.left |= {value for path in differing(before, after) if (value := get(after, path)) is not None}
        except Unfit:
            self.unclear = True

    def others(self, op: str, o: bytes, *, may_be_expiry: bool = False) -> None:
        """An operation of somebody else, or a delete that may be the TTL monitor's: that is nobody's decision where the
        accident left what the document expires by. Raises Malformed for broken BSON."""
        if op == "d":
            self.unclear |= may_be_expiry and self._may_expire_by_accident()
            self.overwritten |= self.actual != self.wanted
            self.actual = self.wanted = None
            self.doubts.clear()
        elif op == "i":
            self.overwritten |= self.wanted is not None and o != self.wanted
            if self.wanted == o and may_be_upsert(o):
                self.doubts.add(())
            self.actual = self.wanted = o
        else:
            try:
                self._update(o)
            except Unfit:
                self.unclear = True

    def _may_expire_by_accident(self) -> bool:
        if not self.expiring or self.actual is None or self.wanted is None:
            return False
        try:
            return decides((*differing(self.actual, self.wanted), *self.doubts), self.expiring)
        except Unfit:
            return True

    def repaired(self, op: str, o: bytes) -> None:
        """What a return wrote to undo operations that :meth:`accident` was given: ``wanted`` never had them."""
        after = o if op == "i" else updated(self.actual, o)
        if after is None:  # it updated a document of which the history knows nothing, or another one
            self.unclear = True
        else:
            self.actual = after

    def _update(self, o: bytes) -> None:
        before, wanted = self.actual, self.wanted
        if before is None:
            return
        self.actual = after = apply_update(before, o)
        if wanted is None:
            return  # put there by the accident
        damaged = {*differing(before, wanted), *self.doubts}
        if not damaged:
            self.wanted = after
            return
        whole, appended = is_replacement(o), _appended(o, before)
        written = set(changes_of(o))
        whose = {path: self._whose(path, before, after, written, appended) for path in damaged}
        added: dict[Path, Value] = {}
        for path in self.increments.keys() & damaged - self.doubts:
            total = increased(self.increments, path, get(before, path), get(after, path), get(wanted, path))
            if whose[path] is _Whose.UNCLEAR and total is not None:
                whose[path], added[path] = _Whose.ADDED, total
        result = after if whole else _apply_beside(wanted, before, after, whose)
        for path, owner in whose.items():
            self.overwritten |= owner is _Whose.THEIRS
            self.doubts.discard(path)
            if owner is _Whose.UNCLEAR:
                self.doubts.add(path)
            if owner is _Whose.ADDED:
                result = put(result, path, added[path])
            elif owner is not _Whose.THEIRS and path and (len(path) == 1 or _is_document(result, path[:-1])):
                result = put(result, path, _extended(get(wanted, path), appended.get(path, [])))
        self.wanted = result if any(differing(result, after)) else after

    def _whose(
        self, path: Path, before: bytes, after: bytes, written: set[Path], appended: dict[Path, list[Value]]
    ) -> _Whose:
        """Whose the value at a path is after an update of others, which ``written`` the paths that it names."""
        held, value = (get(before, path), get(after, path)) if path else (None, None)
        above = (path[:length] for length in range(1, len(path)))
        vanished = any(get(before, one) is not None and get(after, one) is None for one in above)
        if held == value and not vanished:
            named = any(related(path, one) for one in written)
            return _Whose.UNCLEAR if named or path in self.doubts else _Whose.ACCIDENTS
        if path in appended and path not in self.doubts:
            return _Whose.ACCIDENTS
        return _Whose.UNCLEAR if self._may_be_computed(path, before, after) else _Whose.THEIRS

    def _may_be_computed(self, path: Path, before: bytes, after: bytes) -> bool:
        """Whether what an update of others left at a path may come from what the accident left: a number, a moved date,
        a part of a document or an array, a text that contains it, or nothing where it was renamed."""
        held, value = get(before, path), get(after, path)
        if value is None:
            moved = [get(before, path[:length]) for length in range(1, len(path) + 1)]
            new = (get(after, one) for one in differing(before, after))
            return any(one is not None and one in moved for one in new)
        if is_number(value):
            return counts_as_number(held)
        part = value[0] in (walk.ARRAY, walk.DOCUMENT) or is_moved_date(value, held)
        return part or any(contains(value, one) for one in self.left)


class _Whose(Enum):
    """Whose a value is after an update of others."""

    ACCIDENTS = 0
    THEIRS = 1
    UNCLEAR = 2
    ADDED = 3
    """Still the accident's, with an increment of theirs."""


def _apply_beside(wanted: bytes, before: bytes, after: bytes, whose: dict[Path, _Whose]) -> bytes:
    """``wanted`` with what an update changed, except where what the accident left is not clearly replaced."""
    result = wanted
    for path in differing(before, after):
        theirs = all(owner is _Whose.THEIRS for one, owner in whose.items() if related(path, one))
        if theirs and (len(path) == 1 or _is_document(result, path[:-1])):
            result = put(result, path, get(after, path))
    return result


def _appended(o: bytes, before: bytes) -> dict[Path, list[Value]]:
    """The elements that an update appends to arrays, by the path of the array; none of those that it changes in another
    way too."""
    found: dict[Path, list[Value]] = {}
    other = set[Path]()
    for kind, path, value, array in each_change(o) or ():
        if array < 0:
            continue
        home = path[:array]
        held = get(before, home)
        length = len(parse(held[1])) if held is not None and held[0] == walk.ARRAY else 0
        if kind is ChangeKind.SET and len(path) == array + 1 and value is not None and int(path[-1]) >= length:
            found.setdefault(home, []).append((value.type, o[value.start : value.end]))
        else:
            other.add(home)
    return {path: values for path, values in found.items() if path not in other}


def _extended(array: Value | None, items: list[Value]) -> Value | None:
    """An array with more elements; the first ones of a new array where there is none."""
    if not items or (array is not None and array[0] != walk.ARRAY):
        return array
    held = parse(array[1]).values() if array is not None else ()
    return walk.ARRAY, build({str(at).encode(): item for at, item in enumerate((*held, *items))})


def _is_document(document: bytes, path: Path) -> bool:
    found = get(document, path)
    return found is not None and found[0] == walk.DOCUMENT


LARGE = LARGEST // 2
"""From here on a document may be too large: a repair may have to hold one of its values twice."""
_LONG_VALUE = 1024 * 1024
"""No index and no expiry looks at longer values."""


def repair(
    identity: tuple[int, bytes], actual: bytes | None, wanted: bytes, undone: Collection[Ts] = ()
) -> bytes | None:
    """The document that is loaded into the staging collection: ``_id``, ``r`` as it is to be, and ``w``, when the
    operations took effect that are undone in it.

    For a live document also ``f``, its top-level fields that differ: ``k`` the name, ``l`` the value that the accident
    left, ``r`` the one to set; either is missing where the field is. ``l`` at the top is the whole live document where
    setting the fields one by one would come to another order of them. Where that would be too large, it is left out,
    and so are the long values in ``r``: the fields hold what is written. None where it would still be too large, and
    where a document that is changed has one field name twice: the server changes no such document without a loss.
    """
    fields: Fields = {b"_id": identity, b"r": (walk.DOCUMENT, wanted)}
    if undone:
        stamps = {str(at).encode(): (walk.TIMESTAMP, ts.number.to_bytes(8, "little")) for at, ts in enumerate(undone)}
        fields[b"w"] = (walk.ARRAY, build(stamps))
    if actual is not None:
        try:
            here, there = parse(actual), parse(wanted)
        except Unfit:
            return None
        result = dict(here)
        items: Fields = {}
        for name in dict.fromkeys((*here, *there)):
            left, right = here.get(name), there.get(name)
            if left == right:
                continue
            if any(map(repeats_name, filter(None, (left, right)))):
                return None
            item: Fields = {b"k": (walk.STRING, len(name + b"\0").to_bytes(4, "little") + name + b"\0")}
            item |= {b"l": left} if left is not None else {}
            item |= {b"r": right} if right is not None else {}
            items[str(len(items)).encode()] = (walk.DOCUMENT, build(item))
            if right is None:
                result.pop(name, None)
            else:
                result[name] = right
        fields[b"f"] = (walk.ARRAY, build(items))
        if list(result) != list(there):
            fields[b"l"] = (walk.DOCUMENT, actual)
        if sum(len(value) for _, value in fields.values()) > LARGEST - 1024:
            fields.pop(b"l", None)
            short = {name: value for name, value in there.items() if len(value[1]) <= _LONG_VALUE}
            fields[b"r"] = (walk.DOCUMENT, build(short))
    raw = build(fields)
    return raw if len(raw) <= LARGEST else None
