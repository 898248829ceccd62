"""The lines above the parts of the restore page: point, what it keeps and undoes, backup, plan, headroom. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass.restore.model.group import merged_checks
from tallyglass.restore.model.plan import Level, Plan
from tallyglass.restore.model.way import FROM_IMAGES
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.restore.draft import Draft
from tallyglass_tui.widgets.cells import fit
from tallyglass_tui.widgets.line_view import Piece

LINES = 5
_LONG_SECONDS = 5.0
_DRILL_EVERY = timedelta(weeks=1)
PARTS = ("incidents", "checks", "loss", "counters", "commands")


NO_OPLOG: list[list[Piece]] = [
    [(" point    ", "text--muted"), ("none: a restore to a moment needs an oplog", "")],
    [(" instead  ", "text--muted"), ("mongorestore brings back the whole of a backup, as it was then", "")],
]
"""The lines for a deployment without an oplog."""


def head_lines(draft: Draft, width: int, version: str = "", drill: LastDrill | None = None) -> list[list[Piece]]:
    """The :data:`LINES` lines above the parts. ``version`` is the server's now; empty if unknown."""
    room = max(10, width - 11)
    return [*_point_lines(draft, room), _backup_line(draft), _plan_line(draft, version, room, drill)]


def parts_line(draft: Draft, incidents: int | None, here: str) -> list[Piece]:
    """The parts with their contents counted; ``here`` is the one that is shown."""
    counts = {"incidents": incidents, **draft.count}
    pieces: list[Piece] = []
    for part in PARTS:
        number = "" if counts[part] is None else f" {counts[part]}"
        pieces += [(f" {part.capitalize()}{number} ", "text--here" if part == here else ""), (" ", "")]
    return [*pieces, ("Tab goes on", "text--muted")]


def _point_lines(draft: Draft, width: int) -> list[list[Piece]]:
    limit, plan = draft.limit, draft.plan
    if limit is None:
        return [
            [(" point    ", "text--muted"), ("none yet: Enter picks an incident, t types a timestamp or a time", "")],
            [],
            [],
        ]
    title = clean(draft.incident.title, 200) if draft.incident else ""
    undone = ": ".join(part for part in (title, clean(plan.after) if plan else "") if part)
    by_way = "all that others wrote, before and after it" if draft.way == FROM_IMAGES else "everything before it"
    kept = (clean(plan.before) if plan else "") or by_way
    return [
        [
            (" point    ", "text--muted"),
            (f"just before {limit}", "text--title"),
            (f"  {fmt.moment(limit.time)}  {limit.time.astimezone():%H:%M:%S %z} local", ""),
        ],
        [(" keeps    ", "text--muted"), (fit(kept, width), "text--good")],
        [(" undoes   ", "text--muted"), (fit(undone or "it, and everything after it", width), "text--warn")],
    ]


def _backup_line(draft: Draft) -> list[Piece]:
    if draft.way == FROM_IMAGES and draft.plan:
        return [(" from     ", "text--muted"), _source(draft.plan), _other(draft)]
    if not draft.backup:
        return [(" backup   ", "text--muted"), ("none named yet: b names one", "text--warn")]
    spare = draft.plan.spare if draft.plan else draft.spare
    pieces: list[Piece] = [(" backup   ", "text--muted"), (clean(draft.backup, 60), "")]
    pieces += [("  onto ", "text--muted"), (clean(spare, 60), "")] if spare else []
    pieces += [("  oplog ", "text--muted"), (clean(draft.oplog, 60), "")] if draft.oplog else []
    return [*pieces, _other(draft)]


def _source(plan: Plan) -> Piece:
    """Where the documents of an undo come from."""
    if plan.backup.form == "pre-images":
        return "pre-images, no backup and no spare", "text--good"
    return f"pre-images, and {clean(str(plan.backup.path), 60)} for the missing ones", "text--good"


def _other(draft: Draft) -> Piece:
    other = draft.other_way
    return ("", "") if other is None or other.possible is False else (f"  f: {other.name}", "text--muted")


def _plan_line(draft: Draft, version: str, width: int, drill: LastDrill | None) -> list[Piece]:
    label: Piece = (" plan     ", "text--muted")
    if draft.planning:
        waited = (datetime.now(UTC) - draft.since).total_seconds() if draft.since else 0.0
        return [label, (fit(_reading(draft, waited), width), "")]
    if draft.failure:
        return [label, (fit(draft.failure, width), "text--bad")]
    if draft.plan is None:
        return _drill_line(drill, width)
    made_for = draft.plan.server_version
    if version and made_for and version != made_for:
        # An oplog can only be replayed on data of its own version: an upgrade may block a plan that was ready.
        return [label, (f"for MongoDB {made_for}, and the server is {version} now: r plans again", "text--bad")]
    return [label, _verdict(draft.plan), *_room(draft, draft.plan)]


def _reading(draft: Draft, waited: float) -> str:
    """The progress of planning; until the oplog is being read, the time elapsed."""
    reading = draft.reading
    if reading is None:
        so_long = f"for {fmt.duration(waited)}; a long oplog takes minutes" if waited >= _LONG_SECONDS else "..."
        return f"reading {'the oplog and the backup' if draft.backup else 'how this can be undone'} {so_long}"
    left = reading.seconds_left(waited)
    so_long = f", {fmt.duration(left)} left" if left is not None else ""
    return f"read {reading.entries:,} entries up to {reading.at.time:%H:%M:%S}Z{so_long}; Esc stops"


def _drill_line(drill: LastDrill | None, width: int) -> list[Piece]:
    """When a restore was last rehearsed; until that is known, that this page runs nothing."""
    if drill is None:
        return [
            (" plan     ", "text--muted"),
            ("nothing is run from here; you run the commands yourself", "text--muted"),
        ]
    label: Piece = (" drill    ", "text--muted")
    if drill.made is None:
        return [label, ("none yet from this machine: tallyglass restore drill proves a backup", "text--muted")]
    age = datetime.now(UTC) - drill.made
    ago = f"{fmt.duration(age.total_seconds())} ago"
    if not drill.proved:
        return [label, (fit(f"failed {ago}: {drill.title}", width), "text--bad")]
    took = "" if drill.rto_seconds is None else f", restored and verified in {fmt.duration(drill.rto_seconds)}"
    if age > _DRILL_EVERY:
        return [label, (fit(f"last proved {ago}; due every week", width), "text--bad")]
    return [label, (fit(f"proved {ago}{took}", width), "text--good")]


def _verdict(plan: Plan) -> Piece:
    checks = merged_checks(plan.checks)
    warnings = sum(check.level is Level.WARN for check in checks)
    blocks = sum(check.level is Level.BLOCK for check in checks)
    if blocks:
        return f"blocked by {fmt.plural(blocks, 'check')}", "text--bad"
    return (f"ready, {fmt.plural(warnings, 'warning')}", "text--warn") if warnings else ("ready", "text--good")


def _room(draft: Draft, plan: Plan) -> list[Piece]:
    """How long the start stays in the oplog: as the plan found it, then as it is now."""
    if plan.start is None:
        return []
    if draft.room and draft.room.gone:
        return [(" · ", "text--muted"), ("the start has left the oplog: this plan is void", "text--bad")]
    hours = draft.room.hours if draft.room else plan.hours_left
    if hours is None:
        return [(" · headroom unknown", "text--muted")]
    style = "text--bad" if hours < 1 else "text--warn" if hours < 24 else "text--good"
    return [(" · ", "text--muted"), (f"{fmt.duration(hours * 3600)} until its start leaves the oplog", style)]
