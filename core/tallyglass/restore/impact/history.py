"""The operations on one collection from the point on, in a file, and which of them are the accident's."""

from __future__ import annotations

import hashlib
import marshal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from bson.raw_bson import RawBSONDocument

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.decode import walk
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.impact.accident import (
    REMOVING,
    WHOLE,
    Attribution,
    Changes,
    SignatureSearch,
    changes_of,
    refined,
    update_of,
)
from tallyglass.restore.impact.history_file import HistoryFile
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.oplog import edge, read_all, stamp
from tallyglass.restore.raw.patch import Fields, Unfit, apply_update, build
from tallyglass.restore.raw.patch import Path as FieldPath
from tallyglass.restore.replay.transaction_buffer import TransactionBuffer

OTHERS, OWN, UNCERTAIN = 0, 1, 2
"""To whom an operation belongs: to others, to the accident, or unclear."""

AT_ONCE = 1_000
"""Documents that are asked for in one query."""

_CHUNK = 10_000
"""Rows that are attributed in one go."""

_STORED_AT_ONCE = 1_000
_LAST = "SELECT coalesce(max(n), 0) FROM (SELECT max(n) AS n FROM operation UNION SELECT max(n) FROM removal)"
_STORE = "INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class HistoryStep(NamedTuple):
    """One operation on a document; ``o`` is empty for a delete."""

    number: int
    owner: int
    op: str
    o: bytes


@dataclass(slots=True)
class History:
    """The operations on one collection from the point on, in a file that :meth:`close` removes or keeps."""

    ns: str
    accident: Accident
    file: HistoryFile
    ambiguous: bool = False
    """Whether others write the fields that the accident computed, in a way that looks the same."""
    removals: list[HistoryStep] = field(default_factory=list)
    """The commands that removed all documents."""

    def close(self) -> None:
        """Remove the file, or put it where the next reader finds it."""
        self.file.close()

    @property
    def rows(self) -> sqlite3.Connection:
        """The tables."""
        return self.file.rows

    def of(self, key: bytes) -> list[HistoryStep]:
        """The operations on one document, and the removals, in order."""
        found = self.rows.execute("SELECT n, own, op, o FROM operation WHERE id = ?", (key,))
        return sorted((*(HistoryStep(*row) for row in found), *self.removals))

    def hit(self) -> Iterator[tuple[bytes, list[HistoryStep]]]:
        """The ids of the documents that the accident's operations are about, or may be, each with what :meth:`of`
        gives."""
        query = (
            "SELECT id, n, own, op, o FROM operation WHERE id IN (SELECT id FROM operation WHERE own) ORDER BY id, n"
        )
        for key, rows in groupby(self.rows.execute(query), key=itemgetter(0)):
            steps = [HistoryStep(*row[1:]) for row in rows]
            yield key, sorted((*steps, *self.removals)) if self.removals else steps

    def touched(self) -> Iterator[bytes]:
        """The ids of all documents that were written."""
        for (key,) in self.rows.execute("SELECT DISTINCT id FROM operation"):
            yield key

    def updates(self, after: int = 0, most: int = -1) -> Iterator[tuple[int, bytes, Ts, int, Changes]]:
        """The updates that the sender of the accident may have made, from the one after number ``after`` on: number,
        id, ``ts``, milliseconds of the server's clock, and what each changes. Raises Malformed."""
        query = (
            "SELECT n, id, t, i, millis, o, changes FROM operation LEFT JOIN refined USING (n) "
            "WHERE sender AND n > ? ORDER BY n LIMIT ?"
        )
        for n, key, t, i, millis, o, changes in self.rows.execute(query, (after, most)):
            yield n, key, Ts(t, i), millis, changes_of(o) if changes is None else marshal.loads(changes)


async def read_history(
    source: Gateway, spare: Gateway, accident: Accident, ns: str, limit: Ts, kept: Path | None = None
) -> History:
    """Read the oplog from ``limit`` on; the documents as they were then come from the spare.

    The file ``kept`` stays for the next call, which reads only the entries after those that it holds. Raises ReadError
    where the oplog no longer reaches back to there, InputError if that file cannot be written, and the errors of the
    gateways.
    """
    history = History(ns, accident, HistoryFile(repr((accident, ns, limit)), kept))
    attribution = Attribution(accident)
    try:
        if not await _continues(source, history.file):
            oldest = await edge(source, 1)
            if oldest is None or oldest.ts > limit:
                raise ReadError("The oplog does not reach back to the point any more.", "Plan again.")
        await _fill(source, history, attribution, limit)
        if accident.updates and accident.ns == ns:
            await _refine(spare, history, attribution)
            _attribute_updates(history, attribution)
    except BaseException:
        history.close()
        raise
    return history


async def _continues(source: Gateway, file: HistoryFile) -> bool:
    """Whether the oplog still holds the last entry of the file, and so all that the file holds; empties it if not."""
    if file.read_to is None:
        return False
    ts, digest = file.read_to
    found = await edge(source, 1, {"ts": stamp(ts)})
    if found is not None and _digest(found) == digest:
        return True
    file.begin_again()
    return False


def _digest(entry: Entry) -> bytes:
    return hashlib.sha256(entry.head.raw).digest()


async def _fill(source: Gateway, history: History, attribution: Attribution, limit: Ts) -> None:
    """Store every operation. The updates of the accident's sender are attributed when all of them are known."""
    rows, held = history.rows, history.file.read_to
    by_signature = history.accident.updates and history.accident.ns == history.ns
    rows.execute("BEGIN")
    (number,) = rows.execute(_LAST).fetchone()
    chunk, last = list[tuple[object, ...]](), None
    async for entry, whole in operations(source, history.ns, held[0] if held else limit):
        if held is not None and whole.ts <= held[0]:
            continue
        number, last = number + 1, whole
        own = OWN if attribution.owns(entry, whole) else OTHERS
        if entry.op == "c":
            if _removes(entry, history.ns):
                rows.execute("INSERT INTO removal VALUES (?, ?)", (number, own))
            continue
        o = b"" if entry.op == "d" else update_of(entry)
        sender = by_signature and entry.op == "u" and attribution.same_sender(whole)
        place = whole.ts.t, whole.ts.i, whole.head.wall_millis or 0
        chunk.append((number, entry.id_key, own, entry.op, o, *place, sender))
        if len(chunk) == _STORED_AT_ONCE:
            rows.executemany(_STORE, chunk)
            chunk.clear()
    rows.executemany(_STORE, chunk)
    rows.execute("COMMIT")
    rows.execute("CREATE INDEX IF NOT EXISTS by_id ON operation (id, n)")
    removals = rows.execute("SELECT n, own FROM removal ORDER BY n")
    history.removals = [HistoryStep(n, own, "d", b"") for n, own in removals]
    history.file.now_whole(held if last is None else (last.ts, _digest(last)))


def _removes(entry: Entry, ns: str) -> bool:
    """Whether a command removes the documents from the name of the collection."""
    db, _, name = ns.partition(".")
    target = entry.o.get(entry.command)
    if entry.command == "renameCollection":
        return target == ns
    return entry.command in REMOVING and entry.db == db and (entry.command == "dropDatabase" or target == name)


async def _refine(spare: Gateway, history: History, attribution: Attribution) -> None:
    """Work out what the updates changed that set a document as a whole where others change parts of it.

    The document before each is its copy on the spare, carried forward.
    """
    history.rows.execute("DELETE FROM refined")
    paths = _set_as_a_whole(history, attribution)
    if not paths:
        return
    keys: dict[bytes, None] = {}
    for _, key, _, _, changes in history.updates():
        if not paths.isdisjoint(changes):
            keys[key] = None
        if len(keys) == AT_ONCE:
            await _refine_some(spare, history, list(keys), paths)
            keys = {}
    await _refine_some(spare, history, list(keys), paths)


def _set_as_a_whole(history: History, attribution: Attribution) -> set[FieldPath]:
    """The paths at which some updates set a document, and others a part of it; and the whole document."""
    documents: set[FieldPath] = set()
    parents: set[FieldPath] = {WHOLE}
    for _, _, ts, _, changes in history.updates():
        if attribution.spans_updates(ts):
            documents |= {path for path, value in changes.items() if value is not None and value[0] == walk.DOCUMENT}
            parents |= {path[:length] for path in changes for length in range(1, len(path))}
    return documents & parents


async def _refine_some(spare: Gateway, history: History, keys: list[bytes], paths: set[FieldPath]) -> None:
    copies = await documents_by_id(spare, history.ns, keys)
    for key in keys:
        document = copies.get(key)
        for step in history.of(key):
            if step.op == "u" and document is not None:
                changes = changes_of(step.o)
                if not paths.isdisjoint(changes):
                    found = marshal.dumps(refined(changes, document, paths))
                    history.rows.execute("INSERT OR REPLACE INTO refined VALUES (?, ?)", (step.number, found))
            document = _after(document, step)


def _after(document: bytes | None, step: HistoryStep) -> bytes | None:
    """The document after an operation; None where it is not known, or not there."""
    if step.op != "u":
        return step.o or None
    try:
        return None if document is None else apply_update(document, step.o)
    except Unfit:
        return None


def _attribute_updates(history: History, attribution: Attribution) -> None:
    """Find what the accident's updates have in common, and decide for each whose it is."""
    history.rows.execute("UPDATE operation SET own = ? WHERE sender AND own != ?", (OTHERS, OTHERS))
    search, first = SignatureSearch(), None
    for _, key, ts, millis, changes in history.updates():
        if not attribution.spans_updates(ts):
            continue
        first = first or (changes if history.accident.kind == "everything" else None)
        search.feed(changes, key, ts, millis)
    attribution.signature = search.signature(first)
    history.ambiguous = attribution.signature is not None and attribution.signature.ambiguous
    last = 0
    while True:
        owned: list[tuple[int, int]] = []
        begin = last
        for number, _, ts, _, changes in history.updates(last, _CHUNK):
            last = number
            history.ambiguous |= attribution.resembles(changes, ts)
            if attribution.owns_update(changes, ts):
                owned.append((OWN, number))
            elif attribution.doubts_update(changes, ts):
                owned.append((UNCERTAIN, number))
        history.rows.executemany("UPDATE operation SET own = ? WHERE n = ?", owned)
        if last == begin:
            return


async def operations(source: Gateway, ns: str, start: Ts, end: Ts | None = None) -> AsyncIterator[tuple[Entry, Entry]]:
    """The operations on one collection, and the commands of its database, each with the entry at which it takes
    effect, from ``start`` on, up to but not including ``end``. A transaction that was begun before is there whole."""
    db = ns.partition(".")[0]
    bounds = {"$gte": stamp(start)} | ({"$lt": stamp(end)} if end else {})
    query: dict[str, object] = {"ts": bounds, "ns": {"$in": [ns, f"{db}.$cmd", "admin.$cmd"]}}
    transactions = TransactionBuffer()
    known: set[object] = set()
    async for entry in read_all(source, query):
        txn = entry.txn
        if txn is not None and txn not in known:
            known.add(txn)
            transactions.begin(txn, await earlier_parts(source, entry))
        for operation, whole in transactions.feed(entry):
            if operation.ns == ns or (
                operation.op == "c" and (operation.db == db or operation.command == "renameCollection")
            ):
                yield operation, whole


async def earlier_parts(source: Gateway, entry: Entry) -> list[Entry]:
    """The entries of the transaction of ``entry`` that were written before it, oldest first."""
    parts: list[Entry] = []
    link = entry.previous
    while link is not None:
        found = await edge(source, 1, {"ts": stamp(link)})
        if found is None:
            break
        parts.insert(0, found)
        link = found.previous
    return parts


async def documents_by_id(gateway: Gateway, ns: str, keys: list[bytes]) -> dict[bytes, bytes]:
    """The documents with these ids, which are compared exactly, whatever their type."""
    if not keys:
        return {}
    items: Fields = {str(at).encode(): (key[0], key[1:]) for at, key in enumerate(keys)}
    inner = build({b"$in": (walk.ARRAY, build(items))})
    query = RawBSONDocument(build({b"_id": (walk.DOCUMENT, inner)}))
    found: dict[bytes, bytes] = {}
    async for batch in gateway.find_raw(Namespace.parse(ns), query):
        for at, end in walk.split(batch):
            raw = batch[at:end]
            found[id_key(raw)] = raw
    return found
