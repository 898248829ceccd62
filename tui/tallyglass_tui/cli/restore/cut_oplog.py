"""``tallyglass restore cut-oplog``: what a replay needs of saved slices, as one file."""

from __future__ import annotations

from pathlib import Path

import click

from tallyglass.paths import absolute_path
from tallyglass_tui.cli.headless import print_text
from tallyglass_tui.cli.options import PATH


@click.command("cut-oplog", hidden=True)
@click.argument("query", metavar="QUERY", type=PATH)
@click.option("--oplog", "paths", type=PATH, metavar="PATH", required=True, multiple=True)
@click.option("--out", type=PATH, metavar="FILE", required=True)
def cut_oplog(query: Path, paths: tuple[Path, ...], out: Path) -> None:
    """Write what QUERY of a plan finds in saved slices into one file."""
    from tallyglass.restore.saved_oplog.cut import cut

    count = cut(query, [absolute_path(path) for path in paths], out)
    print_text(f"{count:,} entries")
