"""Oplog entries and incidents as lines: pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import (
    Candidate,
    Incident,
    NamespaceRate,
    OplogRow,
    OplogUpdate,
    RowKind,
)
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog.row_ring import LARGEST
from tallyglass_tui.widgets.cells import fit, fit_middle, wrap, wrap_cells
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column

_CLOCK, _NS_SHARE = 8, 0.3
"""Cells of ``HH:MM:SS``, and the share of the rest that a namespace may take."""
_ID, _WHOLE_ID, _WIDE = 14, 26, 100
"""Cells of an _id; from a width of _WIDE up, an ObjectId is shown whole."""
_OPS = {"i": "ins", "u": "upd", "d": "del", "c": "cmd", "n": "nop"}
_OP_STYLES = {"i": "tail--insert", "u": "tail--update", "d": "tail--destructive", "c": "tail--command"}
"""Colours of the operations; the three letters say the same without colour."""

_KIND_MARKS = {RowKind.GAP: "-- gap --", RowKind.ROLLBACK: "-- rollback --", RowKind.NOTE: "--"}

# Widths in cells. `since` and `until`: the widths of the screen that show a column.
RATE_COLUMNS = (
    Column("ns", "namespace", 20, flex=1),
    Column("inserts", "inserts", 9, right=True),
    Column("updates", "updates", 9, right=True),
    Column("deletes", "deletes", 9, right=True),
    Column("commands", "commands", 9, right=True),
    Column("m5", "over 5 min", 10, right=True, since=78),
    Column("all", "since start", 11, right=True, since=90),
)


def header(width: int) -> str:
    """The header of the tail."""
    ns, id, what = _widths(width)
    return f"  {'time UTC':<{_CLOCK}} op  {fit('namespace', ns)} {fit('_id', id)} {fit('what', what)}"


def row_pieces(row: OplogRow, width: int, majority: Ts | None = None) -> Iterator[Piece]:
    """One row of the tail, ``width`` cells in all. ``majority`` is given if it is far enough behind to show."""
    if row.kind is not RowKind.ENTRY:
        yield fit(_break(row), width), "tail--break"
        return
    ns, id, what = _widths(width)
    uncertain = row.majority is False and majority is not None and row.ts > majority
    mark = "!" if row.destructive else "?" if uncertain else " "
    style = "tail--destructive" if row.destructive else _OP_STYLES.get(row.op, "")
    # A blank in the colour of what follows costs no escape sequence of its own.
    yield f"{mark} ", style if mark.strip() else ""
    yield f"{row.ts.time:%H:%M:%S} ", ""
    yield f"{fit(_OPS.get(row.op, row.op), 3)} ", style
    yield f"{fit_middle(_place(row), ns)} {fit(row.id, id)} {fit(row.what, what)}", ""


def wrapped_pieces(row: OplogRow, width: int, majority: Ts | None = None) -> list[list[Piece]]:
    """The pieces of a row whose columns continue in the lines below instead of being cut."""
    if row.kind is not RowKind.ENTRY:
        return [[(line, "tail--break")] for line in wrap(_break(row), width)]
    widths = _widths(width)
    texts = (_place(row), row.id, row.what)
    columns = [wrap_cells(text, room) for text, room in zip(texts, widths, strict=True)]
    lines = [
        " ".join(fit(part, room) for part, room in zip(parts, widths, strict=True))
        for parts in zip_longest(*columns, fillvalue="")
    ]
    *marks, _ = row_pieces(row, width, majority)
    return [[*marks, (lines[0], "")], *([(f"{'':<{_CLOCK + 7}}{line}", "")] for line in lines[1:])]


def _break(row: OplogRow) -> str:
    where = f"{row.shard}: " if row.shard else ""
    return f"{_KIND_MARKS[row.kind]} {where}{row.what}"


def _place(row: OplogRow) -> str:
    """The namespace, preceded by the shard if there are several."""
    return f"{row.shard} {row.ns}" if row.shard else row.ns


def _widths(width: int) -> tuple[int, int, int]:
    """Cells of namespace, _id and description; the description comes last and takes the rest."""
    id = _WHOLE_ID if width >= _WIDE else _ID
    room = max(10, width - 2 - _CLOCK - 1 - 4 - 2 - id)
    ns = max(10, min(40, int(room * _NS_SHARE) + 4))
    return ns, id, max(1, room - ns)


ENTRY_HEADING = 4
"""Lines of :func:`entry_lines` before the entry itself."""


def entry_lines(row: OplogRow, json: str, now: datetime, majority: Ts | None = None) -> list[str]:
    """All facts about one row: what happened, when, and the whole entry. ``majority`` is the newest majority point."""
    if row.kind is not RowKind.ENTRY:
        return [f"{_KIND_MARKS[row.kind]} {row.what}", f"at {row.ts}, {fmt.moment(row.ts.time)}"]
    held = row.majority or (row.ts <= majority if majority else row.majority)
    sure = {True: "majority-committed", False: "not majority-committed yet: it may be rolled back", None: ""}
    where = f" of shard {row.shard}" if row.shard else ""
    heading = [
        f"{_OPS.get(row.op, row.op)} on {row.ns or '(no namespace)'}{where}: {row.what}",
        f"{fmt.moment(row.ts.time)}   {fmt.local(row.ts.time)} local   {fmt.ago(row.ts.time, now)}",
    ]
    facts = [f"ts {row.ts}", f"term {row.term}" if row.term is not None else "", fmt.size(row.size), sure[held]]
    heading.append("   ".join(fact for fact in facts if fact))
    heading.append(f"{bound.key('oplog.restore', 'r')} plans a restore to just before it: --oplogLimit={row.ts}")
    if not json and row.size > LARGEST:
        json = f"It is too large to be held here: {bound.key('oplog.time', 't')} with {row.ts} reads it."
    return [*heading, "", *json.split("\n")]


def incident_lines(incident: Incident, now: datetime) -> list[str]:
    """Everything about one incident."""
    took = (incident.last.t - incident.first.t) or None
    lines = [
        f"{incident.title}{' (still going on)' if incident.open else ''}",
        f"{fmt.ago(incident.first.time, now)}, {fmt.local(incident.first.time)} local",
        f"first {incident.first}   {fmt.moment(incident.first.time)}",
        f"last  {incident.last}   {fmt.moment(incident.last.time)}" + (f"   took {fmt.duration(took)}" if took else ""),
        f"{_documents(incident)} in {fmt.plural(incident.ops, 'oplog entry', 'oplog entries')}",
        "",
        *_who_lines(incident),
        "",
        f"The point to return to is just before it: --oplogLimit={incident.limit}",
        f"{bound.key('oplog.restore', 'r')} opens Restore there: the commands to get it back.",
    ]
    if len(incident.shards) > 1:
        lines.append(f"on shards {', '.join(incident.shards)}")
    elif incident.shards:
        lines.append(f"on shard {incident.shards[0]}")
    if incident.session:
        lines.append(f"session {incident.session}")
    elif incident.sessions > 1:
        lines.append(f"by {incident.sessions} sessions")
    if incident.parts:
        lines.append(incident.reading)
    elif incident.kind in _MASS:
        lines.append(_ONE_OR_MORE)
    if incident.reason:
        lines += ["", f"Routine: {incident.reason}."]
    elif incident.confidence != "high":
        lines += ["", f"Confidence: {incident.confidence}. {_DOUBT}"]
    if incident.note:
        lines += ["", incident.note]
    if incident.samples:
        what = "Its collections:" if incident.kind == "dropDatabase" else "_id of some of the documents:"
        lines += ["", what, *(f"  {sample}" for sample in incident.samples)]
    return lines


def _who_lines(incident: Incident) -> list[str]:
    """The whole chain: account, application, address, driver, statement, and how sure that is."""
    found = incident.evidence
    lines = [f"Who: {found.who.chain if found is not None and found.who is not None else incident.who}"]
    if found is None:
        return lines
    if found.who is None and found.candidates:
        how = "Several wrote it" if found.is_known else "Possible"
        lines = [f"Who: not one account alone. {how}:"]
    for one in found.candidates[:_SHOWN_CLIENTS]:
        if found.who is None:
            lines.append(f"  {one.chain}" + (f": {fmt.plural(one.documents, 'document')}" if one.documents else ""))
        lines += _statement_lines(one)
    more = len(found.candidates) - _SHOWN_CLIENTS
    if more > 0:
        lines.append(f"  and {fmt.plural(more, 'other connection')}")
    lines.append(f"How sure: {found.grade}. {found.reason}")
    for one in found.candidates[:_SHOWN_CLIENTS]:
        if one.beside:
            lines += ["", f"Within ten minutes, {one.connection} also ran:", *(f"  {text}" for text in one.beside)]
    return lines


def _statement_lines(one: Candidate) -> list[str]:
    if not one.statement:
        return []
    more = f", the largest of {one.statements:,} statements" if one.statements > 1 else ""
    lines = [f"  {one.statement}{more}"]
    if one.began and one.ended:
        facts = [
            fmt.plural(one.documents, "document") if one.documents is not None else "",
            f"in {(one.ended - one.began).total_seconds() * 1000:,.0f} ms",
            one.plan,
        ]
        lines.append(f"  {', '.join(filter(None, facts))}")
    return lines


_MASS = ("deleteMany", "updateMany")
_SHOWN_CLIENTS = 10
"""Clients that are named for an incident: more would hide the statement below them."""
_DOUBT = "An application or a job may write the same entries."
_ONE_OR_MORE = "One command, or several less than a second apart: the oplog rarely tells these from each other."


def _documents(incident: Incident) -> str:
    if incident.documents is None:
        return "documents unknown"
    words = ("bucket of measurements", "buckets of measurements") if incident.time_series else ("document",)
    return ("" if incident.documents_exact else "about ") + fmt.plural(incident.documents, *words)


def rate_cells(update: OplogUpdate) -> tuple[list[str], list[dict[str, str]]]:
    """The namespaces by their recent write rate, and the texts of their cells."""
    five = {rate.ns: _total(rate) for rate in update.rates_5m}
    ever = {rate.ns: _total(rate) for rate in update.rates_all}
    latest = {rate.ns: rate for rate in update.rates}
    names = sorted({*five, *ever, *latest}, key=lambda ns: (-_total(latest.get(ns)), -five.get(ns, 0.0), ns))
    rows = []
    for ns in names:
        rate = latest.get(ns)
        texts = {part: _rate(getattr(rate, part) if rate else 0.0) for part in _PARTS}
        rows.append(texts | {"ns": ns, "m5": _rate(five.get(ns, 0.0)), "all": _rate(ever.get(ns, 0.0))})
    return names, rows


_PARTS = ("inserts", "updates", "deletes", "commands")


def _rate(per_second: float) -> str:
    return fmt.rate(per_second) if per_second else "·"


def _total(rate: NamespaceRate | None) -> float:
    return rate.inserts + rate.updates + rate.deletes + rate.commands if rate else 0.0
