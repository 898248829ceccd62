"""``tallyglass restore plan-for-screen``: one plan for the dashboard, which starts it and reads its answers."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import click

from tallyglass_tui.cli.headless import ask
from tallyglass_tui.restore.draft import First, Reading
from tallyglass_tui.restore.feed import plan_once
from tallyglass_tui.restore.plan_process import read_request, write_answer

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.proof.progress import Step

_NICE = 5
"""Less urgent than the screen that waits for it."""
_REPORT_SECONDS = 0.25  # as often as the screen is painted at most


@click.command("plan-for-screen", hidden=True)
def plan_for_screen() -> None:
    """Plan what stdin asks for, with answers on stdout. For the dashboard."""
    os.nice(_NICE)
    # Nothing else may come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    target, draft = read_request(sys.stdin.buffer)
    threading.Thread(target=_end_with_dashboard, daemon=True).start()
    reported, first = 0.0, None

    def progress(step: Step) -> None:
        nonlocal reported
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            write_answer(answers, Reading(step.entries, step.at, step.share, first))

    async def work(gateway: Gateway) -> None:
        nonlocal first
        async for planned in plan_once(gateway, draft, target.uri, progress):
            if isinstance(planned, First):
                first = planned
            write_answer(answers, planned)

    ask(target, work)


def _end_with_dashboard() -> None:
    """End where the dashboard was killed: its end of the pipe is closed then."""
    sys.stdin.buffer.read(1)
    os._exit(1)
