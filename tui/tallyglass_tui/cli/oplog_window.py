"""Times on the command line against what the oplog still holds: nothing is read in place of what was asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass_tui.cli.error_boundary import warn
from tallyglass_tui.cli.headless import bounded
from tallyglass_tui.cli.question import confirmed
from tallyglass_tui.format import duration, moment

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway


_QUIET_SECONDS = 30
"""A quiet server writes a no-op to its oplog every 10 s: an entry that is older than a few of these is not the newest
that there could be."""


async def require_window(
    gateways: Mapping[str, Gateway], since: Ts | None, until: Ts | None, seconds: float, *, follow: bool = False
) -> frozenset[str]:
    """Compare a range with each oplog; the names of ``gateways`` are those of shards, empty for the only one.

    A range that begins after the newest entry, as by a clock that is ahead, is warned of: nothing is found in it. Where
    only the beginning of one is gone, a person at a terminal is asked whether to read the rest, and a script gets a
    warning. Raises InputError where nothing of the range can be there, and where the person declines; ReadError where
    no answer comes within ``seconds``. Returns the names of those that begin after ``since``.
    """
    if since is None and until is None:
        return frozenset()
    ends = await bounded(_ends(gateways), seconds)
    begins = {name: first for name, (first, _) in ends.items() if first is not None}
    now = Ts(int(datetime.now(UTC).timestamp()), 0)
    newest = max((last for _, last in ends.values() if last is not None), default=now)
    if until is not None and begins and all(until <= first for first in begins.values()):
        first = min(begins.values())
        raise InputError(
            f"--until is before the oldest entry of the oplog ({moment(first.time)}).",
            "What happened then is no longer in it.",
        )
    if since is not None and since > max(now, newest) and not follow:
        raise InputError(f"--since is in the future: the newest entry is from {moment(newest.time)}.")
    if since is not None and since.t > newest.t + _QUIET_SECONDS and not follow:
        ahead = duration((since.time - newest.time).total_seconds())
        warn(f"the newest entry is from {moment(newest.time)}, {ahead} before --since: the clock here may be ahead.")
    late = {name: first for name, first in begins.items() if since is not None and since < first}
    for name, first in late.items():
        assert since is not None
        await _accept(f"{name}: " if name else "", since, first)
    return frozenset(late)


async def _ends(gateways: Mapping[str, Gateway]) -> dict[str, tuple[Ts | None, Ts | None]]:
    from tallyglass.oplog.read.entries import end_of_oplog

    return {name: (await end_of_oplog(one, 1), await end_of_oplog(one, -1)) for name, one in gateways.items()}


async def _accept(where: str, since: Ts, first: Ts) -> None:
    gone = duration((first.time - since.time).total_seconds())
    text = f"{where}the oplog begins at {moment(first.time)}, {gone} after --since: what happened before is unknown."
    warn(text)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return
    if not await confirmed("Read from there?", default=True):
        raise InputError("Nothing was read.", "Give a later --since.")
