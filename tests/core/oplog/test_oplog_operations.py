"""Operations take effect with the entry that commits them, and are counted as one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from tallyglass.moment import Ts
from tallyglass.oplog.entry import batch as batches
from tallyglass.oplog.entry.entry import Entry, Txn, read_entry
from tallyglass.oplog.entry.operations import OPEN_LIMIT, PartCount, PartCounts, Transactions, operations_of


def lsid(session: int) -> dict[str, Any]:
    return {"id": Binary(bytes([session]) * 16, 4)}


def part(n: int, previous: int = 0, session: int | None = 1, number: int = 4, size: int = 1, **flags: Any) -> Entry:
    """An applyOps with ``size`` inserts named by its second; a batched write where there is no session."""
    inner = [{"op": "i", "ns": "a.b", "o": {"_id": f"{n}.{k}"}} for k in range(size)]
    of = {} if session is None else {"lsid": lsid(session), "txnNumber": Int64(number)}
    body = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": inner} | flags, "ts": Timestamp(n, 1), "t": Int64(1)}
    return read_entry(
        bson.encode(of | body | {"prevOpTime": {"ts": Timestamp(previous, previous and 1), "t": Int64(1)}})
    )


def end(n: int, name: str, session: int = 1, number: int = 4) -> Entry:
    body = {"lsid": lsid(session), "txnNumber": Int64(number), "op": "c", "ns": "admin.$cmd", "o": {name: 1}}
    return read_entry(bson.encode(body | {"ts": Timestamp(n, 1), "t": Int64(1)}))


def write(n: int) -> Entry:
    return read_entry(bson.encode({"op": "d", "ns": "a.b", "o": {"_id": f"{n}.0"}, "ts": Timestamp(n, 1)}))


PARTIAL = {"partialTxn": True}


@pytest.mark.parametrize(
    ("entries", "effects", "left"),
    [
        ([write(1)], {1: ["1.0"]}, []),
        ([part(1, size=2)], {1: ["1.0", "1.1"]}, []),
        ([part(1, **PARTIAL), write(2), part(3, 1, **PARTIAL), part(4, 3)], {2: ["2.0"], 4: ["1.0", "3.0", "4.0"]}, []),
        ([part(1, **PARTIAL), part(2, session=2, **PARTIAL), part(3, 1)], {3: ["1.0", "3.0"]}, [[2]]),
        ([part(1, **PARTIAL), part(2, number=5)], {2: ["2.0"]}, [[1]]),
        ([part(1, prepare=True), write(2), end(3, "commitTransaction")], {2: ["2.0"], 3: ["1.0"]}, []),
        ([part(1, prepare=True), end(2, "abortTransaction"), part(3, number=5)], {3: ["3.0"]}, []),
        ([end(1, "abortTransaction")], {}, []), ([end(1, "commitTransaction")], {}, []),
        ([part(1, session=None, **PARTIAL), write(2), part(3, 1, None, **PARTIAL), part(4, 3, None, count=3)],
         {2: ["2.0"], 4: ["1.0", "3.0", "4.0"]}, []),
        ([part(1, session=None, **PARTIAL), part(2, session=None, **PARTIAL), part(3, 1, None), part(4, 2, None)],
         {3: ["1.0", "3.0"], 4: ["2.0", "4.0"]}, []),
        ([part(3, 1, None)], {3: ["3.0"]}, []), ([part(1, session=None)], {1: ["1.0"]}, []),
    ],
)  # fmt: skip
def test_operations_take_effect_with_the_entry_that_commits_them(
    entries: list[Entry], effects: dict[int, list[str]], left: list[list[int]]
) -> None:
    transactions, found = Transactions(), dict[int, list[str]]()
    for entry in entries:
        for operation, whole in transactions.feed(entry):
            assert whole is entry
            found.setdefault(entry.ts.t, []).append(operation.document_id)
    assert found == effects
    assert [[one.ts.t for one in parts] for parts in transactions.open.values()] == left
    assert len(transactions._batches) == 0, "those of batched writes are forgotten with them"


def test_a_transaction_that_was_begun_before_takes_effect_whole() -> None:
    transactions, last = Transactions(), part(3, 2)
    txn = transactions.key(last)
    assert txn == Txn(bson.encode(lsid(1)), 4)
    transactions.begin(txn, [part(1, **PARTIAL), part(2, 1, **PARTIAL)])
    assert [one.ts.t for one in transactions.complete(last)] == [1, 2, 3]
    assert transactions.open == {}
    assert transactions.key(write(1)) is None
    assert transactions.key(part(5, session=None, **PARTIAL)) == Txn(b"", Ts(5, 1).number)


def test_the_entries_of_a_transaction_are_counted_until_the_last() -> None:
    counts = PartCounts()
    assert counts.add(part(1, size=2, **PARTIAL), False) is None
    assert counts.add(part(2, session=2, size=7, **PARTIAL), True) is None
    assert counts.add(part(3, 1, size=3, **PARTIAL), True) is None
    assert counts.add(part(4, 3, size=4), False) == PartCount(3, 9, wanted=True, whole=True)
    assert counts.add(part(5, 4, size=4), False) == PartCount(1, 4, wanted=False, whole=False)
    assert counts.add(part(6, 2, session=2), False) == PartCount(2, 8, wanted=True, whole=True)
    assert counts.add(part(7, **PARTIAL), True) is None
    counts.clear()
    assert counts.add(part(8, 7), False) == PartCount(1, 1, wanted=False, whole=False)
    for n in range(OPEN_LIMIT + 1):
        counts.add(part(9, number=n, **PARTIAL), True)
    lost, kept = [counts.add(part(10, 9, number=n), False) for n in (0, 1)]
    assert (lost, kept) == (PartCount(1, 1, wanted=False, whole=False), PartCount(2, 2, wanted=True, whole=True))


def test_an_apply_ops_is_unfolded_as_deep_as_a_server_writes_it() -> None:
    command: dict[str, Any] = {"op": "d", "ns": "a.b", "o": {"_id": 1}}
    for depth in range(1, 11):
        command = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [command, {"op": "n"}, 5]}}
        found = list(operations_of(read_entry(bson.encode(command))))
        assert [one.op for one in found] == ["d" if depth <= 8 else "c", *"n" * min(depth, 8)]
        first = list(read_entry(bson.encode(command)).inner(1))
        assert len(first) == 1


async def test_the_event_loop_runs_while_documents_are_split_off() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def given() -> AsyncIterator[bytes]:
        yield b"".join(raws[:401])
        yield b""
        yield b"".join(raws[401:])

    raws = [bson.encode({"n": n}) for n in range(402)]
    counting = asyncio.ensure_future(count())
    assert [raw async for raw in batches.unpacked(given())] == raws
    counting.cancel()
    assert turns == 4
    damaged = b"".join(raws[:3]) + b"\x09\0\0\0xx"
    assert list(batches.entries(damaged)) == [*raws[:3], b"\x09\0\0\0xx"]
    assert batches.whole_entries(damaged) == b"".join(raws[:3])
    assert list(batches.entries(b"")) == []
    assert batches.whole_entries(b"xx") == b""
