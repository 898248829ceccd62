"""Counters that would hand out an id twice after the restore, and the fix.

A counter's value at the point is its value in the backup, carried forward through the oplog up to the limit. What
was issued since is the last of its direction that the oplog shows after the point, or the live value. After the return
the live counter must not be before any of the three: a counter that was dropped or set back, and that the application
started again at 1, would hand out every id a second time. How it moves is decided as for ``repair``: one that descends
is lowered, and one that starts again, or rises and falls, is left to a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId

from tallyglass.counters.follow.restarts import MOST_FALLS, Decrease, intended_reset, movement_of
from tallyglass.counters.history.oplog_samples import value_after
from tallyglass.counters.numbers import as_number, numeric_type
from tallyglass.counters.recognise.identity import id_text, label_of
from tallyglass.counters.standing import Movement
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Document
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.model.proof import Reissue
from tallyglass.restore.proof.counter_fix import Fix
from tallyglass.restore.tools import mongosh
from tallyglass.restore.undo.counter_paths import sure
from tallyglass.text import clean_name


@dataclass(slots=True)
class SeenNumber:
    """One number: ``restored`` is its value at the point, ``issued`` the greatest one since, ``now`` the live one.

    Each is None where there is none. ``least`` is the smallest one issued since. ``label`` names the counter in its
    collection: documents of libraries that keep the name in a field, under an ObjectId, are the same counter where it
    is the same. ``last``, ``rose`` and ``falls`` are how it moved in the oplog.
    """

    ns: str
    id: Any
    path: str
    restored: Any = None
    issued: Any = None
    now: Any = None
    live: bool = False
    label: str = ""
    least: Any = None
    last: Any = None
    rose: bool = False
    falls: list[Decrease] = field(default_factory=list)

    @property
    def movement(self) -> Movement:
        """How it moves, as far as the oplog shows it."""
        if self.falls and intended_reset(self.falls, 0, cycle=False, resets=None, top=None):
            return Movement.CYCLES
        return movement_of(self.rose, self.falls)

    @property
    def is_unclear(self) -> bool:
        """Whether it may not be moved: it starts again, rises and falls, or fell by a step or two and may descend."""
        a_step = bool(self.falls) and all(fall.high - fall.low == 1 for fall in self.falls)
        movement = self.movement
        return movement in (Movement.CYCLES, Movement.MIXED) or (movement is Movement.UNSEEN and a_step)

    @property
    def furthest(self) -> Any:
        """What the counter must not be before afterwards; None where nothing is known of it."""
        if self.movement is Movement.DESCENDS:
            return smaller(self.restored, self.least)
        return greater(self.restored, self.issued)

    @property
    def is_behind(self) -> bool:
        """Whether the copy on the spare or the live counter is before that. A counter that is missing in one of them is
        not, unless it is missing in both: the return brings it back with its value."""
        held = [value for value in (self.restored, self.now) if value is not None]
        return not held or any(self._is_before(value) for value in held)

    @property
    def was_lowered(self) -> bool:
        """Whether the live counter is before that."""
        return self.now is not None and self._is_before(self.now)

    def _is_before(self, value: Any) -> bool:
        number, furthest = as_number(value), as_number(self.furthest)
        return number > furthest if self.movement is Movement.DESCENDS else number < furthest

    def issue(self, value: Any) -> None:
        """Record a value that it had after the point."""
        self.issued, self.least = greater(self.issued, value), smaller(self.least, value)

    def move(self, at: int, value: Any) -> None:
        """Record a value that it had at a moment of the oplog (seconds since 1970)."""
        if self.last is not None:
            before, number = as_number(self.last), as_number(value)
            self.rose |= number > before
            if number < before:
                self.falls = [*self.falls[-MOST_FALLS:], Decrease(at, before, number)]
        self.last = value


@dataclass(slots=True)
class CounterFacts:
    """What the search yields; ``unknown`` names what could not be determined. ``paths`` are the numbers of counters,
    by the stored namespace."""

    fixes: tuple[Fix, ...] = ()
    unknown: tuple[str, ...] = ()
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Reissue, ...]:
        """Those that are known to hand out ids again, as they are shown."""
        return tuple(fix.row for fix in self.fixes if fix.needed)


@dataclass(slots=True)
class CounterSearch:
    """All numbers of the counter collections that changed after the point, by namespace, id and path."""

    limit: Ts
    names: Mapping[bytes, str] = field(default_factory=dict)
    """The names that collections have at the point, by UUID: a rename before or after it does not lose a counter."""
    seen: dict[tuple[str, bytes, str], SeenNumber] = field(default_factory=dict)
    paths: dict[str, set[str]] = field(default_factory=dict)

    def observe(self, ns: str, key: bytes, document: Document) -> list[SeenNumber]:
        """The numbers in a whole document, if it is a counter of a known library."""
        found = []
        for match in sure(ns, document):
            self.paths.setdefault(ns, set()).add(match.path)
            where = (ns, key, match.path)
            label = label_of(match.shape, match.path, document)
            found.append(self.seen.setdefault(where, SeenNumber(ns, document.get("_id"), match.path, label=label)))
        return found

    def apply(self, operation: Entry, whole: Entry) -> None:
        """Carry the values over one operation that takes effect with ``whole``."""
        before = whole.ts < self.limit
        if before and self.names and operation.ui and operation.ui not in self.names:
            return  # of a collection that does not exist at the point any more
        ns = self.names.get(operation.ui, operation.ns)
        if operation.op == "c":
            if before and operation.command in ("drop", "dropDatabase"):
                self._forget(operation)
            return
        key = operation.id_key
        if operation.op == "i":
            self.observe(ns, key, operation.o)
        for path in self.paths.get(ns, ()):
            one = self.seen.get((ns, key, path))
            if one is None:
                continue
            if operation.op == "d":
                one.restored, one.last = None if before else one.restored, None
                continue
            value = value_after(operation, path)
            if numeric_type(value) is None:
                continue
            if not before and one.last is None:
                one.last = one.restored
            # A new document starts again: that is no decrease.
            one.last = None if operation.op == "i" else one.last
            one.move(whole.ts.t, value)
            if before:
                one.restored = value
            else:
                one.issue(value)

    def _forget(self, command: Entry) -> None:
        target = command.o.get(command.command)
        for one in self.seen.values():
            db, _, name = one.ns.partition(".")
            if db == command.db and (command.command == "dropDatabase" or name == target):
                one.restored = None


def smaller(one: Any, other: Any) -> Any:
    """The smaller of two numbers of any BSON type; None is greater than any."""
    if one is None or (other is not None and as_number(other) < as_number(one)):
        return other
    return one


def greater(one: Any, other: Any) -> Any:
    """The greater of two numbers of any BSON type; None is less than any."""
    if one is None or (other is not None and as_number(other) > as_number(one)):
        return other
    return one


def result_of(search: CounterSearch, unknown: list[str]) -> CounterFacts:
    """What the search yields, once all values are known."""
    unknown += _raise_namesakes(search.seen.values())
    fixes = [
        Fix(one.ns, row, one.restored is not None, one.live, one.is_behind, one.was_lowered)
        for one in search.seen.values()
        if (row := _row(one, unknown)) is not None
    ]
    fixes.sort(key=lambda fix: (fix.row.ns, fix.row.id, fix.row.field))
    paths = {ns: tuple(sorted(found)) for ns, found in search.paths.items()}
    unknown += [
        f"{clean_name(ns)} has a number under a name that no update can reach"
        for ns, found in paths.items()
        if not all(map(_is_reachable, found))
    ]
    reachable = {ns: tuple(filter(_is_reachable, found)) for ns, found in paths.items()}
    return CounterFacts(tuple(fixes), tuple(unknown), reachable)


def _is_reachable(path: str) -> bool:
    """Whether a path means the same in a pipeline: no step is empty or begins with a dollar."""
    return all(step and not step.startswith("$") for step in path.split("."))


def _raise_namesakes(seen: Iterable[SeenNumber]) -> list[str]:
    """Give documents that are one counter under several ObjectIds the greatest value of them all."""
    groups: dict[tuple[str, str, str], list[SeenNumber]] = {}
    for one in seen:
        if one.label and isinstance(one.id, ObjectId):
            groups.setdefault((one.ns, one.path, one.label), []).append(one)
    words = []
    for (ns, _, label), same in groups.items():
        if len(same) < 2:
            continue
        for value in [value for one in same for value in (one.restored, one.issued, one.least) if value is not None]:
            for one in same:
                one.issue(value)
        if any(one.restored is not None and not one.live for one in same) and any(one.live for one in same):
            words.append(
                f"{clean_name(ns)} has another document for {clean_name(label)} now; if both are there "
                "after the return, remove the older one"
            )
    return words


def _row(one: SeenNumber, unknown: list[str]) -> Reissue | None:
    least = one.furthest
    made = one.restored is None and not one.live
    if least is None or (one.live and not one.is_behind):
        return None
    shown = f"{clean_name(one.ns)} {id_text(one.id)}"
    if one.is_unclear:
        how = "starts again" if one.movement is Movement.CYCLES else "fell, and may not count up"
        now = "it is missing" if one.now is None else f"it is {one.now}"
        was = "not there" if one.restored is None else one.restored
        unknown.append(f"{shown} {how}: set it manually after the return ({now} now, {was} at the point)")
        return None
    if not mongosh.has_literal(one.id):
        unknown.append(f"{shown} must be set to {least} manually: mongosh has no literal for its id")
        return None
    query = {"_id": one.id, "$or": [{one.path: {"$type": "number"}}, {one.path: None}]}
    change = {"$min" if one.movement is Movement.DESCENDS else "$max": {one.path: least}}
    if made and isinstance(one.id, ObjectId):
        unknown.append(f"{shown} was made and removed after the point: if it comes again, start it above {least}")
        return None
    return Reissue(
        ns=clean_name(one.ns),
        id=id_text(one.id),
        field=clean_name(one.path),
        restored=None if one.restored is None else as_number(one.restored),
        live=as_number(least),
        fix=mongosh.update_one(one.ns, query, change, upsert=made),
    )
