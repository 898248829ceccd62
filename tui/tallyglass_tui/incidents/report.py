"""An incident as a page to pass on: asks where to, writes it, and says where it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from textual.widget import Widget

from tallyglass.deployment.cluster import Deployment
from tallyglass.errors import InputError, TallyglassError
from tallyglass.oplog.snapshot import Incident, IncidentScan
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui import clock
from tallyglass_tui.shell.context import NOT_FROM_A_RECORDING
from tallyglass_tui.shell.incidents import key_of
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.path_completion import complete_path

_PROMPT = "Report of this incident: a file that ends in .html or .md. Values of documents are hidden in it."


def ask_for_report(shown_in: Widget, incident: Incident) -> None:
    """Ask on the page of a widget where the report of an incident goes, and write it there in the background, as the
    incident is known then."""
    page = cast("Page", shown_in.screen)
    if page.shell.context.recorded:
        page.say(NOT_FROM_A_RECORDING)
        return

    def submit(text: str) -> None:
        if not text.strip():
            return
        from tallyglass.report.write import check_report

        deployment = page.shell.deployment
        if deployment is None:
            raise InputError("The deployment has not answered yet.", "Try again once the header names it.")
        path = absolute_path(text.strip())
        check_report(path)

        scan = page.feeds.latest("incidents", IncidentScan)
        others = scan.incidents if scan else ()
        known = next((one for one in others if key_of(one) == key_of(incident)), incident)

        def write() -> None:
            page.app.call_from_thread(page.say, _write(path, known, others, deployment))

        page.run_worker(write, thread=True, exit_on_error=False)

    page.query_one(InputLine).open(_PROMPT, submit, str(_new_file(incident)), complete=complete_path)


def _new_file(incident: Incident) -> Path:
    """A file in the current folder, or at home where that was removed, that does not exist yet, named after when the
    incident began."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        folder = absolute_path("~")
    began = f"incident-{incident.first.time:%Y%m%d-%H%M%S}"
    names = (f"{began}{'' if number == 1 else f'-{number}'}.html" for number in range(1, 1000))
    # Path.exists() raises where this user may not look into the folder.
    return next((path for name in names if not os.path.lexists(path := folder / name)), folder / f"{began}.html")


def _write(path: Path, incident: Incident, others: Sequence[Incident], deployment: Deployment) -> str:
    """Write it, and return where it is, or why not."""
    from tallyglass.oplog.incidents.report import document_of
    from tallyglass.report.write import write_report

    try:
        write_report(path, document_of(incident, others, deployment, clock.now(), values=False))
    except TallyglassError as error:
        return str(error)
    return f"Written to {clean(str(path), 300)}"
