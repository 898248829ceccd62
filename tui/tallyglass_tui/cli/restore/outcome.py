"""``tallyglass restore outcome``: run by the script after it wrote to the live set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.text import clean, plural
from tallyglass_tui.cli.headless import print_text, table
from tallyglass_tui.cli.options import PATH
from tallyglass_tui.cli.restore.plan_file import read_plan
from tallyglass_tui.cli.restore.sides import BEGAN, Sides, ask_both, private_file, with_sides

if TYPE_CHECKING:
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.undo.documents import DocumentSource
    from tallyglass.restore.undo.outcome_rows import Damaged, NamespaceOutcome

SHOWN = 5
"""Ids that are shown of each namespace; the file has all."""

DAMAGED = 3
"""The exit code of an account with something damaged or unclear."""


@click.command(hidden=True)
@with_sides
@click.option("--out", type=PATH, metavar="DIR", required=True, help="Write the outcome into DIR.")
def outcome(plan_file: Path, sides: Sides, out: Path) -> int:
    """Print what came back, what others changed, and what is damaged.

    Per namespace, with what is unclear. Exit 0 every document that the accident touched is as it should be, 3 one is
    not, or nothing was restored.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.model.check import STAYS
    from tallyglass.restore.tools.files import INCOMPLETE, OUTCOME, UNDECIDED
    from tallyglass.restore.undo.outcome import account, is_complete, undecided

    # Until the account is done, nothing is proven: a run that fails leaves no older account behind.
    incomplete, told, open_questions = out / INCOMPLETE, out / OUTCOME, out / UNDECIDED
    with private_file(incomplete):
        told.unlink(missing_ok=True)
        open_questions.unlink(missing_ok=True)

    async def work(live: Gateway, copy: DocumentSource) -> tuple[list[NamespaceOutcome], list[Damaged]]:
        rows = [row async for row in account(live, copy, plan, _began(out), out)]
        return rows, await undecided(live, plan)

    rows, differ = ask_both(plan, sides, out, work)
    if differ:
        with private_file(open_questions) as file:
            file.writelines(f"  {one.ns}: {one.why}\n".encode("ascii", "backslashreplace") for one in differ)
    ids = out / "still-damaged.jsonl"
    with private_file(ids) as file:
        file.writelines(one.line().encode() + b"\n" for row in rows for one in row.damaged)
    left = any(check.id == STAYS for check in plan.checks)
    choice = plan.undo.choice
    lines = report(rows, ids, definitions=not differ) if choice is None else report_of_copy(rows, choice.target, ids)
    text = "\n".join([*lines, *([_LEFT] if left else [])])
    with private_file(told) as file:
        file.write(text.encode("ascii", "backslashreplace") + b"\n")
    print_text(text)
    if left or not is_complete(rows):
        return DAMAGED
    incomplete.unlink()
    return 0


_COLUMNS = ("namespace", "touched", "restored", "already right", "left, right", "unclear", "damaged")
_LEGEND = (
    "already right: it was right before this return began.",
    "left, right: others deleted or changed it since, and it is as it would be without the accident.",
    "unclear: it was left alone, and holds the accident's value, one that may be computed from it, or a doubt.",
)


_LEFT = "What the entry at the point updated or replaced stays: the plan names no incident. Plan with --incident N."


def report_of_copy(rows: list[NamespaceOutcome], target: str, ids: Path) -> list[str]:
    """The account of a collection that came back under another name: there was nothing to undo."""
    came, damaged = sum(row.restored for row in rows), [one for row in rows for one in row.damaged]
    lines = [f"  {clean(target)} {one.id}: {one.why}" for one in damaged[:SHOWN]]
    if damaged:
        lines.append(f"Not as at the point: {len(damaged)}. All of them are in {clean(str(ids), 300)}.")
    verb = "is" if came == 1 else "are"
    return [*lines, f"{plural(came, 'document')} {verb} in {clean(target)}; nothing live was changed."]


def report(rows: list[NamespaceOutcome], ids: Path, *, definitions: bool = True) -> list[str]:
    """The account of what the accident touched. ``definitions``: whether those that a person may set back are as they
    were at the point."""
    from tallyglass.restore.undo.outcome import is_complete

    cells = [
        (row.ns, *map(str, (row.touched, row.restored, row.already, row.left, row.unclear, row.still_damaged)))
        for row in rows
    ]
    lines = (
        [table([_COLUMNS, *cells], right=frozenset(range(1, 7))), *_LEGEND] if rows else ["Nothing was brought back."]
    )
    damaged = [one for row in rows for one in row.damaged]
    for row in rows:
        lines += [f"  {one.where}: {one.why}" for one in row.damaged[:SHOWN]]
    if damaged:
        lines.append(f"Still damaged or unclear: {len(damaged)}. All of them are in {clean(str(ids), 300)}.")
    elif is_complete(rows):
        came, before = (sum(getattr(row, name) for row in rows) for name in ("restored", "returned"))
        what = "All is" if definitions else "Every document is"
        lines.append(f"{what} as it would be without the accident: {came:,} came back.")
        if before:
            lines.append(f"{before:,} had come back before, by another run of this return, such as from a copy.")
    elif rows and not any(row.restored or row.returned or row.empty for row in rows):
        lines.append("Nothing was restored: others set right, changed or deleted all that the accident touched.")
    return lines


def _began(out: Path) -> Ts | None:
    """The newest entry of the oplog when the return began; None where no repairs were computed."""
    from tallyglass.moment import parse_ts

    path = out / BEGAN
    return parse_ts(path.read_text()) if path.exists() else None
