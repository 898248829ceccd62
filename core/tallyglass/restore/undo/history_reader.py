"""Reads the operations on one collection from the oplog, and marks what returns wrote and undid."""

from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path

from bson.binary import UUID_SUBTYPE, Binary

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.read.entries import WRITES, edge, operations, reaches_back, read_all, read_effects, stamp
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
    RENAMED,
    UNCERTAIN,
    History,
    HistoryStep,
)
from tallyglass.restore.undo.history_file import HistoryFile
from tallyglass.text import clean_name

_STORE = "INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_STORE_REMOVAL = "INSERT INTO removal VALUES (?, ?, ?, ?)"
_ADVICE = "That is not worked out. Plan with --only to get its documents under another name."


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
        if not await _continues(source, history.file) and not await reaches_back(source, limit):
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
            await _refuse_renamed(source, history.ns, entry)
        rows.execute(_STORE_REMOVAL, (step.number, step.owner, *step.ts))
    elif name := staging_of(entry, history.ns):
        rows.execute("INSERT INTO staging VALUES (?, ?, ?)", (name, *step.ts))
    elif fields := list(defined_expiry(entry, history.ns)):
        rows.executemany("INSERT INTO expiring VALUES (?)", ((field,) for field in fields))
    elif (away := await _renamed_back(source, history.ns, entry, limit)) is not None:
        # Removals since then are of other collections.
        rows.execute("DELETE FROM removal WHERE (t, i) >= (?, ?)", away)
    elif entry.replaced and entry.o.get("to") == history.ns:
        rows.execute(_STORE_REMOVAL, (step.number, OTHERS, *step.ts))
    elif entry.o.get("to") == history.ns:
        rows.execute(_RENAMED_TO, (RENAMED, OTHERS))


_RENAMED_TO = "UPDATE removal SET own = ? WHERE own = ? AND n = (SELECT max(n) FROM removal)"


def _removes(entry: Entry, ns: str) -> bool:
    """Whether a command removes the documents from the name of the collection."""
    db, _, name = ns.partition(".")
    target = entry.o.get(entry.command)
    if entry.command == "renameCollection":
        return target == ns
    return entry.command in REMOVING and entry.db == db and (entry.command == "dropDatabase" or target == name)


async def _refuse_renamed(gateway: Gateway, ns: str, entry: Entry) -> None:
    """Raise ReadError if a command renamed the collection ``ns``, and it is live under another name. Raises the errors
    of the gateway."""
    if entry.command != "renameCollection":
        return
    for one in await gateway.list_collections(ns.partition(".")[0]):
        if one.uuid and one.uuid == entry.ui and str(one.ns) != ns:
            raise ReadError(
                f"{clean_name(ns)} was renamed to {clean_name(str(one.ns))} since, with its documents.", _ADVICE
            )


async def _renamed_back(gateway: Gateway, ns: str, entry: Entry, limit: Ts) -> Ts | None:
    """When a collection was renamed away since the point that a command gives its name back, with its documents; None
    for any other command. Raises ReadError where it was written to under the other name, or another one under its own:
    that is not in the history."""
    if entry.command != "renameCollection" or entry.o.get("to") != ns:
        return None
    ui, db = Binary(entry.ui, UUID_SUBTYPE), ns.partition(".")[0]
    # Of an oplog, a saved one too, ``ts``, ``ns`` and ``ui`` can be asked; the rest is compared here.
    commands = {"ts": {"$gte": stamp(limit), "$lt": stamp(entry.ts)}, "ns": f"{db}.$cmd", "ui": ui}
    away = None
    async for one in read_all(gateway, commands):
        if one.command == "renameCollection" and one.o["renameCollection"] == ns and one.ui == entry.ui:
            away = one.ts
    if away is None:
        return None
    meanwhile = {"$gte": stamp(away.next), "$lt": stamp(entry.ts)}
    about = {"ts": meanwhile, "$or": [{"ui": ui}, {"ns": {"$in": [ns, "admin.$cmd"]}}]}
    async for _, parts in read_effects(gateway, about):
        for one in chain.from_iterable(map(operations_of, parts)):
            if one.op in WRITES and (one.ui == entry.ui or one.ns == ns):
                raise ReadError(
                    f"{clean_name(ns)} was renamed and renamed back, and one of them was written to meanwhile.",
                    _ADVICE,
                )
    return away
