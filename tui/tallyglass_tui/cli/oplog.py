"""``tallyglass oplog``: past or new entries, one per line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, warn
from tallyglass_tui.cli.headless import ask, each_within, timeout_option
from tallyglass_tui.cli.oplog_lines import CANONICAL, RELAXED, TEXT, Printer
from tallyglass_tui.cli.oplog_window import require_window
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, not_empty, time_of
from tallyglass_tui.cli.shards import named_shards
from tallyglass_tui.cli.while_read import while_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.filter.query import OplogFilter


@click.command(epilog=f"T is a time: {FORMS}.")
@connection_options(shards=True)
@click.option("--since", metavar="T", help="Start at this time, inclusive.")
@click.option("--until", metavar="T", help="End before this time.")
@click.option("--ns", "namespaces", multiple=True, metavar="GLOB", help="Match namespaces: shop.*, not !shop.tmp.")
@click.option("--op", "letters", metavar="iudc", callback=not_empty, help="Match inserts, updates, deletes, commands.")
@click.option("--id", "document", metavar="ID", callback=not_empty, help="Print the history of one document.")
@click.option("--text", metavar="TEXT", callback=not_empty, help="Match entries with TEXT, or matching /TEXT/.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Print N from --since, else the newest; 0: all.",
)
@click.option("--follow", "-f", is_flag=True, help="Follow new entries until Ctrl-C.")
@click.option("--json", "wants_json", is_flag=True, help="Print whole entries as Extended JSON, one per line.")
@click.option("--canonical", is_flag=True, help="Print canonical Extended JSON: types are kept.")
@timeout_option
def command(
    given: ConnectionOptions,
    since: str | None,
    until: str | None,
    namespaces: tuple[str, ...],
    letters: str | None,
    document: str | None,
    text: str | None,
    limit: int,
    follow: bool,
    wants_json: bool,
    canonical: bool,
    seconds: float,
) -> int:
    """Print the entries of the oplog, oldest first.

    No entry is dropped: a slow reader slows it down, and stderr says how far behind it is. With --json each
    line is an object with "kind": an entry, or a gap, a rollback or a lag in its place.
    Exit 3 if one of several shards could not be read to the end.
    """
    from tallyglass.oplog.filter.query import OplogFilter

    wanted = OplogFilter(
        since=time_of("--since", since),
        until=time_of("--until", until),
        namespaces=namespaces,
        ops=_operations(letters or ""),
        id=document or "",
        text=text or "",
        noops="n" in (letters or ""),
    )
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        raise InputError("That range of time is empty: --until is not after --since.")
    if follow and wanted.until is not None:
        raise InputError("--until and --follow cannot be combined.", "Leave one of them out.")
    if "" in namespaces:
        raise InputError("--ns is empty.", "Name a namespace, such as shop.orders or shop.*.")
    wanted.check()
    style = (CANONICAL if canonical else RELAXED) if wants_json or canonical else TEXT
    limit = min(limit, sys.maxsize)
    printer = Printer(wanted, style, limit, newest=wanted.since is None and not follow)
    ask(given, lambda gateway: _run(gateway, wanted, printer, limit, follow, seconds), step=seconds)
    if not (follow or printer.has_matches):
        warn("no entries match.")
    return UNKNOWN if printer.incomplete else OK


async def _run_merged(
    shards: Mapping[str, Gateway], wanted: OplogFilter, printer: Printer, limit: int, follow: bool
) -> None:
    from tallyglass.oplog.read.export import follow_entries, read_entries
    from tallyglass.oplog.read.merge import HOLD_SECONDS, merge

    sources = {
        name: follow_entries(gateway, wanted) if follow else read_entries(gateway, wanted, limit=limit)
        for name, gateway in shards.items()
    }
    printing = printer.print_all(merge(sources, hold=HOLD_SECONDS if follow else None))
    await (while_read(printing) if follow else printing)


async def _run(
    gateway: Gateway, wanted: OplogFilter, printer: Printer, limit: int, follow: bool, seconds: float
) -> None:
    from tallyglass.oplog.read.export import follow_entries, read_entries

    shards = await named_shards(gateway, seconds)
    until = None if follow else wanted.until
    printer.begin_late = await require_window(shards or {"": gateway}, wanted.since, until, seconds, follow=follow)
    if shards is not None:
        await _run_merged(shards, wanted, printer, limit, follow)
        return
    if follow:
        await while_read(printer.print_all(follow_entries(gateway, wanted)))
    else:
        await printer.print_all(each_within(read_entries(gateway, wanted, limit=limit), seconds))


def _operations(letters: str) -> frozenset[str]:
    unknown = set(letters) - set("iudcn")
    if unknown:
        raise InputError(
            f"--op does not accept the letters '{''.join(sorted(unknown))[:20]}'.",
            "i is an insert, u an update, d a delete, c a command, n a no-op.",
        )
    return frozenset(letters)
