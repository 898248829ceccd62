"""Every document that the accident touched, judged from the oplog and the live data as they are by now."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import Changes, Unfit, Value, changes_of, get
from tallyglass.oplog.entry.changes import Path as FieldPath
from tallyglass.oplog.read.entries import edge, operations
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import Attribution, update_of
from tallyglass.restore.undo.account import DocumentState, DocumentTrace
from tallyglass.restore.undo.documents import AT_ONCE, documents_by_id, each_document
from tallyglass.restore.undo.earlier_returns import earlier_returns
from tallyglass.restore.undo.history import OWN, REPAIR, UNCERTAIN, UNDONE, History, HistoryStep
from tallyglass.restore.undo.history_reader import read_history
from tallyglass.restore.undo.infer import NEXT_MILLIS
from tallyglass.restore.undo.recovery import touched_documents
from tallyglass.restore.undo.sources.source import DocumentSource
from tallyglass.restore.undo.values import related
from tallyglass.text import clean

_BESIDE_SECONDS = 60
"""How far before and after the accident other updates are compared with it: a statement that waits for a lock or a disk
pauses for less."""

_COMMON = 0.1
"""The share of the accident's updates that must leave the same value for it to be one that the statement sets. Where a
document had it before, the entry lacks it."""

_LEAST = 2
"""Updates that must leave it, however few the accident has."""

_NAMED_PATHS = 3

_ANY = b"any"
"""In place of a digest: the live document is compared by the caller."""

Atom = tuple[FieldPath, Value | None]


_DOUBTS = (DocumentState.UNCLEAR, DocumentState.TWICE)
"""What is listed whatever is live."""

_Batch = dict[bytes, tuple[bytes | None, list[HistoryStep]]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One document: its ``_id`` as a type byte and the value's bytes, what it is, and where the accident's values are.
    ``restored``: it was damaged when the return began, and came back since. ``theirs``: others deleted it or wrote over
    what the accident left."""

    key: bytes
    state: DocumentState
    document: bytes | None
    restored: bool = False
    theirs: bool = False
    where: str = ""


async def judge_documents(
    source: Gateway,
    spare: DocumentSource,
    accident: Accident,
    ns: str,
    limit: Ts,
    began: Ts | None,
    kept: Path | None,
) -> AsyncIterator[Judgement]:
    """Judge each document that the accident touched, or may have touched. ``began`` is the newest entry of the oplog
    when the return began; the other parameters are those of :func:`read_history`. Raises what that raises.

    What is live must be what the oplog says. A document that is written between the two reads is compared once more:
    the live one must be a state through which it went.
    """
    pending: dict[bytes, bytes] = {}
    with closing(await read_history(source, spare, accident, ns, limit, kept)) as history:
        last, earlier = _number_at(history, began), await _undone_before(source, history, began)
        async for batch in _batches(spare, history):
            live = await documents_by_id(source, ns, list(batch))
            for key, (copy, steps) in batch.items():
                found = _judge(history, key, copy, steps, last)
                if found is not None and found.document != live.get(key) and found.state not in _DOUBTS:
                    pending[key] = _digest(live.get(key))
                elif found is not None:
                    yield _with_earlier(found, earlier.get(key, ()), steps)
        async for found in _holding_the_same(source, history):
            yield found
        async for found in _inserted_beside(source, history):
            yield found
    if pending:
        with closing(await read_history(source, spare, accident, ns, limit, kept)) as history:
            async for key, copy in each_document(spare, ns, pending):
                steps = history.of(key)
                found = _judge(history, key, copy, steps, last, pending[key])
                if found is not None:
                    yield _with_earlier(found, earlier.get(key, ()), steps)


async def _batches(spare: DocumentSource, history: History) -> AsyncIterator[_Batch]:
    batch: _Batch = {}
    async for key, copy, steps in touched_documents(spare, history):
        batch[key] = copy, steps
        if len(batch) == AT_ONCE:
            yield batch
            batch = {}
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class _EarlierChange:
    """A change in one document by an accident that was undone by ``undone``: what a later undo brings back from before
    ``undone`` may be what it left."""

    ts: Ts
    undone: Ts
    paths: frozenset[FieldPath]


async def _undone_before(source: Gateway, history: History, began: Ts | None) -> dict[bytes, list[_EarlierChange]]:
    """What accidents changed that earlier returns since the point undid, by document; all that they may have changed.
    Raises the errors of the gateway, and ReadError where the oplog no longer reaches back to there."""
    found: dict[bytes, list[_EarlierChange]] = {}
    async for earlier in earlier_returns(source, history.staging(), began):
        accident, attribution = earlier.accident, Attribution(earlier.accident)
        oldest = await edge(source, 1)
        if oldest is None or oldest.ts > accident.first:
            raise ReadError("The oplog does not reach back to what was undone earlier any more.", "Compare manually.")
        effect = attribution.effect
        async for entry, whole in operations(source, history.ns, accident.first):
            if not attribution.spans(whole.ts):
                break
            changes = changes_of(update_of(entry)) if entry.op == "u" else {}
            by_effect = entry.op == "u" and effect is not None and attribution.may_own_update(whole)
            if entry.ns == history.ns and (
                attribution.owns(entry, whole) or (by_effect and effect is not None and effect.touches(changes))
            ):
                change = _EarlierChange(whole.ts, earlier.begun, frozenset(changes))
                found.setdefault(entry.id_key, []).append(change)
    return found


def _with_earlier(found: Judgement, earlier: Iterable[_EarlierChange], steps: list[HistoryStep]) -> Judgement:
    """The document came back, but perhaps as an accident left it that is undone."""
    came = found.state is DocumentState.RIGHT and found.restored
    return replace(found, state=DocumentState.EARLIER) if came and _comes_back(earlier, steps) else found


def _comes_back(earlier: Iterable[_EarlierChange], steps: list[HistoryStep]) -> bool:
    """Whether the accident wrote over, or removed, what an earlier one had left that is undone: then the undo of that
    did not set it back."""
    for step in steps:
        if step.owner != OWN:
            continue
        paths = changes_of(step.o) if step.op == "u" else ()
        for one in earlier:
            alike = not paths or not one.paths or any(related(path, other) for path in paths for other in one.paths)
            if one.ts < step.ts < one.undone and alike:
                return True
    return False


def _number_at(history: History, began: Ts | None) -> int | None:
    """The number of the last operation before the return began; None where that is not known."""
    if began is None:
        return None
    query = "SELECT coalesce(max(n), 0) FROM operation WHERE (t, i) <= (?, ?)"
    number: int = history.rows.execute(query, tuple(began)).fetchone()[0]
    return number


def _digest(document: bytes | None) -> bytes:
    return b"" if document is None else hashlib.blake2b(document, digest_size=16).digest()


def _judge(
    history: History, key: bytes, copy: bytes | None, steps: list[HistoryStep], last: int | None, seen: bytes = _ANY
) -> Judgement | None:
    """What one document is; None where the accident changed nothing in it. ``last`` is the number of the last operation
    before the return began; ``seen`` the digest of the live document, which must be one of its states."""
    if copy is None and history.accident.kind == "everything":
        return None  # it was not there at the point
    trace, right = DocumentTrace(copy, increments=history.increments), False
    passed = seen in (_ANY, _digest(copy))
    before = [step for step in steps if last is not None and step.number <= last]
    for at, step in enumerate(steps):
        if at == len(before) and last is not None:
            right, trace.brought_back = trace.state is DocumentState.RIGHT, False
        if step.owner == UNCERTAIN:
            trace.hit = True
            trace.doubt(trace.document, step.o)
        if step.owner == OWN:
            trace.accident(step.op, step.o)
        elif step.owner == UNDONE:
            trace.undone(step.op, step.o)
        elif step.owner == REPAIR:
            trace.repair(step.op, step.o)
        else:
            trace.others(step.op, step.o)
        passed = passed or _digest(trace.document) == seen
    trace.unclear |= history.ambiguous and bool(trace.left)
    if not trace.hit:
        return None
    state = trace.state if passed or trace.unclear else DocumentState.DIFFERS
    after = last is None or len(steps) > len(before)
    restored = after and trace.brought_back and not right and trace.document is not None
    return Judgement(key, state, trace.document, restored, trace.theirs, _where(trace))


def _where(trace: DocumentTrace) -> str:
    if trace.removed is not None or not trace.changed:
        return ""
    names = [".".join(name.decode("utf-8", "replace") for name in path) for path in trace.changed]
    more = f" and {len(names) - _NAMED_PATHS} more" if len(names) > _NAMED_PATHS else ""
    return f" Fields: {clean(', '.join(names[:_NAMED_PATHS]), 200)}{more}."


async def _holding_the_same(source: Gateway, history: History) -> AsyncIterator[Judgement]:
    """Documents that were attributed to others, though an update set in them what the accident's updates set, within a
    minute of those, and that still hold it: it may have been the same statement."""
    found: dict[bytes, list[Atom]] = {}
    for key, atom in _beside(history):
        found.setdefault(key, []).append(atom)
    async for key, document in each_document(source, history.ns, found):
        if document is not None and any(_holds(document, atom) for atom in found[key]):
            yield Judgement(key, DocumentState.SAME, document)


async def _inserted_beside(source: Gateway, history: History) -> AsyncIterator[Judgement]:
    """Live documents that were inserted between the accident's updates, or right before or after them, by what may be
    the same statement. An ``updateMany`` that was named inserts none."""
    if history.accident.statement:
        return
    before = [key async for key in _inserted_before(source, history)]
    keys = [*before, *dict.fromkeys(history.inserted_beside(NEXT_MILLIS))]
    async for key, document in each_document(source, history.ns, keys):
        if document is not None:
            yield Judgement(key, DocumentState.BESIDE, document)


async def _inserted_before(source: Gateway, history: History) -> AsyncIterator[bytes]:
    """What the sender of the accident's updates inserted right before them: a history begins with the first."""
    accident, attribution, ends = history.accident, Attribution(history.accident), history.ends()
    if not ends or accident.ns != history.ns or attribution.effect is None:
        return
    run, end = list[bytes](), 0
    since = Ts(max(accident.first.t - _BESIDE_SECONDS, 1), 0)
    async for entry, whole in operations(source, history.ns, since, accident.first):
        if entry.op == "i" and attribution.may_own_update(whole):
            millis = whole.wall_millis or whole.ts.t * 1_000
            run = [*run, entry.id_key] if millis - end <= NEXT_MILLIS else [entry.id_key]
            end = millis
    if ends[0][1] - end <= NEXT_MILLIS:
        for key in run:
            yield key


def _beside(history: History) -> Iterator[tuple[bytes, Atom]]:
    """The values that others' updates set within a minute of the accident's, and that those set too, not by chance;
    each with the document."""
    keys: dict[Atom, list[bytes]] = {}
    for key, changes in history.updates_beside(_BESIDE_SECONDS):
        for atom in _atoms(changes):
            keys.setdefault(atom, []).append(key)
    counts, own = Counter[Atom](), 0
    for changes in history.own_updates() if keys else ():
        own += 1
        counts.update(atom for atom in _atoms(changes) if atom in keys)
    for atom, count in counts.items():
        if count >= max(_LEAST, _COMMON * own):
            yield from ((key, atom) for key in keys[atom])


def _atoms(changes: Changes) -> Iterator[Atom]:
    return ((path, value) for path, value in changes.items() if path and value and value[0])


def _holds(document: bytes, atom: Atom) -> bool:
    path, value = atom
    try:
        return get(document, path) == value
    except Unfit:
        return True
