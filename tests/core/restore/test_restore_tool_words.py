"""What the tools say: shown without what steers a terminal, kept as it was, and read at its end alone."""

from __future__ import annotations

import os
from pathlib import Path

from builders.plan_folder import begin, plan, rehearse, restored, step, with_work
from builders.plans import changed
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.step import Command, Phase
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.run.printed import Printed
from tallyglass.restore.spare.verify import _read_log

STAMP = "2026-11-20T18:15:44.000+0000"
FINE = f"\n{STAMP}\t2 document(s) restored successfully. 0 document(s) failed to restore."
"""A collection may have a name like that."""


def proves(command: Command, log: Path) -> bool:
    """Whether what a tool printed is taken as proof that the step did its work."""
    printed = Printed()
    for line in log.read_text().splitlines():
        printed.hear(line)
    return printed.proves(command.proof, log.parent)


def test_a_name_is_not_mistaken_for_the_last_line_of_the_tool(tmp_path: Path) -> None:
    (replay,) = [made for made in restored().steps.commands if "--oplogReplay" in made.argv]
    applied, failed = f"{STAMP}\tapplied 2 oplog entries", f"{STAMP}\t5 document(s) restored successfully. "
    for output, right in (
        (f"{applied}\n{failed}0 document(s) failed to restore.", True),
        (f"{applied}\n{STAMP}\tfinished restoring s.x{FINE}\n{failed}3 document(s) failed to restore.", False),
        (f"{STAMP}\tskipping applied 2 oplog entries\n{failed}0 document(s) failed to restore.", False),
    ):
        (tmp_path / "replay.log").write_text(f"{output}\n")
        assert proves(replay, tmp_path / "replay.log") is right, output
        checks = _read_log(changed(plan(), expected_applied=2), tmp_path / "replay.log")
        assert (not any(check.level is Level.BLOCK for check in checks)) is right, output


def test_what_tools_say_does_not_steer_the_terminal_and_their_failure_counts(tmp_path: Path) -> None:
    hostile = "printf '\\033]0;owned\\007' >&2"
    made = with_work(tmp_path, step(hostile), step(f"{hostile}; false", phase=Phase.RESTORE))
    done = rehearse(tmp_path, made, "--yes")
    assert (done.returncode, "[step-failed] Step 2" in done.stderr) == (1, True)
    assert "\033" not in done.stderr
    assert done.stderr.count("\\u{1b}]0;owned\\u{7}") == 2
    log = tmp_path / "work" / "restore.log"
    assert log.read_bytes().count(b"\033]0;owned\007") == 2, "the log keeps it as it was"


def test_a_step_that_outlives_its_script_holds_the_next_run(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    made = with_work(tmp_path, step(f'kill -9 "$(cut -d" " -f1 lock)" && read -r line <{gate}'))
    killed = begin(tmp_path, made, "--yes")
    assert killed.wait(timeout=180) == -9
    again = rehearse(tmp_path, made, "--yes")
    assert (again.returncode, "[still-running]" in again.stderr) == (1, True)
    with gate.open("w") as end:
        end.write("x\n")
    killed.communicate(timeout=180)


def test_what_came_back_is_counted_before_it_is_merged(tmp_path: Path) -> None:
    whole = Return("shop.orders", Strategy.WHOLE, "shop.orders_pitr")
    expected = (ExpectedNamespace("shop.orders", "collection", 951),)
    held = restored(expected=expected, returns=(whole,))
    (back,) = [made for made in held.steps.commands if "--dir=back/1" in made.argv]
    log = tmp_path / "back-1.log"
    for output, right in (
        ("951 document(s) restored successfully. 0 document(s) failed to restore.", True),
        ("0 document(s) restored successfully. 0 document(s) failed to restore.", False),
        ("950 document(s) restored successfully. 1 document(s) failed to restore.", False),
        ("restoring s.951 document(s) restored successfully. 0 document(s) failed to restore.", False),
        (f"finished {FINE}\n{STAMP}\t0 document(s) restored successfully. 0 document(s) failed to restore.", False),
    ):
        log.write_text(f"{STAMP}\t{output}\n")
        assert proves(back, log) is right
