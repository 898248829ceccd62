"""``tallyglass oplog``: past or new entries, one per line."""

from __future__ import annotations

import asyncio
import select
import sys
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import DeploymentError, InputError
from tallyglass.moment import FORMS, iso
from tallyglass.text import clean_block
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, warn
from tallyglass_tui.cli.headless import as_json, ask, bounded, each_within, timeout_option
from tallyglass_tui.cli.oplog_window import require_window
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, time_of
from tallyglass_tui.cli.shards import named_shards

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.filter.query import OplogFilter
    from tallyglass.oplog.read.export import ExportItem
    from tallyglass.oplog.read.merge import MergedItem, ShardEntry
    from tallyglass.oplog.read.stream import Gap, RolledBack
    from tallyglass.oplog.snapshot import OplogRow

_LOOK_SECONDS = 1.0
"""Seconds between checks whether the reader of the output has left."""


TEXT, RELAXED, CANONICAL = "text", "relaxed", "canonical"


@click.command()
@connection_options(shards=True)
@click.option("--since", metavar="T", help=f"Start at this time, inclusive ({FORMS}).")
@click.option("--until", metavar="T", help="End before this time.")
@click.option(
    "--ns",
    "namespaces",
    multiple=True,
    metavar="GLOB",
    help="Match namespaces, such as shop.*; !shop.tmp excludes one.",
)
@click.option("--op", "letters", default="", metavar="iudc", help="Match operations: insert, update, delete, command.")
@click.option("--id", "document", default="", metavar="ID", help="Print the history of one document.")
@click.option("--text", default="", metavar="TEXT", help="Match entries that contain TEXT, or match /TEXT/.")
@click.option("--limit", type=click.IntRange(min=0), default=0, metavar="N", help="Stop after N entries; 0: never.")
@click.option("--follow", "-f", is_flag=True, help="Follow new entries until Ctrl-C.")
@click.option("--json", "wants_json", is_flag=True, help="Print whole entries as MongoDB Extended JSON, one per line.")
@click.option(
    "--canonical", is_flag=True, help="Print canonical Extended JSON, which keeps the type of every number and date."
)
@timeout_option
def command(
    given: ConnectionOptions,
    since: str | None,
    until: str | None,
    namespaces: tuple[str, ...],
    letters: str,
    document: str,
    text: str,
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
        ops=_operations(letters),
        id=document,
        text=text,
        noops="n" in letters,
    )
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        raise InputError("That range of time is empty: --until is not after --since.")
    if follow and wanted.until is not None:
        raise InputError("--until and --follow cannot be combined.", "Leave one of them out.")
    if "" in namespaces:
        raise InputError("--ns is empty.", "Name a namespace, such as shop.orders or shop.*.")
    wanted.check()
    style = (CANONICAL if canonical else RELAXED) if wants_json or canonical else TEXT
    printer = Printer(wanted, style, limit)
    ask(given, lambda gateway: _run(gateway, wanted, printer, limit, follow, seconds), None)
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
    printing = printer.print_merged(merge(sources, hold=HOLD_SECONDS if follow else None))
    await (_while_read(printing) if follow else printing)


async def _run(
    gateway: Gateway,
    wanted: OplogFilter,
    printer: Printer,
    limit: int,
    follow: bool,
    seconds: float,
) -> None:
    from tallyglass.oplog.read.export import follow_entries, read_entries

    shards = await named_shards(gateway, seconds)
    if shards is None:
        await need_oplog(gateway, seconds)
    until = None if follow else wanted.until
    await require_window(shards or {"": gateway}, wanted.since, until, seconds, follow=follow)
    if shards is not None:
        await _run_merged(shards, wanted, printer, limit, follow)
        return
    if follow:
        await _while_read(printer.print_all(follow_entries(gateway, wanted)))
    else:
        await printer.print_all(each_within(read_entries(gateway, wanted, limit=limit), seconds))


class Printer:
    """Prints entries up to the limit, as fast as the reader takes them, without dropping any.

    ``incomplete`` says that a shard was lost on the way.
    """

    def __init__(self, wanted: OplogFilter, style: str, limit: int) -> None:
        from tallyglass.oplog.read.collect import Collector

        self._style = style
        self._left = limit or sys.maxsize
        self.incomplete = False
        self._trouble = ""
        self._shard = ""
        self._collector = Collector(wanted, sys.maxsize)

    async def print_all(self, items: AsyncIterator[ExportItem]) -> None:
        """Print entries until the feed ends or the limit is reached. Reports a lost server and waits for it."""
        from tallyglass.mongo.gateway import closing

        async with closing(items) as held:
            async for item in held:
                lines = self._lines(item)[: self._left]
                self._left -= len(lines)
                if lines:
                    # In a thread: a reader that stops reading must not stop the driver's heartbeats.
                    await asyncio.to_thread(_write, lines)
                if self._left <= 0:
                    return

    async def print_merged(self, items: AsyncIterator[MergedItem]) -> None:
        """Print the entries of several shards in order of time; each line names its shard."""
        from tallyglass.mongo.gateway import closing
        from tallyglass.oplog.read.merge import ShardEvent, ShardLost

        async with closing(items) as held:
            async for item in held:
                lines: list[str] = []
                if isinstance(item, ShardLost):
                    self.incomplete = True
                    self._say(f"{item.shard} is no longer read: {item.reason}")
                elif isinstance(item, ShardEvent):
                    self._shard = item.shard
                    lines = self._lines(item.item)
                    self._shard = ""
                else:
                    lines = [line for entry in item for line in self._merged_entry(entry)]
                lines = lines[: self._left]
                self._left -= len(lines)
                if lines:
                    await asyncio.to_thread(_write, lines)
                if self._left <= 0:
                    return

    def _merged_entry(self, entry: ShardEntry) -> list[str]:
        from tallyglass.oplog.entry.json import to_json
        from tallyglass.oplog.entry.row import row

        if self._style != TEXT:
            return [to_json(entry.raw, kind="entry", shard=entry.shard, relaxed=self._style == RELAXED)]
        return [clean_block(f"{entry.shard}  {line(row(entry.raw))}", 1_000_000)]

    def _lines(self, item: ExportItem) -> list[str]:
        from tallyglass.oplog.read.export import Entries, Incomplete, Lag
        from tallyglass.oplog.read.stream import Gap, Interruption, Opened, RolledBack

        match item:
            case Entries(raws):
                return self._entries(raws)
            case Gap(seen, first):
                self._collector.break_here()
                return self._break(item, {"kind": "gap", "after": str(seen), "first": str(first), "count": None})
            case RolledBack(common, first, _, count):
                self._collector.break_here()
                row = {
                    "kind": "rollback",
                    "after": str(common) if common else None,
                    "first": str(first),
                    "count": count,
                }
                return self._break(item, row)
            case Lag(behind, seen, newest):
                self._say(f"{behind} s behind the newest entry." if behind else "no longer behind.")
                lag = {"kind": "lag", "after": str(seen), "first": str(newest), "count": None}
                return [] if self._style == TEXT else [as_json(lag | {"behind_seconds": behind})]
            case Interruption(text):
                self._say(text)
            case Opened() if self._trouble:
                self._say("entries flow again.")
                self._trouble = ""
            case Incomplete(seconds):
                self._say(f"older entries may match: the search for them stopped after {seconds:.0f} s.")
        return []

    def _entries(self, raws: Sequence[bytes]) -> list[str]:
        from tallyglass.oplog.entry.json import to_json

        if self._style != TEXT:
            return [to_json(raw, kind="entry", relaxed=self._style == RELAXED) for raw in raws]
        self._collector.take(b"".join(raws))
        rows, _ = self._collector.rows(None)
        return [clean_block(line(row), 1_000_000) for row in rows]

    def _break(self, item: Gap | RolledBack, row: dict[str, Any]) -> list[str]:
        from tallyglass.oplog.read import notes
        from tallyglass.oplog.read.stream import Gap

        shown = notes.gap(item) if isinstance(item, Gap) else notes.rolled_back(item)
        self._say(shown.what)
        if self._style != TEXT:
            return [as_json(row | ({"shard": self._shard} if self._shard else {}) | {"what": shown.what})]
        return [f"{self._shard}  {line(shown)}".lstrip()]

    def _say(self, text: str) -> None:
        text = f"{self._shard}: {text}" if self._shard else text
        if text != self._trouble:
            self._trouble = text
            warn(text)


async def _while_read(printing: Coroutine[Any, Any, None]) -> None:
    """Run ``printing`` until it ends, or until the reader of a pipe has left: a quiet oplog would never notice that."""
    from tallyglass.tasks import cancel_all

    task = asyncio.ensure_future(printing)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
            if not task.done() and _reader_has_left():
                raise BrokenPipeError
        task.result()
    finally:
        await cancel_all([task])


def _reader_has_left() -> bool:
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file of the operating system
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _write(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


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


def _operations(letters: str) -> frozenset[str]:
    unknown = set(letters) - set("iudcn")
    if unknown:
        raise InputError(
            f"--op does not accept the letters '{''.join(sorted(unknown))[:20]}'.",
            "i is an insert, u an update, d a delete, c a command, n a no-op.",
        )
    return frozenset(letters)
