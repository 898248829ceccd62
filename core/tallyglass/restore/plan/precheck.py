"""A first answer within seconds: can the point be reached, what blocks already, and how long the oplog stays.

The proof reads the whole window and may take hours; the oplog that it rests on is overwritten meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.proof.cover import hours_left
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.locate import locate
from tallyglass.restore.proof.oplog_query import oplog_query, rest_query
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline.coverage import Start
from tallyglass.text import shell_join


@dataclass(frozen=True, slots=True)
class QuickAnswer:
    """``start`` is where the replay would begin, None where the oplog does not reach back to the backup. ``hours_left``
    is how long the server still holds what is needed of it, None if unknown or nothing. ``blocking`` are the checks
    that block so far. ``save`` is a shell line that saves the oplog from start to point, or what the saved one lacks;
    empty where there is nothing to save. ``saved`` means that a saved oplog is read first."""

    limit: Ts
    start: Ts | None
    hours_left: float | None
    blocking: tuple[Check, ...]
    save: str
    saved: bool = False

    @property
    def line(self) -> str:
        """The answer as one sentence, safe to show."""
        blocked = ", ".join(check.id for check in self.blocking)
        if self.start is None:
            return f"First answer: the point {self.limit} cannot be reached; blocked by {blocked or 'the backup'}."
        hours = ", for an unknown time more" if self.hours_left is None else f", for about {self.hours_left:.1f} h more"
        if self.saved and not self.save:
            hours = " in the saved slices"
        so_far = f"blocked so far by {blocked}" if blocked else "nothing blocks so far"
        return f"First answer: the oplog reaches from {self.start} to {self.limit}{hours}; {so_far}."


async def quick_answer(gateway: Gateway, request: RestoreRequest) -> QuickAnswer:
    """Read the backup's description, the ends of the oplog and the spare, no entry in between; of a saved oplog only
    how its slices join.

    Raises InputError for a request or a backup that cannot be read, and the errors of the gateway.
    """
    found, oplog = await locate(gateway, request)
    inputs, located = found.inputs, found.located
    blocking = tuple(check for check in run_checks(found) if check.level is Level.BLOCK)
    start = located.start if located is not None else None
    if not isinstance(start, Start) or inputs.limit <= start.ts:
        return QuickAnswer(inputs.limit, None, None, blocking, "")
    hours = await hours_left(oplog, inputs, start)
    return QuickAnswer(inputs.limit, start.ts, hours, blocking, _save(inputs, start.ts), inputs.saved is not None)


def _save(inputs: Inputs, start: Ts) -> str:
    """What saves the entries up to the point that are not saved yet."""
    saved, uri = inputs.saved, inputs.source_uri
    if uri is None or (saved is not None and saved.holds(inputs.limit)):
        return ""
    since = start if saved is None else saved.oplog.last
    query = oplog_query(since, inputs.limit) if saved is None else rest_query(since, inputs.limit)
    argv = (
        "mongodump", f"--uri={uri.text}", "--db=local", "--collection=oplog.rs",
        f"--query={query}", f"--out=oplog-{since.t}-{inputs.limit.t}",
    )  # fmt: skip
    return f"umask 077; {shell_join(argv)}"
