"""A restore as lines and items: incidents to pick from, checks, loss, counters, commands. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rich.cells import cell_len

from tallyglass.restore.model.check import Check, Level, merged_checks
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import Loss, Reissue
from tallyglass.restore.model.step import Command, Effect
from tallyglass.restore.model.undo import Return, Strategy, WriteGroup
from tallyglass.restore.model.way import Way
from tallyglass.restore.plan.step_text import estimate
from tallyglass.restore.tools.files import fill
from tallyglass.text import clean, clean_name, shell_quote
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.restore.draft import Draft, First
from tallyglass_tui.widgets.cells import fit, fit_middle, hanging, wrap_cells, wrap_words
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.pick_list import Item, Lines

_LEVEL = {Level.BLOCK: ("BLOCK", "text--bad"), Level.WARN: ("warn ", "text--warn"), Level.OK: ("ok   ", "text--good")}
_WAYS = {
    Strategy.WHOLE: "whole",
    Strategy.MERGE: "merged",
    Strategy.REPLACE: "replaces the live one",
    Strategy.COPY: "a copy",
    Strategy.BESIDE: "for you to compare",
}
BLOCKED = "A check blocks, so there are no commands."
UNPROVEN = "Not known: a check blocks, so this may not have been computed."
_INDENT = 6
"""Cells of the word before an item, and a space."""
_INSET = ("  ", "")
_NS = 36
"""The most cells of a namespace in the list of losses."""


def part_items(part: str, draft: Draft) -> tuple[list[Item], str]:
    """The items of a part of the plan, and the text to show if there are none."""
    plan = draft.plan
    if plan is None:
        if part == "checks" and draft.planning and draft.first:
            return first_items(draft.first), ""
        if part == "checks" and draft.ways:
            return way_items(draft), ""
        if draft.planning:
            return [], "Planning ..." if draft.is_running else "There is no plan in this recording at this time."
        return [], draft.failure or f"No plan yet: {bound.key('list.open', 'Enter')} on an incident."
    if part == "checks":
        return group_items(plan) + way_items(draft) + check_items(plan.checks), ""
    if part == "loss":
        return loss_items(plan), UNPROVEN if plan.is_blocked else "Nothing happened after the point."
    if part == "counters":
        none = "No counter would hand out an id twice."
        return reissue_items(plan.proof.reissue), UNPROVEN if plan.is_blocked else none
    return command_items(plan.steps.commands), BLOCKED


def _wrapped(text: str, width: int, style: str = "", most: int = 900) -> list[Piece]:
    """The first ``most`` characters of a text as lines."""
    return [(line, style) for line in wrap_words(clean(text, most), max(10, width))]


_POSSIBLE = {True: ("yes", "text--good"), None: ("?", "text--warn"), False: ("no", "text--muted")}


def first_items(first: First) -> list[Item]:
    """The quick answer, and the line that saves the oplog while the proof goes on; both copy that line."""
    items = [Item("first", partial(_first, first.line), first.save)]
    return [*items, Item("save", partial(_save, first.save), first.save)] if first.save else items


def _first(line: str, width: int) -> Lines:
    return [[piece] for piece in _wrapped(line, width)]


def _save(command: str, width: int) -> Lines:
    copies = f"{bound.key('page.copy', 'y')} copies it:"
    text = f"Save the oplog now with this line, since the proof may take long; {copies}"
    return [
        *([line] for line in _wrapped(text, width, "text--muted")),
        *hanging(_INSET, _wrapped(command, width - 2, "text--tool", 4_000)),
    ]


def has_groups(draft: Draft) -> bool:
    """Whether the plan asks a person to choose among groups of entries."""
    return draft.plan is not None and bool(draft.plan.undo.groups)


def group_at(draft: Draft, key: str) -> WriteGroup | None:
    """The group that an item represents."""
    groups = draft.plan.undo.groups if draft.plan else ()
    return next((one for n, one in enumerate(groups) if _GROUP.format(n) == key), None)


_GROUP = "group {}"


def group_items(plan: Plan) -> list[Item]:
    """What the incident may be, to choose from; else what is undone, and what was written there and stays."""
    if plan.undo.groups:
        return [
            Item(_GROUP.format(n), partial(_group, "one of", "text--bad", row.brief), str(row.first))
            for n, row in enumerate(plan.undo.groups)
        ]
    rows = [("undo", "text--warn", row) for row in plan.undo.undone] + [
        ("stays", "", row) for row in plan.undo.left_out
    ]
    shown = [
        Item(f"{word} {n}", partial(_group, word, look, replace(row, samples=row.samples[:_MOST_IDS]).line), row.line)
        for n, (word, look, row) in enumerate(rows)
    ]
    if len(rows) <= _MOST_GROUPS:
        return shown
    rest = "\n".join(row.line for _, _, row in rows[_MOST_GROUPS:])
    more = f"and {len(rows) - _MOST_GROUPS:,} more: {bound.key('page.copy', 'y')} copies them"
    return [*shown[:_MOST_GROUPS], Item("more groups", partial(_group, "", "", more), rest)]


_MOST_GROUPS = 12
"""Groups of writes that are listed above the checks: more do not fit on 24 rows."""

_MOST_IDS = 2
"""How many ids of a group are shown: five ObjectIds hid the rest of the checks at 80x24. All are copied."""


def _group(word: str, look: str, text: str, width: int) -> Lines:
    indent = max(_INDENT, len(word) + 1)
    return hanging((fit(word, indent), look), _wrapped(text, width - indent, most=1_000))


def way_items(draft: Draft) -> list[Item]:
    """The ways to undo the incident, best first."""
    return [Item(f"way {way.name}", partial(_way, way, draft), way.line) for way in draft.ways]


def _way(way: Way, draft: Draft, width: int) -> Lines:
    word, style = _POSSIBLE[way.possible]
    name = way.title
    if way.name != draft.way:
        name += f", {bound.key('restore.way', 'f')} plans it" if way.possible is not False else ""
    elif draft.plan:
        name += ", chosen"
    texts = ((f"{name}: {way.why}", ""), (way.advice, "text--muted"))
    wrapped = [line for text, look in texts if text for line in _wrapped(text, width - _INDENT, look)]
    return hanging((fit(word, _INDENT), style), wrapped)


def check_items(checks: Sequence[Check]) -> list[Item]:
    """Checks that block, then warnings, then what is proven. Checks with the same message become one item with a
    list."""
    order = list(_LEVEL)
    ranked = sorted(merged_checks(checks), key=lambda check: order.index(check.level))
    return [
        Item(f"{n} {check.id}", partial(_check, check), f"{check.title} {check.advice}".strip())
        for n, check in enumerate(ranked)
    ]


def _check(check: Check, width: int) -> Lines:
    word, style = _LEVEL[check.level]
    room = width - _INDENT
    advice = _wrapped(check.advice, room, "text--muted") if check.advice else []
    return hanging((f"{word} ", style), [*_wrapped(check.title, room, most=2_000), *advice])


def loss_items(plan: Plan) -> list[Item]:
    """What happened after the point, per namespace, and how each comes back. Namespaces that come back are listed
    first."""
    returns = {clean_name(row.ns): row for row in plan.undo.returns}
    quiet = [Loss(ns, 0, 0, 0) for ns in returns if ns not in {row.ns for row in plan.proof.loss}]
    rows = sorted([*plan.proof.loss, *quiet], key=lambda row: row.ns not in returns)
    longest = max((cell_len(clean(row.ns)[:_NS]) for row in rows), default=0)
    return [Item(row.ns, partial(_loss, row, returns.get(row.ns), max(16, min(_NS, longest))), row.ns) for row in rows]


def _loss(row: Loss, back: Return | None, ns: int, width: int) -> Lines:
    numbers = [(row.inserts, "insert"), (row.updates, "update"), (row.deletes, "delete"), (row.commands, "command")]
    summary = ", ".join(fmt.plural(number, word) for number, word in numbers if number) or "nothing after the point"
    found = hanging((f"{fit_middle(clean(row.ns), ns)} ", ""), _wrapped(summary, width - ns - 1))
    if back is not None:
        staging = f", loaded as {back.beside}" if back.beside else ""
        kept = f"; {fmt.plural(back.kept, 'later write')} stay{'s' * (back.kept == 1)}" if back.kept else ""
        note = f". {back.note}" if back.note else ""
        text = f"comes back: {_WAYS[back.strategy]}{staging}{kept}{note}"
        found += hanging(_INSET, _wrapped(text, width - 2, "text--muted", 600))
    return found


def reissue_items(rows: Sequence[Reissue]) -> list[Item]:
    """Counters that would issue an id twice, each with the command that prevents it."""
    return [Item(f"{row.ns} {row.id} {row.field}", partial(_reissue, row), row.fix) for row in rows]


def _reissue(row: Reissue, width: int) -> Lines:
    restored = "missing" if row.restored is None else fmt.count(row.restored)
    head = clean(f"{row.ns} {row.id} {row.field}".rstrip(), 600)
    said = f"would go back to {restored}, is now {fmt.count(row.live)}; this keeps it ahead:"
    return [
        *([(line, "")] for line in wrap_words(head, width)),
        *hanging(_INSET, _wrapped(said, width - 2, "text--warn")),
        *hanging(_INSET, [(line, "text--muted") for line in wrap_cells(clean(row.fix, 2_000), max(10, width - 2))]),
    ]


def command_items(commands: Sequence[Command]) -> list[Item]:
    """The steps in order; the one under the cursor opens. The command lines of the database tools are always shown."""
    return [
        Item(str(n), partial(_command, n, command, True), command.shell, partial(_command, n, command, False))
        for n, command in enumerate(commands, start=1)
    ]


_EFFECTS = {Effect.READS_LIVE: "", Effect.WRITES_SPARE: "text--muted", Effect.WRITES_LIVE: "text--warn"}
_TOOLS = frozenset({"mongodump", "mongorestore"})
_EFFECT_CELLS = 13
"""Cells of the longest effect, ``writes spare``, and a space."""


def _command(number: int, command: Command, whole: bool, width: int) -> Lines:
    tool = command.argv[:1] and command.argv[0] in _TOOLS
    style = "text--tool" if tool else "text--title"
    room = max(10, width - 3)
    effect = "" if command.effect is Effect.FILES else command.effect.value
    beside = max(10, room - 8 - _EFFECT_CELLS)
    title, *more = wrap_words(clean(command.title), beside) if whole else [clean(command.title)]
    head: list[Piece] = [
        (f"{number:>2} ", ""),
        (fit(command.phase.value, 8), "text--muted"),
        (fit(title, beside), ""),
        (effect.rjust(_EFFECT_CELLS), _EFFECTS.get(command.effect, "")),
    ]
    shown: list[list[Piece]] = [[("   ", ""), (line, style)] for line in _line_of(command, room)]
    if not whole:
        return [head, *shown] if tool else [head]
    rest: Lines = [[(" " * 11, ""), (line, "")] for line in more]
    return [head, *rest, *shown, *([("   ", ""), (line, "text--muted")] for line in _about(command, room))]


def _line_of(command: Command, width: int) -> list[str]:
    """The command line to paste, wrapped only before options unless an option is wider than the screen."""
    words = [shell_quote(word) for word in command.argv] or [command.shell]
    folded = " \\\n  ".join(fill(words, max(10, width - 4), " ")).split("\n")
    return [part for line in folded for part in wrap_cells(clean(line, 20_000), width)]


def _about(command: Command, width: int) -> list[str]:
    """What a step does and why, how long it takes, how many documents it writes, and how to undo it."""
    takes = "" if command.seconds is None else f"Takes {estimate(command.seconds)}."
    undo = f"To undo: {command.undo}" if command.undo else ""
    texts = (f"{command.why} {takes}".strip(), *command.counts, undo)
    return [line for text in texts if text for line in wrap_words(clean(text, 600), width)]
