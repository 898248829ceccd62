"""``tallyglass restore look``: a plan restored onto its spare, to look at before anything is brought back."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.moment import iso
from tallyglass.paths import absolute_path
from tallyglass.signals import ending_signals
from tallyglass.text import clean, clean_name
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import ask, print_text
from tallyglass_tui.cli.options import PATH, ConnectionOptions, source_password_option
from tallyglass_tui.cli.restore.plan_file import PATIENT, read_plan, server
from tallyglass_tui.cli.schedule import deadline_option

if TYPE_CHECKING:
    from tallyglass.restore.model.plan import Plan


@click.command()
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--only", metavar="NS", default="", help="Let the user read this collection alone.")
@deadline_option("Stop the spare after this time.")
@source_password_option
def look(folder: Path, only: str, deadline: float, source_password_file: Path | None) -> int:
    """Restore a plan, and leave its spare running to look at.

    It ends after the verification; the spare is read-only, on loopback. Prints how to connect and which moment the
    spare shows. It ends with Ctrl-C, the terminal or the deadline; what was restored stays in DIR, and restore.sh goes
    on from there. Exit 0; 1 not restored, or not as computed.
    """
    from tallyglass.restore.run.programs import environment
    from tallyglass.restore.spare import look as spare
    from tallyglass.restore.tools.files import PLAN

    folder = absolute_path(folder)
    plan = read_plan(folder / PLAN)
    spare.check_folder(folder, plan, only)
    words = (f"--source-password-file={absolute_path(source_password_file)}",) if source_password_file else ()
    try:
        programs = environment(plan)
        spare.restore(folder, words, programs)
        with spare.running(folder, programs):
            if not _is_as_computed(plan, folder):
                return 1
            opened = spare.open_to_read(folder, plan, only, programs)
            shown = clean_name(only) if only else f"{len(plan.proof.expected)} collections and views"
            print_text(f"{shown} as right before {iso(plan.facts.limit.time)} ({plan.facts.limit})")
            print_text(f"mongosh: {opened.shell}")
            print_text(f"Compass: {opened.uri}  password in {clean(str(opened.password_file))}")
            print_message(f"The spare runs until Ctrl-C, for {deadline / 3_600:.3g} h at most.")
            _wait(deadline)
    except spare.NotRestored as error:
        print_message(f"{error.title} {error.advice}")
        return 1
    print_message("The spare was stopped.")
    return 0


def _is_as_computed(plan: Plan, folder: Path) -> bool:
    """Whether the spare still is what was restored: an earlier look or the end of the script may have left another."""
    from tallyglass.restore.model.check import Level
    from tallyglass.restore.spare.verify import verify

    found = ask(
        server(str(folder / "spare.yml"), ConnectionOptions()), lambda gateway: verify(plan, gateway), None, **PATIENT
    )
    for check in found.checks:
        if check.level is Level.BLOCK:
            print_message(f"[{check.id}] {check.title} {check.advice}".rstrip())
    return found.level is not Level.BLOCK


def _wait(seconds: float) -> None:
    """Until a signal comes that ends a program, or the deadline."""
    ended = threading.Event()
    signals = ending_signals()
    before = [signal.signal(one, lambda *_: ended.set()) for one in signals]
    try:
        ended.wait(seconds)
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
