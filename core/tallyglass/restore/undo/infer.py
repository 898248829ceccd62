"""From an incident, or the entry at the point, to what has to be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import changes_of
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.read.entries import operations, read_effects, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.undo import Accident, WriteGroup
from tallyglass.restore.undo.accident import Attribution, millis_of, seconds_before, update_of
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.effects import AttributedWrites, Side, WriteGroups, row_of
from tallyglass.restore.undo.evidence import KnownStatement
from tallyglass.restore.undo.incident_scope import ANY_SESSION, is_sent_by, session_of, written
from tallyglass.restore.undo.tally import Tally
from tallyglass.text import clean_name

_GAP_SECONDS = 60
"""Updates of one shape that are further apart are not one accident."""
_AROUND_SECONDS = 60
"""How far on either side of an incident is looked for writes of the same kind."""
_LOOK_BACK_SECONDS = 3_600
"""How far before the point is looked for updates of the same shape: those are what the application does anyway."""
NEXT_MILLIS = 200
"""A driver sends the next command of a bulk write as soon as the one before is answered."""
_NEXT_NUMBERS = 10
"""How far apart in number commands of one bulk write are looked for: those that change nothing leave no entry."""
_AS_MERGE = "it may be the same statement, as $merge and upserts insert: remove them manually if nobody needs them"
_REMOVED = {
    "drop": "dropped", "dropDatabase": "dropped with its database", "out": "replaced by $out",
    "rename": "replaced by a rename", "convertToCapped": "converted to capped", "emptycapped": "emptied",
}  # fmt: skip
_VERBS = {"i": "inserted", "u": "updated", "d": "deleted"}


@dataclass(frozen=True, slots=True)
class Inferred:
    """What is undone, in words too. ``doubts`` are sentences that say why the entries may be several statements or
    others'; ``groups`` are what was found then. ``left_out`` is what else was written there at the time."""

    accident: Accident
    undone: tuple[WriteGroup, ...] = ()
    doubts: tuple[str, ...] = ()
    groups: tuple[WriteGroup, ...] = ()
    left_out: tuple[WriteGroup, ...] = ()


async def find_accident(
    gateway: Gateway,
    incident: Incident | None,
    limit: Ts,
    seen: Ts,
    at_limit: Entry | None,
    names: Iterable[str],
    evidence: KnownStatement | None = None,
) -> Inferred:
    """What is undone. ``names`` are the stored namespaces, since an incident holds a name that is cleaned for display.

    Without an incident, all deletes and removals from the point up to ``seen`` are; and the updates that begin at the
    point, where they are many of one shape that the application did not write before. ``evidence`` is what a person
    knows of an incident. Raises the errors of the gateway.
    """
    if incident is None:
        return await _with_updates(gateway, Accident("everything", "", limit, seen), at_limit)
    if incident.kind == "transaction":
        commit = incident.point or incident.last
        return await _transaction(gateway, Accident("transaction", "", commit, commit))
    op = "d" if incident.kind == "ttl" else written(incident)
    ns = next((name for name in names if clean_name(name) == incident.ns), "")
    if not op:
        what = _REMOVED.get(incident.kind, clean_name(incident.kind))
        row = WriteGroup(incident.ns, what, incident.documents, incident.first, incident.last)
        return Inferred(Accident("removal", "", incident.first, incident.last), (row,))
    kind = "updates" if op == "u" else "deletes"
    accident = Accident(kind, ns, incident.first, incident.last, session_of(incident), updates=op == "u")
    return await _writes_of(gateway, incident, accident, op, evidence) if ns else Inferred(accident)


@dataclass(slots=True)
class _Around:
    """The entries of an incident's sender in and around its span: those of its kind in ``writes``, with the sessions of
    its ``senders`` and the transaction ``numbers``, and where the other kinds stand."""

    accident: Accident
    op: str
    everywhere: bool = False
    """Whether the row does not bound the entries: a pause of a statement cuts rows."""
    writes: WriteGroups = field(default_factory=WriteGroups)
    numbers: Counter[int] = field(default_factory=Counter)
    span: Tally = field(default_factory=Tally)
    senders: set[str] = field(default_factory=set)
    others: list[tuple[str, Side, str, int, int]] = field(default_factory=list)
    left_out: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """The writes within its span that are not of its kind or not of its sender: what they did and why they are left."""
    beside: dict[Side, Tally] = field(default_factory=lambda: {Side.BEFORE: Tally(), Side.AFTER: Tally()})
    """Inserts of the same sender outside its span, without a pause."""

    def feed(self, entry: Entry, whole: Entry) -> None:
        ts, millis, side = whole.ts, millis_of(whole), self.side(whole.ts)
        if entry.op != self.op:
            self.leave_out(entry, whole, "a write of another kind")
            if entry.op == "i" and side is not Side.INSIDE:
                self.insert_beside(entry, side, ts, millis)
            if len(self.others) < _MOST_OTHERS:
                self.others.append((entry.op, side, whole.session_text, whole.txn_number or 0, millis))
            return
        changes = changes_of(update_of(entry)) if entry.op == "u" else {}
        self.writes.feed(changes, entry.id_key, ts, millis, Side.INSIDE if self.everywhere else side)
        if side is Side.INSIDE:
            self.span.add(ts, millis, key=entry.id_key)
            self.senders.add(whole.session_text)
            self.numbers[whole.txn_number or 0] += 1

    def side(self, ts: Ts) -> Side:
        """Where an entry stands to the incident's span."""
        assert self.accident.last is not None
        if ts < self.accident.first:
            return Side.BEFORE
        return Side.AFTER if ts > self.accident.last else Side.INSIDE

    def leave_out(self, entry: Entry, whole: Entry, why: str) -> None:
        """Count a write that is not the incident's."""
        if self.side(whole.ts) is Side.INSIDE:
            self.left_out.setdefault((_VERBS[entry.op], why), Tally()).add(whole.ts, 0, key=entry.id_key)

    def insert_beside(self, entry: Entry, side: Side, ts: Ts, millis: int) -> None:
        """Count an insert that goes on without a pause into the span, or from its end on."""
        run = self.beside[side]
        if side is Side.BEFORE and run.entries and millis - run.end > NEXT_MILLIS:
            run = self.beside[side] = Tally()
        if side is Side.BEFORE or millis - (run.end or self.span.end) <= NEXT_MILLIS:
            run.add(ts, millis, key=entry.id_key)

    def inserted(self) -> Iterator[WriteGroup]:
        """The inserts right before and after the span, as rows without a namespace."""
        for side, run in self.beside.items():
            if run.entries and (side is Side.AFTER or self.span.begin - run.end <= NEXT_MILLIS):
                yield row_of("inserted", run, run.entries, _AS_MERGE)

    def mixed(self) -> str:
        """Which other kinds of writes are part of the same bulk write, as a sentence; empty if there are none."""
        found: Counter[str] = Counter()
        sides: dict[str, set[Side]] = {}
        for op, side, *_ in self.others:
            sides.setdefault(op, set()).add(side)
        near = range(min(self.numbers, default=0) - _NEXT_NUMBERS, max(self.numbers, default=0) + _NEXT_NUMBERS + 1)
        for op, side, sender, number, millis in self.others:
            if not self.accident.session:
                found[op] += side is Side.INSIDE and len(sides[op]) < len(Side)
            elif sender in self.senders and number in near:
                apart = max(self.span.begin - millis, millis - self.span.end)
                found[op] += apart <= NEXT_MILLIS
        kinds = ", ".join(f"{count:,} {_VERBS[op]}" for op, count in sorted(found.items()) if count)
        return f"A bulk write of several kinds: the same client also wrote here at once ({kinds})." if kinds else ""

    def several_commands(self) -> str:
        """Whether one session sent several commands of many documents, as a sentence; empty if it did not. A driver
        splits a bulk write only where it is full."""
        counts = [count for _, count in sorted(self.numbers.items())]
        one_session = self.accident.session not in ("", ANY_SESSION)
        if not one_session or len(counts) < 2 or max(counts) == 1 or set(counts[:-1]) == {_LARGEST_COMMAND}:
            return ""
        return f"The same client sent {len(counts):,} commands in this time."


_LARGEST_COMMAND = 100_000
"""Documents that a driver writes with one command."""

_MOST_OTHERS = 100_000
"""Writes of other kinds that are kept: they only decide whether a bulk write was of several kinds; so many fill some
10 MB."""


async def _writes_of(
    gateway: Gateway, incident: Incident, accident: Accident, op: str, evidence: KnownStatement | None
) -> Inferred:
    """The deletes or updates of an incident, compared with what its row and a person say."""
    around, ui = _Around(accident, op, evidence is not None), b""
    begin = seconds_before(incident.first, _AROUND_SECONDS)
    async for entry, whole in operations(gateway, accident.ns, begin, Ts(incident.last.t + _AROUND_SECONDS, 0)):
        if entry.op not in _VERBS:
            continue
        if entry.ui != ui and whole.ts <= incident.first:  # all before was written to a dropped one of this name
            around, ui = _Around(accident, op, around.everywhere), entry.ui
        elif entry.ui != ui and whole.ts > incident.last:
            continue
        if is_sent_by(whole, accident.session):
            around.feed(entry, whole)
        else:
            around.leave_out(entry, whole, "another client wrote it")
    if evidence is not None:
        return _explained(around, incident.limit, evidence)
    one_command = accident.session not in ("", ANY_SESSION) and len(around.numbers) == 1
    found = around.writes.one_statement(timed=not accident.session)
    doubts = [around.mixed(), around.several_commands(), *_miscounted(incident, around.writes.entries, op)]
    if one_command:
        accident = replace(accident, command=next(iter(around.numbers)))
        what = f"{found.what} (one command)"
        found = replace(found, what=what, tally=around.span, left_out=(), documents=around.writes.documents)
    else:
        doubts += found.doubts if incident.kind != "ttl" else ()
        if found.effect is not None:
            accident = replace(accident, effect=found.effect.stored())
    accident = replace(accident, entries=found.tally.entries)
    return _inferred(around, accident, found, doubts)


def _inferred(around: _Around, accident: Accident, found: AttributedWrites, doubts: Iterable[str]) -> Inferred:
    """What was found of the writes of one collection, with everything else that was written there meanwhile."""
    doubts = tuple(filter(None, doubts))
    beside = around.inserted() if around.op == "u" else ()
    meanwhile = (row_of(verb, tally, None, why) for (verb, why), tally in around.left_out.items())
    rows = (
        [row_of(found.what, found.tally, found.documents)] if found.tally.entries else [],
        found.groups if doubts else [],
        [*found.left_out, *beside, *meanwhile],
    )
    undone, groups, left = (tuple(replace(row, ns=clean_name(accident.ns)) for row in some) for some in rows)
    return Inferred(accident, undone, doubts, groups, left)


def _explained(around: _Around, limit: Ts, evidence: KnownStatement) -> Inferred:
    """What a person says, compared with all writes in and around the incident."""
    accident, found = around.accident, around.writes.explained_by(evidence)
    doubts = list(found.doubts)
    if evidence.text and evidence.deletes is not (around.op == "d"):
        kinds = ("a delete", "an update") if evidence.deletes else ("an update", "a delete")
        doubts.append(f"The statement is {kinds[0]}, and the incident is {kinds[1]}.")
    if evidence.collection not in ("", accident.ns.partition(".")[2]):
        doubts.append(
            f"The statement is on {clean_name(evidence.collection)}, the incident on {clean_name(accident.ns)}."
        )
    tally = found.tally
    if tally.entries and tally.first < limit:
        doubts.append(f"It begins at {tally.first}, before the incident: plan for the incident before this one.")
    proven = evidence.count is not None and not doubts
    accident = replace(
        accident, first=tally.first, last=tally.last, entries=tally.entries, statement=evidence.text,
        count=evidence.count, proven=proven,
    )  # fmt: skip
    if found.effect is not None:
        accident = replace(accident, effect=found.effect.stored())
    if evidence.count is not None and found.documents is not None:
        found = replace(found, documents=min(found.documents, evidence.count))
    return _inferred(around, accident, found, doubts)


def _miscounted(incident: Incident, entries: int, op: str) -> Iterator[str]:
    counted = incident.documents if incident.documents_exact else None
    if op == "d" and (incident.sessions > 1 or not incident.documents_exact):
        yield "Several clients delete here, and a delete does not say whose it is."
    elif counted is not None and entries not in (counted, incident.ops if op == "u" else counted):
        yield f"The incident lists {counted:,} documents, and the oplog has {entries:,} in its span."
    if incident.parts:
        yield incident.reading


async def _transaction(gateway: Gateway, accident: Accident) -> Inferred:
    """What a transaction wrote, by namespace and each document once: what it inserted stays."""
    found: dict[tuple[str, bytes], str] = {}
    async for _, parts in read_effects(gateway, {"ts": stamp(accident.first)}):
        for one in chain.from_iterable(map(operations_of, parts)):
            if one.txn is None and one.op in _VERBS:
                found[one.ns, one.id_key] = found.get((one.ns, one.id_key), "") + one.op
    counts = Counter((ns, "i" if ops[0] == "i" else "d" if ops[-1] == "d" else "u") for (ns, _), ops in found.items())
    at = accident.first
    rows: dict[bool, list[WriteGroup]] = {False: [], True: []}
    for (ns, op), count in counts.items():
        stays = "an undo of a transaction removes nothing" if op == "i" else ""
        what = _VERBS[op] if stays else f"{_VERBS[op]} in one transaction"
        rows[bool(stays)].append(WriteGroup(clean_name(ns), what, count, at, at, why=stays))
    accident = replace(accident, entries=sum(map(len, found.values())))
    return Inferred(accident, tuple(rows[False]), left_out=tuple(rows[True]))


def with_removals(found: Inferred, changed: Mapping[str, Changed]) -> Inferred:
    """What is undone where no incident was named: every delete and every removal from the point on as well. How many
    documents that is would be known by their ``_id``s alone: some are deleted twice, or were inserted after the point.
    A collection that was replaced stays."""
    undone, stay, accident = [*found.undone], [*found.left_out], found.accident
    last = accident.last or accident.first
    for ns, item in changed.items():
        words = ["deleted"] * bool(item.deletes) + ["dropped, emptied or renamed"] * item.removed
        if words:
            what, entries = f"{', and '.join(words)} from the point on", None if item.removed else item.deletes
            undone.append(WriteGroup(clean_name(ns), what, None, accident.first, last, entries))
        elif item.replaced:
            what, why = "another collection was renamed to it", "no incident is named"
            stay.append(WriteGroup(clean_name(ns), what, None, accident.first, last, why=why))
    return replace(found, undone=tuple(undone), left_out=tuple(stay))


async def _with_updates(gateway: Gateway, accident: Accident, at_limit: Entry | None) -> Inferred:
    """The updates that begin at the point, if a person may have made them."""
    if at_limit is None or at_limit.op != "u":
        return Inferred(accident)
    first, session = at_limit, at_limit.session_text if at_limit.retryable else ""
    mine = replace(accident, ns=first.ns, session=session, updates=True)
    writes, command, last = WriteGroups(), Tally(), first.ts
    async for entry, whole in operations(gateway, first.ns, first.ts):
        if whole.ts.t - last.t > _GAP_SECONDS:
            break
        if entry.op == "u" and is_sent_by(whole, session):
            millis = millis_of(whole)
            writes.feed(changes_of(update_of(entry)), entry.id_key, whole.ts, millis)
            last = whole.ts
            if session and whole.txn_number == first.txn_number:
                command.add(whole.ts, millis, key=entry.id_key)
    found = writes.beginning_with(changes_of(update_of(first)))
    if command.entries > 1:
        mine = replace(mine, command=first.txn_number)
        what = f"{found.what} (one command)"
        found = replace(found, what=what, tally=command, doubts=(), groups=(), left_out=(), documents=None)
    elif found.effect is not None:
        mine = replace(mine, effect=found.effect.stored())
    mine = replace(mine, updates_last=found.tally.last, entries=found.tally.entries)
    if found.tally.entries < 2 or await _is_routine(gateway, mine, first):
        return Inferred(accident)
    return _inferred(_Around(mine, "u"), mine, found, found.doubts)


async def _is_routine(gateway: Gateway, accident: Accident, first: Entry) -> bool:
    """Whether the same was written before the point."""
    attribution = Attribution(accident)
    effect = attribution.effect
    if effect is None:
        return False  # one command of a session
    async for entry, whole in operations(gateway, first.ns, seconds_before(first.ts, _LOOK_BACK_SECONDS)):
        if whole.ts >= first.ts:
            return False
        same = entry.op == "u" and attribution.same_sender(whole)
        if same and effect.agrees(changes_of(update_of(entry))):
            return True
    return False
