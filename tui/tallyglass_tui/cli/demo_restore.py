"""What the demo's report shows of a restore: a plan in short, and its folder."""

from __future__ import annotations

import itertools
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.moment import iso
from tallyglass.restore.model.check import merged_checks
from tallyglass.restore.plan.step_text import fold_line
from tallyglass.text import clean
from tallyglass_tui.cli.restore.plan_text import WORDS

if TYPE_CHECKING:
    from tallyglass.demo.session import Demo
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import Incident
    from tallyglass.restore.model.plan import Plan


async def restore_section(gateway: Gateway, demo: Demo, incident: Incident) -> str:
    """The plan that undoes the incident, and where its folder is."""
    from tallyglass.restore.plan.folder import write_folder
    from tallyglass.restore.plan.from_backup import plan_restore
    from tallyglass.restore.proof.request import RestoreRequest

    # It stays when the demo ends: it is there to be read.
    folder = Path(tempfile.mkdtemp(prefix="tallyglass-demo-")) / "plan"
    plan = await plan_restore(gateway, RestoreRequest(demo.backup, demo.uri, incident=incident, work_dir=str(folder)))
    if plan.steps.commands:
        write_folder(plan, folder)
        where = f"The plan's folder is {folder}: read README.md there; remove it afterwards."
    else:
        folder.parent.rmdir()
        where = "A blocked plan has no commands and no folder."
    return "\n".join([*_plan_lines(plan), "", where])


def _plan_lines(plan: Plan) -> Iterator[str]:
    """The plan in short: what it keeps and undoes, its warnings, the titles of its steps, and the line that replays."""
    limit, proof = plan.facts.limit, plan.proof
    yield f"just before {limit} ({iso(limit.time)}), replaying {proof.operations:,} entries from {proof.start}"
    yield f"undoes: {clean(plan.facts.incident, 100)}"
    for check in merged_checks(plan.checks):
        if check.level != "ok":
            yield from _wrapped(f"{WORDS[check.level]}: {clean(check.title, 300)}")
    for phase, steps in itertools.groupby(plan.steps.commands, key=lambda step: step.phase):
        yield from _wrapped(f"{phase + ':':<9}" + "; ".join(clean(step.title) for step in steps))
    yield from (fold_line(step) for step in plan.steps.commands if "--oplogReplay" in step.argv)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110, subsequent_indent=" " * 9)
