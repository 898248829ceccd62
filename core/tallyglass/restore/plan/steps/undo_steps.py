"""The steps of an undo from pre-images: save the images, then the same return as from a spare."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.restore.model.step import Effect, Phase, PlanFile
from tallyglass.restore.plan.steps.return_steps import return_steps
from tallyglass.restore.plan.steps.spec import ReturnSpec, Steps, join, run
from tallyglass.restore.proof.speed import BYTES_A_SECOND
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import HISTORY, PLAN, REPAIRS, SOURCE, config_text
from tallyglass.restore.undo.sources.image_files import FOLDER


def undo_steps(spec: ReturnSpec, saved: int) -> Steps:
    """All steps, by phase, and all files that they need. So many bytes of documents are saved."""
    steps = join([_save(saved), return_steps(spec), _clean()])
    programs = [file.text for file in steps.files if file.name.endswith(".js")]
    files = [PlanFile(SOURCE, config_text(spec.source.text)), PlanFile(mongosh.HELPERS, mongosh.helpers(programs))]
    return Steps(steps.commands, (*files, *steps.files))


def _save(saved: int) -> Steps:
    save = run(
        Phase.SECURE, "Save the documents as they were", Effect.READS_LIVE,
        ("tallyglass", "restore", "images", PLAN, f"--source={SOURCE}", f"--out={FOLDER}"),
        why="From pre-images, which expire, or from the backup. This step fails if one that was proven is gone.",
    )  # fmt: skip
    return Steps((replace(save, seconds=saved / BYTES_A_SECOND),))


def _clean() -> Steps:
    remove = run(
        Phase.CLEAN, "Remove what is no longer needed", Effect.FILES, ("rm", "-rf", REPAIRS, HISTORY),
        why=f"The saved documents stay in {FOLDER}.",
    )  # fmt: skip
    return Steps((remove,))
