"""``tallyglass restore start-copy``: the script that starts a mongod on a copy of data files."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass.paths import absolute_path
from tallyglass.restore.model.source import SPARE_PORT
from tallyglass_tui.cli.headless import print_text
from tallyglass_tui.cli.options import PATH


@click.command()
@click.argument("path", metavar="BACKUP", type=PATH)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=SPARE_PORT,
    show_default=True,
    metavar="PORT",
    help="Listen on this port.",
)
def start_copy(path: Path, port: int) -> None:
    """Print a script that starts a mongod on a copy of data files.

    It listens on loopback. BACKUP is a copy of a dbPath, a snapshot of its volume, or a tar file of one. The script
    works in the folder that it is called in, recovers the copy to the end of its own oplog, and never starts a server
    on BACKUP itself. Then plan with --backup BACKUP --spare 127.0.0.1:PORT.
    """
    from tallyglass.restore.backup.data_files import start_script

    print_text(start_script(absolute_path(path), port).rstrip())
