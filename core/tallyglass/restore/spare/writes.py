"""How often a spare was written to, by its own count: somebody may use a server that a person named, and what is
brought back from it would be theirs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass.mongo.gateway import Gateway
from tallyglass.mongo.mongosh import literal
from tallyglass.restore.model.expiry import loaded_without_expiry
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.tools.files import RAISE_SPARE, SPARE_WRITES
from tallyglass.text import clean_name
from tallyglass.whole_file import write_whole


async def count_writes(plan: Plan, spare: Gateway) -> dict[str, Any]:
    """How often each collection that comes back was written to since the server started, and which process that is;
    empty where the user may not see it."""
    with suppress(PrivilegeError, ReadError):
        process = (await spare.command("serverStatus")).get("pid")
        totals = (await spare.command("top")).get("totals", {})
        names = [row.ns for row in plan.undo.returns]
        return {"process": str(process), "writes": {ns: _writes_in(totals.get(ns)) for ns in names}}
    return {}


def _writes_in(usage: Any) -> int:
    return int(usage["writeLock"]["count"]) if usage else 0  # it has no row before the first


def note_writes(folder: Path, counted: dict[str, Any]) -> None:
    """Keep what :func:`count_writes` found in the plan's folder. Raises InputError where it cannot be written."""
    file = folder / SPARE_WRITES
    file.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(file, json.dumps(counted))


async def check_unwritten(plan: Plan, spare: Gateway, folder: Path) -> None:
    """Raise InputError where a collection that comes back was written to since that was noted, but for those that the
    steps themselves write to. A spare that was started again has no such count any more. Raises the errors of the
    gateway."""
    file = folder / SPARE_WRITES
    noted = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if not noted:
        return
    found, own = await count_writes(plan, spare), _written_by_steps(plan, folder)
    if found.get("process") != noted["process"]:
        return
    for ns, count in noted["writes"].items():
        if ns not in own and found["writes"][ns] != count:
            raise InputError(
                f"The spare was changed since it was compared with the plan: {clean_name(ns)} was written to there.",
                "What was written would be brought back. Plan again, with a spare that nothing else uses.",
            )


def _written_by_steps(plan: Plan, folder: Path) -> set[str]:
    """The collections whose counters are moved forward on the spare, or whose expiry is turned off."""
    program = folder / RAISE_SPARE
    text = program.read_text(encoding="ascii") if program.exists() else ""
    names = (row.ns for row in plan.undo.returns)
    return {*loaded_without_expiry(plan), *(ns for ns in names if literal(ns.partition(".")[2]) in text)}
