"""The steps of an undo from pre-images: save the images, then the same return as from a spare."""

from __future__ import annotations

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import Effect, Phase, PlanFile, PlanSteps
from tallyglass.restore.plan.steps.making import join, run, with_files
from tallyglass.restore.plan.steps.return_steps import return_steps
from tallyglass.restore.plan.steps.return_work import Damage, ReturnWork
from tallyglass.restore.pre_images.image_proof import ImagesProof
from tallyglass.restore.proof.speed import BYTES_A_SECOND
from tallyglass.restore.tools.files import HISTORY, PLAN, REPAIRS, SOURCE, config_text
from tallyglass.restore.undo.sources.image_files import FOLDER


def undo_steps(plan: Plan, proven: ImagesProof, source: str) -> PlanSteps:
    """All steps of a proven plan, by phase, and all files that they need. ``source`` is the URI of the live set."""
    hit = {one.ns: Damage(one.by_accident, one.by_others).of(plan.undo.accident, one.ns) for one in proven.images}
    steps = join([_save(proven.bytes), return_steps(ReturnWork(plan, hit)), _clean()])
    return with_files(steps, PlanFile(SOURCE, config_text(source)))


def _save(saved: int) -> PlanSteps:
    return run(
        Phase.SECURE, "Save the documents as they were", Effect.READS_LIVE,
        ("tallyglass", "restore", "images", PLAN, f"--source={SOURCE}", f"--out={FOLDER}"),
        why="From pre-images, which expire, or from the backup. This step fails if one that was proven is gone.",
        seconds=saved / BYTES_A_SECOND,
    )  # fmt: skip


def _clean() -> PlanSteps:
    return run(
        Phase.CLEAN, "Remove what is no longer needed", Effect.FILES, ("rm", "-rf", REPAIRS, HISTORY),
        why=f"The saved documents stay in {FOLDER}.",
    )  # fmt: skip
