"""Rehearse a restore: plan it, run the emitted script unchanged on a temporary spare, verify, and remove it.

The live set is only read: the script stops after the phase ``verify``, before anything is written to it. The script
starts the spare itself, on loopback; a drill never accepts the address of a server to restore onto.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tallyglass.connection.secret import Secret
from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.deployment.identity import identify
from tallyglass.errors import DeploymentError, InputError, ReadError, TallyglassError
from tallyglass.moment import Ts, iso, parse_ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.paths import absolute_path
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.backups import newest_backup
from tallyglass.restore.catalogue.window import prove_window
from tallyglass.restore.drill import load, past_drills
from tallyglass.restore.drill.components import UnfitComponents, check_components, environment
from tallyglass.restore.drill.random_point import draw
from tallyglass.restore.drill.report import PHASES, UNKNOWN, DrillFinding, Report, compare, sealed
from tallyglass.restore.drill.run_folder import DrillRunning, sole_run, users_of
from tallyglass.restore.drill.state import state_folder
from tallyglass.restore.drill.stopped import Failed, why_stopped
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.plan.precheck import quick_answer
from tallyglass.restore.plan.self_extracting import MODE, script
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline import coverage
from tallyglass.text import clean

WEAK = frozenset(
    {
        "backup-start-given", "backup-end-unknown", "backup-unread", "counts-not-computed", "file-times",
        "shard-unknown", "uuid-unlisted", "uuid-unknown",
    }
)  # fmt: skip
"""Warnings that cast doubt on this backup even after a drill; the others are about the return to the live set."""

_POLL_SECONDS = 0.2
_FOR_A_LATER_ENTRY = 15.0
"""An idle set writes an entry every ten seconds; a point must lie after the end of the backup."""

_STEP = re.compile(rb"^\[\d+/\d+\] ([a-z]+): ", re.MULTILINE)
"""What the script says first of a step."""
_REPLAY = re.compile(r"^(\S+)\t(replaying oplog|applied \d+ oplog entries)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DrillRequest:
    """What to rehearse. ``backup`` may be a folder of backups; ``to`` is the point; None means the newest point that
    can be proven, or with ``seed`` a random one. ``oplog`` is a saved oplog that is read before the live one.
    ``work_root`` holds the spare's data while the drill runs, ``mongod`` is the server binary, ``tallyglass`` the
    command line that calls this program. ``rate`` is in bytes a second, ``deadline`` in seconds. ``started`` is a time
    of :func:`time.monotonic`: from then on a real plan would take the same time to begin."""

    backup: Path
    source_uri: str
    work_root: Path
    mongod: Path | None
    tallyglass: tuple[str, ...]
    password: Secret | None = None
    to: Ts | None = None
    seed: int | None = None
    oplog: Path | None = None
    backup_start: Ts | None = None
    rate: float | None = None
    deadline: float = 4 * 3600
    started: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class _Drill:
    """A drill in progress. What it has found goes into the report, however the drill ends."""

    gateway: Gateway
    request: DrillRequest
    tell: Callable[[str], None]
    known: Report
    seconds: dict[str, float] = field(default_factory=dict)


async def drill(gateway: Gateway, request: DrillRequest, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Run one drill; ``tell`` gets a line for each phase that begins.

    Always returns a report and stores it as the last one of the deployment. Raises InputError if it cannot be stored.
    """
    made = iso(datetime.now(UTC).replace(microsecond=0))
    known = Report(
        made,
        UNKNOWN,
        "",
        "",
        clean(str(request.backup), 300),
        "",
        host=clean(socket.gethostname()),
        rate_limit=request.rate,
        nice=os.nice(0),
        seed=request.seed,
    )
    run = _Drill(gateway, request, tell, known)
    try:
        async with asyncio.timeout(request.deadline):
            report = await _rehearse(run)
    except TimeoutError:
        late = Failed(
            "deadline", f"The drill was not done after {request.deadline:g} s.", "Allow more time (--deadline)."
        )
        report = _ended(run, late)
    except Failed as error:
        report = _ended(run, error)
    except UnfitComponents as error:
        report = _ended(run, Failed("components", error.title, error.advice, level=UNKNOWN))
    except DrillRunning as error:
        report = _ended(run, Failed("locked", error.title, error.advice, level=UNKNOWN))
        return sealed(report)  # the running drill will store its own report
    except InputError as error:
        report = _ended(run, Failed("backup-unreadable", error.title, error.advice))
    except TallyglassError as error:
        report = _ended(run, Failed("unreadable", error.title, error.advice, level=UNKNOWN))
    report = sealed(past_drills.with_random(report))
    past_drills.keep(report)
    return report


def _ended(run: _Drill, why: Failed) -> Report:
    title = f"{why.title} {why.advice}".rstrip()
    return replace(
        run.known,
        level=why.level,
        id=why.check,
        title=clean(title, 600),
        output=why.output,
        seconds=_rounded(run.seconds),
    )


async def _rehearse(run: _Drill) -> Report:
    request = run.request
    deployment = await _identified(run)
    run.seconds[PHASES[0]] = time.monotonic() - request.started
    mongod = request.mongod
    tools = await asyncio.to_thread(check_components, deployment.version, mongod)
    assert mongod is not None
    run.known = replace(run.known, tools=tools)
    cache = load.cache_for(load.available_memory())
    if cache is None:
        raise Failed("memory", "There is too little free memory for a spare and the tools.", "Run it elsewhere.")
    with sole_run(state_folder(), request.work_root) as folder:
        run.tell(PHASES[0])
        plan = await _plan(run, folder)
        before = None
        if request.seed is None:
            before = _comparable(past_drills.last(run.known.deployment, proved=True), plan.facts.limit)
        work = _Work(folder, environment(folder / "bin", mongod, cache, request.tallyglass), plan)
        await _run_script(run, work)
        run.known = _measured(run.known, plan)
        run.tell("clean")
        begun = time.monotonic()
    run.seconds["clean"] = time.monotonic() - begun
    return _succeeded(run, before)


async def _identified(run: _Drill) -> Deployment:
    deployment = await look_at(run.gateway)
    if deployment.sharded or not deployment.has_oplog:
        raise DeploymentError("A drill needs a replica set with an oplog.", deployment.no_oplog_because())
    hello = await run.gateway.command("hello")
    run.known = replace(
        run.known,
        set_name=deployment.set_name,
        deployment=await identify(run.gateway, hello),
        server_version=deployment.version,
    )
    return deployment


@contextmanager
def _counted(run: _Drill, phase: str) -> Iterator[None]:
    """Add what this takes to the time of a phase."""
    begun = time.monotonic()
    try:
        yield
    finally:
        run.seconds[phase] = run.seconds.get(phase, 0.0) + time.monotonic() - begun


async def _plan(run: _Drill, folder: Path) -> Plan:
    """Choose the backup and plan, as for a real restore. The search for the newest point is not counted: it may wait
    for an entry after the backup, and in a real restore the point is given."""
    request = run.request
    backup, limit = await _point(run)
    gateway = load.paced(run.gateway, request.rate)
    wanted = RestoreRequest(
        backup,
        request.source_uri,
        before=limit,
        backup_start=request.backup_start,
        oplog=request.oplog,
        work_dir=str(folder / "work"),
        own_spare_port=_free_port(),
    )
    with _counted(run, PHASES[0]):
        await quick_answer(gateway, wanted)  # the first thing that a real plan asks for
        plan = await plan_restore(gateway, wanted)
    run.known = _planned(run.known, plan)
    blocking = next((check for check in plan.checks if check.level is Level.BLOCK), None)
    if blocking is not None and blocking.id == "tool-version":
        raise UnfitComponents(blocking.title, blocking.advice)
    if blocking is not None:
        raise Failed(blocking.id, blocking.title, blocking.advice)
    return plan


async def _point(run: _Drill) -> tuple[Path, Ts]:
    """The backup, and the exclusive limit. Raises Failed."""
    request = run.request
    backup = absolute_path(request.backup)
    if request.seed is not None:
        return await _random_point(run, backup, request.seed)
    limit = request.to or await _newest(run.gateway)
    with _counted(run, PHASES[0]):
        backup = await _chosen(run.gateway, backup, limit)
    if request.to is None:
        end = (await asyncio.to_thread(read_backup, backup, request.backup_start)).backup.end
        limit = await _newest(run.gateway, after=end)
    return backup, limit


async def _random_point(run: _Drill, backup: Path, seed: int) -> tuple[Path, Ts]:
    """Not counted: in a real restore the point is given. Raises Failed."""
    slices = (run.request.oplog,) if run.request.oplog else ()
    try:
        window, oplogs = await prove_window([backup], slices, load.paced(run.gateway, run.request.rate))
        drawn = await draw(window, oplogs, seed)
    except InputError as error:
        raise Failed("no-window", error.title, error.advice) from None
    run.known = replace(run.known, random_where=drawn.stratum.value)
    return drawn.base, drawn.limit


async def _chosen(gateway: Gateway, backup: Path, limit: Ts) -> Path:
    """The backup, or of a folder of backups the newest that ended before the point. Raises Failed."""
    try:
        return await newest_backup(gateway, backup, limit)
    except InputError as error:
        raise Failed("no-backup", error.title, error.advice) from None


async def _newest(gateway: Gateway, after: Ts | None = None) -> Ts:
    """The newest majority-committed position; waits a limited time for one later than ``after``."""
    deadline = time.monotonic() + _FOR_A_LATER_ENTRY
    while True:
        newest = await coverage.majority(gateway)
        if newest is None:
            raise ReadError("The server does not say which entries a majority of the members has.")
        if after is None or newest > after or time.monotonic() > deadline:
            return newest
        await asyncio.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class _Work:
    """The files of a run: its folder, the environment of the script, and the plan behind the script."""

    folder: Path
    env: Mapping[str, str]
    plan: Plan


async def _run_script(run: _Drill, work: _Work) -> None:
    """Run the emitted script once, as a person would, up to its last phase that only reads the live set. Raises
    Failed."""
    log = work.folder / "script.log"
    process = _start_script(work, run.request.password, log)
    pace = load.ToolPace(run.request.rate) if run.request.rate else None
    phases = _PhaseClock(run, log)
    try:
        while process.poll() is None:
            if pace is not None:
                pace.check(await asyncio.to_thread(users_of, work.folder))
            phases.look()
            await asyncio.sleep(_POLL_SECONDS)
        phases.look()
    finally:
        phases.end()
        # A deadline may end the drill before the script; what it runs goes with the folder.
        process.kill()
        process.wait()
    if process.returncode:
        raise why_stopped(log, phases.now, process.returncode)


class _PhaseClock:
    """Follows the script's output, and records how long each phase takes."""

    def __init__(self, run: _Drill, log: Path) -> None:
        self._run, self._log, self._read = run, log, 0
        self._rest = b""
        self._begin(1)

    @property
    def now(self) -> str:
        """The phase that runs."""
        return PHASES[self._number]

    def look(self) -> None:
        """Read what was printed since the last look."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            text = self._rest + file.read()
            self._read = file.tell()
        self._rest = text[text.rfind(b"\n") + 1 :]
        for name in _STEP.findall(text):
            later = [number for number in range(self._number + 1, len(PHASES)) if PHASES[number].encode() == name]
            if later:
                self.end()
                self._begin(later[0])

    def end(self) -> None:
        """The phase is over."""
        self._run.seconds[self.now] = time.monotonic() - self._since

    def _begin(self, number: int) -> None:
        self._number, self._since = number, time.monotonic()
        self._run.tell(self.now)


def _start_script(work: _Work, password: Secret | None, log: Path) -> subprocess.Popen[bytes]:
    path = work.folder / "restore.sh"
    if not path.exists():
        path.write_text(script(work.plan), encoding="utf-8")
        path.chmod(MODE)
    words = ["bash", str(path), "--yes", "--until", PHASES[-1]]
    pipes = [_as_pipe(password)] if password and "source" in work.plan.steps.passwords else []
    words += [word for pipe in pipes for word in ("--source-password-file", f"/dev/fd/{pipe}")]
    try:
        with log.open("wb") as out:
            return subprocess.Popen(
                words, env=work.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=pipes,
                start_new_session=True, cwd=work.folder,
            )  # fmt: skip
    finally:
        for pipe in pipes:
            os.close(pipe)


def _as_pipe(secret: Secret) -> int:
    """A file descriptor to read a password from, so that the password is in no file and no argument."""
    reading, writing = os.pipe()
    os.write(writing, secret.reveal().encode() + b"\n")
    os.close(writing)
    return reading


def _planned(known: Report, plan: Plan) -> Report:
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
            DrillFinding(check.id, check.level.value, clean(check.title, 300), clean(check.advice, 300))
            for check in plan.checks
            if check.level is not Level.WARN or check.id in WEAK
        ),
    )


def _age(ts: Ts) -> float:
    return round((datetime.now(UTC) - ts.time).total_seconds(), 1)


def _measured(known: Report, plan: Plan) -> Report:
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
    return (times[-1] - times[0]).total_seconds() if len(times) > 1 else None


def _succeeded(run: _Drill, before: Report | None) -> Report:
    known = run.known
    differences = compare(before, known.namespaces)
    weak = [one for one in known.findings if one.level == Level.WARN.value]
    worst = (*differences, *weak)
    rto = sum(run.seconds.get(phase, 0) for phase in PHASES)
    count = len(known.namespaces)
    title = (
        f"{known.set_name} was restored to just before {known.point_time} and verified: "
        f"{count} namespace{'s' * (count != 1)}, {known.documents} documents, in {rto:.0f} s."
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


def _comparable(before: Report | None, limit: Ts) -> Report | None:
    """The last drill, unless its point is later than this one's: what is missing now may have been written in
    between."""
    return before if before and before.point and parse_ts(before.point) <= limit else None


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {phase: round(value, 2) for phase, value in seconds.items()}
