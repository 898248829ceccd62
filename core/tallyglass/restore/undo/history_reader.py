"""Reads the operations on one collection from the oplog, and marks what returns wrote and undid."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import edge, operations, stamp
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import REMOVING, Attribution, millis_of, update_of
from tallyglass.restore.undo.attribution import attribute, find_increments
from tallyglass.restore.undo.documents import DocumentSource
from tallyglass.restore.undo.earlier_returns import mark_repairs, mark_undone, staging_of
from tallyglass.restore.undo.expiry import defined_expiry, live_expiry
from tallyglass.restore.undo.history import (
    LAST_NUMBER,
    OTHERS,
    OWN,
    UNCERTAIN,
    History,
    HistoryStep,
)
from tallyglass.restore.undo.history_file import HistoryFile
from tallyglass.restore.undo.renamed import refuse_renamed, renamed_back

_STORE = "INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_STORE_REMOVAL = "INSERT INTO removal VALUES (?, ?, ?, ?)"


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
        history.rows.execute("BEGIN")  # one transaction: a commit for each of 100,000 rows takes as long as all else
        read_to = await _fill(source, history, attribution, limit)
        await mark_repairs(source, history, limit)
        if accident.ns == ns:
            await attribute(source, spare, history, attribution)
        mark_undone(history)
        defined = {field for (field,) in history.rows.execute("SELECT field FROM expiring")}
        history.expiring = await live_expiry(source, ns) | defined
        history.increments = (await find_increments(spare, history, (OTHERS, UNCERTAIN))).found
        history.file.now_whole(read_to)
        history.rows.execute("COMMIT")
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
    (number,) = rows.execute(LAST_NUMBER).fetchone()
    last = None
    async for entry, whole in operations(source, history.ns, held[0] if held else limit):
        if held is not None and whole.ts <= held[0]:
            continue
        number, last = number + 1, whole
        own = OWN if attribution.owns(entry, whole) else OTHERS
        if entry.op == "c":
            await _note_command(source, history, entry, HistoryStep(number, own, "d", b"", whole.ts), limit)
            continue
        o = b"" if entry.op == "d" else update_of(entry)
        may_own = history.accident.ns == history.ns and attribution.may_own_update(whole)
        sender = may_own and entry.op in ("u", "i")
        place = *whole.ts, millis_of(whole)
        rows.execute(_STORE, (number, entry.id_key, own, entry.op, o, *place, sender, whole.linked))
    rows.execute("CREATE INDEX IF NOT EXISTS by_id ON operation (id, n)")
    removals = rows.execute("SELECT n, own, t, i FROM removal ORDER BY n")
    history.removals = [HistoryStep(n, own, "d", b"", Ts(t, i)) for n, own, t, i in removals]
    return held if last is None else (last.ts, _digest(last))


async def _note_command(source: Gateway, history: History, entry: Entry, step: HistoryStep, limit: Ts) -> None:
    """Store what a command means for the history: that it removes all documents, as ``step`` says, or renamed them
    back, makes a staging collection, or lets documents expire. A collection that was put in the place of this one, as
    by $out, ends it like a drop of others: what is live stays."""
    rows = history.rows
    if _removes(entry, history.ns):
        if step.owner == OTHERS and rows.execute("SELECT 1 FROM removal").fetchone() is None:
            await refuse_renamed(source, history.ns, entry)
        rows.execute(_STORE_REMOVAL, (step.number, step.owner, *step.ts))
    elif name := staging_of(entry, history.ns):
        rows.execute("INSERT INTO staging VALUES (?, ?, ?)", (name, *step.ts))
    elif fields := list(defined_expiry(entry, history.ns)):
        rows.executemany("INSERT INTO expiring VALUES (?)", ((field,) for field in fields))
    elif (away := await renamed_back(source, history.ns, entry, limit)) is not None:
        # Removals since then are of other collections.
        rows.execute("DELETE FROM removal WHERE (t, i) >= (?, ?)", away)
    elif entry.replaced and entry.o.get("to") == history.ns:
        rows.execute(_STORE_REMOVAL, (step.number, OTHERS, *step.ts))


def _removes(entry: Entry, ns: str) -> bool:
    """Whether a command removes the documents from the name of the collection."""
    db, _, name = ns.partition(".")
    target = entry.o.get(entry.command)
    if entry.command == "renameCollection":
        return target == ns
    return entry.command in REMOVING and entry.db == db and (entry.command == "dropDatabase" or target == name)
