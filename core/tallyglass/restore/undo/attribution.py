"""Decides which operations of a history are the accident's.

An entry shows only what changed: where that leaves it open, the document before it decides, its copy at the point
carried forward.
"""

from __future__ import annotations

import contextlib
import marshal
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import Changes, Path, Unfit, changes_of, differing
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import Attribution, UpdateEffect, completed
from tallyglass.restore.undo.documents import DocumentSource, with_documents
from tallyglass.restore.undo.evidence import read_statement
from tallyglass.restore.undo.history import (
    ACCIDENT,
    LAST_NUMBER,
    NO_REPAIR,
    OTHERS,
    OWN,
    UNCERTAIN,
    History,
    HistoryStep,
)
from tallyglass.restore.undo.increments import IncrementSearch
from tallyglass.restore.undo.values import related, updated

_CHUNK = 10_000
"""Rows that are attributed in one go, so that few are in memory and the table is read in long stretches."""


async def attribute(source: Gateway, spare: DocumentSource, history: History, attribution: Attribution) -> None:
    """Decide whose the operations are that were read since this was last done. Raises ReadError where they are not as
    many as the plan found or a person says, where none does what a person says, or where several statements may have
    computed what they left."""
    rows, accident, effect = history.rows, history.accident, attribution.effect
    done, history.ambiguous = rows.execute("SELECT n, ambiguous FROM attributed").fetchone() or (0, False)
    if accident.statement:
        # One that was dropped since may have had another than the one that has its name now.
        collation = bool(history.removals) or await _has_collation(source, history.ns)
        await _explain(spare, history, attribution, done, collation=collation)
    if effect is not None:
        await _complete(spare, history, effect, done)
        _attribute_updates(history, attribution, effect, done)
    rows.execute("DELETE FROM attributed")
    rows.execute(f"INSERT INTO attributed SELECT ({LAST_NUMBER}), ?", (history.ambiguous,))
    _compare_with_count(history)
    if effect is not None and not (accident.statement or accident.proven):
        await _require_one_formula(spare, history, effect)


def _amid(accident: Accident) -> str:
    """The condition for rows within the span of the accident's updates."""
    first, last = accident.first, accident.updates_end
    return f"(t, i) BETWEEN ({first.t}, {first.i}) AND ({last.t}, {last.i})"


async def _carried(
    spare: DocumentSource, history: History, touched: Iterator[tuple[bytes, list[HistoryStep]]]
) -> AsyncIterator[tuple[bytes | None, HistoryStep, bytes | None]]:
    """The operations on some documents, each with the document before and after it; None where it is not known, or not
    there."""
    async for _, document, steps in with_documents(spare, history.ns, touched):
        for step in steps:
            after = _after(document, step)
            yield document, step, after
            document = after


def _after(document: bytes | None, step: HistoryStep) -> bytes | None:
    """The document after an operation; None where it is not known, or not there."""
    return updated(document, step.o) if step.op == "u" else step.o or None


async def _complete(spare: DocumentSource, history: History, effect: UpdateEffect, done: int) -> None:
    """Work out what the updates that may be the accident's would have set on any document, where their entries show
    only a part of it, or the whole document."""
    rows = history.updates(done, among=f"{NO_REPAIR} AND {_amid(history.accident)}")
    partial = ((key, history.of(key)) for _, key, _, changes in rows if _is_partial(changes, effect))
    async for before, step, _ in _carried(spare, history, partial):
        if step.op == "u" and before is not None and _is_partial(changes := changes_of(step.o), effect):
            with contextlib.suppress(Unfit):  # where a field name is there twice, the entry counts as it is logged
                found = marshal.dumps(completed(changes, before, effect))
                history.rows.execute("INSERT OR REPLACE INTO refined VALUES (?, ?)", (step.number, found))


def _is_partial(changes: Changes, effect: UpdateEffect) -> bool:
    """Whether the document before decides if an update has this effect."""
    if effect.agrees(changes):
        return not effect.fits(changes)
    return any(map(effect.sets_below, changes))


async def _has_collation(source: Gateway, ns: str) -> bool:
    """Whether a collection compares texts by a collation, or may: its options are not known."""
    with contextlib.suppress(PrivilegeError):
        for info in await source.list_collections(ns.partition(".")[0]):
            if str(info.ns) == ns and info.options is not None:
                return "collation" in info.options
    return True


async def _explain(
    spare: DocumentSource, history: History, attribution: Attribution, done: int, *, collation: bool
) -> None:
    """Compare each write of the sender with the statement, applied to the document before it. Deletes are attributed at
    once, updates with their effect; after the accident there are none of it."""
    accident = history.accident
    statement = read_statement(accident.statement)
    statement = replace(statement, collation=collation or statement.collation)
    paths = attribution.effect.paths if attribution.effect is not None else ()
    query = f"n > {done} AND (own = {OWN} OR (sender AND op = 'u' AND {_amid(accident)}))"
    candidates = history.each(f"SELECT id FROM operation WHERE {query}")
    async for before, step, after in _carried(spare, history, candidates):
        if before is None or step.op == "i":
            continue
        known = statement.explains(before, after)
        if known is not None and (after is not None or step.op == "d"):
            known &= after is None or _changes_only(before, after, paths)
            history.rows.execute("INSERT OR REPLACE INTO explained VALUES (?, ?)", (step.number, known))
    if accident.kind == "deletes":
        others = "SELECT n FROM explained WHERE NOT own"
        history.rows.execute(f"UPDATE operation SET own = {OTHERS} WHERE own = {OWN} AND n IN ({others})")


def _changes_only(before: bytes, after: bytes, paths: Collection[Path]) -> bool:
    """Whether a document differs at these paths alone: a statement's values are compared as numbers, and another write
    may have changed nothing but the type of one."""
    with contextlib.suppress(Unfit):
        return all(any(related(path, one) for one in paths) for path in differing(before, after))
    return True


def _attribute_updates(history: History, attribution: Attribution, effect: UpdateEffect, done: int) -> None:
    """Decide for each update whose it is. Raises ReadError where they are not as many as the plan found."""
    accident, last = history.accident, done
    explained = history.rows.execute
    while True:
        owned: list[tuple[int, int]] = []
        begin = last
        for number, _, ts, changes in history.updates(last, _CHUNK):
            last = number
            fits, inside = effect.fits(changes), attribution.spans_updates(ts)
            history.ambiguous |= fits and not inside and bool(effect.computed) and not accident.proven
            (known,) = explained("SELECT own FROM explained WHERE n = ?", (number,)).fetchone() or (None,)
            if known is None:
                known = fits or (accident.proven and (effect.explains(changes) or not accident.statement))
            if known and inside:
                owned.append((OWN, number))
            elif effect.may_fit(changes) and inside and not accident.proven:
                owned.append((UNCERTAIN, number))
        history.rows.executemany("UPDATE operation SET own = ? WHERE n = ?", owned)
        if last == begin:
            break
    (own,) = history.rows.execute(f"SELECT count(*) FROM operation WHERE own = {OWN} AND op = 'u'").fetchone()
    if accident.kind == "updates" and not accident.statement and own != accident.entries:
        raise ReadError(
            f"The plan found {accident.entries:,} updates of one statement; compared with the documents before "
            f"them, {own:,} are: there may be several statements, or one that sets a field in some documents only.",
            "Nothing was written. Plan again with --statement, or with --count.",
        )


def _compare_with_count(history: History) -> None:
    """Raise ReadError where not as many writes are the accident's as a person says that its statement reported, or
    none."""
    accident, rows = history.accident, history.rows
    if accident.ns != history.ns or accident.kind not in ("updates", "deletes"):
        return
    query = f"SELECT count(*), count(*) - count(DISTINCT id) FROM operation WHERE own = {OWN}"
    own, again = rows.execute(query).fetchone()
    uncertain = rows.execute(f"SELECT 1 FROM operation WHERE own = {UNCERTAIN} LIMIT 1").fetchone()
    if accident.statement and not (own or uncertain):
        raise ReadError(
            "No write of this incident does what was run, compared with the documents before.",
            "Nothing was written. Correct --statement, or plan without it.",
        )
    if accident.count is not None and (own != accident.count or (accident.statement and again)):
        twice = f", {again:,} of them once more on a document" if again else ""
        raise ReadError(
            f"{own:,} writes do what was run, compared with the documents before{twice}; {accident.count:,} were "
            "reported.",
            "Nothing was written. Correct --statement and --count, or plan with --before and the first entry.",
        )


async def _require_one_formula(spare: DocumentSource, history: History, effect: UpdateEffect) -> None:
    """Raise ReadError where no one sum or product explains what the accident computed, which nobody has named."""
    if effect.computed and not effect.computed <= (await find_increments(spare, history, (OWN,))).explained:
        raise ReadError(
            "Different values were written, and no one sum or product explains them all: there may be several "
            "statements.",
            "Nothing was written. Plan again with --statement, or with --count.",
        )


async def find_increments(spare: DocumentSource, history: History, owners: tuple[int, ...]) -> IncrementSearch:
    """Look through the updates by some owners of documents that the accident updated."""
    found = IncrementSearch()
    updated = f"SELECT id FROM operation WHERE op = 'u' AND {ACCIDENT}"
    query = f"SELECT id FROM operation WHERE op = 'u' AND own = {owners[0]} AND id IN ({updated})"
    async for before, step, _ in _carried(spare, history, history.each(query)):
        if step.owner in owners and step.op == "u" and before is not None:
            found.feed(before, step.o)
    return found
