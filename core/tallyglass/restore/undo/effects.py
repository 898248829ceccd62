"""Groups the writes of one sender on one collection by what they do, and says whether they are one statement.

One ``updateMany`` leaves entries that differ: each lacks the paths at which its document had the value already. They
are one group if one of them has all the paths and no two of them differ in a value. All else may be several statements,
and so may writes near which the same client wrote more: see :meth:`WriteGroups.signs_of_another`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise

from tallyglass.moment import Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import UNKNOWN, Changes, Path, Unfit, Value, get
from tallyglass.oplog.entry.wording import path_text, value_text
from tallyglass.restore.model.undo import WriteGroup
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.evidence import KnownStatement, compare_counts, is_same, statement_of
from tallyglass.restore.undo.tally import PAUSE_MILLIS, DocumentIds, ScanOrder, Tally, pieces, together
from tallyglass.restore.undo.values import is_number

_MOST_FORMS = 50
"""Different sets of paths and values of one shape that are counted each."""
_MOST_SHAPES = 500
"""Different sets of paths that are told apart."""
_MOST_BYTES = 16_000_000
"""The values of forms, and the documents that were set as a whole, are kept up to this."""
_SHOWN_PATHS, _SHOWN_VALUE = 6, 60
"""Assignments of a row, and characters of a value: a row fits two or three lines of a terminal of 80 columns."""
_WHOLE = "Whole documents were replaced among them."
_NOT_RUN = "the statement that was named does not do this"
_NOT_THE_FIRST = "the first entry does something else"

Shape = frozenset[Path]
Form = frozenset[tuple[Path, Value | None]]


class Side(Enum):
    """Where an entry stands: before, within or after the span that is looked at."""

    BEFORE = auto()
    INSIDE = auto()
    AFTER = auto()


@dataclass(slots=True)
class _Broad:
    """An entry that sets a document as a whole."""

    changes: Changes
    key: bytes
    ts: Ts
    millis: int


@dataclass(slots=True)
class _WritesAlike:
    """The entries that change the same paths: ``seconds`` counts them by the second, ``forms`` by their values, None
    for many. ``first`` are the values of the first of them; at ``varying`` paths another has another one, and at
    ``texts`` one is no number."""

    first: Changes
    seconds: dict[int, Tally] = field(default_factory=lambda: defaultdict(Tally))
    varying: set[Path] = field(default_factory=set)
    texts: set[Path] = field(default_factory=set)
    forms: dict[Form, Tally] | None = field(default_factory=lambda: defaultdict(Tally))
    broad: list[_Broad] = field(default_factory=list)
    ids: DocumentIds = field(default_factory=DocumentIds)

    def add(self, changes: Changes, key: bytes, ts: Ts, millis: int) -> None:
        """Count an entry, though not by its values, and note where these differ from the first ones."""
        self.seconds[millis // 1_000].add(ts, millis, key=key)
        self.ids.add(key)
        self.varying |= {path for path, value in changes.items() if value == UNKNOWN or value != self.first[path]}
        self.texts |= {path for path, value in changes.items() if not is_number(value)}

    @property
    def tally(self) -> Tally:
        return together(self.seconds.values())

    @property
    def constants(self) -> Changes:
        """The values that all entries have."""
        return {path: value for path, value in self.first.items() if path not in self.varying}

    def having(self, effect: UpdateEffect) -> Tally | None:
        """The entries that have no other than the common values of an effect; None where that is not known."""
        if self.forms is not None:
            return together(tally for form, tally in self.forms.items() if effect.agrees(dict(form)))
        wanted = effect.constants.keys() & self.first.keys()
        if any(self.first[path] != effect.constants[path] for path in wanted - self.varying):
            return Tally()
        return None if wanted & self.varying else self.tally


Groups = dict[Shape, _WritesAlike]


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
        self.inside: Groups = {}
        """The groups with entries within the span."""
        self._outside: dict[Shape, int] = {}
        self._order = ScanOrder()
        self._bytes = 0
        self._left_out = False
        self._whole_left_out = False
        """Whether there were more documents set as a whole than are kept."""

    def feed(self, changes: Changes, key: bytes, ts: Ts, millis: int, side: Side = Side.INSIDE) -> None:
        """Count a write of the document ``key``, a type byte and the bytes of its ``_id``."""
        shape = frozenset(changes)
        if side is not Side.INSIDE:
            shape = shape if shape in self._outside or len(self._outside) < _MOST_SHAPES else frozenset({()})
            self._outside[shape] = self._outside.get(shape, 0) + 1
            return
        group = self.inside.get(shape)
        if group is None:
            if len(self.inside) == _MOST_SHAPES:
                self._left_out = True
                return
            group = self.inside[shape] = _WritesAlike(changes)
        self._order.add(key)
        group.add(changes, key, ts, millis)
        values = [value for value in changes.values() if value is not None]
        size = sum(len(value[1]) for value in values)
        if group.forms is not None:
            form = frozenset(changes.items())
            self._bytes += 0 if form in group.forms else size
            group.forms[form].add(ts, millis, key=key)
            if len(group.forms) > _MOST_FORMS or self._bytes > _MOST_BYTES:
                group.forms = None
        if any(value[0] == walk.DOCUMENT for value in values):
            self._bytes += size
            if self._bytes <= _MOST_BYTES:
                group.broad.append(_Broad(changes, key, ts, millis))
            else:
                self._whole_left_out = True

    @property
    def entries(self) -> int:
        """How many entries are within the span."""
        return sum(group.tally.entries for group in self.inside.values())

    @property
    def documents(self) -> int:
        """How many documents the entries within the span are on."""
        return self.entries - DocumentIds.repeats([group.ids for group in self.inside.values()])

    def signs_of_another(self, effect: UpdateEffect, groups: Groups, *, timed: bool) -> Iterator[str]:
        """Why the entries of some groups may be of more than one statement, though they have one effect; nothing where
        all is one statement by what the oplog shows.

        ``timed`` means that nothing but the time says that one client wrote them: then any other write of the kind
        within a minute may be of the same statement, on documents that had some of its values, and so may each part
        before and after a pause be one of its own. Of a client that is known, only writes to the same paths count.
        """
        near = sum(count for shape, count in self._outside.items() if timed or effect.touches(shape))
        if near:
            noun = "write" if near == 1 else "writes"
            what = "of the same kind" if timed or not effect.paths else "to the same fields"
            yield f"The same client may have sent {near:,} more {noun} {what} within a minute before or after."
        if not timed:
            return
        parts = _pieces(groups)
        if len(parts) > 1:
            longest = max(after.begin - before.end for before, after in pairwise(parts))
            yield f"There are pauses of more than {PAUSE_MILLIS // 1_000} s, the longest of {longest / 1_000:.1f} s."
        yield from _hit_twice(DocumentIds.repeats([one.ids for one in groups.values()]))
        if self._order.starts_over:
            yield "The order of the _ids starts over, as a second statement would."

    def one_statement(self, *, timed: bool) -> AttributedWrites:
        """All writes within the span as one statement, with what speaks against it; ``timed`` as in
        :meth:`signs_of_another`."""
        paths = {path for shape in self.inside for path in shape}
        narrow = {shape: one for shape, one in self.inside.items() if not _has_whole(shape, paths)}
        effect, doubts = _common_effect(narrow, {})
        broad = [one for shape, group in self.inside.items() if shape not in narrow for one in group.broad]
        if self._whole_left_out or not all(_fits_as_a_whole(one.changes, effect) for one in broad):
            doubts.append(_WHOLE)
        if self._left_out:
            doubts.append(f"More than {_MOST_SHAPES} sets of fields were written.")
        doubts += self.signs_of_another(effect, self.inside, timed=timed)
        rows = list(_rows(self.inside)) if len(self.inside) > 1 or doubts else []
        parts = _pieces(self.inside) if timed else []
        rows += [row_of("", one, None) for one in parts] if len(parts) > 1 else []
        tally = together(one.tally for one in self.inside.values())
        what = _what(effect, self.inside)
        updates = effect if any(self.inside) else None
        return AttributedWrites(updates, what, tally, tuple(doubts), tuple(rows), (), self.documents)

    def beginning_with(self, first: Changes) -> AttributedWrites:
        """The writes that do what ``first`` does, which is known to be one of them. Where it sets a whole document, it
        does what the entry does that sets the most parts of it alike."""
        forms = (dict(form) for group in self.inside.values() for form in group.forms or ())
        parts = (one for one in forms if _has_whole(frozenset(first), one))
        first = max((one for one in parts if _fits_as_a_whole(first, UpdateEffect(one))), key=len, default=first)
        widest = frozenset[Path]().union(*(shape for shape in self.inside if shape >= frozenset(first)))
        groups = {shape: one for shape, one in self.inside.items() if shape and shape <= widest}
        effect, doubts = _common_effect(groups, first)
        if effect.computed:  # no values were shown and confirmed
            doubts += self.signs_of_another(effect, groups, timed=True)
        return self._attributed(effect, groups, doubts, _NOT_THE_FIRST)

    def explained_by(self, evidence: KnownStatement) -> AttributedWrites:
        """The writes that a statement explains, all of them where its text is not known. Without a count, what speaks
        against one statement is a doubt."""
        if evidence.deletes or not evidence.text:
            return self._explained_by_count(evidence)
        paths = {*evidence.constants, *evidence.computed}
        groups = {
            shape: one for shape, one in self.inside.items() if shape and evidence.always <= shape and shape <= paths
        }
        written = {path: list(_written(groups.values(), path)) for path in evidence.constants}
        effect = evidence.effect(written)
        found = self._attributed(effect, groups, [], _NOT_RUN)
        doubts = [*found.doubts, *compare_counts(found.tally.entries, evidence)]
        if found.tally.entries == evidence.count and found.documents is not None:
            doubts += _hit_twice(found.tally.entries - found.documents)
        if evidence.count is None:
            doubts += self.signs_of_another(effect, groups, timed=True)
            for path, value in effect.constants.items():
                if any(one != value and is_same(one, value) for one in written[path]):
                    doubts.append(f"{path_text(path)} was written with numbers of several types, as by two programs.")
        return replace(found, doubts=tuple(doubts), groups=tuple(_rows(groups)) if doubts else ())

    def _explained_by_count(self, evidence: KnownStatement) -> AttributedWrites:
        """The writes of a statement that does not say which values it writes: how many there are decides."""
        found = self.one_statement(timed=evidence.count is None)
        entries = found.tally.entries
        fits = entries == evidence.count
        twice = list(_hit_twice(entries - self.documents)) if fits and evidence.text else []
        if fits and not (self._left_out or twice):
            return replace(found, doubts=(), groups=())  # nothing else was written
        return replace(found, doubts=(*found.doubts, *twice, *compare_counts(entries, evidence)))

    def _attributed(self, effect: UpdateEffect, groups: Groups, doubts: Sequence[str], why: str) -> AttributedWrites:
        """The entries of some groups that have the effect, also where they set a document as a whole; the others are
        left out for this reason."""
        parts = [(group, found) for group in groups.values() if (found := group.having(effect)) is not None]
        if len(parts) < len(groups):
            doubts = [*doubts, "There are too many different values to tell those of the statement."]
        if self._whole_left_out:
            doubts = [*doubts, _WHOLE]
        parts = [(group, found) for group, found in parts if found.entries]
        tally, whole = together(found for _, found in parts), DocumentIds()
        for shape, group in self.inside.items():
            for one in group.broad if shape not in groups else ():
                if _fits_as_a_whole(one.changes, effect):
                    tally.add(one.ts, one.millis, key=one.key)
                    whole.add(one.key)
        again = DocumentIds.repeats([*(group.ids for group, _ in parts), whole])
        left = _rows({shape: one for shape, one in self.inside.items() if shape not in groups}, why, effect)
        rows = tuple(_rows(groups)) if doubts else ()
        return AttributedWrites(
            effect,
            _what(effect, groups),
            tally,
            tuple(doubts),
            rows,
            (*left, *_disagreeing(groups, effect, why)),
            None
            if again and any(group.tally.entries > found.entries for group, found in parts)
            else tally.entries - again,
        )


def _common_effect(groups: Groups, first: Changes) -> tuple[UpdateEffect, list[str]]:
    """The effect that all groups have, and why they may have several. Where a path has several values, that of
    ``first`` counts; numbers may have been computed by one formula, which the run tells by the documents before."""
    constants: Changes = {}
    several = set[Path]()
    for group in groups.values():
        several |= {path for path, value in group.first.items() if constants.setdefault(path, value) != value}
        several |= group.varying
    texts = several & set[Path]().union(*(group.texts for group in groups.values()))
    chosen = {path: first[path] for path in texts & first.keys() if first[path] != UNKNOWN}
    computed = several - chosen.keys()
    constants = {path: value for path, value in (constants | chosen).items() if path not in computed}
    effect = UpdateEffect(constants, frozenset(computed))
    if computed & texts or any(not computed <= shape for shape in groups):
        named = ", ".join(path_text(path) or "whole documents" for path in sorted(computed)[:_SHOWN_PATHS])
        return effect, [f"Several values were written: {named}."]
    if effect.paths and effect.paths not in groups:
        return effect, ["Several sets of fields were written, and no entry has all of them."]
    return effect, []


def _has_whole(shape: Shape, paths: Iterable[Path]) -> bool:
    """Whether entries of a shape set something as a whole of which there are paths to a part."""
    return any(len(path) < len(one) and one[: len(path)] == path for one in paths for path in shape)


def _fits_as_a_whole(changes: Changes, effect: UpdateEffect) -> bool:
    """Whether an entry that sets documents as a whole leaves every common value that it can be compared with."""
    home = {one: path for path in changes for one in effect.paths if one[: len(path)] == path}
    if any(path not in home.values() for path in changes):
        return False
    wanted = {one: effect.constants[one] for one in home if one in effect.constants}
    return all(_below(changes[home[one]], one[len(home[one]) :]) == value for one, value in wanted.items())


def _below(value: Value | None, path: Path) -> Value | None:
    """The value at a path in a document; None where it is none, or has one field name twice."""
    if not path:
        return value
    with suppress(Unfit):
        return get(value[1], path) if value is not None and value[0] == walk.DOCUMENT else None
    return None


def _written(groups: Iterable[_WritesAlike], path: Path) -> Iterator[Value | None]:
    """The values at a path, one at least of each group that has it."""
    for group in groups:
        if path in group.first:
            yield group.first[path]
            yield from (dict(form)[path] for form in group.forms or ())


def _hit_twice(repeats: int) -> Iterator[str]:
    if repeats:
        times = "1 time" if repeats == 1 else f"{repeats:,} times"
        yield f"Documents were hit twice, {times}; one statement hits a document once."


def _pieces(groups: Groups) -> list[Tally]:
    return pieces(pair for group in groups.values() for pair in group.seconds.items())


# Rows


def _rows(groups: Groups, why: str = "", but: UpdateEffect | None = None) -> Iterator[WriteGroup]:
    """Groups as rows, without their namespace: one for each set of values, or one for all where there are many; none
    for documents that were set as a whole by the effect ``but``."""
    for shape, group in _by_time(groups):
        again, forms, tally = DocumentIds.repeats([group.ids]), group.forms, group.tally
        if forms is not None and len(forms) <= _SHOWN_PATHS:
            for form, some in forms.items():
                if group.broad and but is not None and _fits_as_a_whole(dict(form), but):
                    continue
                known = None if again and len(forms) > 1 else some.entries - again
                row = row_of(_assignments(dict(form), ()), some, known, why)
                yield replace(row, statement=statement_of(dict(form)))
        else:
            constants = group.constants
            what = _assignments(constants, shape - constants.keys())
            yield row_of(what, tally, tally.entries - again, why)


def _disagreeing(groups: Groups, effect: UpdateEffect, why: str) -> Iterator[WriteGroup]:
    """The entries with the fields of the effect and other values."""
    for _, group in _by_time(groups):
        again = DocumentIds.repeats([group.ids])
        for form, tally in (group.forms or {}).items():
            if not effect.agrees(dict(form)):
                yield row_of(_assignments(dict(form), ()), tally, None if again else tally.entries, why)


def _by_time(groups: Groups) -> list[tuple[Shape, _WritesAlike]]:
    return sorted(((shape, one) for shape, one in groups.items() if shape), key=lambda pair: pair[1].tally.first)


def row_of(what: str, tally: Tally, documents: int | None, why: str = "") -> WriteGroup:
    """Entries as a row, without their namespace."""
    ids = tuple(value_text((key[0], key[1:]), _SHOWN_VALUE) for key in tally.samples)
    return WriteGroup("", what, documents, tally.first, tally.last, tally.entries, ids, why)


def _what(effect: UpdateEffect, groups: Groups) -> str:
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
    if value == UNKNOWN:
        return f"{path_text(path)} changed within"
    return f"{path_text(path)} = {value_text(value, _SHOWN_VALUE)}"
