"""The steps of one restore, in order, and their files. One list for screen, clipboard, folder and JSON; no secret."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.restore.model.proof import Slice
from tallyglass.restore.model.step import Command, Effect, Phase, PlanFile
from tallyglass.restore.plan.steps.restore_steps import restore_steps
from tallyglass.restore.plan.steps.return_steps import clean_steps, return_steps
from tallyglass.restore.plan.steps.spec import RunbookSpec, Steps, join, run, run_shell, verification
from tallyglass.restore.proof.oplog_query import oplog_query, rest_query
from tallyglass.restore.proof.speed import BYTES_A_SECOND
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import (
    LIVE_FOLDER,
    LIVE_QUERY,
    MANIFEST,
    OPLOG,
    QUERY,
    SLICE,
    SLICE_FOLDER,
    SOURCE,
    SPARE,
    config_text,
    fold_json,
    lines,
)
from tallyglass.text import shell_quote


def commands(spec: RunbookSpec) -> Steps:
    """All steps, by phase, and all files that they need."""
    steps = join([_secure(spec), restore_steps(spec), _verify(), return_steps(spec), clean_steps(spec)])
    query = fold_json(oplog_query(spec.start, spec.limit, spec.without)) + "\n"
    files = [PlanFile(SOURCE, config_text(spec.source.text)), PlanFile(QUERY, query)]
    if not spec.own_spare:
        files.append(PlanFile(SPARE, config_text(spec.spare.text)))
    programs = [file.text for file in steps.files if file.name.endswith(".js")]
    if programs:
        files.append(PlanFile(mongosh.HELPERS, mongosh.helpers(programs)))
    return Steps(steps.commands, (*files, *steps.files))


def _secure(spec: RunbookSpec) -> Steps:
    seconds = spec.slice.bytes / BYTES_A_SECOND
    if not spec.oplog:
        why = "It is the only history from the backup to the point, and the server overwrites it as it goes on."
        save = replace(_dump("Save the oplog first", QUERY, SLICE_FOLDER, why), seconds=seconds)
        return join([Steps((save,)), _keep_step(spec)])
    cut = run(
        Phase.SECURE, "Cut what is replayed out of the saved oplog", Effect.FILES,
        ("tallyglass", "restore", "cut-oplog", QUERY, *(f"--oplog={path}" for path in spec.oplog),
         *([f"--oplog={LIVE_FOLDER}"] if spec.live_from else []), f"--out={SLICE}"),
        why="The slices must still join from the backup to the point.",
    )  # fmt: skip
    return join([_dump_rest(spec), Steps((replace(cut, seconds=seconds),)), _keep_step(spec)])


def _dump_rest(spec: RunbookSpec) -> Steps:
    """Dump what came after the saved entries, up to the point: one more slice, which begins with the newest saved
    entry."""
    if spec.live_from is None:
        return Steps()
    query = rest_query(spec.live_from, spec.limit)
    why = "The saved oplog ends before the point, and the server overwrites the rest as it goes on."
    dump = _dump("Save the rest of the oplog first", LIVE_QUERY, LIVE_FOLDER, why)
    return Steps((dump,), (PlanFile(LIVE_QUERY, fold_json(query) + "\n"),))


def _dump(title: str, query: str, folder: str, why: str) -> Command:
    argv = (
        "mongodump", f"--config={SOURCE}", "--db=local", "--collection=oplog.rs", f"--queryFile={query}",
        f"--out={folder}",
    )  # fmt: skip
    return run(Phase.SECURE, title, Effect.READS_LIVE, argv, why=why)


def _keep_step(spec: RunbookSpec) -> Steps:
    return run_shell(
        Phase.SECURE, "Check it, and keep a copy with its checksum", Effect.FILES, _keep(spec),
        why="It must hold the entries that were proven, and what is replayed must stay as it is.",
    )  # fmt: skip


def _keep(spec: RunbookSpec) -> PlanFile:
    compress = ""
    if spec.gzip:
        # mongorestore takes --gzip for every file of a run, the oplog too.
        compress = f"gzip -c {OPLOG} >{OPLOG}.gz\ngzip -dc {OPLOG}.gz | cmp -s - {OPLOG}"
    return PlanFile(
        "keep-oplog.sh",
        lines(
            "# The dump holds the entries that were proven, from the first to the last.",
            _slice_check(spec.slice),
            "mkdir -p oplog",
            f"cp {SLICE} {OPLOG}",
            f"sha256sum {OPLOG} >{MANIFEST}",
            compress,
        ),
    )


def _slice_check(part: Slice) -> str:
    first, last = (f'"ts":{{"$timestamp":{{"t":{ts.t},"i":{ts.i}}}}}' for ts in (part.first, part.last))
    program = "NR==1{a=index($0,first)} {z=index($0,last)} END{exit !(NR==count && a && z)}"
    return (
        f"bsondump --quiet {SLICE} |\n"
        f"  awk -v count={part.entries} -v first={shell_quote(first)} \\\n"
        f"    -v last={shell_quote(last)} {shell_quote(program)}"
    )


def _verify() -> Steps:
    step = run(
        Phase.VERIFY, "Compare the spare with the plan", Effect.READS_SPARE, verification(),
        why="Documents, indexes and options per namespace, and nothing that was not computed. Exit status 1 means "
        "warnings.",
    )  # fmt: skip
    return Steps((replace(step, exits=(0, 1)),))
