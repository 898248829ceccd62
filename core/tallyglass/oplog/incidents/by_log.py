"""What the server's log decides: a statement that it names is an act, or the routine of an application.

The size of a statement of the log does not matter, so an act of the size that is usual where it ran is found by its
line, and a large statement that an application runs at other times too is known to be routine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from tallyglass.evidence.book import Book
from tallyglass.moment import Ts, from_millis
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.attribution import entries_between, may_have_written, writes_in
from tallyglass.oplog.incidents.burst import SAMPLES
from tallyglass.oplog.incidents.families import CLUMP_MILLIS
from tallyglass.oplog.incidents.habits import SLACK_MILLIS, Habits, LoggedRun
from tallyglass.oplog.incidents.rows import note_on, shown
from tallyglass.oplog.incidents.verdict import REACH_MILLIS
from tallyglass.oplog.snapshot import Harm, Incident

FOUND = "The server's log names this statement; the entries alone do not tell it from what is usual here."

_LATE_MILLIS = (CLUMP_MILLIS, REACH_MILLIS, SLACK_MILLIS)
"""How late the line of a statement may count from: the least of these in which all of its documents are found."""

_Written = tuple[int, Ts, str]


def missing(incidents: Iterable[Incident], habits: Habits) -> list[LoggedRun]:
    """The acts of the log that none of these incidents shows, oldest first."""
    shown = [(one.ns, one.op, *one.walls) for one in incidents if not one.routine and one.op]
    return [
        run
        for run in habits.acts()
        if not any(
            (ns, op) == (run.largest.ns, run.largest.op) and first <= run.ended and run.began - SLACK_MILLIS <= last
            for ns, op, first, last in shown
        )
    ]


async def read_run(gateway: Gateway, run: LoggedRun, book: Book) -> Incident | None:
    """An act of the log with its entries; None if fewer are found than it counts. Raises the errors of the gateway."""
    one = run.largest
    if book.is_clock_doubted(run.began, run.ended):
        return None
    any_of = replace(one, began=run.began, ended=run.ended)
    if run.statements > 1:
        any_of = replace(any_of, floor=0, after=Ts(0, 0), before=None, ids=None, fields=None)
    written: list[_Written] = []
    # Timestamps are by the cluster's clock, which can be ahead of the server's own: the client knew it.
    ahead = max(one.after.t - one.began // 1_000, 0)
    first, last = (run.began - SLACK_MILLIS) // 1_000, run.ended // 1_000 + ahead
    async with closing(entries_between(gateway, one.ns, one.op, first, last)) as found:
        async for raw in found:
            with suppress(Malformed):
                for write, entry in writes_in(raw, one.ns, one.op):
                    if may_have_written(any_of, write, entry):
                        at = write.id_at
                        sample = id_text(write.raw, at, 60) if at is not None else ""
                        written.append((entry.wall_millis or 0, entry.ts, sample))
    for late in _LATE_MILLIS:
        own = [one for one in written if one[0] >= run.began - late]
        if len(own) >= run.documents:
            return _incident(run, own)
    return None


def _incident(run: LoggedRun, own: Sequence[_Written]) -> Incident | None:
    one = run.largest
    if not own:
        return None
    kind = "deleteMany" if one.op == "d" else "updateMany"
    title, note = f"{kind} on {shown(one.ns)}", " ".join(filter(None, (FOUND, note_on(one.ns))))
    return Incident(
        0, kind, title, one.ns, Harm.LOSS if one.op == "d" else Harm.CHANGE, own[0][1], own[-1][1],
        from_millis(own[0][0]), from_millis(own[-1][0]), len({ts for _, ts, _ in own}), len(own),
        tuple(sample for _, _, sample in own[:SAMPLES]), own[0][1], note=note, op=one.op,
        documents_exact=len(own) == run.documents, confidence="low" if run.is_loop else "high",
    )  # fmt: skip
