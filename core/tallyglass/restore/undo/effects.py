"""Groups the writes of one sender on one collection by what they do, and says whether they are one statement.

One ``updateMany`` leaves entries that differ: each lacks the paths at which its document had the value already. They
are one group if one of them has all the paths and no two of them differ in a value. Anything else may be several
statements: other fields, other values, a pause, a document that is hit twice, a scan that starts over.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import UNKNOWN, Changes, Path, Unfit, Value, get
from tallyglass.oplog.entry.wording import path_text, value_text
from tallyglass.restore.model.undo import WriteGroup
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.evidence import KnownStatement, compare_counts, statement_of

PAUSE_MILLIS = 1_000
"""One statement writes without longer pauses: 21 ms was the longest of 60,000 gaps on two busy cores."""

_MOST_VALUES = 50
"""Different values of one path that are counted exactly; above that, those with a share of more than 2 % are."""
_MOST_FORMS = 50
"""Different sets of paths and values of one shape that are counted each."""
_COMMON_SHARE, _COMMON_LEAST = 0.05, 3
"""A value that more entries than these share is no coincidence of a computation: somebody set it."""
_LEAST_COMPUTED = 8
"""The fewest different values that may come from a computation: one of fewer may be another statement's."""
_FEW = 4
"""The entries of fewer are alike by chance."""
_LONGEST_CONSTANT = 4_096
"""The bytes of a value that is remembered; longer ones are taken for computed."""
_MOST_SHAPES = 500
"""Different sets of paths that are told apart."""
_MOST_BROAD_BYTES = 16_000_000
"""Documents that were set as a whole are kept up to this, to be compared with what other entries set."""
_LEAST_SCAN = 8
"""The fewest documents of which the order is a sign: any five come in order by chance once in 120 times."""
_SLOWER, _MOMENT_MILLIS = 10, 50
"""How many times as slowly as a statement an application writes beside it, and the shortest time that is compared."""
_SHOWN_PATHS, _SHOWN_VALUE, _SHOWN_IDS = 6, 60, 5
_USUAL = "others write these fields before and after it too, again and again"
_NOT_RUN = "the statement that was named does not do this"
_NOT_THE_FIRST = "the first entry does something else"

Shape = frozenset[Path]
Form = frozenset[tuple[Path, Value | None]]


class Side(Enum):
    """Where an entry stands: before, within or after the span that is looked at."""

    BEFORE = -1
    INSIDE = 0
    AFTER = 1


@dataclass(slots=True)
class Tally:
    """How many entries, from which to which, with the milliseconds of the server's clock, and the first documents, each
    a type byte and the bytes of its ``_id``."""

    entries: int = 0
    first: Ts = ZERO
    last: Ts = ZERO
    begin: int = 0
    end: int = 0
    samples: list[bytes] = field(default_factory=list)

    def add(self, ts: Ts, millis: int, entries: int = 1, key: bytes = b"") -> None:
        """Count entries at ``ts``."""
        if key and len(self.samples) < _SHOWN_IDS:
            self.samples.append(key)
        if not self.entries or ts < self.first:
            self.first, self.begin = ts, millis
        if not self.entries or ts > self.last:
            self.last, self.end = ts, millis
        self.entries += entries

    @property
    def pace(self) -> float:
        """Entries a millisecond; those in one moment count as if they took some time."""
        return self.entries / (self.end - self.begin + _MOMENT_MILLIS)

    def absorb(self, other: Tally) -> None:
        """Count the entries of another one too."""
        if other.entries:
            entries = self.entries
            self.add(other.first, other.begin, 0 if entries else 1)
            self.add(other.last, other.end, 0)
            self.entries = entries + other.entries
            self.samples = (self.samples + other.samples)[:_SHOWN_IDS]


@dataclass(slots=True)
class _Values:
    """The values at one path: all of them while there are few, afterwards the frequent ones (Misra and Gries)."""

    counts: Counter[Value | None] = field(default_factory=Counter)
    entries: int = 0
    many: bool = False

    def add(self, value: Value | None) -> None:
        self.entries += 1
        if value is not None and len(value[1]) > _LONGEST_CONSTANT:
            value = UNKNOWN
        self.counts[value] += 1
        if len(self.counts) > _MOST_VALUES:
            self.many = True
            self.counts = Counter({one: count - 1 for one, count in self.counts.items() if count > 1})

    def absorb(self, other: _Values) -> None:
        self.counts += other.counts
        self.entries += other.entries
        self.many |= other.many or len(self.counts) > _MOST_VALUES

    @property
    def constant(self) -> Value | None:
        (value,) = self.counts
        return value

    @property
    def are_one(self) -> bool:
        return not self.many and len(self.counts) == 1 and UNKNOWN not in self.counts

    @property
    def are_computed(self) -> bool:
        """Whether they are as different as those of a computation."""
        if self.counts.keys() == {UNKNOWN}:
            return True
        enough = self.many or len(self.counts) >= max(_LEAST_COMPUTED, self.entries // 2 + 1)
        most = max((count for value, count in self.counts.items() if value != UNKNOWN), default=0)
        return enough and most <= max(_COMMON_LEAST, _COMMON_SHARE * self.entries)


class _Ids:
    """The ``_id``s of a group as 64-bit hashes, in few bytes each."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, key: bytes) -> None:
        number = hash(key)
        bucket = self._buckets.get(number & 255)
        if bucket is None:
            bucket = self._buckets[number & 255] = array("q")
        bucket.append(number)

    def __contains__(self, key: bytes) -> bool:
        number = hash(key)
        return number in self._buckets.get(number & 255, ())

    def are_within(self, parts: Sequence[_Ids]) -> bool:
        """Whether some groups together hit all of these documents."""
        return all(
            set(numbers).issubset(number for one in parts for number in one._buckets.get(bucket, ()))
            for bucket, numbers in self._buckets.items()
        )

    @staticmethod
    def repeats(parts: Sequence[_Ids]) -> int:
        """How often some groups together hit a document again."""
        found = 0
        for bucket in set[int]().union(*(one._buckets for one in parts)):
            numbers = [number for one in parts for number in one._buckets.get(bucket, ())]
            found += len(numbers) - len(set(numbers))
        return found


class _ScanOrder:
    """Whether documents were visited upwards by ``_id``, and then upwards once more from near the beginning."""

    def __init__(self) -> None:
        self._runs = [0]
        self._first_run: list[bytes] = []
        self._last: bytes | None = None
        self._again = False
        self._comparable = True

    def add(self, key: bytes) -> None:
        at = _sortable(key)
        if at is None or (self._last is not None and at[:1] != self._last[:1]):
            self._comparable = False
        if not self._comparable or at is None:
            return
        if self._last is not None and at <= self._last:
            self._runs.append(0)
            quarter = self._first_run[len(self._first_run) // 4]
            self._again = len(self._runs) == 2 and at <= quarter
        self._last = at
        self._runs[-1] += 1
        if len(self._runs) == 1:
            self._first_run.append(at)
            if len(self._first_run) > _LEAST_SCAN * 16:
                self._first_run = self._first_run[::2]

    @property
    def starts_over(self) -> bool:
        return self._comparable and self._again and min(self._runs) >= _LEAST_SCAN


def _sortable(key: bytes) -> bytes | None:
    """An ``_id``, a type byte and the value's bytes, in a form that sorts as the server sorts it. None for types that
    are not inserted in this order: k9 is inserted before k10, and sorts after it."""
    kind, value = key[0], key[1:]
    if kind in (walk.INT32, walk.INT64):
        return b"n" + (int.from_bytes(value, "little", signed=True) + (1 << 63)).to_bytes(8, "big")
    if kind == walk.OBJECT_ID:
        return b"o" + value
    return None


@dataclass(slots=True)
class _Broad:
    """An entry that sets a document as a whole."""

    changes: Changes
    key: bytes
    ts: Ts
    millis: int


@dataclass(slots=True)
class _Shape:
    """The entries that change the same paths. ``seconds`` counts those inside by the second, ``ids`` holds their
    documents; ``outside`` are the forms outside with their documents, None for many, and ``around`` all of these."""

    seconds: dict[int, Tally] = field(default_factory=dict)
    before: bool = False
    after: bool = False
    outside: dict[Form, _Ids] | None = field(default_factory=dict)
    values: dict[Path, _Values] = field(default_factory=dict)
    forms: dict[Form, Tally] | None = field(default_factory=dict)
    broad: list[_Broad] = field(default_factory=list)
    ids: _Ids = field(default_factory=_Ids)
    around: _Ids = field(default_factory=_Ids)

    @property
    def tally(self) -> Tally:
        return _together(self.seconds.values())

    @property
    def hits_again(self) -> bool:
        """Whether it hits documents more than once, with what lies around the span where it goes on on both sides."""
        return _Ids.repeats([self.ids, self.around] if self.before and self.after else [self.ids]) > 0

    def goes_on_around(self, core: Tally) -> bool:
        """Whether it was written before and after other entries too, and more slowly."""
        mine = self.tally
        before = self.before or mine.begin + PAUSE_MILLIS <= core.begin
        after = self.after or core.end + PAUSE_MILLIS <= mine.end
        return before and after and mine.pace * _SLOWER <= core.pace


@dataclass(frozen=True, slots=True)
class AttributedWrites:
    """The entries of one statement: what they do (None for deletes), in words too, how many, from which to which; and
    ``doubts``, sentences that say why they may be several statements or others', with the ``groups`` that there are.
    ``left_out`` is what else was written, with the reason; the rows of both have no namespace yet."""

    effect: UpdateEffect | None
    what: str
    tally: Tally
    doubts: tuple[str, ...] = ()
    groups: tuple[WriteGroup, ...] = ()
    left_out: tuple[WriteGroup, ...] = ()
    documents: int | None = None


class WriteGroups:
    """Feed the writes of one sender on one collection in order, deletes as changes of nothing."""

    def __init__(self) -> None:
        self._groups: dict[Shape, _Shape] = {}
        self._order = _ScanOrder()
        self._broad_bytes = 0
        self._left_out = 0

    def feed(self, changes: Changes, key: bytes, ts: Ts, millis: int, side: Side = Side.INSIDE) -> None:
        """Count a write of the document ``key``, a type byte and the bytes of its ``_id``."""
        shape = frozenset(changes)
        group = self._groups.get(shape)
        if group is None:
            if len(self._groups) == _MOST_SHAPES:
                self._left_out += side is Side.INSIDE
                return
            group = self._groups[shape] = _Shape()
        if side is not Side.INSIDE:
            group.before |= side is Side.BEFORE
            group.after |= side is Side.AFTER
            group.around.add(key)
            if group.outside is not None:
                group.outside.setdefault(frozenset(changes.items()), _Ids()).add(key)
                group.outside = group.outside if len(group.outside) <= _MOST_FORMS else None
            return
        group.seconds.setdefault(millis // 1_000, Tally()).add(ts, millis, key=key)
        group.ids.add(key)
        self._order.add(key)
        for path, value in changes.items():
            group.values.setdefault(path, _Values()).add(value)
            if value is not None and value[0] == walk.DOCUMENT:
                self._broad_bytes += len(value[1])
        if group.forms is not None:
            form = frozenset(changes.items())
            group.forms.setdefault(form, Tally()).add(ts, millis, key=key)
            group.forms = group.forms if len(group.forms) <= _MOST_FORMS else None
        if self._broad_bytes <= _MOST_BROAD_BYTES and any(_is_document(value) for value in changes.values()):
            group.broad.append(_Broad(changes, key, ts, millis))

    @property
    def inside(self) -> dict[Shape, _Shape]:
        """The groups with entries within the span."""
        return {shape: group for shape, group in self._groups.items() if group.seconds}

    @property
    def entries(self) -> int:
        """How many entries are within the span."""
        return sum(group.tally.entries for group in self.inside.values())

    @property
    def documents(self) -> int:
        """How many documents the entries within the span are on."""
        return self.entries - _Ids.repeats([group.ids for group in self.inside.values()])

    def one_statement(self, *, timed: bool) -> AttributedWrites:
        """All writes within the span as one statement, with what speaks against it. ``timed`` means that their times
        and the order of the documents are signs: nothing else says that one client wrote them."""
        groups = self._without_usual()
        broad, narrow = _apart(groups)
        doubts = []
        effect, why = _common_effect(narrow, None)
        doubts += [why] if why else []
        if self._left_out:
            doubts.append(f"More than {_MOST_SHAPES} sets of fields were written.")
        tally, ids = _together(one.tally for one in groups.values()), [one.ids for one in groups.values()]
        inconsistent = sum(
            not _fits_as_a_whole(one.changes, effect) or any(one.key in group.ids for group in narrow.values())
            for group in broad.values()
            for one in group.broad
        )
        if inconsistent or (broad and self._broad_bytes > _MOST_BROAD_BYTES):
            doubts.append("Whole documents were replaced among them.")
        if (timed or any(groups)) and self._same_outside(groups, effect):
            doubts.append("The same was written within a minute before or after, on other documents.")
        pieces = _pieces(groups.values())
        if timed:
            doubts += self._signs(pieces, ids)
        rows = list(_rows(groups)) if len(groups) > 1 or doubts else []
        if len(pieces) > 1 and timed:
            rows += [row_of("", one, None) for one in pieces]
        left = [_row_of_all(shape, one, _USUAL) for shape, one in _by_time(self.inside) if shape not in groups]
        return AttributedWrites(
            effect if any(groups) else None,
            _what(effect, groups),
            tally,
            tuple(doubts),
            tuple(rows),
            tuple(left),
            tally.entries - _Ids.repeats(ids),
        )

    def _same_outside(self, groups: dict[Shape, _Shape], effect: UpdateEffect) -> bool:
        """Whether entries outside the span may be of the same statement: they do some of what it does, on other
        documents."""
        hit = [group.ids for group in groups.values()]
        few = sum(group.tally.entries for group in groups.values()) < _FEW
        for shape, group in self._groups.items():
            if not _touch(shape, effect.paths) if shape else shape not in groups:
                continue
            if group.outside is None:
                return True
            for form, ids in group.outside.items():
                if (few or _does_some(dict(form), effect)) and not ids.are_within(hit):
                    return True
        return False

    def _signs(self, pieces: Sequence[Tally], ids: Sequence[_Ids]) -> Iterable[str]:
        if len(pieces) > 1:
            longest = max(after.begin - before.end for before, after in pairwise(pieces))
            yield f"There are pauses of more than {PAUSE_MILLIS // 1_000} s, the longest of {longest / 1_000:.1f} s."
        repeats = _Ids.repeats(ids)
        if repeats:
            yield f"Documents were hit twice, {_counted(repeats, 'time')}; one statement hits a document once."
        if self._order.starts_over:
            yield "The order of the _ids starts over, as a second statement would."

    def beginning_with(self, first: Changes) -> AttributedWrites:
        """The writes that do what ``first`` does, which is known to be one of them."""
        first = self._narrowed(first)
        widest = frozenset[Path]().union(*(shape for shape in self.inside if shape >= frozenset(first)))
        groups = {shape: one for shape, one in self.inside.items() if shape and shape <= widest}
        effect, why = _common_effect(groups, first)
        tally, ids, doubts = self._with_effect(groups, effect)
        doubts = [*([why] if why else []), *doubts]
        if effect.computed and _Ids.repeats(ids):
            doubts.append("The same fields were computed more than once on some documents.")
        return self._attributed(effect, groups, tally, ids, doubts, _NOT_THE_FIRST)

    def explained_by(self, evidence: KnownStatement) -> AttributedWrites:
        """The writes that a statement explains, all of them where its text is not known. Without a count, what speaks
        against one statement is a doubt."""
        if evidence.deletes or not evidence.text:
            found = self.one_statement(timed=evidence.count is None)
            tally = _together(group.tally for group in self.inside.values())
            if tally.entries == evidence.count and not self._left_out:
                return replace(found, tally=tally, doubts=(), groups=(), left_out=())  # nothing else was written
            doubts = [*found.doubts, *compare_counts(tally.entries, evidence)]
            return replace(found, tally=tally, doubts=tuple(doubts))
        paths = {*evidence.constants, *evidence.computed}
        groups = {
            shape: one for shape, one in self.inside.items() if shape and evidence.always <= shape and shape <= paths
        }
        written = {path: list(one.values[path].counts) for one in groups.values() for path in one.values}
        effect = evidence.effect(written)
        tally, ids, why = self._with_effect(groups, effect, narrow=True)
        doubts = [*why, *compare_counts(tally.entries, evidence)]
        if evidence.count is None:
            doubts += self._signs(_pieces(groups.values()), ids)
        return self._attributed(effect, groups, tally, ids, doubts, _NOT_RUN)

    def _attributed(
        self,
        effect: UpdateEffect,
        groups: dict[Shape, _Shape],
        tally: Tally,
        ids: Sequence[_Ids],
        doubts: Sequence[str],
        why: str,
    ) -> AttributedWrites:
        """The entries of some groups that have the effect; the others are left out for this reason."""
        rows = tuple(_rows(groups)) if doubts else ()
        left = _rows({shape: one for shape, one in self.inside.items() if shape not in groups}, why)
        return AttributedWrites(
            effect,
            _what(effect, groups),
            tally,
            tuple(doubts),
            rows,
            (*left, *_disagreeing(groups, effect, why)),
            tally.entries - _Ids.repeats(ids),
        )

    def _with_effect(
        self, groups: dict[Shape, _Shape], effect: UpdateEffect, *, narrow: bool = False
    ) -> tuple[Tally, list[_Ids], list[str]]:
        """The entries of some groups that have an effect, their documents, and why some of them may be missing;
        ``narrow`` with those that have a part of what is computed, and nothing else."""
        tally, ids, doubts = Tally(), list[_Ids](), list[str]()
        for shape, group in groups.items():
            if shape.isdisjoint(effect.constants) and not narrow:
                parts: Iterable[Tally] = [group.tally] if shape == effect.paths else []
            elif group.forms is None and not _agree(group, effect):
                doubts.append("There are too many different values to tell those of the statement.")
                parts = []
            else:
                parts = _agreeing(group, effect)
            found = _together(parts)
            tally.absorb(found)
            ids += [group.ids] if found.entries else []
        whole = _Ids()
        for one in self._broad_of(groups, effect, every=narrow):
            tally.add(one.ts, one.millis)
            whole.add(one.key)
        return tally, [*ids, whole], doubts

    def _narrowed(self, first: Changes) -> Changes:
        """What an entry that sets a document as a whole has in common with one that sets the most parts of it."""
        found = first
        for shape, group in self.inside.items():
            if any(_is_above(path, below) for path in first for below in shape):
                agreeing = (dict(form) for form in group.forms or () if _leaves(first, dict(form)))
                found = max((found if found is not first else {}, *agreeing), key=len) or found
        return found

    def _broad_of(self, groups: dict[Shape, _Shape], effect: UpdateEffect, *, every: bool = False) -> Iterable[_Broad]:
        """The entries that set a document as a whole, and leave what the effect leaves: ``every`` one, or those on
        documents not hit else."""
        hit = set[bytes]()
        found = [one for shape, group in self.inside.items() if shape not in groups for one in group.broad]
        for one in sorted(found, key=lambda one: one.ts):
            if not every and (one.key in hit or any(one.key in each.ids for each in groups.values())):
                continue
            if _fits_as_a_whole(one.changes, effect):
                hit.add(one.key)
                yield one

    def _without_usual(self) -> dict[Shape, _Shape]:
        """The groups without those of an application that goes on writing other fields.

        No one statement hits a document again and again. Such a group is left out if it goes on before and after all
        others, ten times as slowly, and is the lesser part.
        """
        inside = self.inside
        again = {shape for shape, group in inside.items() if group.hits_again}
        rest = {shape: group for shape, group in inside.items() if shape not in again}
        core = _together(group.tally for group in rest.values())
        parts = [shape for shape in rest if shape not in _apart(rest)[0]]
        usual = {
            shape
            for shape in again
            if inside[shape].goes_on_around(core) and not any(_touch(shape, one) for one in parts)
        }
        share = sum(inside[shape].tally.entries for shape in usual)
        if not rest or share * 2 >= self.entries:
            return inside
        return {shape: group for shape, group in inside.items() if shape not in usual}


def _does_some(changes: Changes, effect: UpdateEffect) -> bool:
    """Whether an entry does some of what a statement does, perhaps in a document that it sets as a whole."""
    within = {one: effect.constants.get(one) for one in effect.paths if any(_is_above(path, one) for path in changes)}
    return effect.overlaps(changes) or any(
        one in effect.computed or _leaves(changes, {one: value}) for one, value in within.items()
    )


def _leaves(whole: Changes, parts: Changes) -> bool:
    """Whether an entry that sets documents as a whole leaves these values in them."""
    for path, value in parts.items():
        above = next((one for one in whole if one == path or _is_above(one, path)), None)
        if above is None or (whole[above] if above == path else _below(whole[above], path[len(above) :])) != value:
            return False
    return True


def _below(value: Value | None, path: Path) -> Value | None:
    """The value at a path in a document; None where it is none, or has one field name twice."""
    with suppress(Unfit):
        return get(value[1], path) if value is not None and value[0] == walk.DOCUMENT else None
    return None


def _is_document(value: Value | None) -> bool:
    return value is not None and value[0] == walk.DOCUMENT


def _is_above(path: Path, other: Path) -> bool:
    return len(path) < len(other) and other[: len(path)] == path


def _touch(one: Shape, other: Shape) -> bool:
    """Whether two shapes have a path in common, or one has a part of what the other has whole."""
    return any(a == b or _is_above(a, b) or _is_above(b, a) for a in one for b in other)


def _apart(groups: dict[Shape, _Shape]) -> tuple[dict[Shape, _Shape], dict[Shape, _Shape]]:
    """The groups that set something as a whole of which others set a part, and those others."""
    paths = {path for shape in groups for path in shape}
    broad = {shape: one for shape, one in groups.items() if any(_is_above(a, b) for a in shape for b in paths)}
    return broad, {shape: one for shape, one in groups.items() if shape not in broad}


def _common_effect(groups: dict[Shape, _Shape], first: Changes | None) -> tuple[UpdateEffect, str]:
    """The effect that all groups have, and why they may have several. Where a path has several values, that of
    ``first`` counts."""
    paths = frozenset[Path]().union(*groups)
    constants: Changes = {}
    computed, several = set[Path](), list[Path]()
    for path in sorted(paths):
        values = _Values()
        for group in groups.values():
            if path in group.values:
                values.absorb(group.values[path])
        if values.are_one:
            constants[path] = values.constant
        elif values.are_computed:
            computed.add(path)
        elif first is not None and path in first:
            constants[path] = first[path]
        else:
            several.append(path)
            computed.add(path)
    effect = UpdateEffect(constants, frozenset(computed))
    if several:
        return effect, f"Several values were written: {', '.join(map(path_text, several[:_SHOWN_PATHS]))}."
    if paths and paths not in groups:
        return effect, "Several sets of fields were written, and no entry has all of them."
    if any(not shape >= computed for shape in groups):
        return effect, "Some entries lack a part of the fields that were computed."
    return effect, ""


def _fits_as_a_whole(changes: Changes, effect: UpdateEffect) -> bool:
    """Whether an entry that sets documents as a whole leaves every common value that it can be compared with."""
    covered = {path: path for path in effect.paths & changes.keys()}
    covered |= {one: path for path in changes for one in effect.paths if _is_above(path, one)}
    if any(path not in covered.values() for path in changes):
        return False
    return _leaves(changes, {one: effect.constants[one] for one in covered if one in effect.constants})


def _agree(group: _Shape, effect: UpdateEffect) -> bool:
    """Whether all entries of a group have the common values."""
    return all(
        group.values[path].are_one and group.values[path].constant == value
        for path, value in effect.constants.items()
        if path in group.values
    )


def _agreeing(group: _Shape, effect: UpdateEffect) -> Iterable[Tally]:
    if group.forms is None:
        return [group.tally]
    return [tally for form, tally in group.forms.items() if effect.agrees(dict(form))]


def _together(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for one in tallies:
        whole.absorb(one)
    return whole


def _pieces(groups: Iterable[_Shape]) -> list[Tally]:
    """The stretches without a pause, in order."""
    seconds: dict[int, Tally] = {}
    for group in groups:
        for second, tally in group.seconds.items():
            seconds.setdefault(second, Tally()).absorb(tally)
    found: list[Tally] = []
    for _, tally in sorted(seconds.items()):
        if found and tally.begin - found[-1].end <= PAUSE_MILLIS:
            found[-1].absorb(tally)
        else:
            found.append(tally)
    return found


def _by_time(groups: dict[Shape, _Shape]) -> list[tuple[Shape, _Shape]]:
    return sorted(((shape, one) for shape, one in groups.items() if shape), key=lambda pair: pair[1].tally.first)


def _rows(groups: dict[Shape, _Shape], why: str = "") -> Iterable[WriteGroup]:
    """Groups as rows, without their namespace: one for each set of values, or one for all where there are many."""
    for shape, group in _by_time(groups):
        again, forms = _Ids.repeats([group.ids]), group.forms
        if forms is not None and len(forms) <= _SHOWN_PATHS:
            for form, tally in forms.items():
                known = None if again and len(forms) > 1 else tally.entries - again
                row = row_of(_assignments(dict(form), ()), tally, known, why)
                yield replace(row, statement=statement_of(dict(form)))
        else:
            yield _row_of_all(shape, group, why)


def _row_of_all(shape: Shape, group: _Shape, why: str) -> WriteGroup:
    """One row for all values of a group."""
    constants = {path: one.constant for path, one in group.values.items() if one.are_one}
    tally, again = group.tally, _Ids.repeats([group.ids])
    return row_of(_assignments(constants, shape - set(constants)), tally, tally.entries - again, why)


def _disagreeing(groups: dict[Shape, _Shape], effect: UpdateEffect, why: str) -> Iterable[WriteGroup]:
    """The entries with the fields of the effect and other values."""
    for shape, group in _by_time(groups):
        again = _Ids.repeats([group.ids])
        for form, tally in (group.forms or {}).items():
            if not shape.isdisjoint(effect.constants) and not effect.agrees(dict(form)):
                yield row_of(_assignments(dict(form), ()), tally, None if again else tally.entries, why)


def row_of(what: str, tally: Tally, documents: int | None, why: str = "") -> WriteGroup:
    """Entries as a row, without their namespace."""
    ids = tuple(value_text((key[0], key[1:]), _SHOWN_VALUE) for key in tally.samples)
    return WriteGroup("", what, documents, tally.first, tally.last, tally.entries, ids, why)


def _what(effect: UpdateEffect, groups: dict[Shape, _Shape]) -> str:
    return _assignments(effect.constants, effect.computed) if any(groups) else "deleted"


def _assignments(constants: Changes, computed: Iterable[Path]) -> str:
    """``status = "BAD", flag removed, price: different values``."""
    words = [
        f"{path_text(path)} removed" if value is None else _assignment(path, value)
        for path, value in sorted(constants.items())
    ]
    words += [f"{path_text(path)}: different values" if path else "replaced whole" for path in sorted(computed)]
    more = len(words) - _SHOWN_PATHS
    return ", ".join([*words[:_SHOWN_PATHS], *([f"and {more} more fields"] if more > 0 else [])])


def _assignment(path: Path, value: Value) -> str:
    if not path:
        return "replaced whole"
    return (
        f"{path_text(path)} changed within"
        if value == UNKNOWN
        else f"{path_text(path)} = {value_text(value, _SHOWN_VALUE)}"
    )


def _counted(number: int, noun: str) -> str:
    plural = "entries" if noun == "entry" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
