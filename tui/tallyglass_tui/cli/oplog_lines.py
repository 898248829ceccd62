"""The lines of ``tallyglass oplog``: entries, and what interrupts them, as text or JSON."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any

from tallyglass.moment import iso
from tallyglass.text import clean_block
from tallyglass_tui.cli.error_boundary import warn
from tallyglass_tui.cli.headless import as_json

if TYPE_CHECKING:
    from tallyglass.oplog.filter.query import OplogFilter
    from tallyglass.oplog.read.export import ExportItem
    from tallyglass.oplog.read.merge import MergedItem, ShardEntry
    from tallyglass.oplog.read.stream import Gap, RolledBack
    from tallyglass.oplog.snapshot import OplogRow

TEXT, RELAXED, CANONICAL = "text", "relaxed", "canonical"


class Printer:
    """Prints entries up to the limit, as fast as the reader takes them, without dropping any; with ``newest`` those at
    the end, once all have come.

    ``incomplete`` says that a shard was lost on the way, ``has_matches`` that there was an entry. ``begin_late`` names
    the shards of which it was said before that their oplog begins after what was asked for.
    """

    def __init__(self, wanted: OplogFilter, style: str, limit: int, *, newest: bool = False) -> None:
        from tallyglass.oplog.read.collect import Collector

        self._style = style
        self._left = limit or sys.maxsize
        self._newest: deque[str] | None = deque(maxlen=limit) if newest and limit else None
        self.incomplete = False
        self.has_matches = False
        self.begin_late: Collection[str] = ()
        self._trouble = ""
        self._shard = ""
        self._collector = Collector(wanted, sys.maxsize)

    async def print_all(self, items: AsyncIterator[ExportItem | MergedItem]) -> None:
        """Print entries until the feed ends or the limit is reached. Reports a lost server and waits for it. Of several
        shards each line names its own."""
        from tallyglass.mongo.gateway import closing

        async with closing(items) as held:
            async for item in held:
                if not await self._print(self._lines(item), entries=isinstance(item, tuple)):
                    return
        await self._print(self._newest or ())

    async def _print(self, lines: Collection[str], *, entries: bool = False) -> bool:
        """Print lines, those of ``entries`` up to the limit; whether more may follow."""
        self.has_matches |= entries and bool(lines)
        if entries and self._newest is not None:
            self._newest.extend(lines)
            return True
        if entries:
            lines = [*lines][: self._left]
            self._left -= len(lines)
        if lines:
            # In a thread: a reader that stops reading must not stop the driver's heartbeats.
            await asyncio.to_thread(_write, lines)
        return self._left > 0

    def _lines(self, item: ExportItem | MergedItem) -> list[str]:
        from tallyglass.oplog.read.export import Lag
        from tallyglass.oplog.read.merge import ShardEntry, ShardEvent, ShardLost
        from tallyglass.oplog.read.past import Incomplete
        from tallyglass.oplog.read.stream import Gap, Interruption, Opened, RolledBack

        match item:
            case tuple():
                merged = [self._merged_entry(entry) for entry in item if isinstance(entry, ShardEntry)]
                return merged or self._entries([raw for raw in item if isinstance(raw, bytes)])
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
                self._report(f"{behind} s behind the newest entry." if behind else "no longer behind.")
                lag = {"kind": "lag", "after": str(seen), "first": str(newest), "count": None}
                return [] if self._style == TEXT else [as_json(lag | {"behind_seconds": behind})]
            case Interruption(text):
                self._report(text)
            case Opened() if self._trouble:
                self._report("entries flow again.")
                self._trouble = ""
            case Incomplete():
                self._report(f"{item.what}.")
            case ShardLost():
                self.incomplete = True
                self._report(f"{item.shard} is no longer read: {item.reason}")
            case ShardEvent():
                self._shard = item.shard
                lines = self._lines(item.item)
                self._shard = ""
                return lines
        return []

    def _entries(self, raws: Sequence[bytes]) -> list[str]:
        from tallyglass.oplog.entry.json import to_json

        if self._style != TEXT:
            return [to_json(raw, kind="entry", relaxed=self._style == RELAXED) for raw in raws]
        self._collector.add(b"".join(raws))
        rows, _ = self._collector.rows(None)
        return [clean_block(line(row), 1_000_000) for row in rows]

    def _merged_entry(self, entry: ShardEntry) -> str:
        from tallyglass.oplog.entry.json import to_json
        from tallyglass.oplog.entry.row import row

        if self._style != TEXT:
            return to_json(entry.raw, kind="entry", shard=entry.shard, relaxed=self._style == RELAXED)
        return clean_block(f"{entry.shard}  {line(row(entry.raw))}", 1_000_000)

    def _break(self, item: Gap | RolledBack, row: dict[str, Any]) -> list[str]:
        from tallyglass.oplog.read import notes
        from tallyglass.oplog.read.stream import Gap

        shown = notes.gap(item) if isinstance(item, Gap) else notes.rolled_back(item)
        begins_late = isinstance(item, Gap) and item.requested
        if not (begins_late and self._shard in self.begin_late):
            self._report(f"{shown.what}.")
        if self._style != TEXT:
            return [as_json(row | ({"shard": self._shard} if self._shard else {}) | {"what": shown.what})]
        # Between two lines it is seen what is missing; before the first one it would be taken for an entry.
        return [] if begins_late else [f"{self._shard}  {line(shown)}".lstrip()]

    def _report(self, text: str) -> None:
        text = f"{self._shard}: {text}" if self._shard else text
        if text != self._trouble:
            self._trouble = text
            warn(text)


def line(row: OplogRow) -> str:
    """One row for a person."""
    when = iso(row.wall) if row.wall else iso(row.ts.time)
    return f"{row.ts!s:<14} {when:<24} {row.op or row.kind:<1} {row.ns}  {row.what}  {row.id}".rstrip()


def _write(lines: Collection[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
