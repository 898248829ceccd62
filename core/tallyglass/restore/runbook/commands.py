"""The steps of one restore, in order, and their files. One list for screen, clipboard, folder and JSON; no secret."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.restore.model.plan import Effect, Phase, PlanFile, Slice
from tallyglass.restore.replay.oplog_query import oplog_query
from tallyglass.restore.replay.speed import BYTES_A_SECOND
from tallyglass.restore.runbook.restore_steps import restore_steps
from tallyglass.restore.runbook.return_steps import clean_steps, return_steps
from tallyglass.restore.runbook.spec import RunbookSpec, Steps, join, run, run_shell, verification
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import (
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
    files = [PlanFile(SOURCE, config_text(spec.source.text)), PlanFile(QUERY, _query(spec))]
    if not spec.own_spare:
        files.append(PlanFile(SPARE, config_text(spec.spare.text)))
    programs = [file.text for file in steps.files if file.name.endswith(".js")]
    if programs:
        files.append(PlanFile(mongosh.HELPERS, mongosh.helpers(programs)))
    return Steps(steps.commands, (*files, *steps.files))


def _query(spec: RunbookSpec) -> str:
    return fold_json(oplog_query(spec.start, spec.limit, spec.without)) + "\n"


def _secure(spec: RunbookSpec) -> Steps:
    argv = (
        "mongodump", f"--config={SOURCE}", "--db=local", "--collection=oplog.rs", f"--queryFile={QUERY}",
        f"--out={SLICE_FOLDER}",
    )  # fmt: skip
    why = "It is the only history from the backup to the point, and the server overwrites it as it goes on."
    save = run(Phase.SECURE, "Save the oplog first", Effect.READS_LIVE, argv, why=why)
    save = replace(save, seconds=spec.slice.bytes / BYTES_A_SECOND)
    keep = run_shell(
        Phase.SECURE, "Check it, and keep a copy with its checksum", Effect.FILES, _keep(spec),
        why="It must hold the entries that were proven, and what is replayed must stay as it is.",
    )  # fmt: skip
    return join([Steps((save,)), keep])


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
        Phase.VERIFY, "Compare the spare with the plan", Effect.FILES, verification(),
        why="Documents, indexes and options per namespace, and nothing that was not computed.",
    )  # fmt: skip
    return Steps((step,))
