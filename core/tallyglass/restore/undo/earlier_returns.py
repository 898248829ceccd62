"""What earlier returns wrote into a collection, and what they undid, by the oplog alone: each loads its repairs into a
staging collection before it writes them, so the oplog holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    UNKNOWN,
    Fields,
    Path,
    Unfit,
    Value,
    apply_update,
    build,
    changes_of,
    get,
    is_replacement,
    parse,
    value_at,
)
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import operations, reaches_back
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.document import accident_from_json, accident_to_json
from tallyglass.restore.model.undo import NEVER, Accident
from tallyglass.restore.undo.accident import Attribution, update_of
from tallyglass.restore.undo.documents import AT_ONCE
from tallyglass.restore.undo.history import OLDER, OTHERS, OWN, REPAIR, UNCERTAIN, UNDONE, History, HistoryStep, digest
from tallyglass.restore.undo.values import related

STAGING = "_pitr_"
"""What follows the name of a collection in that of its staging collection, before the time of the point."""


def staging_of(entry: Entry, ns: str) -> str:
    """The staging collection of ``ns`` that a command makes; empty for any other command."""
    db, _, name = ns.partition(".")
    made = entry.o.get("create") if entry.command == "create" and entry.db == db else None
    return f"{db}.{made}" if isinstance(made, str) and made.startswith(name + STAGING) else ""


async def staged_repairs(source: Gateway, name: str, made: Ts) -> AsyncIterator[tuple[Ts, bytes]]:
    """The repairs that were loaded into a staging collection from ``made`` on, as
    :func:`~tallyglass.restore.undo.counterfactual.repair` makes them, and no bytes each time when a run began to write
    them. A copy has a name of the same kind, and any documents. Raises the errors of the gateway, and Malformed."""
    async for operation, whole in operations(source, name, made):
        if operation.ns == name and operation.op == "i":
            if walk.value_key(operation.o_raw, b"r")[:1] == _DOCUMENT:
                yield whole.ts, operation.o_raw
        elif operation.ns == name and operation.op == "u" and BEGUN in changes_of(operation.o_raw):
            yield whole.ts, b""


_DOCUMENT = bytes((walk.DOCUMENT,))
BEGUN: Path = (b"b",)
"""What a run sets in one document of its staging collection before it writes the repairs."""


def with_accident(repair: bytes, accident: Accident) -> bytes:
    """A repair that also says what is undone."""
    return build(parse(repair) | {b"a": (walk.STRING, _stored(accident))})


def is_returned(history: History) -> bool:
    """Whether a return of this accident loaded repairs, of which the first says so. Its name does not show it: returns
    to points of one second share their staging collection."""
    query = "SELECT 1 FROM returned WHERE accident = ?"
    return history.rows.execute(query, (_stored(history.accident),)).fetchone() is not None


def _stored(accident: Accident) -> bytes:
    text = accident_to_json(accident).encode() + b"\0"
    return len(text).to_bytes(4, "little") + text


async def earlier_returns(
    source: Gateway, staging: Iterable[tuple[str, Ts]], until: Ts | None
) -> AsyncIterator[tuple[Accident, Ts]]:
    """The returns that began to write up to ``until``: what each undid, and when it began. ``staging`` are their
    staging collections, each with when it was first made: points of one second share its name. Raises the errors of
    the gateway, Malformed, and InputError where another version wrote it in another form."""
    for name, made in staging:
        accident, begun = None, set[Accident]()
        async for ts, repair in staged_repairs(source, name, made):
            if until is not None and ts > until:
                break
            if said := _said_by(repair):
                accident = accident_from_json(said[4:-1].decode(errors="replace"))
            elif not repair and accident is not None and accident not in begun:
                begun.add(accident)
                yield accident, ts


def undone_by(repair: bytes) -> list[Ts]:
    """When the operations took effect that a repair undoes; empty where it does not say."""
    held = get(repair, (b"w",))
    stamps = parse(held[1]).values() if held else ()
    return [Ts.of_number(int.from_bytes(value, "little")) for _, value in stamps]


def is_written_from(repair: Fields, op: str, o: bytes) -> bool:
    """Whether an operation leaves what a repair says, and nothing else. No repair writes one field name twice."""
    try:
        return _leaves(repair, op, o)
    except Unfit:
        return False


def _leaves(repair: Fields, op: str, o: bytes) -> bool:
    if b"f" not in repair:
        return op == "i" and o == repair[b"r"][1]
    named = _fields_of(repair)
    if op != "u" or not named:
        return False
    names = {name for name, _, _ in named}
    wanted = {name: right for name, _, right in named if right is not None}
    if is_replacement(o):
        fields = parse(o)
        return all(fields.get(name) == wanted.get(name) for name in names)
    changes, there = changes_of(o), parse(repair[b"r"][1]) | wanted
    moved = {path for path in changes if path[0] not in names}  # a field that comes behind one that is set back
    return len(moved) < len(changes) and all(
        value == value_at(there, path) if path in moved else value in (UNKNOWN, value_at(there, path))
        for path, value in changes.items()
    )


def _fields_of(repair: Fields) -> list[tuple[bytes, Value | None, Value | None]]:
    """The fields that a repair changes in a live document, each with what the accident left and what is to be there."""
    items = (parse(item) for _, item in parse(repair[b"f"][1]).values())
    return [(one[b"k"][1][4:-1], one.get(b"l"), one.get(b"r")) for one in items]


def writes_all(repair: Fields, op: str, o: bytes) -> bool:
    """Whether an operation that :func:`is_written_from` a repair set all that it says, where it met what the accident
    left."""
    if op == "i":
        return True
    named = _fields_of(repair)
    try:
        after = parse(apply_update(build({name: left for name, left, _ in named if left is not None}), o))
    except Unfit:
        return False
    return all(after.get(name) == right for name, _, right in named)


_WRITTEN = (
    "SELECT row, n, op, CASE WHEN as_computed THEN x'' ELSE o END, as_computed"
    " FROM (SELECT s.rowid AS row, o.n, o.op, o.o,"
    # The document of a repair comes behind its _id, which is length(s.id) - 1 bytes of value.
    " c.inserts AND o.op = 'i' AND o.o = substr(s.repair, length(s.id) + 12, length(o.o)) AS as_computed"
    " FROM staged AS s JOIN operation AS o ON o.id = s.id"
    " LEFT JOIN computed AS c ON c.id = s.id AND c.digest = s.digest AND c.n < o.n"
    " WHERE s.rowid BETWEEN ? AND ? AND s.name = ? AND (o.t, o.i) > (?, ?) AND (o.t, o.i) < (?, ?)"
    f" AND o.own = {OTHERS} AND NOT o.linked) ORDER BY row, n"
)
"""The operations that may have written some repairs. The last column is true for an insert of what was computed before:
of 100,000 documents that come back, nothing has to be parsed."""


async def mark_repairs(source: Gateway, history: History, limit: Ts) -> None:
    """Find what returns wrote: after a run began to write the repairs, and before the next one loaded its own, the
    first operation without a session that leaves what the repair says. What that undid is noted for
    :func:`mark_undone`."""
    rows = history.rows
    left = "SELECT rowid, t, i, id, repair FROM staged WHERE rowid > ? AND name = ? AND repair > x''"
    for name, made in history.staging():
        await _read_staged(source, history, name, made)
        marks = rows.execute("SELECT t, i FROM staged WHERE name = ? AND repair = x''", (name,))
        begun, last = [Ts(t, i) for t, i in marks], 0
        loaded = [Ts(t, i) for t, i in rows.execute("SELECT t, i FROM staging WHERE name = ? ORDER BY t, i", (name,))]
        while some := rows.execute(f"{left} ORDER BY rowid LIMIT ?", (last, name, AT_ONCE)).fetchall():
            last, spans = some[-1][0], dict[tuple[Ts, Ts], dict[int, tuple[bytes, bytes]]]()
            for row, t, i, key, raw in some:
                since = next((ts for ts in begun if ts > (t, i)), NEVER)
                until = next((ts for ts in loaded if ts > (t, i)), NEVER)
                spans.setdefault((since, until), {})[row] = key, raw
            for (since, until), repairs in spans.items():
                among = rows.execute(_WRITTEN, (min(repairs), max(repairs), name, *since, *until))
                _mark_written(history, repairs, among, limit)


def _mark_written(
    history: History,
    repairs: Mapping[int, tuple[bytes, bytes]],
    among: Iterable[tuple[int, int, str, bytes, bool]],
    limit: Ts,
) -> None:
    """Mark for each of some repairs, the ``_id`` and the document by its row, the first operation that leaves it."""
    owners, undone = list[tuple[int, int]](), list[tuple[bytes, int, int]]()
    whole, computed = list[tuple[int, bytes, bytes, int]](), list[tuple[int, bytes]]()
    found, taken = set[int](), set[int]()
    for row, n, op, o, as_computed in among:
        if row in found or n in taken or row not in repairs:
            continue
        key, raw = repairs[row]
        repair = {} if as_computed else parse(raw)
        if not (as_computed or is_written_from(repair, op, o)):
            continue
        found.add(row)
        taken.add(n)
        if as_computed:
            computed.append((n, key))
            continue
        stamps = undone_by(raw)
        known = bool(stamps) and all(ts >= limit for ts in stamps)
        owners.append((REPAIR if known else OLDER, n))
        undone += [(key, *ts) for ts in stamps if known]
        if known and writes_all(repair, op, o):
            whole.append((n, key, digest(raw), n))
    rows = history.rows
    rows.executemany("UPDATE computed SET written = ? WHERE id = ?", computed)
    rows.executemany(_UNDONE, ((key,) for _, key in computed))
    rows.executemany(f"UPDATE operation SET own = {REPAIR} WHERE n = ? AND id = ?", computed)
    rows.executemany("UPDATE operation SET own = ? WHERE n = ?", owners)
    rows.executemany("INSERT INTO undone VALUES (?, ?, ?)", undone)
    rows.executemany("UPDATE computed SET written = ? WHERE id = ? AND digest = ? AND n < ?", whole)
    rows.executemany("UPDATE staged SET repair = NULL WHERE rowid = ?", ((row,) for row in found))


_UNDONE = (
    "INSERT INTO undone SELECT o.id, o.t, o.i FROM operation AS o JOIN computed AS c USING (id)"
    f" WHERE id = ? AND o.n <= c.n AND o.own = {OWN}"
)
"""What a repair undoes that was computed from the same operations."""


def mark_undone(history: History) -> None:
    """Mark what returns undid and this accident did not do: it is neither in what it left nor in what would be."""
    found = "SELECT o.n FROM undone AS u JOIN operation AS o ON o.id = u.id AND o.t = u.t AND o.i = u.i"
    among = f"own IN ({OTHERS}, {UNCERTAIN})"
    history.rows.execute(f"UPDATE operation SET own = {UNDONE} WHERE n IN ({found}) AND {among}")


async def _read_staged(source: Gateway, history: History, name: str, made: Ts) -> None:
    """Store the repairs that were loaded into a staging collection since this was last done."""
    rows = history.rows
    read_to = rows.execute("SELECT t, i FROM staged WHERE name = ? ORDER BY rowid DESC LIMIT 1", (name,)).fetchone()
    async for ts, repair in staged_repairs(source, name, Ts(*read_to).next if read_to else made):
        identity = (id_key(repair), digest(repair)) if repair else (b"", b"")
        rows.execute("INSERT INTO staged VALUES (?, ?, ?, ?, ?, ?)", (name, *ts, *identity, repair))
        if said := _said_by(repair):
            rows.execute("INSERT INTO returned VALUES (?)", (said,))


_MARK = bytes((walk.STRING,)) + b"a\0"
"""What a repair contains that says what is undone; to search for these bytes is a tenth of the cost of reading it."""


def _said_by(repair: bytes) -> bytes:
    """What a repair says is undone, as :func:`_stored` makes it; empty where it does not."""
    said = walk.value_key(repair, b"a") if _MARK in repair else b""
    return said[1:] if said[:1] + said[5:6] == _MARK[:1] + b"{" else b""


@dataclass(frozen=True, slots=True)
class EarlierChange:
    """A change in one document by an accident that was undone by ``undone``: what a later undo brings back from before
    ``undone`` may be what it left."""

    ts: Ts
    undone: Ts
    paths: frozenset[Path]


async def undone_before(source: Gateway, history: History, began: Ts | None) -> dict[bytes, list[EarlierChange]]:
    """What accidents changed that earlier returns since the point undid, by document; all that they may have changed.
    Raises the errors of the gateway, and ReadError where the oplog no longer reaches back to there."""
    found: dict[bytes, list[EarlierChange]] = {}
    staging = [(name, made) for name, made in history.staging() if began is None or made <= began]
    for _, made in staging:
        await _require_oplog(source, made)  # a kept history knows of it still
    async for accident, begun in earlier_returns(source, staging, began):
        await _require_oplog(source, accident.first)
        attribution = Attribution(accident)
        effect = attribution.effect
        async for entry, whole in operations(source, history.ns, accident.first):
            if not attribution.spans(whole.ts):
                break
            changes = changes_of(update_of(entry)) if entry.op == "u" else {}
            touches = bool(changes) and effect is not None and effect.touches(changes)
            may_be_its_own = attribution.owns(entry, whole) or (touches and attribution.may_own_update(whole))
            if entry.ns == history.ns and may_be_its_own:
                change = EarlierChange(whole.ts, begun, frozenset(changes))
                found.setdefault(entry.id_key, []).append(change)
    return found


async def _require_oplog(source: Gateway, since: Ts) -> None:
    if not await reaches_back(source, since):
        raise ReadError("The oplog does not reach back to what was undone earlier any more.", "Compare manually.")


def comes_back(earlier: Iterable[EarlierChange], steps: list[HistoryStep]) -> bool:
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
