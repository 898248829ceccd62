"""The steps that rebuild the data on the spare: one run of mongorestore, and the steps before and after it.

Follows one rule of mongorestore above all: data and oplog in a single run, since its indexes are built from a list
that it keeps in memory during that run.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, LEFT_OUT, PBM
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import stored_as
from tallyglass.restore.model.source import Backup
from tallyglass.restore.model.step import Effect, Phase, PlanFile, PlanSteps, Proof, RunMode
from tallyglass.restore.plan.steps.making import join, mongosh_call, run, run_mongosh, run_shell, verification
from tallyglass.restore.proof.findings import Assessed
from tallyglass.restore.proof.speed import BYTES_A_SECOND, replay_seconds
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import MARKS, VIEW_OPENER
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import BASE, MANIFEST, MARK, OPLOG, PLAIN_ARCHIVE, SPARE, fold_command, lines
from tallyglass.text import shell_join, shell_quote

_GUARD = "guard.sh"
_EMPTY, _PREPARE = "empty-spare.js", "prepare-spare.js"


def restore_steps(plan: Plan, assessed: Assessed) -> PlanSteps:
    """Onto the spare: stage or unpack the backup, replay, repair the indexes."""
    backup, guard = plan.from_backup.backup, _guard(plan, assessed)
    parts = [_start_spare(plan, assessed)] if assessed.inputs.own_spare else []
    if backup.compressed:
        parts.append(_decompress(backup))
    if backup.form == ARCHIVE:
        parts += [guard, _unpack_archive(backup)]
    elif backup.form not in (PBM, DATA_FILES):
        parts.append(_stage(backup, assessed.inputs.contents.databases))
    return join([*parts, guard, _replay(plan, assessed), _repair(plan, assessed)])


def reads_gzip(backup: Backup) -> bool:
    """Whether the run that replays reads compressed files: an archive was unpacked before."""
    return backup.gzip and backup.form != ARCHIVE


def _start_spare(plan: Plan, assessed: Assessed) -> PlanSteps:
    port, files = assessed.inputs.own_spare, []
    replica_set = own_spare.REPLICA_SET if assessed.covered.replay.needs_set else ""
    if replica_set:
        start = [mongosh.on_spare(plan.facts.set_name), mongosh.start_set(replica_set, plan.from_backup.spare)]
        files.append(PlanFile(own_spare.START_SET, mongosh.program(start)))
    step = run(
        Phase.RESTORE, "Start an empty spare", Effect.WRITES_SPARE, ("bash", own_spare.PROGRAM, "start"),
        why="None was named. It is new, so it is empty, and its TTL monitor is off, so nothing restored expires. "
        "Only who can read the key in this folder can log in.",
        undo=f"bash {own_spare.PROGRAM} stop", mode=RunMode.AGAIN, seconds=3.0,
    )  # fmt: skip
    return PlanSteps(step.commands, (PlanFile(own_spare.PROGRAM, own_spare.program(port, replica_set)), *files))


def _stage(backup: Backup, databases: tuple[str, ...]) -> PlanSteps:
    parts = [f"rm -rf {BASE}", f"mkdir -p {BASE}"]
    for db in databases:
        source, target = shell_quote(str(backup.path / db)), shell_quote(f"{BASE}/{db}")
        parts.append(f"cp -al {source} {BASE}/ 2>/dev/null || {{\n  rm -rf {target}\n  cp -a {source} {BASE}/\n}}")
    for prelude in ("prelude.json", "prelude.json.gz"):
        if (backup.path / prelude).is_file():
            parts.append(f"cp -a {shell_quote(str(backup.path / prelude))} {BASE}/")
    return run_shell(
        Phase.RESTORE, "Stage the backup", Effect.FILES, PlanFile("stage.sh", lines(*parts)),
        why="Links, so that it takes no room. Left out: the backup's own oplog, and admin and config with the users.",
    )  # fmt: skip


def _decompress(backup: Backup) -> PlanSteps:
    target = PLAIN_ARCHIVE if backup.form == ARCHIVE else BASE
    unpack = fold_command(("tallyglass", "restore", "unpack", str(backup.path), f"--out={target}"))
    return run_shell(
        Phase.RESTORE, "Decompress the backup", Effect.FILES, PlanFile("unpack.sh", lines(f"rm -rf {target}", unpack)),
        why="mongorestore reads gzip, and no other compression. Its checksums are verified once more.",
    )  # fmt: skip


def _unpack_archive(backup: Backup) -> PlanSteps:
    options = [f"--config={SPARE}", "--drop", "--stopOnError", "--bypassDocumentValidation"]
    options.append(f"--archive={PLAIN_ARCHIVE if backup.compressed else backup.path}")
    options += ["--gzip"] if backup.gzip else []
    options += ["--oplogReplay"] if backup.has_oplog else ["--nsExclude=admin.*", "--nsExclude=config.*"]
    unpack = run(
        Phase.RESTORE, "Unpack the archive on the spare", Effect.WRITES_SPARE, ("mongorestore", *options),
        why="mongorestore takes no other oplog together with an archive, so it becomes a directory first.",
        seconds=backup.bytes / BYTES_A_SECOND,
    )  # fmt: skip
    databases = sorted({ns.partition(".")[0] for ns in backup.namespaces} - LEFT_OUT)
    dumps = [fold_command(("mongodump", f"--config={SPARE}", f"--db={db}", f"--out={BASE}")) for db in databases]
    dump = run_shell(
        Phase.RESTORE, "Dump the spare as a directory", Effect.READS_SPARE,
        PlanFile("dump-spare.sh", lines(f"rm -rf {BASE}", f"mkdir -p {BASE}", *dumps)),
        why="It is restored again from there, together with the oplog, onto an empty spare.",
    )  # fmt: skip
    return join([unpack, dump])


def _guard(plan: Plan, assessed: Assessed) -> PlanSteps:
    """Checks right before mongorestore: a plan may be run days later, and an earlier attempt may have been interrupted.

    What such an attempt left is removed: a spare that the steps started is replaced; a named spare is emptied if it
    carries the mark of this restore. The checksum of the dumped oplog must match.
    """
    files: list[PlanFile] = []
    if plan.from_backup.backup.form == DATA_FILES:
        ready = _only_once()
    elif assessed.inputs.own_spare:
        ready = [shell_join(("bash", own_spare.PROGRAM, "renew"))]
    else:
        ready, files = _still_empty(plan)
    if before := [*_opened_views(assessed), *_dropped_before(assessed)]:
        ready.append(shell_join(mongosh_call(_PREPARE)))
        files.append(PlanFile(_PREPARE, mongosh.program([mongosh.on_spare(plan.facts.set_name), *before])))
    files.append(PlanFile(_GUARD, lines(f"sha256sum --check --quiet {MANIFEST}", *ready)))
    step = run(
        Phase.RESTORE, "Guard: the spare is empty, the saved oplog unchanged", Effect.WRITES_SPARE, ("bash", _GUARD),
        why="What an earlier attempt of this restore left on the spare is removed; anything else stops it here.",
        mode=RunMode.GUARD, seconds=2.0,
    )  # fmt: skip
    return PlanSteps(step.commands, tuple(files))


def _unopened_views(assessed: Assessed) -> list[str]:
    return sorted(assessed.covered.replay.unopened_views)


def _only_once() -> list[str]:
    """On a copy of data files, a second replay on top of a partial first one would give another result."""
    return [
        shell_join(verification("--empty")),
        "if [ -e replay.begun ]; then",
        "  echo 'The replay was stopped half-way before: put a fresh copy of the data files there,' \\",
        "    'and plan again.' >&2",
        "  exit 1",
        "fi",
        "touch replay.begun",
    ]


def _still_empty(plan: Plan) -> tuple[list[str], list[PlanFile]]:
    """A named spare is empty, or carries the mark of this restore and is then emptied."""
    folder = f"{MARK}/{MARKS.db}"
    ready = [
        "status=0",
        f"{shell_join(verification('--empty'))} || status=$?",
        "if [ $status = 1 ]; then",
        "  # It holds what an earlier attempt of this restore left there.",
        f"  {shell_join(mongosh_call(_EMPTY))}",
        "else",
        "  [ $status = 0 ]",
        "  # The document {_id: MARK} proves later whose data it is.",
        f"  mkdir -p {folder}",
        f"  printf '\\037\\0\\0\\0\\002_id\\0\\021\\0\\0\\0%s\\0\\0' {plan.mark} >{folder}/{MARKS.collection}.bson",
        f"  mongorestore --quiet --config={SPARE} --drop --dir={MARK}",
        "fi",
    ]
    program = mongosh.program([mongosh.on_spare(plan.facts.set_name), mongosh.empty_spare(plan.mark)])
    return ready, [PlanFile(_EMPTY, program)]


def _opened_views(assessed: Assessed) -> Iterator[str]:
    """The oplog holds views but does not create ``system.views``: a temporary view of our own creates it."""
    for db in _unopened_views(assessed):
        yield mongosh.drop_if_there(db, {"drop": VIEW_OPENER})
        yield mongosh.must(db, {"create": VIEW_OPENER, "viewOn": "none", "pipeline": []})


def _dropped_before(assessed: Assessed) -> Iterator[str]:
    for ns, index in assessed.covered.replay.catalog.dropped_before:
        db, _, name = ns.partition(".")
        yield mongosh.drop_if_there(db, {"dropIndexes": name, "index": index})


def _replay(plan: Plan, assessed: Assessed) -> PlanSteps:
    replay, backup, limit = assessed.covered.replay, plan.from_backup.backup, plan.facts.limit
    builds = replay.catalog.builds_indexes
    classic, gzip = backup.form == DATA_FILES, reads_gzip(backup)
    argv = (
        "mongorestore",
        f"--config={SPARE}",
        *([] if classic else ["--drop"]),
        "--stopOnError",
        "--bypassDocumentValidation",
        "--oplogReplay",
        *([] if builds else ["--noIndexRestore"]),
        *([] if classic else [f"--oplogFile={OPLOG}.gz" if gzip else f"--oplogFile={OPLOG}"]),
        f"--oplogLimit={limit}",
        *(["--gzip"] if gzip else []),
        f"--dir={'oplog' if classic else BASE}",
    )
    return run(
        Phase.RESTORE,
        "Replay the oplog" if classic else "Restore and replay in one run",
        Effect.WRITES_SPARE,
        argv,
        why=f"Everything before {limit} and nothing from it on."
        + ("" if classic or not builds else " One run: indexes come last, from one list.")
        + (
            "" if builds else " Indexes come with the repair: some of the tools' list do not fit what is there by then."
        ),
        undo="The spare alone is changed: empty it, or start another.",
        proof=Proof(applied=replay.applied, restored=0),
        seconds=replay_seconds(assessed.covered) + (0.0 if classic else backup.bytes / BYTES_A_SECOND),
    )


def _repair(plan: Plan, assessed: Assessed) -> PlanSteps:
    catalog = assessed.covered.replay.catalog
    statements = []
    for item in plan.proof.expected:
        db, _, name = item.ns.partition(".")
        surplus = catalog.surplus_indexes(stored_as(item.ns, item.kind))
        statements += [mongosh.drop_if_there(db, {"dropIndexes": name, "index": index}) for index in surplus]
        if item.repair:
            statements.append(mongosh.create_indexes(db, name, item.repair))
    for ns in catalog.phantoms():
        db, _, name = ns.partition(".")
        statements.append(mongosh.drop_if_there(db, {"drop": name}))
    for ns in dict.fromkeys(catalog.leftovers):
        statements.append(mongosh.drop_like(ns.partition(".")[0], r"^tmp.{5}\.rename$"))
    for db in _unopened_views(assessed):
        statements.append(mongosh.drop_if_there(db, {"drop": VIEW_OPENER}))
    if not statements:
        return PlanSteps()
    return run_mongosh(
        Phase.RESTORE, "Repair what the tools leave", Effect.WRITES_SPARE, "repair-spare.js",
        [mongosh.on_spare(plan.facts.set_name), *dict.fromkeys(statements)],
        why="mongorestore does not move its list of indexes with a renamed collection, and does not repeat every "
        "change of an index.",
    )  # fmt: skip
