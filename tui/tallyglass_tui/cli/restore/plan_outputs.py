"""What a plan is handed over as: printed, as a folder, as a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass.whole_file import check_writable, write_whole
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import print_text, printable_json
from tallyglass_tui.cli.restore.plan_text import CODES, as_lines

if TYPE_CHECKING:
    from pathlib import Path

    from tallyglass.restore.model.plan import Plan


def checked_outputs(out: Path | None, script: Path | None) -> Path | None:
    """The absolute path of the script. Raises InputError if folder or script cannot be written, before the plan is
    made."""
    if out:
        from tallyglass.restore.plan.folder import check_free

        check_free(out)
    if script:
        script = absolute_path(script)
        check_writable(script)
    return script


def hand_over(made: Plan, wants_json: bool, out: Path | None, script: Path | None) -> int:
    """Write the folder and the script of a plan that is not blocked, and print the plan unless one of them has it.
    Returns the exit code."""
    if made.level != "block":
        if out is not None:
            _write_folder(out, made)
        if script is not None:
            _write_script(script, made)
    if wants_json:
        from tallyglass.restore.model.document import to_json

        print_text(printable_json(to_json(made, indent=2)))
    elif script is None and out is None:
        print_text("\n".join(as_lines(made)))
    return CODES[made.level]


def _write_folder(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.folder import run_line, write_folder
    from tallyglass.restore.plan.step_text import purpose

    written = write_folder(made, path)
    print_message(purpose(made))
    print_message(
        f"the plan is in {clean(str(written), 300)}: see README.md there. To run it, asking before each step: "
        f"{run_line(written)}"
    )


def _write_script(path: Path, made: Plan) -> None:
    from tallyglass.restore.plan.self_extracting import MODE, script
    from tallyglass.restore.plan.step_text import purpose

    write_whole(path, script(made), MODE)
    print_message(purpose(made))
    print_message(f"the plan is in {clean(str(path), 300)}; it asks before each step. Read it, then run it.")
