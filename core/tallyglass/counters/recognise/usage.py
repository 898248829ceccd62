"""Recognises counters by usage: matches the updates of a number with the inserts that follow. Pure.

A sequence differs from every other rising number in one way: its new value appears moments later in an inserted
document. Small numbers often match by coincidence, so three filters apply: the target must have nearly as many
distinct values as were issued, the match must be one of the next few inserts there, and a target belongs to one
counter only.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from operator import attrgetter
from statistics import median, mode
from typing import NamedTuple

from tallyglass.counters.forecast.series import DAY
from tallyglass.counters.limits import INT32_MAX
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.finding import DOUBTED_AFTER, UsageFinding
from tallyglass.counters.recognise.identity import identity_of, resembles
from tallyglass.counters.snapshot import Grade, NumericType, Semantics
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean_name, plural

WINDOW_SECONDS = 2.0
"""An issued id must be inserted within this time to count as a match."""

LATE_SECONDS = 30.0
"""Of large numbers that is not needed: they are used when a form is complete, or a job has run."""

_LARGE = 1_000
"""From here on a number is in another field by chance so rarely that it may be found later than at once."""

_CERTAIN_ISSUES, _CERTAIN_SHARE, _CERTAIN_SECONDS = 5, 0.8, 10.0
"""Use is certain if so many issues and this share of all were found, over so many seconds: not in one batch."""

_LIKELY_ISSUES, _LIKELY_SHARE = 3, 0.6
"""Use is likely if so many issues, or ranges, and this share of all were found."""

_SMALL, _SMALL_ISSUES, _SMALL_DIFFERENT = 100, 10, 3
"""Quantities and flags match by chance: below ``_SMALL``, so many issues of so many values must be found."""

_CONSTANT_STEP = 0.8
"""The step is constant if so large a share of the changes is equal: some updates between two readings are missing."""

_MOST_RANK = 3
"""An issued id is among this many next inserts of its collection in the median; a later match may be chance."""

_SPREAD = 0.8
"""The share of different values in a field of ids, divided by two where several documents feed it."""

_RANGE_SPREAD = 0.95
"""The share of different values in a field where ranges, blocks or late ids are sought: nearly all, so an id field."""

_LEAST_RANGE, _MOST_RANGE = 2, 2_000
"""The sizes of a range that is sought, in ids: one id is found directly, and more would not be inserted in a minute."""

_MOST_APART = 1_000
"""The most counters that take turns in one field are sought, each with a step of so many."""

_CERTAIN_RANGES, _LIKELY_RANGES = 3, 2
"""So many ranges, or blocks, that were found make the use certain, or likely: each is several ids."""

_RANGE_SEEN = 0.8
"""A range was found if this share of its ids was inserted: the rest is burned, or inserted later."""

_OTHER_ISSUES, _OTHER_SHARE = 5, 0.3
"""A document with so many issues, of which less than this share was found, is of another kind than the others."""

LEAST_APART = 10
"""One document among others whose ids were not found needs so many of its own: of hundreds of page views that rise as
fast as ids are handed out, a few match by chance."""

_RESTARTS = 0.1
"""A sequence starts again in at most this share of its issues; what does so more often is a gauge."""

_OPEN_ISSUES = 3
"""So many issues without a match, with the inserts read, say that a number is not used as an id."""

_CYCLES, _LEAST_CYCLE = 2, 5
"""A sequence that cycles was seen to start again so often, and has so many different ids."""

_FALLS_ONCE_IN, _CORRECTED_ONCE_IN = 10, 100
"""A sequence is set back by hand once in so many issues: the first time, and again. Stock falls with each sale."""

_FEW_FALL = 1 / 3
"""Up to this share of the documents may rise and fall, or have fractions: of more, each other one counts for itself."""

_CLOCKS_DIFFER, _CLOCK_SHARE = 2.0, 0.1
"""Times that are written advance as the clock does, but for seconds of rounding and a tenth."""

_LEAST_HI, _LEAST_BLOCK = 2, 10
"""The least "hi" of hi/lo whose block tells, since anything is a block of 1, and the least ids of a block."""

Moment = tuple[int, int, int]
"""The position of an operation in the oplog: seconds, ordinal in the second, ordinal in its transaction."""


class Update(NamedTuple):
    """One new value of a number. ``run`` is its period of the oplog; between periods updates are missing."""

    at: Moment
    wall: float
    run: int
    value: int | float
    text: bool
    returned: bool
    """The writer requested the document, as id allocators do."""


class Insert(NamedTuple):
    """One value in a document that was inserted."""

    at: Moment
    wall: float
    value: int


Key = tuple[Namespace, str]
"""A collection and a path in its documents."""

Documents = Mapping[Hashable, Sequence[Update]]
"""The updates of one number by document."""


@dataclass(slots=True)
class InsertedField:
    """The values inserted into one field, in order; ``kinds`` counts those below 2^31 by stored type."""

    inserts: list[Insert] = field(default_factory=list)
    by_value: dict[int, list[Insert]] = field(default_factory=lambda: defaultdict(list))
    kinds: Counter[NumericType] = field(default_factory=Counter)

    def add(self, insert: Insert, kind: NumericType = NumericType.INT32) -> None:
        """Add the next insert."""
        self.inserts.append(insert)
        self.by_value[insert.value].append(insert)
        if insert.value <= INT32_MAX:
            self.kinds[kind] += 1

    @property
    def has_int64_ids(self) -> bool:
        """Whether the writer stores small numbers in 64 bits too, so that it does not hold them in 32."""
        return set(self.kinds) == {NumericType.INT64}

    def spread(self) -> float:
        """The share of different values."""
        return len(self.by_value) / len(self.inserts) if self.inserts else 0.0


@dataclass(slots=True)
class Evidence:
    """Everything read: updates by number and document, inserts by field, and the periods of the inserts."""

    updates: dict[Key, dict[Hashable, list[Update]]] = field(default_factory=dict)
    targets: dict[Key, InsertedField] = field(default_factory=dict)
    inserted: dict[Namespace, list[Moment]] = field(default_factory=lambda: defaultdict(list))
    probes: list[tuple[Moment, Moment]] = field(default_factory=list)

    def covers(self, at: Moment, until: Moment | None = None) -> bool:
        """Whether the inserts after a moment were read, and on to another one if it is given."""
        return any(start <= at and (until or at)[0] + 1 <= end[0] for start, end in self.probes)


@dataclass(slots=True)
class _Hit:
    """Where the values of one counter document were found: matched issues, their ranks and latencies."""

    values: set[int] = field(default_factory=set)
    inserts: set[Moment] = field(default_factory=set)
    ranks: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    issues: set[Moment] = field(default_factory=set)

    def add(self, update: Update, insert: Insert, rank: int) -> None:
        self.issues.add(update.at)
        self.values.add(insert.value)
        self.inserts.add(insert.at)
        self.ranks.append(rank)
        self.latencies.append(max(0.0, insert.wall - update.wall))

    def matched(self, moves: _Behaviour) -> int:
        """How many issues were found: a number that was issued twice counts once, unless it cycles."""
        return len(self.ranks) if moves.cycles else len(self.values)


@dataclass(slots=True)
class _Behaviour:
    """How the values of one number change, over all its documents."""

    issues: int = 0
    steps: Counter[int] = field(default_factory=Counter)
    falls: int = 0
    restarts: int = 0
    fractions: bool = False
    text: bool = False
    epoch: bool = False
    cycles: bool = False
    returned: int = 0

    def add(self, updates: Sequence[Update]) -> None:
        """Add the changes in one document."""
        self.epoch |= _is_time(updates)
        rises: Counter[int] = Counter()
        changes: list[tuple[int, int, int]] = []
        before: Update | None = None
        for update in updates:
            if isinstance(update.value, float):
                self.fractions = True
                continue
            if before is not None and update.value == before.value:
                continue
            self.issues += 1
            self.text |= update.text
            self.returned += update.returned
            if before is not None:
                change = int(update.value) - int(before.value)
                if change > 0 and before.run == update.run:
                    rises[change] += 1
                elif change < 0:
                    changes.append((change, int(before.value), int(update.value)))
            before = update
        if not rises and changes and len({change for change, _, _ in changes}) <= 2:
            # Only decreases of one size: the number descends.
            self.steps.update(change for change, _, _ in changes)
            return
        self.steps.update(rises)
        # One that cycles goes back from the same number to the same, again and again.
        cycles = len(changes) >= _CYCLES and len({(high, low) for _, high, low in changes}) == 1
        self.cycles |= cycles
        for change, high, low in changes:
            # A restart drops almost the whole count; stock and balances drop a little.
            if -change >= 0.9 * abs(high) or low <= 1 or cycles:
                self.restarts += 1
            else:
                self.falls += 1

    @property
    def step(self) -> int:
        """The most frequent step; of those up if some documents rise and others descend."""
        return max(self.steps, key=lambda step: (step > 0, self.steps[step]), default=1)

    @property
    def constant(self) -> bool:
        total = sum(self.steps.values())
        return bool(total) and self.steps[self.step] / total >= _CONSTANT_STEP

    @property
    def only_rises(self) -> bool:
        restarts_rarely = self.cycles or self.restarts <= max(1, _RESTARTS * self.issues)
        return not self.fractions and not self.falls_often and restarts_rarely

    @property
    def falls_often(self) -> bool:
        """Whether the value decreased more often than corrections by hand explain."""
        return self.falls * (_FALLS_ONCE_IN if self.falls == 1 else _CORRECTED_ONCE_IN) > self.issues

    @property
    def only_falls(self) -> bool:
        return not self.fractions and bool(self.steps) and all(step < 0 for step in self.steps) and self.constant


def _behaviour_of(documents: Iterable[Sequence[Update]]) -> _Behaviour:
    """How a number changes, over these of its documents."""
    found = _Behaviour()
    for updates in documents:
        found.add(updates)
    return found


class _Number(NamedTuple):
    """A number whose use is sought: its place, its updates, and how these change it. ``is_whole``: its documents may be
    of one sequence, or of many alike, so that what is found of some says something about the others."""

    ns: Namespace
    path: str
    documents: Documents
    moves: _Behaviour
    is_whole: bool = True

    @property
    def name(self) -> str:
        """The path as text, safe to show."""
        return clean_name(self.path, 60)

    def finding(self, grade: Grade, why: str) -> UsageFinding:
        """What is known of it without a target."""
        moves = self.moves
        return UsageFinding(
            self.ns, self.path, grade, step=moves.step, text=moves.text, issues=moves.issues, evidence=why
        )


class Ranked(NamedTuple):
    """A finding, its rank among those with one target, of which the least owns it, and the inserts of its ids."""

    finding: UsageFinding
    rank: tuple[float, float] = (0.0, 0.0)
    inserts: frozenset[Moment] = frozenset()


def _is_time(updates: Sequence[Update]) -> bool:
    """Whether the values are times: near the clock and as far apart as the updates. A counter may be near by chance."""
    for unit in (1, 1_000):
        near = [update for update in updates if abs(update.value / unit - update.at[0]) < DAY]
        if near:
            change, elapsed = near[-1].value - near[0].value, near[-1].at[0] - near[0].at[0]
            return abs(change / unit - elapsed) <= _CLOCKS_DIFFER + _CLOCK_SHARE * elapsed
    return False


def _number(key: Key, every: Documents) -> _Number:
    """A number without the documents in which it is none of a counter: it rises and falls, or has fractions. Where
    these are not few, only with those that may be a counter each for itself, if there are any."""
    moves = {name: _behaviour_of([updates]) for name, updates in every.items()}
    kept = {name for name, found in moves.items() if not (found.falls_often or found.fractions)}
    is_whole = len(every) - len(kept) <= _FEW_FALL * len(every)
    if not is_whole:
        kept = {name for name in kept if moves[name].issues >= LEAST_APART and moves[name].constant}
    documents = {name: updates for name, updates in every.items() if name in kept} or every
    return _Number(*key, documents, _behaviour_of(documents.values()), is_whole)


def _is_restless(updates: Sequence[Update]) -> bool:
    """Whether enough was seen of a number to say that it rises and falls, or has fractions."""
    moves = _behaviour_of([updates])
    return moves.fractions or (moves.falls_often and moves.issues >= DOUBTED_AFTER)


def may_be_late(value: float) -> bool:
    """Whether a number is large enough to be recognised when it is used later than at once."""
    return value >= _LARGE


def candidates(evidence: Evidence) -> list[Key]:
    """The numbers that change as a sequence does, the least frequently updated first."""
    keys: list[tuple[int, Key]] = []
    for key, documents in evidence.updates.items():
        moves = _number(key, documents).moves
        if moves.issues and not moves.epoch and (moves.only_rises or moves.only_falls):
            keys.append((moves.issues, key))
    return [key for _, key in sorted(keys, key=lambda row: row[0])]


def findings(evidence: Evidence) -> list[UsageFinding]:
    """One finding for each number that was updated."""
    numbers = {key: _number(key, every) for key, every in evidence.updates.items()}
    ranked = {key: _graded(evidence, number) for key, number in numbers.items() if number.moves.issues}
    claims: dict[IdField, list[Key]] = defaultdict(list)
    for key in sorted(ranked, key=lambda key: (ranked[key].rank, key)):
        for target in ranked[key].finding.claims:
            claims[target].append(key)
    owners = {target: _owners(keys, ranked) for target, keys in claims.items()}
    found: dict[Key, UsageFinding] = {}
    for key, (finding, *_) in ranked.items():
        taken: set[Namespace] = set()
        while finding.claims and not [one for one in finding.claims if key in owners.setdefault(one, [key])]:
            taken |= {target.ns for target in finding.claims}
            other = _direct(evidence, numbers[key], without=taken)
            none = numbers[key].finding(Grade.OPEN, "Another counter matches these ids better.")
            finding = other.finding if other else none
        mine = tuple(target for target in finding.targets if key in owners[target])
        own = tuple(row for row in finding.by_document if owners[row[1]] == [key])
        found[key] = replace(finding, targets=mine, by_document=own)
    return [_with_documents(finding, evidence.updates[key], numbers[key]) for key, finding in found.items()]


def _owners(keys: Sequence[Key], ranked: Mapping[Key, Ranked]) -> list[Key]:
    """Of numbers with one target the first, and those of its collection whose ids are in other inserts: an array of
    counters, say, or one document with a counter for each tenant."""
    owners, explained = [keys[0]], set(ranked[keys[0]].inserts)
    for key in keys[1:]:
        inserts = ranked[key].inserts
        if inserts and key[0] == keys[0][0] and 2 * len(inserts & explained) <= len(inserts):
            owners.append(key)
            explained |= inserts
    return owners


def _with_documents(finding: UsageFinding, every: Mapping[Hashable, Sequence[Update]], number: _Number) -> UsageFinding:
    """With the documents that are not of this sequence, and those whose numbers rise and fall."""
    return replace(
        finding,
        others=finding.others.union(_named(every.keys() - number.documents.keys())),
        restless=frozenset(name for name in _named(every) if _is_restless(every[name])),
    )


def _named(documents: Iterable[Hashable]) -> list[str]:
    """The documents whose ``_id`` is a text: only these are told apart."""
    return [name for name in documents if isinstance(name, str)]


def _graded(evidence: Evidence, number: _Number) -> Ranked:
    moves = number.moves
    if moves.epoch:
        return Ranked(number.finding(Grade.UNLIKELY, "Its values are timestamps."))
    if moves.fractions or (moves.falls_often and not moves.only_falls):
        why = "It has fractions." if moves.fractions else "It rises and falls."
        return Ranked(number.finding(Grade.UNLIKELY, why))
    found = number.is_whole and (
        _direct(evidence, number)
        or _ranges(evidence, number)
        or _blocks(evidence, number)
        or _direct(evidence, number, LATE_SECONDS)
    )
    found = found or _apart(evidence, number)
    if found:
        return found
    why = f"None of {plural(moves.issues, 'observed value')} was found in a document inserted shortly afterwards."
    # Without inserts in the same period, a missing match proves nothing.
    used = any(other.db == number.ns.db and other != number.ns for other in evidence.inserted)
    looked_for = min(moves.issues, _covered(evidence, number.documents))
    return Ranked(number.finding(Grade.OPEN if used and looked_for >= _OPEN_ISSUES else Grade.POSSIBLE, why))


def _covered(evidence: Evidence, documents: Documents) -> int:
    return sum(evidence.covers(update.at) for updates in documents.values() for update in updates)


class _Issue(NamedTuple):
    """The ids that an update hands out if its number has this meaning; they are inserted from ``since`` on."""

    update: Update
    semantics: Semantics
    ids: range
    since: Moment


def _issues(evidence: Evidence, updates: Sequence[Update], step: int, sizes: range | None = None) -> Iterable[_Issue]:
    """One id by each new value of a number without fractions: that value, or the one before it. With ``sizes`` all ids
    between the two, where they are so many and their inserts were read."""
    changed = [next(same) for _, same in groupby(updates, key=attrgetter("value"))]
    for before, update, following in zip([None, *changed], changed, [*changed[1:], None], strict=False):
        known = before is not None and before.run == update.run
        value = int(update.value)
        earlier = int(before.value) if known and before is not None else value - step
        size, since = 1, update.at
        if sizes is not None:
            size, since = value - earlier, before.at if before is not None else since
            # They are used one after the other until the next ones are taken.
            until = update.at if following is None else max(update.at, (following.at[0] - 1, 0, 0))
            if not (known and size in sizes and evidence.covers(update.at, until)):
                continue
        yield _Issue(update, Semantics.LAST, range(value + 1 - size, value + 1), since)
        yield _Issue(update, Semantics.NEXT, range(earlier, earlier + size), since)


Hits = dict[tuple[Key, Semantics], _Hit]


class _Use(NamedTuple):
    """Where the ids of one document are used, the field with most of them first, and what they mean."""

    targets: tuple[Key, ...]
    semantics: Semantics
    hit: _Hit


def _explained(
    evidence: Evidence, fields: Sequence[tuple[Key, InsertedField]], issues: Iterable[_Issue], seconds: float = math.inf
) -> Hits:
    """Where ids were inserted within ``seconds``, by field and meaning: the issues of which most ids were found."""
    hits: Hits = defaultdict(_Hit)
    for issue, (key, target) in product(issues, fields):
        ids = [number for number in issue.ids if number in target.by_value]
        if len(ids) < _RANGE_SEEN * len(issue.ids):
            continue
        found = [one for number in ids if (one := _first_insert(target, number, issue.since, seconds))]
        if len(found) >= _RANGE_SEEN * len(issue.ids):
            first = min(found, key=attrgetter("wall"))
            moments = evidence.inserted[key[0]]
            rank = bisect_left(moments, first.at) - bisect_left(moments, issue.update.at)
            hits[key, issue.semantics].add(issue.update, first, max(0, rank))
    return hits


def _first_insert(target: InsertedField, number: int, since: Moment, seconds: float = math.inf) -> Insert | None:
    """The first insert of a number in the transaction of ``since`` or after it, if it came within ``seconds``."""
    for insert in target.by_value.get(number, ()):
        if insert.at[:2] >= since[:2]:
            return insert if insert.at[0] - since[0] <= seconds else None
    return None


def _unique_fields(evidence: Evidence, ns: Namespace) -> list[tuple[Key, InsertedField]]:
    """The fields of other collections in which nearly all values differ."""
    return [row for row in evidence.targets.items() if row[0][0] != ns and row[1].spread() >= _RANGE_SPREAD]


def _direct(
    evidence: Evidence, number: _Number, seconds: float = WINDOW_SECONDS, without: Collection[Namespace] = ()
) -> Ranked | None:
    """The values themselves were found: the best target of each document, then the sum over all documents.

    Targets in the collections ``without`` are another counter's. Beyond the usual time the next inserts may be of
    other ids, so that only large and unique numbers count.
    """
    kept, covered, other = _uses(evidence, number, seconds, without)
    if not kept:
        return None
    if followed := _followed(evidence, number, kept):
        return followed
    issued = sum(count for document, count in covered.items() if document not in other)
    counts = sum(use.hit.matched(number.moves) for use in kept.values()), issued
    grade = _grade_of([use.hit for use in kept.values()], *counts, late=seconds > WINDOW_SECONDS)
    return None if grade is None else _used(evidence, number, grade, kept, other, counts)


def _apart(evidence: Evidence, number: _Number) -> Ranked | None:
    """Documents that are certain each by its own issues, where the number as a whole is none: one counter of all beside
    those of many tenants. Nearly all ids in a field without repeats must be its own, and it says nothing about the
    others."""
    if number.is_whole and len(number.documents) < 2:
        return None
    good, covered, other = _uses(evidence, number)

    def is_sure(document: Hashable, use: _Use) -> bool:
        target, matched = evidence.targets[use.targets[0]], use.hit.matched(number.moves)
        is_whole = target.spread() >= _RANGE_SPREAD and _has_hardly_others(target, use.hit.values)
        grade = _grade_of([use.hit], matched, covered[document], late=False)
        return matched >= LEAST_APART and is_whole and grade is Grade.CERTAIN

    kept = {document: use for document, use in good.items() if is_sure(document, use)}
    if not kept:
        return None
    if followed := _followed(evidence, number, kept):
        return followed
    documents = {document: number.documents[document] for document in kept}
    alone = number._replace(documents=documents, moves=_behaviour_of(documents.values()))
    counts = sum(use.hit.matched(alone.moves) for use in kept.values()), sum(covered[document] for document in kept)
    found = _used(evidence, alone, Grade.CERTAIN, kept, other, counts)
    if not found.finding.by_document:
        return None
    # Behind every number that is found as a whole: its target is that one's.
    return found._replace(finding=replace(found.finding, is_apart=True), rank=(found.rank[0] + 1, found.rank[1]))


def _uses(
    evidence: Evidence, number: _Number, seconds: float = WINDOW_SECONDS, without: Collection[Namespace] = ()
) -> tuple[dict[Hashable, _Use], dict[Hashable, int], set[Hashable]]:
    """By document, where its values were found, and how many were found or would have been; and the documents that are
    of another kind."""
    every, covered = _seek(evidence, number, seconds, without)
    good = _believable(evidence, number, every, late=seconds > WINDOW_SECONDS)
    matched = {document: use.hit.matched(number.moves) for document, use in good.items()}
    other = number.documents.keys() - covered.keys() | {
        document
        for document, count in covered.items()
        if count >= _OTHER_ISSUES and matched.get(document, 0) < _OTHER_SHARE * count
    }
    return {document: use for document, use in good.items() if document not in other}, covered, other


def _followed(evidence: Evidence, number: _Number, kept: Mapping[Hashable, _Use]) -> Ranked | None:
    """A guess where the ids of a number were in documents before it reached them, as those are that a projection has
    read up to; None where they were not. So are ids that two counters hand out in step; but who hands out one mostly
    gets the number back with its update."""
    fields = [row for row in evidence.targets.items() if row[1].spread() >= _RANGE_SPREAD]
    followed: Counter[Key] = Counter()
    looked_at = 0
    for document, use in kept.items():
        shift = 0 if use.semantics is Semantics.LAST else number.moves.step
        for update in number.documents[document]:
            since = (update.at[0] - int(WINDOW_SECONDS), 0, 0)
            if update.at not in use.hit.issues or not evidence.covers(since, update.at):
                continue
            looked_at += 1
            for key, target in fields if not update.returned else ():
                earlier = [
                    one for one in target.by_value.get(int(update.value) - shift, ()) if since < one.at < update.at
                ]
                moments = evidence.inserted[key[0]]
                if earlier and bisect_left(moments, update.at) - bisect_left(moments, earlier[-1].at) <= _MOST_RANK:
                    followed[key] += 1
    found = max(followed, key=followed.__getitem__, default=None)
    if found is None or looked_at < _LIKELY_ISSUES or followed[found] < _CERTAIN_SHARE * looked_at:
        return None
    why = f"Its values were in {_place(found)} before it reached them: it may follow the ids there."
    return Ranked(number.finding(Grade.POSSIBLE, why))


def _seek(
    evidence: Evidence, number: _Number, seconds: float, without: Collection[Namespace]
) -> tuple[dict[Hashable, Hits], dict[Hashable, int]]:
    """By document with a constant step, where its values were found, and how many were found or would have been."""
    late = seconds > WINDOW_SECONDS
    every: dict[Hashable, Hits] = {}
    covered: dict[Hashable, int] = {}
    # A new counter document holds the number itself; only its own ids are told from that.
    fields = [row for row in evidence.targets.items() if row[0][0] != number.ns or row[0][1] == "_id"]
    for document, updates in number.documents.items():
        moves = _behaviour_of([updates])
        if moves.steps and not moves.constant:
            continue
        issues = list(_issues(evidence, updates, moves.step))
        read = {at for issue in issues if evidence.covers(at := issue.update.at, (at[0] + int(seconds) - 1, 0, 0))}
        if late:
            # Where the time was not read in whole, a number of anything may be found, but none be missed.
            issues = [issue for issue in issues if issue.update.at in read]
        hits = _explained(evidence, fields, issues, seconds)
        found = {at for hit in hits.values() for at in hit.issues}
        covered[document] = len(found | read)
        every[document] = {name: hit for name, hit in hits.items() if name[0][0] not in without}
    return every, covered


def _believable(
    evidence: Evidence, number: _Number, every: Mapping[Hashable, Hits], *, late: bool
) -> dict[Hashable, _Use]:
    """The target of each document, without those that may be coincidences."""
    moves = number.moves
    chosen = {
        document: _all_uses(evidence, every[document], name)
        for document, name in _assigned(number.ns, every, late=late).items()
    }
    feeders = Counter(use.targets[0] for use in chosen.values())
    values = {int(update.value) for updates in number.documents.values() for update in updates} if late else set[int]()
    issued = values | {value - moves.step for value in values}

    def is_believable(target: Key, hit: _Hit) -> bool:
        if late:
            # One whose ids pass all numbers has any number in half a minute.
            field = evidence.targets[target]
            is_own = field.spread() >= _RANGE_SPREAD and _has_hardly_others(field, issued)
            return is_own and may_be_late(min(hit.values))
        if median(hit.ranks) > _MOST_RANK:
            return False
        return _is_cycled(hit) if moves.cycles else _is_spread(evidence.targets[target], feeders[target])

    return {document: use for document, use in chosen.items() if is_believable(use.targets[0], use.hit)}


def _grade_of(hits: Sequence[_Hit], matched: int, issued: int, *, late: bool) -> Grade | None:
    """The grade of a number of which so many of the issued values were found; None if these are too few."""
    share = matched / issued
    values = [value for hit in hits for value in hit.values]
    few = matched < _SMALL_ISSUES or share < _CERTAIN_SHARE
    if (few and late) or ((few or len(set(values)) < _SMALL_DIFFERENT) and median(values) < _SMALL):
        return None
    times = [at[0] for hit in hits for at in hit.issues]
    seconds = max(times) - min(times)
    if matched >= _CERTAIN_ISSUES and share >= _CERTAIN_SHARE and seconds >= _CERTAIN_SECONDS:
        return Grade.CERTAIN
    return Grade.LIKELY if matched >= _LIKELY_ISSUES and share >= _LIKELY_SHARE else None


def _assigned(ns: Namespace, every: Mapping[Hashable, Hits], *, late: bool) -> dict[Hashable, tuple[Key, Semantics]]:
    """The target of each document: the one with the most matches; among nearly equal ones that of its name, then that
    with the lowest rank. One insert uses the id of one document only, so of two with equal numbers each gets its own.
    Of ids that are used ``late`` the next update may come first, after which each looks like the next id.
    """
    offers: list[tuple[tuple[object, ...], Hashable, tuple[Key, Semantics]]] = []
    for number, (document, hits) in enumerate(every.items()):
        most = max((len(hit.values) for hit in hits.values()), default=0)
        names = [ns.collection, *([document] if isinstance(document, str) else [])]
        for name, hit in hits.items():
            if len(hit.values) >= 0.9 * most:
                order = (
                    not resembles(name[0][0].collection, names),
                    late and name[1] is Semantics.NEXT,
                    median(hit.ranks),
                    -len(hit.values),
                    name[0][1] != "_id",
                    median(hit.latencies),
                    name[1] is Semantics.NEXT,
                    str(name[0]),
                    number,
                )
                offers.append((order, document, name))
    chosen: dict[Hashable, tuple[Key, Semantics]] = {}
    spare: dict[Hashable, tuple[Key, Semantics]] = {}
    explained: dict[Key, set[Moment]] = defaultdict(set)
    for _, document, name in sorted(offers, key=lambda offer: offer[0]):
        inserts = every[document][name].inserts
        if document not in chosen and 2 * len(inserts & explained[name[0]]) <= len(inserts):
            chosen[document] = name
            explained[name[0]] |= inserts
        spare.setdefault(document, name)
    return spare | chosen


def _all_uses(evidence: Evidence, hits: Hits, best: tuple[Key, Semantics]) -> _Use:
    """The use in the best target with that of other ids: in other fields of its documents, since one insert may use
    several, and in other collections that have hardly any others: two may share one sequence."""
    (target, semantics), found, targets = best, hits[best], [best[0]]
    rest = [key for key, meaning in hits if meaning is semantics and key != target]
    for key in sorted(rest, key=lambda key: (-len(hits[key, semantics].values), key[1] != "_id", key)):
        hit = hits[key, semantics]
        is_beside = key[0] == target[0]
        if not hit.values & found.values and (is_beside or _shares(evidence.targets[key], hit)):
            targets += [] if is_beside else [key]
            found = _Hit(
                found.values | hit.values,
                found.inserts | hit.inserts,
                found.ranks + hit.ranks,
                found.latencies + hit.latencies,
                found.issues | hit.issues,
            )
    return _Use(tuple(targets), semantics, found)


def _shares(target: InsertedField, hit: _Hit) -> bool:
    """Whether nearly all ids of a field are those that were found, in the next inserts, and so many not by chance."""
    least = _SMALL_ISSUES if median(hit.values) < _SMALL else _LIKELY_ISSUES
    is_whole = len(hit.values) >= max(least, _CERTAIN_SHARE * len(target.by_value))
    return is_whole and target.spread() >= _RANGE_SPREAD and median(hit.ranks) <= _MOST_RANK


def _is_spread(target: InsertedField, feeders: int) -> bool:
    """Whether the field has nearly as many distinct values as ids were issued for it."""
    return target.spread() >= _SPREAD / min(feeders, 2)


def _is_cycled(hit: _Hit) -> bool:
    """Whether ids that repeat were found: always in the next insert, which a random quantity so small would not be."""
    return len(hit.values) >= _LEAST_CYCLE and median(hit.ranks) <= 1


def _used(
    evidence: Evidence,
    number: _Number,
    grade: Grade,
    kept: Mapping[Hashable, _Use],
    other: Iterable[Hashable],
    counts: tuple[int, int],
) -> Ranked:
    moves, (matched, issued), uses = number.moves, counts, list(kept.values())
    latency = median(latency for use in uses for latency in use.hit.latencies)
    targets = Counter(target for use in uses for target in use.targets)
    (first, _), *more = targets.most_common()
    semantics = mode(use.semantics for use in uses)
    ids_apart = _ids_apart(number, kept)
    own = {target for target, count in targets.items() if count == 1 or ids_apart > 1}
    values = set[int]().union(*(use.hit.values for use in uses))
    own = {target for target in own if _has_hardly_others(evidence.targets[target], values)}
    also = f" and {plural(len(more), 'more field')}" if more else ""
    text = (
        f"{matched:,} of {issued:,} values of {number.name} found in {_place(first)}{also}, "
        f"{_latency(latency)} later; step {moves.step}."
    )
    finding = replace(
        number.finding(grade, text),
        targets=tuple(IdField(*target) for target, _ in targets.most_common()),
        semantics=semantics,
        by_document=tuple(
            (identity_of(document), IdField(*target))
            for document, use in kept.items()
            for target in use.targets
            if target in own
        ),
        ids_apart=ids_apart,
        others=frozenset(_named(other)),
        int64_ids=all(evidence.targets[target].has_int64_ids for target in targets),
        # A total, or what is left, that is written into a log is that after the update.
        is_repeated=semantics is Semantics.LAST
        and (moves.step < 0 or all(_leaf(target[1]) == _leaf(number.path) for target in targets)),
        cycling=frozenset(name for name in _named(kept) if _behaviour_of([number.documents[name]]).cycles),
    )
    inserts = frozenset[Moment]().union(*(use.hit.inserts for use in uses))
    return Ranked(finding, (-moves.returned / max(1, moves.issues), latency), inserts)


def _has_hardly_others(target: InsertedField, ids: set[int]) -> bool:
    """Whether nearly all values of a field are among these ids, so that its largest is one of them."""
    return len(ids & target.by_value.keys()) >= _CERTAIN_SHARE * len(target.by_value)


def _ids_apart(number: _Number, documents: Collection[Hashable]) -> int:
    """How far apart the ids of each document are: its step, if all of its ids are a whole number of steps apart, and
    none is so from those of another document."""
    step = abs(number.moves.step)
    classes = [{int(update.value) % step for update in number.documents[document]} for document in documents]
    told_apart = all(len(one) == 1 for one in classes) and len(set().union(*classes)) == len(classes)
    return step if told_apart and step <= _MOST_APART else 1


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _latency(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _ranges(evidence: Evidence, number: _Number) -> Ranked | None:
    """The counter hands out ranges: most numbers between its old and new value were found in one field."""
    step = number.moves.step
    sizes = range(_LEAST_RANGE, _MOST_RANGE + 1)
    issues = [one for updates in number.documents.values() for one in _issues(evidence, updates, step, sizes)]
    hits = _explained(evidence, _unique_fields(evidence, number.ns), issues)
    if not hits:
        return None
    target_key, semantics = max(hits, key=lambda name: len(hits[name].ranks))
    count, ranges = len(hits[target_key, semantics].ranks), len(issues) // 2
    ids = {number for issue in issues if issue.semantics is semantics for number in issue.ids}
    if count < _LIKELY_RANGES or count < _LIKELY_SHARE * ranges:
        return None
    grade = Grade.CERTAIN if count >= _CERTAIN_RANGES else Grade.LIKELY
    whole = len(number.documents) == 1 and _has_hardly_others(evidence.targets[target_key], ids)
    text = f"{count:,} of {ranges:,} ranges of {number.name} found in {_place(target_key)}; range {step}."
    finding = replace(
        number.finding(grade, text),
        targets=(IdField(*target_key),),
        by_document=tuple((identity_of(one), IdField(*target_key)) for one in number.documents if whole),
        semantics=semantics,
        int64_ids=evidence.targets[target_key].has_int64_ids,
    )
    return Ranked(finding, (0.0, median(hits[target_key, semantics].latencies)))


def _blocks(evidence: Evidence, number: _Number) -> Ranked | None:
    """The counter is the "hi" of hi/lo: after it rose to ``hi``, ids of ``hi * block`` and on were inserted."""
    if number.moves.step != 1 or not number.moves.constant or len(number.documents) > 1:
        return None
    (updates,) = number.documents.values()
    rises = [one for one in updates if one.value >= _LEAST_HI]
    covered = [one for one in rises if evidence.covers(one.at)]
    begun: Counter[tuple[Key, Semantics, int]] = Counter()
    for (target_key, target), update in product(_unique_fields(evidence, number.ns), covered):
        first = bisect_left(target.inserts, update.at, key=attrgetter("at"))
        end = bisect_right(target.inserts, update.at[0] + WINDOW_SECONDS, lo=first, key=lambda insert: insert.at[0])
        values = [insert.value for insert in target.inserts[first:end]]
        for shift, semantics in ((0, Semantics.LAST), (1, Semantics.NEXT)):
            # The first id of a block, or the one after it, tells how many ids a block has.
            parts = (divmod(value, int(update.value) - shift) for value in values)
            sizes = {size for size, rest in parts if rest <= 1 and size >= _LEAST_BLOCK}
            begun.update((target_key, semantics, size) for size in sizes)
    for (target_key, semantics, block), count in begun.most_common(1):
        if count >= _CERTAIN_RANGES and count >= _CERTAIN_SHARE * len(covered):
            text = f"{count:,} blocks of {block:,} ids found in {_place(target_key)}, one for each value."
            finding = number.finding(Grade.CERTAIN, text)
            return Ranked(replace(finding, targets=(IdField(*target_key),), semantics=semantics, block=block))
    return None


def _place(target: Key) -> str:
    """A collection and a field as text, safe to show."""
    return clean_name(f"{target[0]}.{target[1]}", 120)
