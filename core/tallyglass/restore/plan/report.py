"""The folder of a plan as sections of a report: its steps, and what they brought back."""

from __future__ import annotations

from pathlib import Path

from tallyglass.report.document import Code, Paragraph, Section
from tallyglass.restore.plan.folder import no_folder_of_a_plan
from tallyglass.restore.tools.files import OUTCOME
from tallyglass.text import clean_block


def plan_sections(folder: Path, *, values: bool) -> list[Section]:
    """The sections. Without ``values`` the result is only named, since it holds ``_id``s. Raises InputError for a
    folder that is not one of a plan."""
    steps = _read(folder / "steps.txt")
    if steps is None:
        raise no_folder_of_a_plan(folder)
    found = [Section("How to bring it back", [Code(steps)])]
    outcome = next((lines for path in sorted(folder.rglob(OUTCOME)) if (lines := _read(path)) is not None), None)
    if outcome is not None:
        shown = Code(outcome) if values else Paragraph(f"See {OUTCOME} in the folder of the plan: it names documents.")
        found.append(Section("What came back", [shown]))
    return found


def _read(path: Path) -> list[str] | None:
    try:
        return clean_block(path.read_text(encoding="utf-8", errors="replace")).splitlines()
    except OSError:
        return None
