"""What the server's log decides: a statement or command that it names is an act, or the routine of an application.

The size of a statement of the log does not matter, so an act of the size that is usual where it ran is found by its
line, and a large statement that an application runs at other times too is known to be routine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Client
from tallyglass.moment import Ts, from_millis
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.attribution import (
    client_of_command,
    entries_between,
    may_have_written,
    writes_in,
)
from tallyglass.oplog.incidents.burst import SAMPLES
from tallyglass.oplog.incidents.commands import closed_of, loops_of, recurring_of
from tallyglass.oplog.incidents.families import CLUMP_MILLIS, without_numbers
from tallyglass.oplog.incidents.habits import SHELLS, SLACK_MILLIS, Habits, LoggedRun
from tallyglass.oplog.incidents.recurrence import YOUNG_WINDOW_MILLIS, Recurrence, Window
from tallyglass.oplog.incidents.rows import note_on, shown
from tallyglass.oplog.incidents.verdict import REACH_MILLIS
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan

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


def with_unusual_runs(scan: IncidentScan, book: Book) -> IncidentScan:
    """The scan with those of its recurring commands as rows of their own that were run by somebody who does not run
    them regularly. Their numbers come after those of the entries, which stay the same."""
    found, rest = list[Incident](), dict[object, Incident | None]()
    for one in scan.recurring:
        unusual = list(_unusual(one.runs, book, whole=not one.times))
        if unusual:
            ts = {run.first for run in unusual}
            usual = [run for run in one.runs if run.first not in ts]
            rest[one.row.kind, one.row.ns, one.row.first] = (
                recurring_of(usual, one.folded, one.times).row if usual else None
            )
            found += loops_of(unusual)
    last, kept = max((one.number for one in scan.incidents), default=0), list[Incident]()
    for incident in scan.incidents:
        row = rest.get((incident.kind, incident.ns, incident.first), incident)
        if row is not None:
            kept.append(row if row is incident else replace(row, number=incident.number, point=row.limit))
    numbered = (replace(one, number=n, point=one.limit) for n, one in enumerate(found, last + 1))
    return replace(scan, incidents=(*numbered, *kept), recurring=())


def _unusual(runs: Sequence[Incident], book: Book, *, whole: bool) -> Iterator[Incident]:
    """Those of the runs of a command that a person in a shell does not run regularly, or an application at no other
    time.

    A new version of an application may have another name or account, not both. It is only judged where the log
    names who ran each of the ``whole``, and of low confidence while it may have been started a moment ago.
    """
    known = [(run, client) for run in runs if (client := client_of_command(run, book)) is not None]
    seen: defaultdict[Hashable, Recurrence] = defaultdict(Recurrence)
    for run, client in known:
        for key in _same_program(client):
            seen[key].add_all([closed_of(run)])
    is_known = whole and len(known) == len(runs)
    for run, client in known:
        covered, is_shell = book.covering(*run.walls), client.application.startswith(SHELLS)
        window = None if covered is None else Window(covered.first, covered.last)
        if window is None or not (is_shell or (is_known and not window.is_young)):
            continue
        verdicts = [seen[key].judge_size(*closed_of(run), window) for key in _same_program(client)]
        apart = any(one.apart for one in verdicts)
        if any(one.reason for one in verdicts) or (apart and not is_shell):
            continue
        is_new = not is_shell and window.end - run.walls[1] < YOUNG_WINDOW_MILLIS
        who = client.application or client.user or "a client"
        note = "; ".join(filter(None, (run.note, f"others run this regularly, {who} does not, by the log")))
        yield replace(run, note=note, confidence="low" if apart or is_new else "high")


def _same_program(client: Client) -> list[Hashable]:
    """What the runs of one program have in common: any of these. A shell is anybody's, and so is an account."""
    if client.application.startswith(SHELLS):
        return [(client.application, client.user)]
    return [without_numbers(client.application), *([("account", client.user)] if client.user else [])]


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
