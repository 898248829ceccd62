"""What a plan asks where an incident may be one statement or two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from corpus.oplog_build import BEGIN
from corpus.oplog_entries import UI, OplogWriter
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.restore.undo.evidence import KnownStatement
from tallyglass.restore.undo.infer import find_accident

NS = "shop.orders"


class Oplog:
    """An oplog in memory in place of a server."""

    def __init__(self, entries: list[bytes]) -> None:
        self._entries = entries

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b"".join(self._entries)


def two_deletes(pause_millis: float) -> list[bytes]:
    """Two stretches of deletes in no order of the documents."""
    writer = OplogWriter(BEGIN)
    for at in (0.0, pause_millis):
        for n in range(60):
            writer.write(at + n, "d", NS, n * 37 % 61 + int(at))
    return writer.stream()[0]


@pytest.mark.parametrize(("pause", "asks"), [(200.0, False), (5_000.0, True)])
async def test_a_plan_names_both_readings_until_a_person_says_how_many(pause: float, asks: bool) -> None:
    entries = two_deletes(pause)
    grouper = Grouper()
    grouper.feed_batch(b"".join(entries))
    (row,) = grouper.incidents()
    oplog: Any = Oplog(entries)
    found = await find_accident(oplog, row, row.limit, row.last, None, [NS])
    assert (row.reading in found.doubts) is asks
    assert bool(found.doubts) is asks
    known = await find_accident(oplog, row, row.limit, row.last, None, [NS], KnownStatement({}, count=120))
    assert (known.doubts, known.accident.proven) == ((), True)


@pytest.mark.parametrize("is_other", [True, False], ids=["another collection", "control"])
async def test_what_was_deleted_from_a_dropped_collection_of_the_same_name_is_no_sign_of_others(is_other: bool) -> None:
    entries = two_deletes(30_000.0)
    if is_other:
        entries = [raw.replace(UI, b"\x22" * 16) for raw in entries[:60]] + entries[60:]
    grouper = Grouper()
    grouper.feed_batch(b"".join(entries))
    row = grouper.incidents()[-1]
    assert row.documents == 60
    oplog: Any = Oplog(entries)
    found = await find_accident(oplog, row, row.limit, row.last, None, [NS])
    said = "The same client may have sent 60 more writes of the same kind within a minute before or after."
    assert found.doubts == (() if is_other else (said,))
