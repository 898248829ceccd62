"""What the server's log decides: a statement or command that it names is an act, or the routine of an application.

The size of a statement of the log does not matter, so an act of the size that is usual where it ran is found by its
line, and a large statement that an application runs at other times too is known to be routine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Client
from tallyglass.moment import Ts, from_millis
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.attribution import client_of_command, entries_between, may_have_written, writes_in
from tallyglass.oplog.incidents.burst import SAMPLES
from tallyglass.oplog.incidents.commands import closed_of, loops_of, recurring_of
from tallyglass.oplog.incidents.families import CLUMP_MILLIS, without_numbers
from tallyglass.oplog.incidents.habits import SLACK_MILLIS, Habits, LoggedRun, is_shell
from tallyglass.oplog.incidents.recurrence import YOUNG_WINDOW_MILLIS, Recurrence, Window
from tallyglass.oplog.incidents.rows import note_on, shown
from tallyglass.oplog.incidents.verdict import REACH_MILLIS
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan

FOUND = "The server's log names this statement; the entries alone do not tell it from what is usual here."

_LATE_MILLIS = (CLUMP_MILLIS, REACH_MILLIS, SLACK_MILLIS)
"""How late the line of a statement may count from: the least of these in which all of its documents are found."""

_PROGRAMS = 100
"""The most programs that are compared: what more of them run is everybody's."""

_Written = tuple[int, Ts, str]
_Program = frozenset[tuple[str, ...]]
"""By what a program is known: clients that share one of these are the same."""


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
    """Those of the runs of a command that others run regularly, and whoever ran them does not.

    An application is only judged where the log names who ran each of the ``whole``.
    """
    by: defaultdict[_Program, list[tuple[Incident, Client]]] = defaultdict(list)
    for run in runs:
        client = client_of_command(run, book)
        if client is not None:
            by[_program_of(client)].append((run, client))
    if len(by) > _PROGRAMS:
        return
    is_known = whole and sum(map(len, by.values())) == len(runs)
    for program, own in by.items():
        same, others = Recurrence(), Recurrence()
        for other, found in by.items():
            (same if program & other else others).add(*(closed_of(run) for run, _ in found))
        for run, client in own:
            if is_known or is_shell(client.application):
                confidence = _confidence(run, book, same, others, by_shell=is_shell(client.application))
                if confidence:
                    who = client.application or client.user or "a client"
                    note = f"others run this regularly, {who} does not, by the log"
                    yield replace(run, note="; ".join(filter(None, (run.note, note))), confidence=confidence)


def _confidence(run: Incident, book: Book, same: Recurrence, others: Recurrence, *, by_shell: bool) -> str:
    """How sure it is that a run is not routine, by when the same program and ``others`` ran the command; empty if it
    is, or may be. A person may do a thing twice, and an application may have been started a moment ago."""
    covered, one = book.covering(*run.walls), closed_of(run)
    if covered is None:
        return ""
    window = Window(covered.first, covered.last)
    verdict = same.judge(one, window)
    if verdict.reason or not others.judge(one, window).reason:
        return ""
    if by_shell:
        return "low" if verdict.apart else "high"
    if window.is_young or verdict.apart:
        return ""
    return "low" if window.end - run.walls[1] < YOUNG_WINDOW_MILLIS else "high"


def _program_of(client: Client) -> _Program:
    """A shell is anybody's, and so is an account that a shell uses. A new version of an application may have another
    name or another account, not both."""
    if is_shell(client.application):
        return frozenset({(client.application, client.user)})
    return frozenset({(without_numbers(client.application),), *([("", client.user)] if client.user else [])})


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
