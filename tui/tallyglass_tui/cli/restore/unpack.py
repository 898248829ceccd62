"""``tallyglass restore unpack``: a backup as one that mongorestore can read."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass.paths import absolute_path
from tallyglass_tui.cli.options import PATH


@click.command(hidden=True)
@click.argument("path", metavar="BACKUP", type=PATH)
@click.option("--out", type=PATH, metavar="PATH", required=True)
def unpack(path: Path, out: Path) -> None:
    """Write BACKUP as one that mongorestore can read."""
    from tallyglass.restore.backup.unpack import unpack as write

    write(absolute_path(path), absolute_path(out))
