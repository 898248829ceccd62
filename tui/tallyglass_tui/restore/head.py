"""The lines above the parts of the restore page: the verdict, how, then point, what it keeps and undoes. Pure."""

from __future__ import annotations

from rich.cells import cell_len

from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass.restore.model.check import Level, merged_checks
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.way import FROM_IMAGES
from tallyglass.text import clean, clean_name
from tallyglass_tui import bound, clock
from tallyglass_tui import format as fmt
from tallyglass_tui.restore.draft import Draft
from tallyglass_tui.widgets.cells import fit, fit_middle, hanging, whole_pieces, wrap_cells, wrap_words
from tallyglass_tui.widgets.line_view import Piece

_NS = 32
"""The most cells of a namespace in the verdict, so that the verdict itself fits into 80."""

_UNCLEAR = "incident-unclear"
"""The check that asks what was run."""

_LONG_SECONDS = 5.0
"""Seconds after which the line of a plan says that it may take long."""
_LEAST_PATH = 16
"""Cells below which a shortened path is not recognised."""
PARTS = ("incidents", "checks", "loss", "counters", "commands")
RUN_PARTS = ("checks", "loss", "counters")
"""The parts on which ``y`` copies the line that runs a written plan. On the others it copies the row under the cursor:
another incident than the planned one, or a step."""
_RUN_LINES = 3
"""The most lines of the line that runs the plan, so that a long path leaves room for the list on 15 rows."""


NO_OPLOG: list[list[Piece]] = [
    [(" point    ", "text--muted"), ("none: a restore to a moment needs an oplog", "")],
    [(" instead  ", "text--muted"), ("mongorestore brings back the whole of a backup, as it was then", "")],
]
"""The lines for a deployment without an oplog."""


def head_lines(
    draft: Draft, width: int, version: str = "", drill: LastDrill | None = None, part: str = PARTS[1]
) -> list[list[Piece]]:
    """The lines above the parts: six or a few more, fewer until there is a point. ``version`` is the server's; empty if
    unknown. ``part`` is the one that is shown."""
    room = max(10, width - 11)
    verdict, point = _plan_line(draft, version, room, drill), _point_lines(draft, room)
    backup = _backup_line(draft, room)
    if draft.failure and not draft.planning:
        return [*_no_plan(draft.failure, room), backup, *point]
    if draft.planning or draft.plan:
        return [verdict, *_next_lines(draft, room, part), backup, *point]
    return [line for line in (*point, backup, verdict, *_window_lines(drill, room)) if line]


def parts_line(draft: Draft, incidents: int | None, here: str, place: str, width: int) -> list[Piece]:
    """The parts with their contents counted; ``here`` is the one that is shown, ``place`` says where one is in it."""
    counts = {"incidents": incidents, **draft.count}
    names = [f"{part.capitalize()} {'' if counts[part] is None else counts[part]}".rstrip() for part in PARTS]
    pad = " " * (sum(map(cell_len, names)) + len(place) + 3 * len(names) < width)
    pieces: list[Piece] = []
    for part, name in zip(PARTS, names, strict=True):
        shown = f"{name.partition(' ')[0]} {place}" if part == here and place else name
        pieces += [(f"{pad}{shown}{pad}", "text--here" if part == here else ""), (" ", "")]
    return whole_pieces([*pieces, (f"{bound.key('restore.next', 'Tab')} goes on", "text--muted")], width)


def _point_lines(draft: Draft, width: int) -> list[list[Piece]]:
    limit, plan = draft.limit, draft.plan
    if limit is None:
        pick, type_time = bound.key("list.open", "Enter"), bound.key("restore.point", "t")
        none = f"none yet: {pick} picks an incident, {type_time} types a time"
        return [[(" point    ", "text--muted"), (fit(none, width), "")]]
    title = clean(draft.incident.title, 200) if draft.incident else ""
    undone = ": ".join(part for part in (title, clean(plan.facts.after) if plan else "") if part)
    by_way = "all that others wrote, before and after it" if draft.way == FROM_IMAGES else "everything before it"
    kept = (clean(plan.facts.before) if plan else "") or by_way
    when = [
        (f"just before {limit}", "text--title"),
        (f"  {fmt.moment(limit.time)}", ""),
        (f"  {limit.time.astimezone():%H:%M:%S %z} local", ""),
    ]
    return [
        [(" point    ", "text--muted"), *whole_pieces(when, width)],
        [(" keeps    ", "text--muted"), (fit(kept, width), "text--good")],
        [(" undoes   ", "text--muted"), (fit(undone or "it, and everything after it", width), "text--warn")],
    ]


def _backup_line(draft: Draft, width: int) -> list[Piece]:
    if draft.way == FROM_IMAGES and draft.plan:
        return [(" from     ", "text--muted"), *_source(draft, draft.plan, width)]
    backup = draft.backup or (str(draft.plan.source.path) if draft.plan else "")
    if not backup:
        none = f"none named yet: {bound.key('restore.backup', 'b')} names one"
        return [(" backup   ", "text--muted"), (none, "text--warn")]
    spare = draft.plan.from_backup.spare if draft.plan else draft.spare
    pieces: list[Piece] = [("  onto ", "text--muted"), (clean(spare, 60), "")] if spare else []
    pieces += [("  oplog ", "text--muted"), (clean(draft.oplog, 60), "")] if draft.oplog else []
    pieces.append(_other(draft))
    left = max(_LEAST_PATH, width - sum(cell_len(text) for text, _ in pieces))
    return [(" backup   ", "text--muted"), (fit_middle(clean(backup, 60), left).rstrip(), ""), *pieces]


def _source(draft: Draft, plan: Plan, width: int) -> list[Piece]:
    """Where the documents of an undo come from, and the other way."""
    other = _other(draft)
    before, after = "pre-images, then ", ""
    if any(way.name == draft.way and way.label for way in draft.ways):
        before, after = "", ", no spare"
    elif plan.source.form == FROM_IMAGES:
        return whole_pieces([("pre-images, no backup and no spare", "text--good"), other], width)
    left = max(_LEAST_PATH, width - len(before + after) - cell_len(other[0]))
    path = fit_middle(clean(str(plan.source.path), 60), left).rstrip()
    return whole_pieces([(f"{before}{path}{after}", "text--good"), other], width)


def _other(draft: Draft) -> Piece:
    other = draft.other_way
    if other is None or other.possible is False:
        return ("", "")
    return (f"  {bound.key('restore.way', 'f')}: {other.title}", "text--muted")


def _plan_line(draft: Draft, version: str, width: int, drill: LastDrill | None) -> list[Piece]:
    label: Piece = (" plan     ", "text--muted")
    no: Piece = (" NO       ", "text--bad")
    if draft.planning:
        waited = (clock.now() - draft.since).total_seconds() if draft.since else 0.0
        return [label, (fit(_reading(draft, waited), width), "")]
    if draft.plan is None:
        return _drill_line(drill, width)
    made_for, again = draft.plan.facts.server_version, f"{bound.key('restore.plan', 'r')} plans again"
    if version and made_for and version != made_for:
        # An oplog can only be replayed on data of its own version: an upgrade may block a plan that was ready.
        return [no, (f"for MongoDB {made_for}, and the server is {version} now: {again}", "text--bad")]
    if draft.room and draft.room.gone:
        return [no, (f"its start has left the oplog, so this plan is void: {again}", "text--bad")]
    return _verdict(draft, draft.plan, width)


def _no_plan(failure: str, width: int) -> list[list[Piece]]:
    """Why there is no plan, on as many lines as a verdict and what to do next take. It is no verdict: "NO" says that it
    cannot come back, which is not known of a plan that was stopped, or that lacks a backup."""
    lines = [*_two_lines(failure, width), ""][:2]
    return hanging((" no plan  ", "text--bad"), [(line, "") for line in lines])


def _two_lines(text: str, width: int) -> list[str]:
    """A text on one line or two, the second one cut."""
    first, *rest = wrap_words(text, width)
    return [first, fit(" ".join(rest), width)] if rest else [first]


def _reading(draft: Draft, waited: float) -> str:
    """The progress of planning; until the oplog is being read, the time elapsed."""
    reading = draft.reading
    if reading is None:
        if not draft.is_running:
            return "not in this recording at this time"
        so_long = f"for {fmt.duration(waited)}; a long oplog takes minutes" if waited >= _LONG_SECONDS else "..."
        return f"reading {'the oplog and the backup' if draft.backup else 'how this can be undone'} {so_long}"
    left = reading.seconds_left(waited)
    so_long = f", {fmt.duration(left)} left" if left is not None and left >= 1 else ""
    stops = f"; {bound.key('page.back', 'Esc')} stops" if draft.is_running else ""
    return f"read {reading.entries:,} entries up to {reading.at.time:%H:%M:%S}Z{so_long}{stops}"


def _drill_line(drill: LastDrill | None, width: int) -> list[Piece]:
    """When a restore was last rehearsed; until that is known, that this page runs nothing."""
    if drill is None:
        return [
            (" plan     ", "text--muted"),
            ("nothing is run from here; you run the commands yourself", "text--muted"),
        ]
    label: Piece = (" drill    ", "text--muted")
    if drill.made is None:
        said = ("none from here yet: tallyglass restore drill", " proves a backup")
        return [label, *whole_pieces([(words, "text--muted") for words in said], width)]
    now = clock.now()
    ago = f"{fmt.duration((now - drill.made).total_seconds())} ago"
    if not drill.proved:
        return [label, (fit(f"failed {ago}: {drill.title}", width), "text--bad")]
    took = "" if drill.rto_seconds is None else f", restored and verified in {fmt.duration(drill.rto_seconds)}"
    if drill.is_old(now):
        return [label, (fit(f"last proved {ago}; due every week", width), "text--bad")]
    return [label, (fit(f"proved {ago}{took}", width), "text--good")]


def _window_lines(drill: LastDrill | None, width: int) -> list[list[Piece]]:
    """The recoverable window, as ``restore window`` last found it; nothing where it never ran."""
    found = drill.window if drill else None
    if found is None:
        return []
    style = ("text--good", "text--warn", "text--bad")[min(found.status, 2)]
    text = f"{fmt.ago(found.made, clock.now())}: {found.line}"
    return hanging((" window   ", "text--muted"), [(line, style) for line in _two_lines(text, width)])


def _verdict(draft: Draft, plan: Plan, width: int) -> list[Piece]:
    """Whether it can come back; if so how much, and what stays; if not, why."""
    checks = merged_checks(plan.checks)
    blocks = [check for check in checks if check.level is Level.BLOCK]
    if blocks:
        why = f"blocked by {fmt.plural(len(blocks), 'check')}: {clean(blocks[0].title, 400)}"
        return [(" NO       ", "text--bad"), (fit(why, width), "")]
    warnings = sum(check.level is Level.WARN for check in checks)
    what, again = _what_returns(draft, plan), sum(row.again for row in plan.undo.returns)
    warned = f"; {fmt.plural(warnings, 'warning')}" if warnings else ""
    if again:
        counts = [row.documents for row in plan.undo.undone]
        if None in counts or again >= sum(filter(None, counts)):
            return [(" WARNING  ", "text--warn"), *_all_again(plan, again, warned, width)]
        what, warned = f"up to {what}", f"; {again:,} inserted again{warned}"
    if len(what + warned) > width:  # the colour of the verdict must have its reason beside it
        what = what.replace(" documents of ", " of ")
    words = [what, *([warned] if warned else [])]
    kept = sum(row.kept for row in plan.undo.returns)
    words += [f"; {fmt.plural(kept, 'later write')} stay{'s' * (kept == 1)}"] if kept else []
    whole = whole_pieces([(word, "") for word in words], width)
    return [(" YES      ", "text--warn" if warnings else "text--good"), *whole]


def _next_lines(draft: Draft, width: int, part: str) -> list[list[Piece]]:
    """What to do next: the line that runs it, whole, or :func:`_next_line`."""
    if not draft.run:
        return [_next_line(draft, width)]
    # A pasted line is run as it is: what y copies must be readable first, so it is wrapped and not cut.
    how = f"{bound.key('page.copy', 'y')} copies" if part in RUN_PARTS else "in a shell"
    text = f"{how}: {clean(draft.run, 4_000)}"
    lines = wrap_words(text, width)
    if len(lines) > _RUN_LINES:
        lines = wrap_cells(fit_middle(text, width * _RUN_LINES), width)
    return hanging((" next     ", "text--muted"), [(line, "text--good") for line in lines])


def _next_line(draft: Draft, width: int) -> list[Piece]:
    """How to run it and until when, or what the first check that blocks advises."""
    plan = draft.plan
    if plan is None or draft.planning:
        return []
    label: Piece = (" next     ", "text--muted")
    advice = next((check.advice for check in merged_checks(plan.checks) if check.level is Level.BLOCK), None)
    if advice is not None and (plan.undo.groups or any(check.id == _UNCLEAR for check in plan.checks)):
        takes = f"; {bound.key('list.pick', 'Enter')} takes one of the groups" * bool(plan.undo.groups)
        return [label, (fit(f"{bound.key('restore.evidence', 'x')} asks what was run, and how many{takes}", width), "")]
    if advice is not None:
        return [label, (fit(clean(advice, 400) or "see its checks", width), "")]
    writes = f"{bound.key('restore.write', 'w')} writes the folder to run"
    seconds = sum(step.seconds or 0.0 for step in plan.steps.commands)
    lasts: list[Piece] = [(f" (about {fmt.duration(seconds)})", "")] if seconds else []
    return [label, *whole_pieces([(writes, ""), *_room(draft, plan), *lasts], width)]


def _what_returns(draft: Draft, plan: Plan) -> str:
    names = {clean_name(row.ns) for row in plan.undo.returns} or {clean_name(row.ns) for row in plan.undo.undone}
    if not names:
        return "the data at the point can come back" if draft.incident is None else "it can come back"
    where = fit_middle(names.pop(), _NS).rstrip() if len(names) == 1 else fmt.plural(len(names), "collection")
    counts = [row.documents for row in plan.undo.undone]
    if not counts or None in counts:
        return f"{where} can come back"
    return f"{fmt.plural(sum(filter(None, counts)), 'document')} of {where} can come back"


def _all_again(plan: Plan, again: int, warned: str, width: int) -> list[Piece]:
    """Why perhaps none comes back: as many ``_id``s were inserted again as were removed, or it is not known how many
    were."""
    names = [clean_name(row.ns) for row in plan.undo.returns if row.again]
    where = fit_middle(names[0], _NS).rstrip() if len(names) == 1 else fmt.plural(len(names), "collection")
    said = f"perhaps not: {fmt.plural(again, '_id was', '_ids were')} inserted again"
    return whole_pieces([(said, ""), (f" in {where}", ""), (warned, "")], width)


def _room(draft: Draft, plan: Plan) -> list[Piece]:
    """How long the start stays in the oplog: as the plan found it, then as it is now."""
    if plan.proof.start is None:
        return []
    hours = draft.room.hours if draft.room else plan.facts.hours_left
    if hours is None:
        return [(" · until when is unknown", "text--muted")]
    style = "text--bad" if hours < 1 else "text--warn" if hours < 24 else "text--good"
    return [(f" within {fmt.duration(hours * 3600)}", style)]
