"""``tallyglass oplog``: entries, one a line; the past, or as they come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import DeploymentError, InputError
from tallyglass.moment import FORMS, iso
from tallyglass_tui.cli.headless import as_json, ask, bounded, steadily, tell, timeout_option
from tallyglass_tui.cli.options import Given, connection_options, moment_of
from tallyglass_tui.cli.outermost import warn

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.filter.query import OplogFilter
    from tallyglass.oplog.snapshot import OplogRow, OplogUpdate


_ROOM = 20_000
"""Entries that may wait to be printed in one go."""


@click.command()
@connection_options()
@click.option("--since", metavar="T", help=f"From here, inclusive ({FORMS}).")
@click.option("--until", metavar="T", help="To here, exclusive.")
@click.option("--ns", "namespaces", multiple=True, metavar="GLOB", help="Such as shop.*; !shop.tmp leaves out.")
@click.option("--op", "letters", default="", metavar="iudc", help="Operations: insert, update, delete, command.")
@click.option("--id", "document", default="", metavar="ID", help="The history of one document.")
@click.option("--text", default="", metavar="TEXT", help="Entries that hold TEXT, or match /TEXT/.")
@click.option("--limit", type=click.IntRange(min=0), default=0, metavar="N", help="Stop after N entries; 0: never.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens now, until Ctrl-C.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON document a line.")
@timeout_option
def command(
    given: Given,
    since: str | None,
    until: str | None,
    namespaces: tuple[str, ...],
    letters: str,
    document: str,
    text: str,
    limit: int,
    follow: bool,
    wants_json: bool,
    seconds: float,
) -> None:
    """Print the entries of the oplog, oldest first."""
    from tallyglass.oplog.filter.query import OplogFilter

    wanted = OplogFilter(
        since=moment_of(since),
        until=moment_of(until),
        namespaces=namespaces,
        ops=_operations(letters),
        id=document,
        text=text,
        noops="n" in letters,
    )
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        raise InputError("That range of time is empty: --until is not after --since.")
    if follow and wanted.until is not None:
        raise InputError("--until does not go with --follow.", "Leave one of them out.")
    if "" in namespaces:
        raise InputError("--ns is empty.", "Name a namespace, such as shop.orders or shop.*.")
    wanted.check()
    printer = Printer(wants_json, limit)
    work = printer.follow if follow else printer.read
    ask(given, lambda gateway: work(gateway, wanted, seconds), None)


class Printer:
    """Prints rows until there are enough of them."""

    def __init__(self, wants_json: bool, limit: int) -> None:
        self._wants_json = wants_json
        self._left = limit or sys.maxsize
        self._limit = limit
        self._trouble = ""

    async def read(self, gateway: Gateway, wanted: OplogFilter, seconds: float) -> None:
        """The past, then the end."""
        from tallyglass.mongo.gateway import closing
        from tallyglass.oplog.read import tail

        await need_oplog(gateway, seconds)
        async with closing(steadily(tail.read(gateway, wanted, limit=self._limit), seconds)) as rows:
            async for row in rows:
                if self._print(row):
                    return

    async def follow(self, gateway: Gateway, wanted: OplogFilter, seconds: float) -> None:
        """What happens, until enough rows or Ctrl-C. A lost server is told, and waited for."""
        from tallyglass.mongo.gateway import closing
        from tallyglass.oplog.read import tail

        await need_oplog(gateway, seconds)
        async with closing(tail.follow(gateway, wanted, room=_ROOM)) as updates:
            async for update in updates:
                self._tell_changes(update)
                if any(self._print(row) for row in update.rows):
                    return
                sys.stdout.flush()

    def _print(self, row: OplogRow) -> bool:
        tell(as_json(facts(row)) if self._wants_json else line(row))
        self._left -= 1
        return self._left <= 0

    def _tell_changes(self, update: OplogUpdate) -> None:
        if update.dropped:
            warn(f"{update.dropped} entries came too fast to be printed and were left out.")
        if update.trouble != self._trouble:
            warn(update.trouble or "entries flow again.")
            self._trouble = update.trouble


async def need_oplog(gateway: Gateway, seconds: float) -> None:
    """Raise DeploymentError where this deployment has no oplog to read."""
    from tallyglass.deployment.cluster import look_at

    deployment = await bounded(look_at(gateway), seconds)
    if not deployment.has_oplog:
        raise DeploymentError(deployment.no_oplog_because())


def line(row: OplogRow) -> str:
    """One row for a person."""
    when = iso(row.wall) if row.wall else iso(row.ts.time)
    return f"{row.ts!s:<14} {when:<24} {row.op or row.kind:<1} {row.ns}  {row.what}  {row.id}".rstrip()


def facts(row: OplogRow) -> dict[str, Any]:
    """One row for a program."""
    return {
        "kind": row.kind,
        "ts": str(row.ts),
        "wall": iso(row.wall) if row.wall else None,
        "op": row.op,
        "ns": row.ns,
        "what": row.what,
        "id": row.id,
        "size": row.size,
        "documents": row.documents,
        "destructive": row.destructive,
        "majority": row.majority,
    }


def _operations(letters: str) -> frozenset[str]:
    unknown = set(letters) - set("iudcn")
    if unknown:
        raise InputError(
            f"--op takes letters, and not '{''.join(sorted(unknown))[:20]}'.",
            "i is an insert, u an update, d a delete, c a command, n a no-op.",
        )
    return frozenset(letters)
