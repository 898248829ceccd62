"""A first answer within seconds: can the point be reached, what blocks already, and how long the oplog stays.

The proof reads the whole window and may take hours; the oplog that it rests on is overwritten meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.checks.checks import run_checks
from tallyglass.restore.gather import RestoreRequest, locate
from tallyglass.restore.model.plan import Check, Level
from tallyglass.restore.replay.coverage import Start, hours_left
from tallyglass.restore.replay.oplog_query import oplog_query
from tallyglass.text import shell_join


@dataclass(frozen=True, slots=True)
class QuickAnswer:
    """``start`` is where the replay would begin, None where the oplog does not reach back to the backup. ``hours_left``
    is how long it still does, None if unknown. ``blocking`` are the checks that block so far. ``save`` is a shell line
    that saves the oplog from start to point; empty where there is nothing to save."""

    limit: Ts
    start: Ts | None
    hours_left: float | None
    blocking: tuple[Check, ...]
    save: str


async def quick_answer(gateway: Gateway, request: RestoreRequest) -> QuickAnswer:
    """Look at the backup's description, the ends of the oplog and the spare, at no entry in between.

    Raises InputError for a request or a backup that cannot be read, and the errors of the gateway.
    """
    found = await locate(gateway, request)
    inputs, located = found.inputs, found.located
    blocking = tuple(check for check in run_checks(found) if check.level is Level.BLOCK)
    start = located.start if located is not None else None
    if not isinstance(start, Start) or inputs.limit <= start.ts:
        return QuickAnswer(inputs.limit, None, None, blocking, "")
    hours = await hours_left(gateway, start.ts, start.oldest, start.newest)
    save = ""
    if inputs.source_uri is not None:
        argv = (
            "mongodump", f"--uri={inputs.source_uri.text}", "--db=local", "--collection=oplog.rs",
            f"--query={oplog_query(start.ts, inputs.limit)}", f"--out=oplog-{start.ts.t}-{inputs.limit.t}",
        )  # fmt: skip
        save = f"umask 077; {shell_join(argv)}"
    return QuickAnswer(inputs.limit, start.ts, hours, blocking, save)
