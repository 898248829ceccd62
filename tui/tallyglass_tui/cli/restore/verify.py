"""``tallyglass restore verify``: compare the spare with what the plan computed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.text import clean
from tallyglass_tui.cli.headless import as_json, ask, print_text
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, json_option
from tallyglass_tui.cli.restore.plan_file import PATIENT, read_plan, server
from tallyglass_tui.cli.restore.plan_text import CODES, WORDS, in_words, print_doubts

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.spare.verify import Verification


@click.command()
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.option("--spare", metavar="URI", required=True, help="Read the spare: a URI, or a .yml file.")
@click.option("--log", type=PATH, metavar="FILE", help="Read the log of mongorestore.")
@click.option("--empty", is_flag=True, help="Check only that the spare is empty and fits.")
@click.option("--note-writes", is_flag=True, hidden=True)
@json_option
@connection_options(uri=False, profile=False)
def verify(
    given: ConnectionOptions,
    plan_file: Path,
    spare: str,
    log: Path | None,
    empty: bool,
    note_writes: bool,
    wants_json: bool,
) -> int:
    """Compare what was restored with the plan.

    PLAN is the JSON of restore plan. What mends the differences is said. Exit 0 as computed, 1 with warnings, 2 not as
    computed.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.spare import writes
    from tallyglass.restore.spare.ready import ready
    from tallyglass.restore.spare.verify import verify as compare

    async def work(gateway: Gateway) -> Verification:
        if empty:
            return await ready(plan, gateway)
        counted = await writes.count_writes(plan, gateway) if note_writes else {}
        compared = await compare(plan, gateway, log=log)
        if note_writes:
            writes.note_writes(plan_file.parent, counted)
        return compared

    found = ask(server(spare, given), work, None, **PATIENT)
    if wants_json:
        print_doubts(found.checks)
        checks = [
            {"id": check.id, "level": check.level, "title": clean(check.title), "advice": clean(check.advice)}
            for check in found.checks
        ]
        print_text(as_json({"level": found.level, "checks": checks, "repair": found.repair}, indent=2))
    else:
        print_text("\n".join(f"{WORDS[check.level]:<8} {in_words(check)}" for check in found.checks))
        if found.repair:
            print_text("\nIn mongosh on the spare:\n" + "\n".join(found.repair))
    return CODES[found.level]
