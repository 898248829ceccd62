"""Every document that the accident touched, judged from the oplog and the live data as they are by now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.account import DocumentState, DocumentTrace
from tallyglass.restore.undo.beside import holding_the_same, inserted_beside
from tallyglass.restore.undo.documents import (
    AT_ONCE,
    HELD_BYTES,
    DocumentSource,
    documents_by_id,
    touched_documents,
    with_documents,
)
from tallyglass.restore.undo.earlier_returns import EarlierChange, comes_back, undone_before
from tallyglass.restore.undo.history import OWN, RENAMED, REPAIR, UNCERTAIN, UNDONE, History, HistoryStep, digest
from tallyglass.restore.undo.history_reader import read_history
from tallyglass.text import clean

_NAMED_PATHS = 3
"""Fields that are named in a line of the account, beside how many more there are."""

_ANY = b"any"
"""In place of a digest: the live document is compared by the caller."""

_DOUBTS = (DocumentState.UNCLEAR, DocumentState.TWICE)
"""What is listed whatever is live."""

_Batch = dict[bytes, tuple[bytes | None, list[HistoryStep]]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One document: its ``_id`` as a type byte and the value's bytes, what it is, and where the accident's values are.
    ``restored``: it was damaged when the return began, and came back since; ``returned``: an earlier return had brought
    it back by then. ``theirs``: others deleted it or wrote over what the accident left."""

    key: bytes
    state: DocumentState
    document: bytes | None
    restored: bool = False
    returned: bool = False
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
        last, earlier = _number_at(history, began), await undone_before(source, history, began)
        async for batch in _batches(spare, history):
            live = await documents_by_id(source, ns, list(batch))
            for key, (copy, steps) in batch.items():
                found = _judge(history, key, copy, steps, last)
                if found is not None and found.document != live.get(key) and found.state not in _DOUBTS:
                    pending[key] = _digest(live.get(key))
                elif found is not None:
                    yield _with_earlier(found, earlier.get(key, ()), steps)
        async for key, document in holding_the_same(source, history):
            yield Judgement(key, DocumentState.SAME, document)
        async for key, document in inserted_beside(source, history):
            yield Judgement(key, DocumentState.BESIDE, document)
    if pending:
        with closing(await read_history(source, spare, accident, ns, limit, kept)) as history:
            async for key, copy, seen in with_documents(spare, ns, pending.items()):
                steps = history.of(key)
                found = _judge(history, key, copy, steps, last, seen)
                if found is not None:
                    yield _with_earlier(found, earlier.get(key, ()), steps)


async def _batches(spare: DocumentSource, history: History) -> AsyncIterator[_Batch]:
    batch: _Batch = {}
    size = 0
    async for key, copy, steps in touched_documents(spare, history, history.hit()):
        batch[key] = copy, steps
        size += len(copy or b"")
        if len(batch) == AT_ONCE or size > HELD_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _with_earlier(found: Judgement, earlier: Iterable[EarlierChange], steps: list[HistoryStep]) -> Judgement:
    """The document came back, but perhaps as an accident left it that is undone."""
    came = found.state is DocumentState.RIGHT and found.restored
    return replace(found, state=DocumentState.EARLIER) if came and comes_back(earlier, steps) else found


def _number_at(history: History, began: Ts | None) -> int | None:
    """The number of the last operation before the return began; None where that is not known."""
    if began is None:
        return None
    query = "SELECT coalesce(max(n), 0) FROM operation WHERE (t, i) <= (?, ?)"
    number: int = history.rows.execute(query, tuple(began)).fetchone()[0]
    return number


def _digest(document: bytes | None) -> bytes:
    return b"" if document is None else digest(document)


def _judge(
    history: History, key: bytes, copy: bytes | None, steps: list[HistoryStep], last: int | None, seen: bytes = _ANY
) -> Judgement | None:
    """What one document is; None where the accident changed nothing in it. ``last`` is the number of the last operation
    before the return began; ``seen`` the digest of the live document, which must be one of its states."""
    if copy is None and history.accident.kind == "everything":
        return None  # it was not there at the point
    trace = DocumentTrace(copy, increments=history.increments, expiring=history.expiring)
    before = 0 if last is None else bisect_right(steps, last, key=attrgetter("number"))
    passed, returned = _follow(trace, steps[:before], seen)
    right, trace.brought_back = last is not None and trace.state is DocumentState.RIGHT, False
    passed |= _follow(trace, steps[before:], seen)[0]
    trace.unclear |= history.ambiguous and bool(trace.left)
    if not trace.hit:
        return None
    state = trace.state if passed or trace.unclear else DocumentState.DIFFERS
    if state is DocumentState.MISSING and seen not in (_ANY, _digest(None)):
        # It is there: a rename brought it, of which no entry of the collection tells.
        state = DocumentState.RIGHT if seen == _digest(trace.removed) else DocumentState.DIFFERS
    if state is DocumentState.RIGHT and trace.document is None and steps and steps[-1].owner == RENAMED:
        state = DocumentState.RENAMED
    restored = trace.brought_back and not right
    return Judgement(key, state, trace.document, restored, returned, trace.theirs, _where(trace))


def _follow(trace: DocumentTrace, steps: list[HistoryStep], seen: bytes) -> tuple[bool, bool]:
    """Feed some operations to a trace: whether the document had the digest ``seen`` at any time, and whether a return
    brought it back by one of them."""
    passed, returned = seen == _ANY or seen == _digest(trace.document), False
    for step in steps:
        if step.owner == UNCERTAIN:
            trace.hit = True
            trace.doubt(trace.document, step.o)
        if step.owner == OWN:
            trace.accident(step.op, step.o)
        elif step.owner == UNDONE:
            trace.undone(step.op, step.o)
        elif step.owner == REPAIR:
            trace.repair(step.op, step.o)
            returned |= trace.hit and trace.state is DocumentState.RIGHT
        else:
            trace.others(step.op, step.o, may_be_expiry=step.may_be_expiry)
        passed = passed or seen == _digest(trace.document)
    return passed, returned


def _where(trace: DocumentTrace) -> str:
    names = [".".join(name.decode("utf-8", "replace") for name in path) for path in trace.changed]
    shown, rest = names[:_NAMED_PATHS], names[_NAMED_PATHS:]
    more = f" and {len(rest)} more" if rest else ""
    return f" Fields: {clean(', '.join(shown), 200)}{more}." if shown else ""
