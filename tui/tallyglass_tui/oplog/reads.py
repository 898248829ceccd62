"""The feed and the one-off reads of the oplog page. Core is imported when they run, in the background thread."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.errors import ReadError
from tallyglass.moment import ZERO, Ts, check_within
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, RowKind
from tallyglass_tui import bound, clock
from tallyglass_tui.oplog.row_ring import BYTES, ROWS

if TYPE_CHECKING:
    from tallyglass.restore.pre_images.before_after import BeforeAfterText

PAST_ROWS = 2_000
"""Entries read for a jump to a moment in the past."""

ROOM = 1_000
"""Rows of one update: a second of 1,000 entries/s, though updates come four times a second while the machine keeps up.
A row costs about 20 us to make, so that a faster oplog costs at most a twelfth of a core for rows."""


@dataclass(slots=True)
class Place:
    """The last entry that a tail has handed out."""

    ts: Ts = ZERO


async def follow(gateway: Gateway, wanted: OplogFilter, place: Place | None = None) -> AsyncIterator[OplogUpdate]:
    """The live tail; for a sharded cluster, of all shards. ``trouble`` names what is left out.

    It keeps ``place``, and goes on there where it is begun again, as after this program was stopped for a while: no
    entry is shown twice, or missing between two rows.
    """
    from tallyglass.deployment.shards import shards_of
    from tallyglass.oplog.read.shard_tail import follow_shards
    from tallyglass.oplog.read.tail import follow

    place = place or Place()
    if place.ts > ZERO:
        wanted = replace(wanted, since=place.ts.next)
    shards = await shards_of(gateway)
    if shards is None:
        async with closing(follow(gateway, wanted, room=ROOM)) as updates:
            async for update in updates:
                place.ts = update.last or place.ts
                yield update
        return
    known = " ".join((*shards.left_out, *shards.warnings))
    async with closing(follow_shards(shards.gateways, wanted, room=ROOM)) as updates:
        async for update in updates:
            # What was read of one shard may be newer than rows of another that are still to come.
            place.ts = max((row.ts for row in update.rows), default=place.ts)
            yield replace(update, trouble=f"{update.trouble} {known}".strip()) if known else update


async def read_at(gateway: Gateway, wanted: OplogFilter, at: Ts) -> list[OplogRow]:
    """Past entries from a moment on, as :func:`read_from` reads them. Raises InputError for one that the oplog does not
    hold: what it holds instead is no answer to what was asked."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.oplog.read.entries import end_of_oplog

    shards = await shards_of(gateway)
    members = [gateway] if shards is None else list(shards.gateways.values())
    ends = [await end_of_oplog(member, order) for member in members for order in (1, -1)]
    known = [ts for ts in ends if ts is not None]
    if known:
        check_within(at, min(known), max(*known, Ts(int(clock.now().timestamp()), 0)))
    return await read_from(gateway, wanted, at)


async def read_from(gateway: Gateway, wanted: OplogFilter, since: Ts, limit: int = PAST_ROWS) -> list[OplogRow]:
    """The first wanted entries at or after a moment: ``limit``, or as many as the tail can hold."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.oplog.read.shard_tail import read_shards
    from tallyglass.oplog.read.tail import read

    wanted = replace(wanted, since=max(since, wanted.since or since))
    shards = await shards_of(gateway)
    if shards is not None:
        return await read_shards(shards.gateways, wanted, limit=limit)
    rows, size = list[OplogRow](), 0
    async with closing(read(gateway, wanted, limit=limit)) as found:
        async for row in found:
            rows.append(row)
            size += len(row.raw)
            if size > BYTES:
                break
    return rows


async def next_destructive(gateway: Gateway, wanted: OplogFilter, after: Ts) -> OplogRow | None:
    """The first wanted destructive entry after a timestamp. Raises ReadError where there is none in what could be read,
    and a part could not."""
    rows = await read_from(gateway, replace(wanted, destructive=True), after.next, 1)
    found = next((row for row in rows if row.kind is RowKind.ENTRY), None)
    if found is None and rows:
        raise ReadError("No destructive operation after this one in what could be read.", rows[0].what)
    return found


async def read_images(gateway: Gateway, row: OplogRow) -> BeforeAfterText:
    """The images of one entry, read from its shard. Runs in the background thread."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.restore.pre_images.before_after import before_and_after

    shards = await shards_of(gateway) if row.shard else None
    member = shards.gateways.get(row.shard, gateway) if shards else gateway
    return await before_and_after(member, row.raw, bound.key("oplog.transaction", "X"))


def merge(earlier: OplogUpdate, later: OplogUpdate) -> OplogUpdate:
    """Two updates that the screen has not shown yet, merged; the newest rows are kept."""
    rows = earlier.rows + later.rows
    over = max(0, len(rows) - ROWS)
    return replace(later, rows=rows[over:], dropped=earlier.dropped + later.dropped + over)


def save(rows: list[OplogRow], folder: Path) -> Path:
    """Write entries as canonical extended JSON, one a line, to a new file that only this user may read."""
    from tallyglass.oplog.entry.json import to_json

    first = rows[0].ts
    for number in range(1, 1000):
        path = folder / f"oplog-{first.t}-{first.i}{'' if number == 1 else f'-{number}'}.jsonl"
        try:
            with open(path, "x", encoding="ascii", opener=_private) as file:
                file.writelines(to_json(row.raw) + "\n" for row in rows if row.raw)
        except FileExistsError:
            continue
        except OSError:
            # A file that ends in the middle would be taken for all that was selected.
            with suppress(OSError):
                path.unlink()
            raise
        return path
    raise FileExistsError(f"{folder} holds too many files of that name")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
