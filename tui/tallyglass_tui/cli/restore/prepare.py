"""``tallyglass restore prepare``: record the oplog position, and print the command for a provable backup."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import as_json, ask, print_text, timeout_option
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, json_option, target_of


@click.command()
@connection_options()
@click.option("--out", type=PATH, metavar="PATH", help="Write the backup to PATH.")
@click.option("--archive", is_flag=True, help="Write one archive file instead of a directory.")
@click.option("--gzip", is_flag=True, help="Compress the backup (mongodump --gzip).")
@json_option
@timeout_option
def prepare(
    given: ConnectionOptions, out: Path | None, archive: bool, gzip: bool, wants_json: bool, seconds: float
) -> None:
    """Record where the next backup begins, so that it is provable.

    The position of the oplog goes next to the backup; the command for the backup is printed. With that record a later
    restore knows from where on the oplog is needed.
    """
    from tallyglass.restore.plan.prepare import prepare as look

    place = out or Path(f"tallyglass-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    target = target_of(given)
    found = ask(target, lambda gateway: look(gateway, target.uri, place, gzip=gzip, archive=archive), seconds)
    for warning in found.warnings:
        print_message(warning)
    noted = found.write()
    if wants_json:
        print_text(
            as_json(
                {
                    "before": str(found.before),
                    "noted": str(noted),
                    "argv": found.command.argv,
                    "shell": found.command.shell,
                }
            )
        )
        return
    print_message(f"the position {found.before} is recorded in {noted}. Take the backup now:")
    print_text(found.command.shell)
