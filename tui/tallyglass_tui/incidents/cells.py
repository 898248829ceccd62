"""One incident as the cells of the list, and as the line below it: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tallyglass.oplog.snapshot import Incident
from tallyglass.text import clean
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.incidents import mark_of
from tallyglass_tui.widgets.cells import fit, fit_middle
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column

if TYPE_CHECKING:
    from tallyglass.restore.plan.at_hand import SourcesAtHand

TITLE = "what happened"
_LEAST_DONE = 10
"""Cells that say what was done: ``deleteMany``."""
# Widths in cells. `since` and `until`: the widths of the screen that show a column.
INCIDENT_COLUMNS = (
    Column("harm", "", 2),
    Column("when", "when (UTC)", 14, since=100),
    Column("ago", "when", 8),
    Column("title", TITLE, 24, flex=2),
    Column("documents", "documents", 9, right=True),
    Column("ops", "entries", 8, right=True, since=120),
    Column("took", "took", 6, right=True, since=120),
    Column("who", "who", 19, since=78),
    Column("back", "back?", 6),
    Column("note", "note", 24, flex=1, since=150),
)


def as_known(incident: Incident, *, lost: bool) -> Incident:
    """An incident as it is known; of a ``lost`` server it is not known whether one goes on."""
    return replace(incident, open=False) if lost and incident.open else incident


def _count(incident: Incident) -> str:
    exact = incident.documents_exact and not incident.time_series
    return ("" if exact else "~") + fmt.count(incident.documents)


def incident_cell(
    incident: Incident, now: datetime, column: Column, width: int, sources: SourcesAtHand | None = None
) -> Sequence[Piece]:
    """One cell of the list of incidents; ``sources`` is None until it is known from where any could come back."""
    mark, look = mark_of(incident)
    if column.key == "harm":
        return ((mark, f"table--{look}"),)
    first = incident.first.time
    text = {
        "when": lambda: f"{first:%m-%d %H:%M:%S}",
        "ago": lambda: _when(fmt.brief((now - first).total_seconds()), incident.open),
        "title": lambda: _title(clean(incident.title, 600), width),
        "documents": lambda: _count(incident),
        "who": lambda: _by(incident),
        "back": lambda: "" if sources is None or incident.routine else str(sources.of(incident)),
        "note": lambda: " ".join(filter(None, (incident.reading, incident.note))),
        "ops": lambda: fmt.count(incident.ops),
        "took": lambda: fmt.brief(incident.last.t - incident.first.t),
    }[column.key]()
    return ((fit(text, width, right=column.right), f"table--{look}" if column.key == "title" else ""),)


def _when(age: str, going_on: bool) -> str:
    return f"for {age}" if going_on else f"{age} ago"


def _title(title: str, width: int) -> str:
    """The title; where it is too long, what was done is shortened before the name of the collection is."""
    if cell_len(title) <= width:
        return fit(title, width)
    did, on, where = title.replace(" by many sessions at once", " by many").rpartition(" on ")
    room = width - cell_len(f"{on}{where}")
    return fit_middle(f"{did}{on}{where}" if room < _LEAST_DONE else f"{fit(did, room).rstrip()}{on}{where}", width)


def _by(incident: Incident) -> str:
    """The user, or what is known about the sessions, in a few cells."""
    if incident.by:
        return incident.by
    if incident.session:
        return f"session {incident.session[:6]}"
    return fmt.plural(incident.sessions, "session") if incident.sessions else "unknown"


def about(incident: Incident, width: int) -> list[Piece]:
    """The incident under the cursor in one line: where it begins, the statement, and how sure that is."""
    found = incident.evidence
    one = found.candidates[0] if found is not None and found.candidates else None
    words, grade, hint = [f"first {incident.first}"], "", f"; {bound.key('oplog.restore', 'r')} plans it"
    if found is not None and found.who is not None and one is not None:
        words += [one.statement] if one.statement else []
        grade = f", {found.grade} match"
    elif incident.reason:
        words.append(f"routine: {incident.reason}")
    elif incident.note:
        words.append(incident.note)
    # How sure it is stays whole: a statement without its grade would be believed.
    text = fit(clean(", ".join(words), 600), max(10, width - 4 - len(grade + hint))).rstrip()
    return [(" ── ", "text--muted"), (text + grade, ""), (hint, "text--muted")]
