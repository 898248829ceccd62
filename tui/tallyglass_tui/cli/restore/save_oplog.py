"""``tallyglass restore save-oplog``: keep the oplog in slices that join."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import as_json, ask, print_text
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, json_option, target_of
from tallyglass_tui.cli.schedule import as_schedule, duration, emit_option, own_words

HOLE = 2  # exit code
EVERY = 600.0
"""Seconds between two slices, where nothing else is asked for."""


@click.command("save-oplog")
@click.argument("folder", metavar="DIR", type=PATH)
@connection_options()
@click.option(
    "--keep", metavar="AGE", callback=duration, default="7d", show_default=True, help="Delete slices that are older."
)
@click.option("--every", callback=duration, metavar="10m", help="Print a schedule that runs this so often.")
@emit_option
@json_option
def save_oplog(
    given: ConnectionOptions, folder: Path, keep: float, every: float | None, emit: str | None, wants_json: bool
) -> int:  # fmt: skip
    """Save the oplog in slices that join.

    A slice goes up to the newest entry that a majority has; the first one starts where --keep does. A slice begins with
    the entry that the last one ends with, so that restore plan --oplog DIR can prove that none is missing. Run it from
    a timer, more often than the server overwrites its oplog.

    Exit 0 saved, or nothing new was there; 2 saved, but it does not continue the last slice.
    """
    if emit is not None or every is not None:
        from tallyglass.restore.tools import schedule

        words = own_words(given, sys.argv[1:], ("--password-file",), folder)
        print_text(as_schedule(emit or "systemd", schedule.save_oplog(every or EVERY), words))
        return 0
    from tallyglass.restore.saved_oplog.save import save_slice

    place = absolute_path(folder)
    saved = ask(target_of(given), lambda gateway: save_slice(gateway, place, keep))
    trouble = f"entries are missing {saved.hole}" if saved.hole else saved.differs
    if trouble:
        advice = " Save more often." if saved.hole else ""
        print_message(f"the new slice does not continue the last one: {trouble}.{advice}")
    if wants_json:
        found = {
            "path": str(saved.path) if saved.path else None, "last": str(saved.last), "entries": saved.entries,
            "bytes": saved.bytes, "joins": not trouble, "why": trouble, "removed": [str(one) for one in saved.removed],
        }  # fmt: skip
        print_text(as_json(found))
    elif saved.path is None:
        print_text(f"nothing new since {saved.last}")
    else:
        print_text(
            f"{clean(str(saved.path), 300)}: {saved.entries:,} entries up to {saved.last}, {saved.bytes:,} bytes"
        )
    return HOLE if trouble else 0
