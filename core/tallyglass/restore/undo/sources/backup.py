"""Documents whose pre-image is not held, from a backup: carried forward to the point through the oplog.

This needs no spare. A document is used only if its state is unambiguous: mongodump may have read it before or after
each update that ran during the backup, and both cases must give the same document at the point.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.entry.changes import is_replacement
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.read.entries import operations
from tallyglass.restore.backup import archive
from tallyglass.restore.backup.backup import ARCHIVE, Contents, StoredCollection
from tallyglass.restore.backup.bson_file import decode, documents, id_key
from tallyglass.restore.catalogue.usable_backup import UsableBackup
from tallyglass.restore.timeline.earlier_writes import ExpectedDocument, read_earlier
from tallyglass.restore.undo.accident import REMOVING, update_of
from tallyglass.restore.undo.temporary import temporary_tables
from tallyglass.restore.undo.values import updated
from tallyglass.text import clean_name

_MOST_DOUBTS = 100
"""The most updates of one document during the backup that are tried."""

_WANTED = "AS row WHERE row.id IN (SELECT id FROM wanted)"
_STORE_STEP = (
    "INSERT INTO step (id, doubtful, op, o) SELECT * FROM (SELECT ? AS id, ? AS doubtful, ? AS op, ? AS o) " + _WANTED
)
_STORE_BASE = "INSERT INTO base SELECT * FROM (SELECT ? AS id, ? AS document) " + _WANTED

_AGAIN = frozenset({*REMOVING, "truncateRange"})
"""Commands after which the backup no longer has all documents of the collection."""


class DocumentStep(NamedTuple):
    """An operation on one document. ``doubtful`` means that the backup may already hold the result; ``o`` is empty for
    a delete."""

    doubtful: bool
    op: str
    o: bytes

    @property
    def whole(self) -> bool:
        """Whether the result does not depend on the document before."""
        return self.op != "u" or is_replacement(self.o)


async def carry_forward(
    gateway: Gateway, backup: UsableBackup, info: CollectionInfo, ids: Iterator[bytes], limit: Ts
) -> AsyncIterator[tuple[bytes, bytes | None]]:
    """Each of the documents as it was just before ``limit``; None if that cannot be proven.

    Raises InputError if the backup holds another collection of that name or a broken file, and the errors of the
    gateway.
    """
    stored = backup.contents.collections.get(str(info.ns))
    if stored is None or not info.uuid or stored.uuid_bytes != info.uuid:
        raise InputError(f"The backup does not hold {clean_name(str(info.ns))}, or another collection of that name.")
    if (info.options or {}).get("capped"):
        raise InputError(f"{clean_name(str(info.ns))} is capped: the oplog does not name all that it removed.")
    earlier = await read_earlier(gateway, backup.start, {info.uuid})
    with closing(temporary_tables()) as rows:
        _create(rows, ids)
        await _read_steps(gateway, backup, info, limit, rows)
        await asyncio.to_thread(_read_bases, backup.contents, stored, rows)
        expected = earlier.by_uuid.get(info.uuid, {})
        for key, bases, steps in _histories(rows):
            try:
                yield key, only_answer(bases, steps, expected.get(key))
            except Malformed:
                yield key, None


def _create(rows: sqlite3.Connection, ids: Iterator[bytes]) -> None:
    for statement in (
        "CREATE TABLE wanted (id BLOB PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE base (id BLOB, document BLOB)",
        "CREATE TABLE step (n INTEGER PRIMARY KEY, id BLOB, doubtful INTEGER, op TEXT, o BLOB)",
        "BEGIN",
    ):
        rows.execute(statement)
    rows.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((id_,) for id_ in ids))


async def _read_steps(
    gateway: Gateway, backup: UsableBackup, info: CollectionInfo, limit: Ts, rows: sqlite3.Connection
) -> None:
    end = backup.contents.backup.end
    async for operation, whole in operations(gateway, str(info.ns), backup.start, limit):
        if operation.op == "c":
            if operation.ui == info.uuid and operation.command in _AGAIN:
                raise InputError(f"{operation.command} at {whole.ts} came between the backup and the point.")
            continue
        o = b"" if operation.op == "d" else update_of(operation)
        rows.execute(_STORE_STEP, (operation.id_key, end is None or whole.ts <= end, operation.op, o))
    rows.execute("CREATE INDEX step_of ON step (id, n)")


def _read_bases(contents: Contents, stored: StoredCollection, rows: sqlite3.Connection) -> None:
    found: Iterator[bytes]
    if contents.backup.form == ARCHIVE:
        found = (raw for ns, raw in archive.documents(contents.backup.path) if ns == stored.stored_as)
    else:
        if stored.data is None:
            raise InputError(f"The backup has no documents of {clean_name(stored.ns)}.")
        found = documents(stored.data, stored.stated)
    try:
        rows.executemany(_STORE_BASE, ((id_key(raw), raw) for raw in found))
    except Malformed as error:
        raise InputError(f"The backup has a document of {clean_name(stored.ns)} that is no BSON: {error}.") from None
    rows.execute("CREATE INDEX base_of ON base (id)")


def _histories(rows: sqlite3.Connection) -> Iterator[tuple[bytes, list[bytes], list[DocumentStep]]]:
    """The ``_id`` of each document that is wanted, what the backup holds of it, and the operations on it in order."""
    bases = groupby(rows.execute("SELECT id, document FROM base ORDER BY id"), key=itemgetter(0))
    steps = groupby(rows.execute("SELECT id, doubtful, op, o FROM step ORDER BY id, n"), key=itemgetter(0))
    base, step = next(bases, None), next(steps, None)
    for (key,) in rows.execute("SELECT id FROM wanted ORDER BY id"):
        held, done = list[bytes](), list[DocumentStep]()
        if base is not None and base[0] == key:
            held = [raw for _, raw in base[1]]
            base = next(bases, None)
        if step is not None and step[0] == key:
            done = [DocumentStep(bool(doubtful), op, o) for _, doubtful, op, o in step[1]]
            step = next(steps, None)
        yield key, held, done


def only_answer(
    bases: Sequence[bytes], steps: Sequence[DocumentStep], expected: ExpectedDocument | None = None
) -> bytes | None:
    """The document after all steps; None if it does not exist or the result is ambiguous.

    ``bases`` are the documents of the backup with this id: two if it was written again during the backup. ``expected``
    is the state that the entries before the steps left. Raises Malformed for broken BSON.
    """
    last = max((number for number, step in enumerate(steps) if step.whole), default=None)
    if last is not None:
        begin = steps[last]
        return None if begin.op == "d" else _applied(begin.o, steps[last + 1 :])
    doubts = sum(step.doubtful for step in steps)
    if doubts > _MOST_DOUBTS or (expected is not None and not doubts and not all(map(expected.allows, bases))):
        return None
    answers = {
        _applied(base, steps[held:])
        for base in bases
        for held in range(doubts + 1)
        if (_may_hold(base, steps[held - 1]) if held else expected is None or expected.allows(base))
    } - {None}
    return answers.pop() if len(answers) == 1 else None


def _may_hold(base: bytes, step: DocumentStep) -> bool:
    """Whether a document may be the result of this update."""
    diff = decode(step.o).get("diff")
    return not isinstance(diff, Mapping) or ExpectedDocument(update=step.o).allows(base)


def _applied(document: bytes, steps: Sequence[DocumentStep]) -> bytes | None:
    """The document after updates; None if one of them does not fit: then this is not the document that was updated."""
    after: bytes | None = document
    for step in steps:
        after = updated(after, step.o)
    return after
