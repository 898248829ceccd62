"""What a drill shows: of the plan, of the spare that was verified, and against the drill before it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tallyglass.moment import Ts, iso, parse_ts
from tallyglass.restore.drill.report import PHASES, UNKNOWN, Report, compare
from tallyglass.restore.drill.request import DrillRequest, DrillRun
from tallyglass.restore.drill.stopped import Failed
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.text import clean, plural

WEAK = frozenset(
    {
        "backup-start-given", "backup-end-unknown", "backup-unread", "counts-not-computed", "file-times",
        "shard-unknown", "uuid-unlisted", "uuid-unknown",
    }
)  # fmt: skip
"""Warnings that cast doubt on this backup even after a drill; the others are about the return to the live set."""

_REPLAY = re.compile(r"^(\S+)\t(replaying oplog|applied \d+ oplog entries)$", re.MULTILINE)


def begun(request: DrillRequest) -> Report:
    """The report of a drill of which nothing is known yet."""
    made = iso(datetime.now(UTC).replace(microsecond=0))
    return Report(
        made, UNKNOWN, "", "", clean(str(request.backup), 300), "", host=clean(socket.gethostname()),
        rate_limit=request.rate, nice=os.nice(0), seed=request.seed,
    )  # fmt: skip


def ended(run: DrillRun, why: Failed) -> Report:
    """The report of a drill that ended early, with why."""
    title = f"{why.title} {why.advice}".rstrip()
    return replace(
        run.known,
        level=why.level,
        id=why.check,
        title=clean(title, 600),
        output=why.output,
        seconds=_rounded(run.seconds),
    )


def planned(known: Report, plan: Plan) -> Report:
    """The report with what the plan says of backup and point, and its checks."""
    backup = plan.from_backup.backup
    end = backup.end or backup.start
    return replace(
        known,
        backup=clean(str(backup.path), 300),
        form=backup.form,
        backup_start=str(backup.start or ""),
        backup_end=str(backup.end or ""),
        backup_bytes=backup.bytes,
        backup_age=_age(end) if end else None,
        point=str(plan.facts.limit),
        point_time=iso(plan.facts.limit.time),
        point_age=_age(plan.facts.limit),
        findings=tuple(
            replace(check, title=clean(check.title, 300), advice=clean(check.advice, 300))
            for check in plan.checks
            if check.level is not Level.WARN or check.id in WEAK
        ),
    )


def _age(ts: Ts) -> float:
    return round((datetime.now(UTC) - ts.time).total_seconds(), 1)


def measured(known: Report, plan: Plan) -> Report:
    """What the verified spare held, and how fast the oplog was replayed. Raises Failed if it held nothing."""
    counts = {clean(item.ns): item.documents for item in plan.proof.expected}
    if not counts:
        raise Failed("nothing-verified", "The backup holds no collection: nothing was proved.")
    seconds = _replay_seconds(Path(plan.steps.work_dir))
    operations = plan.proof.expected_applied
    return replace(
        known,
        namespaces=counts,
        documents=sum(count for count in counts.values() if count is not None),
        operations=operations,
        operations_per_second=round(operations / seconds, 1) if operations and seconds else None,
    )


def _replay_seconds(work: Path) -> float | None:
    """The time from the first to the last line about the oplog in mongorestore's output."""
    try:
        output = "".join(log.read_text(errors="replace") for log in (*work.glob("*.log"), *work.glob("log/*.txt")))
        times = [datetime.fromisoformat(at) for at, _ in _REPLAY.findall(output)]
    except (OSError, ValueError):
        return None
    return (times[-1] - times[0]).total_seconds() if times else None


def succeeded(run: DrillRun, before: Report | None) -> Report:
    """The report of a drill that proved its backup, compared with the drill before it."""
    known = run.known
    differences = compare(before, known.namespaces)
    weak = [one for one in known.findings if one.level is Level.WARN]
    worst = (*differences, *weak)
    rto = sum(run.seconds.get(phase, 0) for phase in PHASES)
    count = len(known.namespaces)
    title = (
        f"{known.set_name} was restored to just before {known.point_time} and verified: "
        f"{plural(count, 'namespace')}, {known.documents:,} documents, in {rto:.0f} s."
    )
    if worst:
        title = f"{worst[0].title} {title}"
    return replace(
        known,
        level=Level.WARN.value if worst else Level.OK.value,
        id=worst[0].id if worst else "",
        title=title,
        seconds=_rounded(run.seconds),
        rto_seconds=round(rto, 1),
        load=_load(),
        differences=differences,
        previous=f"{before.made} {before.checksum}" if before else "",
    )


def _load() -> float:
    """Processes of all users that wanted a CPU in the last minute, for each CPU."""
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)


def comparable(before: Report | None, limit: Ts) -> Report | None:
    """The last drill, unless its point is later than this one's: what is missing now may have been written in
    between."""
    return before if before and before.point and parse_ts(before.point) <= limit else None


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {phase: round(value, 2) for phase, value in seconds.items()}
