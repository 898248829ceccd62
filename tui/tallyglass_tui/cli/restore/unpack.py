"""``tallyglass restore unpack``: a backup as one that mongorestore can read."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass.paths import absolute_path


@click.command(hidden=True)
@click.argument("path", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="PATH", required=True)
def unpack(path: Path, out: Path) -> None:
    """Write BACKUP as one that mongorestore can read."""
    from tallyglass.restore.backup.unpack import unpack as write

    write(absolute_path(path), absolute_path(out))
