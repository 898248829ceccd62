"""The operations on one collection from the point on, in a file, and which of them are the accident's."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from bson.binary import UUID_SUBTYPE, Binary
from bson.raw_bson import RawBSONDocument

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Changes, Fields, Unfit, apply_update, build, changes_of, differing, parse
from tallyglass.oplog.entry.changes import Path as FieldPath
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import edge, operations, stamp
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import (
    REMOVING,
    Attribution,
    UpdateEffect,
    completed,
    update_of,
)
from tallyglass.restore.undo.earlier_returns import is_written_from, staged_repairs, staging_of, undone_by
from tallyglass.restore.undo.evidence import read_statement
from tallyglass.restore.undo.history_file import HistoryFile
from tallyglass.restore.undo.increments import Increments, IncrementSearch
from tallyglass.restore.undo.sources.source import DocumentSource
from tallyglass.restore.undo.values import related
from tallyglass.text import clean_name

OTHERS, OWN, UNCERTAIN, REPAIR, UNDONE, OLDER = 0, 1, 2, 3, 4, 5
"""To whom an operation belongs: to others, to the accident, unclear, it is what a return wrote, or what that undid; or
what a return wrote to undo what is older than the history."""

_NO_REPAIR = f"own NOT IN ({REPAIR}, {OLDER})"
_ACCIDENT = f"own IN ({OWN}, {UNCERTAIN})"

AT_ONCE = 1_000
"""Documents that are asked for in one query."""

_CHUNK = 10_000
"""Rows that are attributed in one go."""

_STORED_AT_ONCE = 1_000
_NEVER = Ts(2**32, 0)
_LAST = "SELECT coalesce(max(n), 0) FROM (SELECT max(n) AS n FROM operation UNION SELECT max(n) FROM removal)"
_STORE = "INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class HistoryStep(NamedTuple):
    """One operation on a document; ``o`` is empty for a delete."""

    number: int
    owner: int
    op: str
    o: bytes
    ts: Ts


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
    increments: Increments = field(default_factory=dict)
    """The numbers to which others only add, in documents that the accident updated."""

    def close(self) -> None:
        """Remove the file, or put it where the next reader finds it."""
        self.file.close()

    @property
    def rows(self) -> sqlite3.Connection:
        """The connection to the tables."""
        return self.file.rows

    def of(self, key: bytes) -> list[HistoryStep]:
        """The operations on one document, and the removals, in order."""
        found = self.rows.execute("SELECT n, own, op, o, t, i FROM operation WHERE id = ?", (key,))
        return self._with_removals(key, [_step(row) for row in found])

    def _with_removals(self, key: bytes, steps: list[HistoryStep]) -> list[HistoryStep]:
        """The operations on one document in order, with the removals, of which a return may have undone some in it."""
        if not self.removals:
            return sorted(steps)
        undone = {Ts(t, i) for t, i in self.rows.execute("SELECT t, i FROM undone WHERE id = ?", (key,))}
        known = (one.owner != OTHERS or one.ts not in undone for one in self.removals)
        back = [one if kept else one._replace(owner=UNDONE) for one, kept in zip(self.removals, known, strict=True)]
        return sorted((*steps, *back))

    def hit(self) -> Iterator[tuple[bytes, list[HistoryStep]]]:
        """The ids of the documents that the accident's operations are about, or may be, each with what :meth:`of`
        gives."""
        query = (
            "SELECT id, n, own, op, o, t, i FROM operation "
            f"WHERE id IN (SELECT id FROM operation WHERE {_ACCIDENT}) ORDER BY id, n"
        )
        for key, rows in groupby(self.rows.execute(query), key=itemgetter(0)):
            yield key, self._with_removals(key, [_step(row[1:]) for row in rows])

    def staging(self) -> Iterator[tuple[str, Ts]]:
        """The staging collections of returns since the point, each with when it was first made."""
        for name, t, i, _ in self.rows.execute("SELECT name, t, i, min(rowid) FROM staging GROUP BY name"):
            yield name, Ts(t, i)

    def touched(self) -> Iterator[bytes]:
        """The ids of all documents that were written."""
        for (key,) in self.rows.execute("SELECT DISTINCT id FROM operation"):
            yield key

    def updates(
        self, after: int = 0, most: int = -1, among: str = _NO_REPAIR
    ) -> Iterator[tuple[int, bytes, Ts, int, Changes]]:
        """The updates that the sender of the accident may have made, from the one after number ``after`` on: number,
        id, ``ts``, milliseconds of the server's clock, and what each changes. Raises Malformed."""
        query = (
            "SELECT n, id, t, i, millis, o, changes FROM operation LEFT JOIN refined USING (n) "
            f"WHERE sender AND op = 'u' AND n > ? AND {among} ORDER BY n LIMIT ?"
        )
        for n, key, t, i, millis, o, changes in self.rows.execute(query, (after, most)):
            yield n, key, Ts(t, i), millis, changes_of(o) if changes is None else marshal.loads(changes)

    def own_updates(self) -> Iterator[Changes]:
        """What the accident's updates change. Raises Malformed."""
        yield from (changes for *_, changes in self.updates(among=f"own = {OWN}"))

    def updates_beside(self, seconds: int) -> Iterator[tuple[bytes, Changes]]:
        """The ids of documents that no operation of the accident is about, and what others' updates change in them
        amid the accident's updates, or up to so many seconds before and after. Raises Malformed."""
        first, last = self.accident.first, self.accident.updates_last or self.accident.last or _NEVER
        near = f"own = {OTHERS} AND t BETWEEN {first.t - seconds} AND {last.t + seconds}"
        among = f"{near} AND id NOT IN (SELECT id FROM operation WHERE {_ACCIDENT})"
        yield from ((key, changes) for _, key, _, _, changes in self.updates(among=among))

    def ends(self) -> list[tuple[int, int]]:
        """The first and the last of the accident's operations, each its number and the server's clock; empty where
        there are none."""
        query = "SELECT n, millis FROM operation WHERE n = (SELECT {}(n) FROM operation WHERE own = ?)"
        return [row for end in ("min", "max") for row in self.rows.execute(query.format(end), (OWN,))]

    def inserted_beside(self, pause: int) -> Iterator[bytes]:
        """The ids of documents that the sender of the accident's updates may have inserted between them, or after them
        without a pause of so many milliseconds."""
        query = (
            "SELECT n, id, millis FROM operation WHERE sender AND op = 'i' AND NOT own AND n > ?"
            f" AND id NOT IN (SELECT id FROM operation WHERE {_ACCIDENT}) ORDER BY n"
        )
        for (first, _), (last, end) in pairwise(self.ends()):
            for n, key, millis in self.rows.execute(query, (first,)):
                if n > last:
                    if millis - end > pause:
                        return
                    end = millis
                yield key


async def read_history(
    source: Gateway, spare: DocumentSource, accident: Accident, ns: str, limit: Ts, kept: Path | None = None
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
        read_to = await _fill(source, history, attribution, limit)
        await _mark_repairs(source, history, limit)
        if accident.ns == ns:
            await _attribute(spare, history, attribution)
        _compare_with_count(history)
        effect = attribution.effect
        if effect is not None and accident.ns == ns and not (accident.statement or accident.proven):
            await _require_one_formula(spare, history, effect)
        _mark_undone(history)
        history.increments = (await _find_increments(spare, history, (OTHERS, UNCERTAIN))).found
        history.file.now_whole(read_to)
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
    return hashlib.sha256(entry.raw).digest()


async def _fill(source: Gateway, history: History, attribution: Attribution, limit: Ts) -> tuple[Ts, bytes] | None:
    """Store every operation, and return how far the file now reaches. The updates of the accident's sender are
    attributed when all of them are known."""
    rows, held = history.rows, history.file.read_to
    by_effect = attribution.effect is not None and history.accident.ns == history.ns
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
                rows.execute("INSERT INTO removal VALUES (?, ?, ?, ?)", (number, own, *whole.ts))
            elif name := staging_of(entry, history.ns):
                rows.execute("INSERT INTO staging VALUES (?, ?, ?)", (name, *whole.ts))
            elif await _is_renamed_back(source, history.ns, entry, limit):
                rows.execute("DELETE FROM removal WHERE n = (SELECT max(n) FROM removal)")
            continue
        o = b"" if entry.op == "d" else update_of(entry)
        sender = by_effect and entry.op in ("u", "i") and attribution.may_own_update(whole)
        place = whole.ts.t, whole.ts.i, whole.wall_millis or 0
        chunk.append((number, entry.id_key, own, entry.op, o, *place, sender, whole.linked))
        if len(chunk) == _STORED_AT_ONCE:
            rows.executemany(_STORE, chunk)
            chunk.clear()
    rows.executemany(_STORE, chunk)
    rows.execute("COMMIT")
    rows.execute("CREATE INDEX IF NOT EXISTS by_id ON operation (id, n)")
    removals = rows.execute("SELECT n, own, t, i FROM removal ORDER BY n")
    history.removals = [HistoryStep(n, own, "d", b"", Ts(t, i)) for n, own, t, i in removals]
    return held if last is None else (last.ts, _digest(last))


async def _is_renamed_back(source: Gateway, ns: str, entry: Entry, limit: Ts) -> bool:
    """Whether a command gives a collection that was renamed since the point its name back, with its documents. Raises
    ReadError where it was written to under the other name, or another one under its own: that is not in the history."""
    if entry.command != "renameCollection" or entry.o.get("to") != ns:
        return False
    before, ui = {"$gte": stamp(limit), "$lt": stamp(entry.ts)}, Binary(entry.ui, UUID_SUBTYPE)
    away = await edge(source, -1, {"ts": before, "op": "c", "ui": ui, "o.renameCollection": ns})
    if away is None:
        return False
    about = [{"ui": ui, "op": {"$in": ["i", "u", "d"]}}, {"ns": ns}, {"o.applyOps": {"$elemMatch": {"ui": ui}}}]
    if await edge(source, 1, {"ts": {"$gt": stamp(away.ts), "$lt": stamp(entry.ts)}, "$or": about}) is not None:
        raise ReadError(
            f"{clean_name(ns)} was renamed and renamed back, and one of them was written to meanwhile.",
            "That is not worked out. Plan with --only to get its documents under another name.",
        )
    return True


async def _mark_repairs(source: Gateway, history: History, limit: Ts) -> None:
    """Find what returns wrote: after a run began to write the repairs, and before the next one loaded its own, the
    first operation without a session that leaves what the repair says. What that undid is noted for
    :func:`_mark_undone`."""
    rows = history.rows
    written = (
        "SELECT n, op, o FROM operation WHERE id = ? AND (t, i) > (?, ?) AND (t, i) < (?, ?)"
        f" AND own = {OTHERS} AND NOT linked ORDER BY n"
    )
    left = "SELECT rowid, t, i, repair FROM staged WHERE rowid > ? AND name = ? AND repair > x'' ORDER BY rowid LIMIT ?"
    for name, made in history.staging():
        await _read_staged(source, history, name, made)
        marks = rows.execute("SELECT t, i FROM staged WHERE name = ? AND repair = x''", (name,))
        begun, last = [Ts(t, i) for t, i in marks], 0
        loaded = [Ts(t, i) for t, i in rows.execute("SELECT t, i FROM staging WHERE name = ? ORDER BY t, i", (name,))]
        while some := rows.execute(left, (last, name, AT_ONCE)).fetchall():
            last, found, undone_there = some[-1][0], list[tuple[int]](), list[tuple[bytes, int, int]]()
            for row, t, i, raw in some:
                since = next((ts for ts in begun if ts > Ts(t, i)), None)
                if since is None:
                    continue
                until = next((ts for ts in loaded if ts > Ts(t, i)), _NEVER)
                for n, op, o in rows.execute(written, (id_key(raw), *since, *until)):
                    if is_written_from(parse(raw), op, o):
                        undone = undone_by(raw)
                        known = bool(undone) and all(ts >= limit for ts in undone)
                        rows.execute("UPDATE operation SET own = ? WHERE n = ?", (REPAIR if known else OLDER, n))
                        undone_there += [(id_key(raw), *ts) for ts in undone if known]
                        found.append((row,))
                        break
            rows.executemany("UPDATE staged SET repair = NULL WHERE rowid = ?", found)
            rows.executemany("INSERT INTO undone VALUES (?, ?, ?)", undone_there)


def _mark_undone(history: History) -> None:
    """Mark what returns undid and this accident did not do: it is neither in what it left nor in what would be."""
    found = "SELECT o.n FROM undone AS u JOIN operation AS o ON o.id = u.id AND o.t = u.t AND o.i = u.i"
    among = f"own IN ({OTHERS}, {UNCERTAIN})"
    history.rows.execute(f"UPDATE operation SET own = {UNDONE} WHERE n IN ({found}) AND {among}")


async def _read_staged(source: Gateway, history: History, name: str, made: Ts) -> None:
    """Store the repairs that were loaded into a staging collection since this was last done."""
    rows = history.rows
    read_to = rows.execute("SELECT t, i FROM staged WHERE name = ? ORDER BY rowid DESC LIMIT 1", (name,)).fetchone()
    rows.execute("BEGIN")
    async for ts, repair in staged_repairs(source, name, Ts(*read_to).next if read_to else made):
        rows.execute("INSERT INTO staged VALUES (?, ?, ?, ?)", (name, *ts, repair))
    rows.execute("COMMIT")


def _step(row: tuple[int, int, str, bytes, int, int]) -> HistoryStep:
    return HistoryStep(*row[:4], Ts(*row[4:]))


def fingerprint(document: bytes) -> bytes:
    """A short stand-in for a document."""
    return hashlib.blake2b(document, digest_size=16).digest()


def _removes(entry: Entry, ns: str) -> bool:
    """Whether a command removes the documents from the name of the collection."""
    db, _, name = ns.partition(".")
    target = entry.o.get(entry.command)
    if entry.command == "renameCollection":
        return target == ns
    return entry.command in REMOVING and entry.db == db and (entry.command == "dropDatabase" or target == name)


async def _attribute(spare: DocumentSource, history: History, attribution: Attribution) -> None:
    """Decide whose the operations are that were read since this was last done. Raises ReadError where the updates are
    not as many as the plan found."""
    rows, effect = history.rows, attribution.effect
    done, history.ambiguous = rows.execute("SELECT n, ambiguous FROM attributed").fetchone() or (0, False)
    if history.accident.statement:
        await _explain(spare, history, attribution, done)
    if effect is not None:
        await _complete(spare, history, effect, done)
        _attribute_updates(history, attribution, effect, done)
    rows.execute("DELETE FROM attributed")
    rows.execute(f"INSERT INTO attributed SELECT ({_LAST}), ?", (history.ambiguous,))


def _amid(accident: Accident) -> str:
    """The condition for rows within the span of the accident's updates."""
    first, last = accident.first, accident.updates_last or accident.last or _NEVER
    return f"(t, i) BETWEEN ({first.t}, {first.i}) AND ({last.t}, {last.i})"


async def _complete(spare: DocumentSource, history: History, effect: UpdateEffect, done: int) -> None:
    """Work out what the updates that may be the accident's would have set on any document, where their entries show
    only a part of it, or the whole document.

    The document before each is its copy on the spare, carried forward.
    """
    keys: dict[bytes, None] = {}
    for _, key, _, _, changes in history.updates(done, among=f"{_NO_REPAIR} AND {_amid(history.accident)}"):
        if _is_partial(changes, effect):
            keys[key] = None
        if len(keys) == AT_ONCE:
            await _complete_some(spare, history, list(keys), effect)
            keys = {}
    await _complete_some(spare, history, list(keys), effect)


def _is_partial(changes: Changes, effect: UpdateEffect) -> bool:
    """Whether the document before decides if an update has this effect."""
    if effect.agrees(changes):
        return not effect.fits(changes)
    return any(len(path) < len(one) and one[: len(path)] == path for path in changes for one in effect.paths)


async def _complete_some(spare: DocumentSource, history: History, keys: list[bytes], effect: UpdateEffect) -> None:
    copies = await documents_by_id(spare, history.ns, keys)
    for key in keys:
        document = copies.get(key)
        for step in history.of(key):
            if step.op == "u" and document is not None:
                changes = changes_of(step.o)
                if _is_partial(changes, effect):
                    # Where a field name is there twice, the entry counts as it is logged.
                    with contextlib.suppress(Unfit):
                        found = marshal.dumps(completed(changes, document, effect))
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


async def _explain(spare: DocumentSource, history: History, attribution: Attribution, done: int) -> None:
    """Compare each write of the sender with the statement, applied to the document before it. Deletes are attributed at
    once, updates with their effect; after the accident there are none of it."""
    accident = history.accident
    rows, statement = history.rows, read_statement(accident.statement)
    paths = attribution.effect.paths if attribution.effect is not None else ()
    query = f"n > ? AND (own = {OWN} OR (sender AND op = 'u' AND {_amid(accident)}))"
    candidates = rows.execute(f"SELECT DISTINCT id FROM operation WHERE {query}", (done,))
    while keys := [key for (key,) in candidates.fetchmany(AT_ONCE)]:
        copies = await documents_by_id(spare, history.ns, keys)
        found: list[tuple[int, bool]] = []
        for key in keys:
            document = copies.get(key)
            for step in history.of(key):
                after = _after(document, step)
                known = statement.explains(document, after) if document is not None and step.op != "i" else None
                if known is not None and (after is not None or step.op == "d"):
                    found.append((step.number, known and _changes_only(document, after, paths)))
                document = after
        rows.executemany("INSERT OR REPLACE INTO explained VALUES (?, ?)", found)
    if accident.kind == "deletes":
        others = "SELECT n FROM explained WHERE NOT own"
        rows.execute(f"UPDATE operation SET own = {OTHERS} WHERE own = {OWN} AND n IN ({others})")


def _changes_only(before: bytes | None, after: bytes | None, paths: Collection[FieldPath]) -> bool:
    """Whether a document differs at these paths alone: a statement's values are compared as numbers, and another write
    may have changed nothing but the type of one."""
    if before is None or after is None:
        return True
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
        for number, _, ts, _, changes in history.updates(last, _CHUNK):
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
    """Raise ReadError where not as many writes are the accident's as a person says that its statement reported."""
    accident = history.accident
    if accident.count is None or accident.ns != history.ns or accident.kind not in ("updates", "deletes"):
        return
    (own,) = history.rows.execute(f"SELECT count(*) FROM operation WHERE own = {OWN}").fetchone()
    if own != accident.count:
        raise ReadError(
            f"{own:,} writes do what was run, compared with the documents before; {accident.count:,} were reported.",
            "Nothing was written. Correct --statement and --count, or plan with --before and the first entry.",
        )


async def _require_one_formula(spare: DocumentSource, history: History, effect: UpdateEffect) -> None:
    """Raise ReadError where no one sum or product explains what the accident computed, which nobody has named."""
    explained = (await _find_increments(spare, history, (OWN,))).explained if effect.computed else effect.computed
    if not effect.computed <= explained:
        raise ReadError(
            "Different values were written, and no one sum or product explains them all: there may be several "
            "statements.",
            "Nothing was written. Plan again with --statement, or with --count.",
        )


async def _find_increments(spare: DocumentSource, history: History, owners: tuple[int, ...]) -> IncrementSearch:
    """Look through the updates by some owners of documents that the accident updated."""
    found = IncrementSearch()
    updated = f"SELECT id FROM operation WHERE op = 'u' AND {_ACCIDENT}"
    query = f"SELECT DISTINCT id FROM operation WHERE op = 'u' AND own = {owners[0]} AND id IN ({updated})"
    rows = history.rows.execute(query)
    while keys := [key for (key,) in rows.fetchmany(AT_ONCE)]:
        copies = await documents_by_id(spare, history.ns, keys)
        for key in keys:
            document = copies.get(key)
            for step in history.of(key):
                if step.owner in owners and step.op == "u" and document is not None:
                    found.feed(document, step.o)
                document = _after(document, step)
    return found


async def documents_by_id(gateway: DocumentSource, ns: str, keys: list[bytes]) -> dict[bytes, bytes]:
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
