"""``tallyglass incidents report N --out FILE``: one incident as a page to pass on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tallyglass.moment import FORMS, Ts
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN
from tallyglass_tui.cli.headless import ask, print_text, timeout_option
from tallyglass_tui.cli.incident_name import announce, chosen, incident_name
from tallyglass_tui.cli.incident_scan import evidence_folder, log_files, scan_all
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, evidence_option, log_option, time_of

if TYPE_CHECKING:
    from pathlib import Path

    from tallyglass.deployment.cluster import Deployment
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import IncidentScan


@click.command()
@click.argument("number", metavar="N", type=incident_name)
@connection_options(shards=True)
@click.option("--out", type=PATH, metavar="FILE", required=True, help="Write FILE: a page (.html) or Markdown (.md).")
@click.option("--values", is_flag=True, help="Include values of documents: _ids, and constants in statements.")
@click.option("--since", metavar="T", help=f"Number the incidents from this time on ({FORMS}), as incidents --since.")
@log_option
@evidence_option
@click.option(
    "--plan", type=PATH, metavar="DIR", help="Add the steps of this folder of restore plan, and what they brought back."
)
@timeout_option
def report(
    number: int | Ts,
    given: ConnectionOptions,
    out: Path,
    values: bool,
    since: str | None,
    logs: tuple[Path, ...],
    folder: Path | None,
    plan: Path | None,
    seconds: float,
) -> int:
    """Write incident N of `tallyglass incidents` as one file to pass on, without scripts or links.

    Values of documents are hidden, unless --values is given. Exit 3 if a shard could not be read.
    """
    from tallyglass.oplog.incidents.report import document_of
    from tallyglass.report.write import check_report, write_report
    from tallyglass.restore.plan.report import plan_sections

    path = absolute_path(out)
    check_report(path)
    sections = plan_sections(absolute_path(plan), values=values) if plan else []
    start = time_of("--since", since)
    files, kept = log_files(logs), evidence_folder(folder)

    async def work(gateway: Gateway) -> tuple[IncidentScan, Deployment]:
        from tallyglass.deployment.cluster import look_at

        return await scan_all(gateway, start, seconds, files, kept), await look_at(gateway)

    scan, deployment = ask(given, work, step=seconds)
    one = chosen(scan, number)
    announce(one, number, start)
    found = document_of(one, scan.incidents, deployment, datetime.now(UTC), values=values)
    write_report(path, replace(found, sections=[*found.sections, *sections]))
    print_text(f"Written to {path}")
    return UNKNOWN if scan.unread else OK
