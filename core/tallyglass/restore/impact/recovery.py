"""What has to be written so that one live collection is as it would be without the accident.

Every document that the accident touched is carried forward from its copy on the spare through the oplog, once with and
once without the accident's operations. Where the two differ, the difference is the repair; what others wrote is in
both. Nothing is written here: the repairs go into a file that mongorestore loads beside the live collection.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bson.raw_bson import RawBSONDocument

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.impact.accident import REMOVING, Attribution, Signature, SignatureSearch, update_of
from tallyglass.restore.impact.counterfactual import Counterfactual, Verdict
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.raw.oplog import edge, read_all, stamp
from tallyglass.restore.raw.patch import Fields, build
from tallyglass.restore.replay.unfold import Unfolder

_OTHERS, _OWN, _DOUBTFUL = 0, 1, 2
_AT_ONCE = 1_000
"""Documents that are asked for in one query."""


@dataclass(slots=True)
class Judged:
    """One document that the accident touched: its ``_id`` as a type byte and the value's bytes, and what to do."""

    key: bytes
    verdict: Verdict
    actual: bytes | None
    wanted: bytes | None


@dataclass(slots=True)
class History:
    """The operations on one collection from the point on, in a file that is removed with :meth:`close`."""

    ns: str
    accident: Accident
    folder: tempfile.TemporaryDirectory[str]
    rows: sqlite3.Connection
    ambiguous: bool = False
    """Whether others write the fields that the accident computed, in a way that looks the same."""
    removals: list[tuple[int, bool]] = field(default_factory=list)
    """When the collection was removed: the number of the operation, and whether it was the accident."""
    replaced: bool = False
    """Whether another collection took its name."""
    last: Ts | None = None

    def close(self) -> None:
        """Remove the file."""
        self.rows.close()
        self.folder.cleanup()

    def of(self, key: bytes) -> list[tuple[int, int, str, bytes]]:
        """The operations on one document: their number, whose they are, the letter, and ``o``."""
        return list(self.rows.execute("SELECT n, own, op, o FROM operation WHERE id = ? ORDER BY n", (key,)))

    def hit(self) -> Iterator[bytes]:
        """The ids of the documents that the accident's operations are about, or may be."""
        for (key,) in self.rows.execute("SELECT DISTINCT id FROM operation WHERE own"):
            yield key

    def touched(self) -> Iterator[bytes]:
        """The ids of all documents that were written."""
        for (key,) in self.rows.execute("SELECT DISTINCT id FROM operation"):
            yield key


async def read_history(source: Gateway, accident: Accident, ns: str, limit: Ts) -> History:
    """Read the oplog from ``limit`` on. Raises ReadError where it no longer reaches back to there."""
    oldest = await edge(source, 1)
    if oldest is None or oldest.ts > limit:
        raise ReadError("The oplog does not reach back to the point any more.", "Plan again.")
    signature = await find_signature(source, accident) if accident.updates and accident.ns == ns else None
    attribution = Attribution(accident, signature)
    folder = tempfile.TemporaryDirectory(prefix="tallyglass-")
    rows = sqlite3.connect(Path(folder.name) / "history.sqlite", isolation_level=None)
    rows.execute("PRAGMA journal_mode = OFF")
    rows.execute("PRAGMA synchronous = OFF")
    rows.execute("CREATE TABLE operation (id BLOB, n INTEGER, own INTEGER, op TEXT, o BLOB)")
    history = History(ns, accident, folder, rows, ambiguous=signature is not None and signature.ambiguous)
    try:
        await _fill(source, history, attribution, limit)
    except BaseException:
        history.close()
        raise
    return history


async def _fill(source: Gateway, history: History, attribution: Attribution, limit: Ts) -> None:
    rows = history.rows
    rows.execute("BEGIN")
    number = 0
    async for entry, whole in operations(source, history.ns, limit):
        number += 1
        history.last = whole.ts
        own = attribution.owns(entry, whole)
        if entry.op == "c":
            _note_command(history, entry, number, own)
            continue
        history.ambiguous |= attribution.may_be_both(entry, whole)
        o = b"" if entry.op == "d" else update_of(entry)
        whose = _OWN if own else _DOUBTFUL if attribution.doubts(entry, whole) else _OTHERS
        rows.execute("INSERT INTO operation VALUES (?, ?, ?, ?, ?)", (entry.id_key, number, whose, entry.op, o))
    rows.execute("COMMIT")
    rows.execute("CREATE INDEX by_id ON operation (id, n)")


def _note_command(history: History, entry: Entry, number: int, own: bool) -> None:
    db, _, name = history.ns.partition(".")
    target = entry.o.get(entry.command)
    if entry.command == "renameCollection":
        history.replaced |= entry.o.get("to") == history.ns
        if target == history.ns:
            history.removals.append((number, own))
    elif entry.command in REMOVING and entry.db == db and target == name:
        history.removals.append((number, own))


async def find_signature(source: Gateway, accident: Accident) -> Signature | None:
    """What the accident's updates have in common; None where there are none."""
    search, attribution, first = SignatureSearch(), Attribution(accident), b""
    async for entry, whole in operations(source, accident.ns, accident.first):
        until = accident.updates_last or accident.last
        if until is not None and whole.ts > until:
            break
        if entry.op == "u" and attribution.same_sender(entry, whole):
            o = update_of(entry)
            first = first or (o if accident.kind == "everything" else b"")
            search.feed(o, entry.id_key, whole.ts, whole.head.wall_millis or 0)
    return search.signature(first)


async def operations(source: Gateway, ns: str, start: Ts) -> AsyncIterator[tuple[Entry, Entry]]:
    """The operations on one collection, and the commands of its database, each with the entry at which it takes
    effect, from ``start`` on. A transaction that was begun before is there whole."""
    db = ns.partition(".")[0]
    query: dict[str, object] = {"ts": {"$gte": stamp(start)}, "ns": {"$in": [ns, f"{db}.$cmd", "admin.$cmd"]}}
    unfolder = Unfolder()
    known: set[object] = set()
    async for entry in read_all(source, query):
        txn = entry.txn
        if txn is not None and txn not in known:
            known.add(txn)
            unfolder.begin(txn, await _earlier_parts(source, entry))
        for operation, whole in unfolder.feed(entry):
            if operation.ns == ns or (
                operation.op == "c" and (operation.db == db or operation.command == "renameCollection")
            ):
                yield operation, whole


async def _earlier_parts(source: Gateway, entry: Entry) -> list[Entry]:
    parts: list[Entry] = []
    link = entry.previous
    while link is not None:
        found = await edge(source, 1, {"ts": stamp(link)})
        if found is None:
            break
        parts.insert(0, found)
        link = found.previous
    return parts


async def judge(spare: Gateway, history: History) -> AsyncIterator[Judged]:
    """Every document that the accident touched. Raises the errors of the gateway."""
    if any(own for _, own in history.removals):
        async for judged in _judge_all(spare, history):
            yield judged
        return
    keys: list[bytes] = []
    for key in history.hit():
        keys.append(key)
        if len(keys) == _AT_ONCE:
            async for judged in _judge_some(spare, history, keys):
                yield judged
            keys = []
    async for judged in _judge_some(spare, history, keys):
        yield judged


async def _judge_some(spare: Gateway, history: History, keys: list[bytes]) -> AsyncIterator[Judged]:
    held = await documents_by_id(spare, history.ns, keys)
    for key in keys:
        yield _judge_one(history, key, held.get(key))


async def _judge_all(spare: Gateway, history: History) -> AsyncIterator[Judged]:
    """After a removal: every document of the copy, and those that were inserted between the point and the removal."""
    rest = set(history.touched())
    async for batch in spare.find_raw(Namespace.parse(history.ns), {}, time_ms=3_600_000):
        for at, end in walk.split(batch):
            raw = batch[at:end]
            key = id_key(raw)
            rest.discard(key)
            yield _judge_one(history, key, raw)
    for key in rest:
        judged = _judge_one(history, key, None)
        if judged.verdict is not Verdict.LEFT:
            yield judged


def _judge_one(history: History, key: bytes, copy: bytes | None) -> Judged:
    document = Counterfactual(copy, copy)
    steps = [*history.of(key), *((number, own, "d", b"") for number, own in history.removals)]
    updates = 0
    try:
        for _, own, op, o in sorted(steps, key=lambda step: step[0]):
            document.unclear |= own == _DOUBTFUL
            if own == _OWN:
                document.accident(op, o)
                updates += op == "u"
            else:
                document.others(op, o)
    except Malformed:
        document.unclear = True
    document.unclear |= history.ambiguous and updates > 0
    if copy is None and history.accident.kind == "everything":
        return Judged(key, Verdict.LEFT, document.actual, None)  # it was not there at the point
    return Judged(key, document.verdict, document.actual, document.wanted)


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
