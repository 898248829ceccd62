"""The steps of one restore, in order, and their files. One list for screen, clipboard, folder and JSON; no secret."""

from __future__ import annotations

from tallyglass.moment import Ts
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.model.step import Effect, Phase, PlanFile, PlanSteps
from tallyglass.restore.plan.steps.making import join, run, run_shell, verification, with_files
from tallyglass.restore.plan.steps.restore_steps import reads_gzip, restore_steps
from tallyglass.restore.plan.steps.return_steps import clean_steps, return_steps
from tallyglass.restore.plan.steps.return_work import return_work
from tallyglass.restore.proof.findings import Assessed
from tallyglass.restore.proof.oplog_query import oplog_query, rest_query
from tallyglass.restore.proof.speed import BYTES_A_SECOND
from tallyglass.restore.tools.files import (
    LIVE_FOLDER,
    LIVE_QUERY,
    MANIFEST,
    OPLOG,
    PLAN,
    QUERY,
    SLICE,
    SLICE_FOLDER,
    SOURCE,
    SPARE,
    config_text,
    fold_command,
    fold_json,
    lines,
)


def commands(plan: Plan, assessed: Assessed, source: str, spare: str, part: Slice) -> PlanSteps:
    """All steps of a proven plan, by phase, and all files that they need. ``source`` and ``spare`` are the URIs for the
    tools, and ``part`` is what the replay file must hold."""
    own, replay = assessed.inputs.own_spare, assessed.covered.replay
    steps = join(
        [
            _secure(plan, assessed, part),
            restore_steps(plan, assessed),
            _verify(),
            return_steps(return_work(plan, assessed)),
            clean_steps(own_spare_runs=bool(own)),
        ]
    )
    left_out = (*replay.on_missing_collection, *replay.capped_deletes, *replay.left_to_repair, *replay.without)
    query = fold_json(oplog_query(assessed.covered.start.ts, plan.facts.limit, left_out)) + "\n"
    files = [PlanFile(SOURCE, config_text(source)), PlanFile(QUERY, query)]
    if not own:
        files.append(PlanFile(SPARE, config_text(spare)))
    return with_files(steps, *files)


def _secure(plan: Plan, assessed: Assessed, part: Slice) -> PlanSteps:
    seconds = part.bytes / BYTES_A_SECOND
    saved, limit, keep = assessed.inputs.saved, plan.facts.limit, _copy_step(plan)
    if saved is None:
        why = "It is the only history from the backup to the point, and the server overwrites it as it goes on."
        return join([_dump("Save the oplog first", QUERY, SLICE_FOLDER, why, seconds), keep])
    live_from = None if saved.holds(limit) else saved.oplog.last
    cut = run(
        Phase.SECURE, "Cut what is replayed out of the saved oplog", Effect.FILES,
        ("tallyglass", "restore", "cut-oplog", QUERY, *(f"--oplog={path}" for path in plan.from_backup.oplog),
         *([f"--oplog={LIVE_FOLDER}"] if live_from else []), f"--out={SLICE}"),
        why="The slices must still join from the backup to the point.", seconds=seconds,
    )  # fmt: skip
    return join([*([_dump_rest(live_from, limit)] if live_from else []), cut, keep])


def _dump_rest(live_from: Ts, limit: Ts) -> PlanSteps:
    """Dump what came after the saved entries, up to the point: one more slice, which begins with the newest saved
    entry."""
    why = "The saved oplog ends before the point, and the server overwrites the rest as it goes on."
    dump = _dump("Save the rest of the oplog first", LIVE_QUERY, LIVE_FOLDER, why)
    return PlanSteps(dump.commands, (PlanFile(LIVE_QUERY, fold_json(rest_query(live_from, limit)) + "\n"),))


def _dump(title: str, query: str, folder: str, why: str, seconds: float | None = None) -> PlanSteps:
    argv = (
        "mongodump", f"--config={SOURCE}", "--db=local", "--collection=oplog.rs", f"--queryFile={query}",
        f"--out={folder}",
    )  # fmt: skip
    return run(Phase.SECURE, title, Effect.READS_LIVE, argv, why=why, seconds=seconds)


def _copy_step(plan: Plan) -> PlanSteps:
    return run_shell(
        Phase.SECURE, "Check it, and keep a copy with its checksum", Effect.FILES, _copy_program(plan),
        why="It must hold the entries that were proven, and what is replayed must stay as it is.",
    )  # fmt: skip


def _copy_program(plan: Plan) -> PlanFile:
    compress = ""
    if reads_gzip(plan.from_backup.backup):
        # mongorestore takes --gzip for every file of a run, the oplog too.
        compress = f"gzip -c {OPLOG} >{OPLOG}.gz\ngzip -dc {OPLOG}.gz | cmp -s - {OPLOG}"
    return PlanFile(
        "keep-oplog.sh",
        lines(
            "# The dump holds the entries that were proven, from the first to the last.",
            fold_command(("tallyglass", "restore", "check-oplog", PLAN, SLICE)),
            "mkdir -p oplog",
            f"cp {SLICE} {OPLOG}",
            f"sha256sum {OPLOG} >{MANIFEST}",
            compress,
        ),
    )


def _verify() -> PlanSteps:
    return run(
        Phase.VERIFY, "Compare the spare with the plan", Effect.READS_SPARE, verification("--note-writes"),
        why="Documents, indexes and options per namespace, and nothing that was not computed. Exit status 1 means "
        "warnings.", exits=(0, 1),
    )  # fmt: skip
