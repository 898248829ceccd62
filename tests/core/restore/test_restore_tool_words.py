"""What the tools say: shown without what steers a terminal, kept as it was, and read at its end alone."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from test_restore_script import plan, rehearse, spec, step, with_work

from tallyglass.restore.model.plan import ExpectedNamespace, Level, Phase, Return, Strategy
from tallyglass.restore.runbook.commands import commands
from tallyglass.restore.runbook.spec import logged
from tallyglass.restore.spare.verify import _read_log

STAMP = "2026-11-20T18:15:44.000+0000"
FINE = f"\n{STAMP}\t2 document(s) restored successfully. 0 document(s) failed to restore."
"""A collection may have a name like that."""


def test_a_name_does_not_pass_for_what_the_tool_says_at_its_end(tmp_path: Path) -> None:
    (replay,) = [made for made in commands(spec(str(tmp_path))) if "--oplogReplay" in made.argv]
    applied, failed = f"{STAMP}\tapplied 2 oplog entries", f"{STAMP}\t5 document(s) restored successfully. "
    for said, right in (
        (f"{applied}\n{failed}0 document(s) failed to restore.", True),
        (f"{applied}\n{STAMP}\tfinished restoring s.x{FINE}\n{failed}3 document(s) failed to restore.", False),
        (f"{STAMP}\tskipping applied 2 oplog entries\n{failed}0 document(s) failed to restore.", False),
    ):
        (tmp_path / "replay.log").write_text(f"{said}\n")
        assert (subprocess.run(["bash", "-c", replay.proof], check=False).returncode == 0) is right, said
        checks = _read_log(replace(plan(), expected_applied=2), tmp_path / "replay.log")
        assert (not any(check.level is Level.BLOCK for check in checks)) is right, said


def test_what_tools_say_does_not_steer_the_terminal_and_their_failure_counts(tmp_path: Path) -> None:
    hostile = "printf '\\033]0;owned\\007' >&2"
    made = with_work(tmp_path, step(hostile, proof=hostile), step(f"{hostile}; false", phase=Phase.RESTORE))
    done = rehearse(tmp_path, made, "--yes")
    assert (done.returncode, "[step-failed] Step 2" in done.stderr) == (1, True)
    assert "\033" not in done.stderr
    assert done.stderr.count("^[]0;owned^G") == 3
    tool = f"{tmp_path}/tool"
    Path(tool).write_text(f"#!/bin/sh\n{hostile}\nexit 3\n")
    Path(tool).chmod(0o755)
    pasted = f"set -o pipefail; {logged((tool,), str(tmp_path / 'log'))}"
    shown = subprocess.run(["bash", "-c", pasted], capture_output=True, check=False)
    assert (shown.returncode, shown.stdout) == (3, b"^[]0;owned^G")
    assert (tmp_path / "log").read_bytes() == b"\033]0;owned\007", "the log keeps it as it was"


def test_a_step_does_not_go_on_by_itself_where_the_script_is_killed(tmp_path: Path) -> None:
    made = with_work(tmp_path, step(f'kill -9 "$(head -n 1 {tmp_path}/work/lock/pid)" && touch {tmp_path}/went-on'))
    assert rehearse(tmp_path, made, "--yes").returncode == -9
    assert not (tmp_path / "went-on").exists()


def test_what_came_back_is_counted_before_it_is_merged(tmp_path: Path) -> None:
    whole = Return("shop.orders", Strategy.WHOLE, "shop.orders_pitr")
    expected = (ExpectedNamespace("shop.orders", "collection", 951),)
    held = replace(spec(str(tmp_path)), expected=expected, returns=(whole,))
    (back,) = [made for made in commands(held) if "back-1.log" in made.proof]
    assert back.shell.endswith(f"2>&1 | tee {tmp_path}/back-1.log | cat -v")
    log = tmp_path / "back-1.log"
    for said, right in (
        ("951 document(s) restored successfully. 0 document(s) failed to restore.", True),
        ("0 document(s) restored successfully. 0 document(s) failed to restore.", False),
        ("950 document(s) restored successfully. 1 document(s) failed to restore.", False),
        ("restoring s.951 document(s) restored successfully. 0 document(s) failed to restore.", False),
        (f"finished {FINE}\n{STAMP}\t0 document(s) restored successfully. 0 document(s) failed to restore.", False),
    ):
        log.write_text(f"{STAMP}\t{said}\n")
        assert (subprocess.run(["bash", "-c", back.proof], check=False).returncode == 0) is right
