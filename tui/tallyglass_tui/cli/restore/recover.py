"""``tallyglass restore recover``: run by the script before it writes to the live set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.text import clean
from tallyglass_tui.cli.headless import as_json, print_text
from tallyglass_tui.cli.options import PATH
from tallyglass_tui.cli.restore.plan_file import read_plan
from tallyglass_tui.cli.restore.sides import BEGAN, Sides, ask_both, private_file, with_sides

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.undo.documents import DocumentSource


@click.command(hidden=True)
@with_sides
@click.option("--out", type=PATH, metavar="DIR", required=True, help="Write the repairs into DIR.")
def recover(plan_file: Path, sides: Sides, out: Path) -> None:
    """Compute the repairs of the live collections, as files for mongorestore. Nothing else is written."""
    plan = read_plan(plan_file)
    from tallyglass.oplog.read.entries import edge
    from tallyglass.restore.tools.files import NULL_IDS
    from tallyglass.restore.undo.recovery import Repairs, to_write
    from tallyglass.whole_file import write_whole

    rows = [
        (number, row) for number, row in enumerate(plan.undo.returns, start=1) if row.strategy in ("merge", "replace")
    ]

    async def work(live: Gateway, copy: DocumentSource) -> list[tuple[Repairs, int]]:
        first, newest = out.parent / BEGAN, await edge(live, -1)
        if newest is not None and not first.exists():
            write_whole(first, f"{newest.ts}\n")  # of a full disk no empty file is left
        found = []
        for number, row in rows:
            held, written = Repairs(row.ns), 0
            with private_file(out / "tallyglass" / f"{number}.bson") as file:
                async for document in to_write(live, copy, plan, number, held, out.parent):
                    file.write(document)
                    written += 1
            found.append((held, written))
        with private_file(out.parent / NULL_IDS) as file:
            file.writelines(held.null_id.encode() + b"\n" for held, _ in found if held.null_id)
        return found

    found = ask_both(plan, sides, out.parent, work)
    for held, written in found:
        kinds = {verdict.value: count for verdict, count in sorted(held.verdicts.items())}
        print_text(as_json({"ns": clean(held.ns), "written": written, "by_hand": held.by_hand, "documents": kinds}))
