"""What others wrote beside the accident that may be a part of it: documents that hold what it set, or that it inserted.

It decides nothing; the account lists it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator

from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import Changes, Path, Unfit, Value, get
from tallyglass.oplog.read.entries import operations
from tallyglass.restore.undo.accident import Attribution, millis_of, seconds_before
from tallyglass.restore.undo.documents import with_documents
from tallyglass.restore.undo.history import History
from tallyglass.restore.undo.infer import NEXT_MILLIS

_BESIDE_SECONDS = 60
"""How far before and after the accident other updates are compared with it: a statement that waits for a lock or a disk
pauses for less."""

_COMMON = 0.1
"""The share of the accident's updates that must leave the same value for it to be one that the statement sets. Where a
document had it before, the entry lacks it."""

_LEAST = 2
"""Updates that must leave it, however few the accident has."""

Atom = tuple[Path, Value | None]


async def holding_the_same(source: Gateway, history: History) -> AsyncIterator[tuple[bytes, bytes]]:
    """Documents that were attributed to others, though an update set in them what the accident's updates set, within a
    minute of those, and that still hold it: it may have been the same statement."""
    found: dict[bytes, list[Atom]] = {}
    for key, atom in _beside(history):
        found.setdefault(key, []).append(atom)
    async for key, document, atoms in with_documents(source, history.ns, found.items()):
        if document is not None and any(_holds(document, atom) for atom in atoms):
            yield key, document


async def inserted_beside(source: Gateway, history: History) -> AsyncIterator[tuple[bytes, bytes]]:
    """Live documents that were inserted between the accident's updates, or right before or after them, by what may be
    the same statement. An ``updateMany`` that was named inserts none."""
    if history.accident.statement:
        return
    before = [key async for key in _inserted_before(source, history)]
    keys = dict.fromkeys([*before, *history.inserted_beside(NEXT_MILLIS)])
    async for key, document, _ in with_documents(source, history.ns, keys.items()):
        if document is not None:
            yield key, document


async def _inserted_before(source: Gateway, history: History) -> AsyncIterator[bytes]:
    """What the sender of the accident's updates inserted right before them: a history begins with the first."""
    accident, attribution, ends = history.accident, Attribution(history.accident), history.ends()
    if not ends or accident.ns != history.ns:
        return
    run, end = list[bytes](), 0
    since = seconds_before(accident.first, _BESIDE_SECONDS)
    async for entry, whole in operations(source, history.ns, since, accident.first):
        if entry.op == "i" and attribution.may_own_update(whole):
            millis = millis_of(whole)
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
