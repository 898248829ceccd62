"""Makes a drill, and hands its report over: printed, as a page, as JSON, as metrics."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass.whole_file import check_writable, write_whole
from tallyglass_tui.cli.error_boundary import UNKNOWN, print_message
from tallyglass_tui.cli.headless import ask, print_text, printable_json
from tallyglass_tui.cli.metrics import load_client, write_beside
from tallyglass_tui.cli.monitoring import beside_the_answer

if TYPE_CHECKING:
    from pathlib import Path

    from tallyglass.connection.target import Target
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.drill.report import Report
    from tallyglass.restore.drill.request import DrillRequest


def checked_outputs(report: Path | None, metrics: Path | None) -> tuple[Path | None, Path | None]:
    """The absolute paths. Raises InputError if one cannot be written, before the drill."""
    report, metrics = (path and absolute_path(path) for path in (report, metrics))
    for path in (report, metrics):
        if path is not None:
            check_writable(path)
    if metrics is not None:
        load_client()
    return report, metrics


def rehearsed(target: Target, request: DrillRequest) -> Report:
    """The drill; SIGTERM ends it cleanly, as Ctrl-C does."""
    from tallyglass.restore.drill.drill import drill as rehearse

    async def work(gateway: Gateway) -> Report:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await rehearse(gateway, request, lambda phase: print_message(f"drill: {phase}"))

    try:
        return ask(target, work)
    except asyncio.CancelledError:
        print_text("DRILL UNKNOWN - [stopped] The drill was stopped before its end, and its files were removed.")
        raise click.exceptions.Exit(UNKNOWN) from None


def hand_over(made: Report, report: Path | None, metrics: Path | None, *, wants_json: bool) -> int:
    """Print the result, and write the report and the metrics: hours of work do not depend on whether these can be
    written. Returns the exit code of the drill."""
    from tallyglass.report.write import write_report
    from tallyglass.restore.drill.metrics import families
    from tallyglass.restore.drill.past_drills import last
    from tallyglass.restore.drill.report import document_of, to_json

    print_text(printable_json(to_json(made)) if wants_json else clean(made.line, 2_000))
    if report is not None and report.suffix == ".json":
        beside_the_answer(lambda: write_whole(report, to_json(made)))
    elif report is not None:
        beside_the_answer(lambda: write_report(report, document_of(made)))
    if metrics is not None:
        write_beside(metrics, families(made, last(made.deployment, proved=True)))
    return made.code
