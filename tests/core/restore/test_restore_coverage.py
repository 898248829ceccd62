"""Where the replay must begin, and whether the oplog still holds all of it: at each edge."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Namespace
from tallyglass.oplog.read.entries import entries_about, read_all
from tallyglass.restore.backup.backup import Anchor
from tallyglass.restore.proof.oplog_query import oplog_query
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import NoStart, Start
from tallyglass.restore.timeline.identity import foreign_anchor

TESTS = {"$gte": lambda a, b: a >= b, "$gt": lambda a, b: a > b, "$lte": lambda a, b: a <= b, "$lt": lambda a, b: a < b}


class Oplog:
    """A gateway whose oplog is a list: it finds by ``ts`` as a server does, and holds only the given entries."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = list(rows)

    async def find_raw(
        self, ns: Namespace, query: dict[str, Any], *, sort: Any = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        wanted = query.get("ts", {})
        bounds = wanted if isinstance(wanted, dict) else {"$gte": wanted, "$lte": wanted}
        found = [row for row in self.rows if all(TESTS[test](row["ts"], edge) for test, edge in bounds.items())]
        if sort and sort[0][1] < 0:
            found.reverse()
        yield b"".join(bson.encode(row) for row in found[: limit or None])


def noop(t: int, i: int = 1, message: str = "periodic noop") -> dict[str, Any]:
    return {"ts": Timestamp(t, i), "t": Int64(1), "v": 2, "op": "n", "ns": "", "o": {"msg": message}}


def part(t: int, previous: int) -> dict[str, Any]:
    """An entry of a transaction that links to the one at ``previous``, 0 for none."""
    link = {"ts": Timestamp(previous, 1 if previous else 0), "t": Int64(1)}
    return {"ts": Timestamp(t, 1), "t": Int64(1), "v": 2, "op": "c", "ns": "admin.$cmd",
            "o": {"applyOps": [], "partialTxn": True}, "lsid": {"id": 1}, "txnNumber": Int64(1),
            "prevOpTime": link}  # fmt: skip


async def start(known: Ts, back_off: int, *rows: dict[str, Any]) -> Start | NoStart:
    return await coverage.choose_start(Oplog(*rows), known, back_off)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "back_off", "begins"),
    [
        (Ts(30, 1), 0, Ts(30, 1)),
        (Ts(30, 2), 0, Ts(30, 1)),
        (Ts(30, 1), 10, Ts(20, 1)),
        (Ts(29, 9), 10, Ts(10, 1)),
        (Ts(20, 1), 10, Ts(10, 1)),
        (Ts(20, 0), 10, None),
        (Ts(9, 1), 0, None),
    ],
)
async def test_the_replay_begins_at_an_entry_that_is_there_before_the_backup(
    known: Ts, back_off: int, begins: Ts | None
) -> None:
    found = await start(known, back_off, noop(10), noop(20), noop(30), noop(40))
    if begins is None:
        assert isinstance(found, NoStart)
        assert found.newest == Ts(40, 1)
    else:
        assert found == Start(begins, back_off, Ts(10, 1), Ts(40, 1))


async def test_only_the_first_entry_of_the_set_itself_has_nothing_before_it() -> None:
    first = noop(10, message="initiating set")
    assert await start(Ts(11, 1), 10, first, noop(20)) == Start(Ts(10, 1), 10, Ts(10, 1), Ts(20, 1), True)
    before = await start(Ts(9, 1), 10, first, noop(20))
    assert isinstance(before, NoStart)
    assert before.first_entry == Ts(10, 1), "initiated since: what happened in between is in no oplog"
    insert = noop(10) | {"op": "i", "ns": "s.c", "o": {"msg": "initiating set"}}
    for rows in ([noop(10), noop(20, message="initiating set")], [insert], []):
        assert isinstance(await start(Ts(11, 1), 10, *rows), NoStart)


async def test_a_start_that_was_overwritten_meanwhile_is_seen() -> None:
    begun = Start(Ts(20, 1), 0, Ts(10, 1), Ts(40, 1))
    assert await coverage.overwritten(Oplog(noop(20), noop(40)), begun) == ""  # type: ignore[arg-type]
    assert "21:1" in await coverage.overwritten(Oplog(noop(21), noop(40)), begun)  # type: ignore[arg-type]
    assert "unknown" in await coverage.overwritten(Oplog(), begun)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("anchors", "why"),
    [
        ((), ""),
        ((Anchor(Ts(20, 1)), Anchor(Ts(9, 1))), ""),
        ((Anchor(Ts(20, 1), 1, bson.encode(noop(20))),), ""),
        ((Anchor(Ts(20, 1)), Anchor(Ts(25, 1))), "the oplog has no entry 25:1, which the backup names"),
        ((Anchor(Ts(10, 1)),), "the oplog has no entry 10:1, which the backup names"),
        ((Anchor(Ts(20, 1), 2),), "the entry 20:1 is of term 1, in the backup of term 2"),
        (
            (Anchor(Ts(20, 1), 1, bson.encode(noop(20, message="x"))),),
            "the entry 20:1 is another one than in the backup",
        ),
    ],
)
async def test_a_backup_is_of_the_oplog_that_holds_its_positions(anchors: tuple[Anchor, ...], why: str) -> None:
    held: Any = Oplog(noop(15), noop(20), noop(30))
    assert await foreign_anchor(held, anchors, Ts(10, 1)) == why


async def test_a_transaction_is_followed_to_its_first_entry() -> None:
    held: Any = Oplog(noop(1), part(2, 0), noop(3), part(4, 2), part(6, 4))
    assert [await coverage.chain_beginning(held, Ts(t, 1)) for t in (6, 4, 2)] == [Ts(2, 1)] * 3
    assert await coverage.chain_beginning(Oplog(part(4, 2), part(6, 4)), Ts(6, 1)) is None  # type: ignore[arg-type]


async def test_the_entries_about_a_collection_include_the_start_and_not_the_end() -> None:
    held: Any = Oplog(noop(1), noop(2), noop(3), noop(4))
    assert [one.ts.t async for one in read_all(held, entries_about("s.c", Ts(2, 1), Ts(4, 1)))] == [2, 3]
    assert [one.ts.t async for one in read_all(held, entries_about("s.c", Ts(3, 1)))] == [3, 4]


def test_the_query_of_the_oplog_dump_holds_both_ends() -> None:
    """The entry at the limit too: it proves that the file reaches it."""
    query = json.loads(oplog_query(Ts(2, 1), Ts(9, 3), [Ts(5, 2), Ts(4, 1)]))
    ends = {"$gte": {"t": 2, "i": 1}, "$lte": {"t": 9, "i": 3}}
    left_out = [{"$timestamp": {"t": 4, "i": 1}}, {"$timestamp": {"t": 5, "i": 2}}]
    assert query["ts"] == {name: {"$timestamp": ts} for name, ts in ends.items()} | {"$nin": left_out}
