"""What lies between two moments of the oplog is read exactly, and a hole in it is reported with its exact size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp
from pymongo.errors import OperationFailure

from builders.virtual_time import run
from tallyglass.errors import PrivilegeError, ReadError, RefusedError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.driver_errors import translate
from tallyglass.oplog.entry.batch import entries
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.incident import _ttl_millis, scan, watch
from tallyglass.oplog.read import past as past_module
from tallyglass.oplog.read.past import SliceLength, backward, newest, past, safe_end
from tallyglass.oplog.read.stream import EntryPosition, Gap
from tallyglass.oplog.read.tail import read
from tallyglass.oplog.snapshot import RowKind


class Log:
    """A gateway on an oplog of one insert a second; its beginning is each of ``oldest`` in turn, and then stays."""

    def __init__(self, last: int, *oldest: int) -> None:
        self.last = last
        self.oldest = list(oldest)

    async def command(self, name: str, **_: Any) -> dict[str, Any]:
        stamp = {"ts": Timestamp(self.last, 1 if self.last else 0), "t": Int64(1)}
        return {"setName": "rs", "lastWrite": {"majorityOpTime": stamp}} if name == "hello" else {"version": "6.0.5"}

    async def find_one(self, *_: Any, **__: Any) -> dict[str, Any]:
        first = self.oldest.pop(0) if len(self.oldest) > 1 else self.oldest[0]
        return {"ts": Timestamp(first, 1)}

    async def find_raw(
        self, ns: Any, query: dict[str, Any], *, sort: Sequence[tuple[str, int]] = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        span = query["$and"][0]["ts"] if "$and" in query else query["ts"]
        held = [Timestamp(second, 1) for second in range(self.oldest[0], self.last + 1)]
        held = [ts for ts in held if ts >= span.get("$gte", ts) and ts <= span.get("$lte", ts)]
        held = [ts for ts in held if "$lt" not in span or ts < span["$lt"]]
        held = (held[::-1] if sort else held)[: limit or None]
        yield b"".join(bson.encode({"op": "i", "ns": "a.b", "o": {"_id": ts.time}, "ts": ts}) for ts in held)


async def test_a_hole_before_the_first_entry_read_begins_where_reading_did() -> None:
    found = [part async for part in past(Log(900, 700), Ts(100, 1), Ts(901, 0))]  # type: ignore[arg-type]
    assert found[0] == Gap(Ts(100, 1), Ts(700, 1), requested=True)


class Rolling(Log):
    """A server that overwrites the entries before a second while a cursor is opened, or after it was."""

    def __init__(self, to: int, *, later: bool = False, found: int = 0) -> None:
        super().__init__(140, 100)
        self.to, self.later, self.found = to, later, found

    async def find_raw(self, *args: Any, on_open: Any, **how: Any) -> AsyncIterator[bytes]:
        on_open("rs2:1")
        self.oldest = [100 if self.later else self.to]
        async for batch in super().find_raw(*args, **how):
            self.oldest = [self.to]
            yield b"".join(raw for raw in entries(batch) if bson.decode(raw)["ts"].time >= self.found)

    async def find_one(self, *args: Any, member: str = "", **how: Any) -> dict[str, Any]:
        """Another member, of which no cursor was opened, still has all of them."""
        return await super().find_one(*args, **how) if member == "rs2:1" else {"ts": Timestamp(100, 1)}


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (Rolling(100), [*range(100, 141)]),
        (Rolling(110), [Gap(Ts(100, 1), Ts(110, 1), True), *range(110, 141)]),
        (Rolling(135), [Gap(Ts(100, 1), Ts(135, 1), True), *range(135, 141)]),
        (Rolling(150), [Gap(Ts(100, 1), Ts(150, 1), True)]),
        (Rolling(110, found=120), [Gap(Ts(100, 1), Ts(110, 1), True), *range(120, 141)]),
        (Rolling(115, later=True), [*range(100, 141)]),
        (Rolling(115, later=True, found=103), [Gap(Ts(100, 1), Ts(103, 1), True), *range(103, 141)]),
        (Rolling(115, later=True, found=135), [Gap(Ts(100, 1), Ts(115, 1), True), *range(135, 141)]),
    ],
)
async def test_what_is_overwritten_while_a_cursor_is_opened_is_a_gap(log: Rolling, expected: list[Any]) -> None:
    assert await read_past(log, Ts(100, 1)) == expected


async def read_past(log: Rolling, since: Ts) -> list[Any]:
    """The second of each entry, and the gaps."""
    found: list[Any] = []
    async for part in past(log, since, Ts(141, 0)):  # type: ignore[arg-type]
        found += [part] if isinstance(part, Gap) else [bson.decode(raw)["ts"].time for raw in entries(part)]
    return found


async def test_a_gap_after_what_was_read_or_is_the_oldest_is_not_one_after_what_was_asked_for() -> None:
    found = await read_past(Rolling(110), ZERO)
    assert found == [Gap(Ts(100, 1), Ts(110, 1)), *range(110, 141)]
    log: Any = Log(900, 100)
    kinds = []
    async for row in read(log, OplogFilter(since=Ts(100, 1), until=Ts(800, 0))):
        if row.kind is not RowKind.ENTRY:
            kinds.append((row.kind, row.ts.t, row.what))
        log.oldest = [500]
    gap = "gap: the oplog has rolled past 130:0; up to 6 min 10 s are missing before 500:1"
    assert kinds == [(RowKind.GAP, 500, gap)]


async def test_the_newest_before_a_moment_are_as_many_as_asked_for() -> None:
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(until=Ts(500, 1)), limit=3)]  # type: ignore[arg-type]
    assert rows == [497, 498, 499]
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(), limit=3)]  # type: ignore[arg-type]
    assert rows == [898, 899, 900]
    rows = [row.ts.t async for row in read(Log(103, 100), OplogFilter(), limit=9)]  # type: ignore[arg-type]
    assert rows == [100, 101, 102, 103], "all that there are"


def held(second: int, name: str, *, txn: int = 0, last: bool = True, pad: int = 0) -> bytes:
    """An insert, or with ``txn`` an entry of a transaction: its first where ``txn`` is its second."""
    entry: dict[str, Any] = {"op": "i", "ns": f"a.{name}", "o": {"_id": second, "pad": "x" * pad}}
    if txn:
        flags = {"count": Int64(9)} if last else {"partialTxn": True}
        previous = Timestamp(0, 0) if txn == second else Timestamp(second - 1, 1)
        entry = {
            "op": "c", "ns": "admin.$cmd", "o": {"applyOps": [entry], **flags},
            "lsid": {"id": bson.Binary(b"s" * 16, 4)}, "txnNumber": Int64(txn),
            "prevOpTime": {"ts": previous, "t": Int64(1)},
        }  # fmt: skip
    return bson.encode(entry | {"ts": Timestamp(second, 1)})


WITH_TRANSACTIONS = [
    held(1, "b"), held(2, "b", txn=2, last=False), held(3, "c", txn=2, last=False), held(4, "c", txn=2),
    held(5, "b"), held(6, "c"), held(7, "c", txn=7), held(8, "c", txn=8, last=False), held(9, "b", txn=8),
    held(10, "b").replace(b"\x02op", b"\x55op"),
]  # fmt: skip
"""The last of them is damaged."""


class Held(Log):
    """A server that has these entries, some in each answer."""

    def __init__(self, rows: Sequence[bytes], at_once: int = 3) -> None:
        super().__init__(900, 100)
        self.rows, self.at_once, self.asked = list(rows), at_once, dict[str, Any]()
        self.answers = 0

    async def find_raw(self, _: Any, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
        self.asked, self.query = how, query
        newest_first = self.rows[::-1]
        for at in range(0, len(newest_first), self.at_once):
            self.answers += 1
            yield b"".join(newest_first[at : at + self.at_once])


@pytest.mark.parametrize(
    ("names", "count", "expected", "rows"),
    [
        ((), 1, [10], 1), ((), 2, [8, 9, 10], 2), ((), 3, [7, 8, 9, 10], 3), ((), 5, [5, 6, 7, 8, 9, 10], 5),
        ((), 6, [2, 3, 4, 5, 6, 7, 8, 9, 10], 6), ((), 7, [*range(1, 11)], 7), ((), 99, [*range(1, 11)], 7),
        (("a.b",), 2, [8, 9, 10], 2), (("a.b",), 3, [5, 7, 8, 9, 10], 3), (("a.b",), 4, [2, 3, 4, 5, 7, 8, 9, 10], 4),
        (("a.c",), 4, [6, 7, 8, 9, 10], 4), (("a.d",), 1, [10], 1), ((), 0, [], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at_once", [1, 3, 20])
async def test_of_the_newest_a_transaction_counts_once_and_is_whole(
    names: tuple[str, ...], count: int, expected: list[int], rows: int, at_once: int
) -> None:
    server, wanted = Held(WITH_TRANSACTIONS, at_once), OplogFilter(namespaces=names)
    found, incomplete = await newest(server, wanted, Ts(11, 0), count)  # type: ignore[arg-type]
    assert [WITH_TRANSACTIONS.index(raw) + 1 for raw in found] == expected
    assert incomplete is None
    if count:
        if at_once == 1 and names != ("a.d",):
            assert server.answers == 11 - expected[0], "nothing before the first of them"
        assert server.asked == {"sort": [("$natural", -1)], "batch_size": 1_000 if names else count, "time_ms": 30_000}
        shown = [row async for row in read(Held(WITH_TRANSACTIONS, at_once), wanted, limit=count)]  # type: ignore[arg-type]
        assert len(shown) == rows


@pytest.mark.parametrize(
    ("backlog", "spent", "pad", "seconds", "ended", "answers"),
    [
        (True, 0.0, 0, 3_000, None, 4), (True, 1.6, 0, 3_000, "stopped after 3 s", 2),
        (True, 0.0, 6_000_000, 3_000, "stopped after 36 MB", 2), (False, 0.0, 6_000_000, 30_000, None, 4),
        (False, 1.6, 0, 30_000, None, 4), (False, 15.1, 0, 30_000, "stopped after 30 s", 2),
    ],
)  # fmt: skip
async def test_the_search_for_the_newest_is_bounded(
    backlog: bool,
    spent: float,
    pad: int,
    seconds: int,
    ended: str | None,
    answers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Held([held(second, "b", pad=pad) for second in range(1, 13)])
    monkeypatch.setattr(past_module.time, "monotonic", lambda: 50 + spent * server.answers)
    found, incomplete = await newest(server, OplogFilter(), Ts(13, 0), 99, backlog=backlog)  # type: ignore[arg-type]
    assert (incomplete.ended if incomplete else None, server.answers) == (ended, answers)
    assert found == server.rows[-3 * answers :]
    assert server.asked["time_ms"] == seconds


async def test_of_the_newest_no_ops_are_found_only_where_they_are_wanted() -> None:
    server, before = Held([held(1, "b")]), {"ts": {"$lt": Timestamp(9, 0)}}
    for wanted, query in (
        (OplogFilter(), {"$and": [before, {"op": {"$ne": "n"}}]}),
        (OplogFilter(noops=True), before),
        (OplogFilter(noops=True, ops=frozenset("n")), before | {"op": {"$in": ["c", "n"]}}),
    ):
        await newest(server, wanted, Ts(9, 0), 5)  # type: ignore[arg-type]
        assert server.query == query


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (RefusedError("The server took too long.", code=50), "stopped after 30 s"),
        (ReadError("The link was lost.", "The read is retried."), "failed: The link was lost"),
    ],
)
async def test_why_the_newest_may_not_be_all_is_said_before_them(error: ReadError, ended: str) -> None:
    class Ending(Log):
        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for batch in super().find_raw(*args, **how):
                yield batch
            raise error

    note, *others = [row async for row in read(Ending(103, 102), OplogFilter(), limit=9)]  # type: ignore[arg-type]
    assert (note.kind, note.what) == (RowKind.NOTE, f"older entries may match: the search for them {ended}")
    assert [row.ts.t for row in others] == [102, 103]


@pytest.mark.parametrize(("limit", "last"), [(0, 900), (1, 700), (3, 702)])
async def test_the_first_from_a_moment_are_as_many_as_asked_for_beside_a_gap(limit: int, last: int) -> None:
    log: Any = Log(900, 100, 700)
    how = {"limit": limit} if limit else {}
    found = [(row.kind, row.ts.t) async for row in read(log, OplogFilter(since=Ts(100, 1)), **how)]
    gap, *others = found
    assert gap[0] is RowKind.NOTE
    assert others == [(RowKind.ENTRY, second) for second in range(700, last + 1)]


async def test_incidents_are_not_followed_where_the_first_reading_fails() -> None:
    class Broken(Log):
        async def command(self, name: str, **_: Any) -> dict[str, Any]:
            raise ReadError("The server closed the connection.")

    with pytest.raises(ReadError, match="closed"):
        await anext(watch(Broken(900, 100)))  # type: ignore[arg-type]


async def test_an_interruption_while_new_entries_are_followed_is_told_at_once_with_what_is_known() -> None:
    class Losing(Plain):
        async def tail_raw(self, *_: Any, on_open: Any, **__: Any) -> AsyncIterator[bytes]:
            on_open("host:1")
            yield b""
            raise ReadError("The server closed the connection.")

    looks = watch(Losing(900, 100))  # type: ignore[arg-type]
    before, after = [await anext(looks) for _ in range(2)]
    assert (before.done, before.trouble) == (True, "")
    assert after == replace(before, trouble="The server closed the connection.")


async def test_of_one_collection_the_incidents_of_its_database_are_shown_too() -> None:
    drops = {500: ("shop", {"drop": "orders"}), 510: ("shop", {"drop": "carts"})}
    drops |= {700: ("shop", {"dropDatabase": 1}), 710: ("crm", {"drop": "orders"})}

    class Dropping(Plain):
        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for batch in super().find_raw(*args, **how):
                for row in map(bson.decode, entries(batch)):
                    db, o = drops.get(row["ts"].time, ("", {}))
                    yield bson.encode(row | ({"op": "c", "ns": f"{db}.$cmd", "o": o} if db else {}))

    *_, found = [one async for one in scan(Dropping(900, 100), ns="shop.orders")]  # type: ignore[arg-type]
    assert [(one.number, one.kind, one.ns) for one in found.incidents] == [
        (0, "dropDatabase", "shop"),
        (0, "drop", "shop.orders"),
    ]


@pytest.mark.parametrize(("until", "is_open"), [(None, False), (Ts(560, 1), True), (Ts(700, 1), False)])
async def test_what_goes_on_where_a_scan_ends_is_not_called_ended(until: Ts | None, is_open: bool) -> None:
    class Deleting(Plain):
        async def list_indexes(self, _: Any) -> list[Any]:
            return []

        list_collections = list_indexes

        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for batch in super().find_raw(*args, **how):
                for row in map(bson.decode, entries(batch)):
                    if 550 <= row["ts"].time < 570:
                        yield bson.encode(row | {"op": "d", "wall": datetime.fromtimestamp(row["ts"].time, UTC)})

    *_, found = [one async for one in scan(Deleting(900, 100), until=until)]  # type: ignore[arg-type]
    assert [one.open for one in found.incidents] == [is_open]


async def test_a_collection_is_asked_about_again_where_the_answer_was_lost() -> None:
    """What its TTL index removes is not called a person's for as long as one watches."""

    class Forgetful(Plain):
        asked = 0

        async def command(self, name: str, **how: Any) -> dict[str, Any]:
            return {"ttlMonitorSleepSecs": 60} if name == "getParameter" else await super().command(name, **how)

        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for batch in super().find_raw(*args, **how):
                rows = [row for row in map(bson.decode, entries(batch)) if 400 < row["ts"].time <= 440]
                yield b"".join(bson.encode(row | {"op": "d", "ns": "shop.sessions"}) for row in rows)

        async def list_indexes(self, _: Any) -> list[dict[str, Any]]:
            self.asked += 1
            if self.asked == 1:
                raise ReadError("lost")
            return [{"name": "at_1", "key": {"at": 1}, "expireAfterSeconds": 60}]

        async def list_collections(self, _: str) -> list[Any]:
            return []

        async def tail_raw(self, *_: Any, on_open: Any, **__: Any) -> AsyncIterator[bytes]:
            on_open("host:1")
            yield b""
            raise ReadError("The server closed the connection.")

    looks = watch(Forgetful(900, 100))  # type: ignore[arg-type]
    found = [one for _ in range(2) for one in (await anext(looks)).incidents]
    assert [one.documents for one in found] == [40, 40]
    assert ["or the TTL index of this collection" in one.note for one in found] == [False, True]


@pytest.mark.parametrize(
    ("reply", "millis"),
    [
        ({"ttlMonitorSleepSecs": 1.5}, 1_500),
        ({"ttlMonitorSleepSecs": 60}, 60_000),
        ({"ttlMonitorSleepSecs": 0}, 0),
        ({}, 0),
    ],
)
async def test_the_interval_of_the_ttl_monitor_is_the_servers(reply: dict[str, float], millis: int) -> None:
    class Server:
        async def command(self, name: str, **how: Any) -> dict[str, float]:
            assert (name, how) == ("getParameter", {"ttlMonitorSleepSecs": 1})
            return reply

    assert await _ttl_millis(Server()) == millis  # type: ignore[arg-type]


async def seconds(log: Log, since: Ts, until: Ts) -> list[int]:
    """The second of each entry that is read, in order."""
    found = [part async for part in past(log, since, until)]  # type: ignore[arg-type]
    assert not any(isinstance(part, Gap) for part in found)
    return [bson.decode(raw)["ts"].time for part in found if isinstance(part, bytes) for raw in entries(part)]


async def test_each_entry_of_a_span_comes_once() -> None:
    assert await seconds(Log(900, 100), Ts(100, 1), Ts(901, 0)) == list(range(100, 901))
    assert await seconds(Log(900, 100), Ts(150, 1), Ts(500, 1)) == list(range(150, 500))
    assert await seconds(Log(900, 100), Ts(150, 2), Ts(500, 2)) == list(range(151, 501))


async def test_after_a_lost_link_it_goes_on_behind_the_last_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(Log):
        failures = 0

        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for batch in super().find_raw(*args, **how):
                rows = list(entries(batch))
                if self.failures < 3 and len(rows) > 3:
                    self.failures += 1
                    yield b"".join(rows[:3])
                    raise ReadError("lost")
                yield batch

    async def no_pause(_: float) -> None:
        return None

    monkeypatch.setattr(past_module.asyncio, "sleep", no_pause)
    log = Losing(200, 100)
    assert await seconds(log, Ts(100, 1), Ts(201, 0)) == list(range(100, 201))
    assert log.failures == 3


class Large(Log):
    """A server whose entries are of so many bytes; ``spans`` are the seconds that it was asked for."""

    def __init__(self, size: int) -> None:
        super().__init__(900, 100)
        self.size, self.spans = size, list[tuple[int, int]]()

    async def find_raw(self, ns: Any, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
        assert how.keys() == {"time_ms", "on_open"}
        assert how["time_ms"] == 60_000
        first, last = (query["ts"][bound].time for bound in ("$gte", "$lt"))
        self.spans.append((first, last))
        for second in range(first, last):
            yield held(second, "b", pad=self.size)


@pytest.mark.parametrize(
    ("size", "spans"),
    [
        (1, "870-900 810-870 690-810 450-690 100-450"),
        (1_500, "870-900 810-870 750-810 690-750"),
        (9_000, "870-900! 894-900 882-894 870-882 858-870"),
        (130_000, "870-900! 899-900 898-899 897-898 896-897"),
    ],
)
async def test_a_read_backwards_holds_so_many_bytes_at_most(
    size: int, spans: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices that are too large, marked here, are read again in smaller ones."""
    monkeypatch.setattr(past_module, "_SLICE_BYTES", 120_000)
    server, found = Large(size), set[tuple[int, int]]()
    async for batches, begin in backward(server, Ts(100, 0), Ts(900, 0), {}):  # type: ignore[arg-type]
        times = [bson.decode(batch)["ts"].time for batch in batches]
        assert times == list(range(times[0], begin.t - 1, -1))
        found.add((begin.t, times[0] + 1))
        if len(found) == 4 + (size == 1):
            break
    assert " ".join(f"{first}-{last}{'' if (first, last) in found else '!'}" for first, last in server.spans) == spans


class Failing(Log):
    """A server that fails at each read, or at each but every ``answers``th, which finds nothing."""

    def __init__(self, answers: int = 0) -> None:
        super().__init__(900, 100)
        self.answers, self.reads = answers, 0

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        self.reads += 1
        if not self.answers or self.reads % self.answers:
            raise ReadError("lost")
        yield b""


@pytest.mark.parametrize(
    "read_all",
    [lambda log: past(log, Ts(100, 1), Ts(130, 0)), lambda log: backward(log, Ts(100, 1), Ts(130, 0), {})],
    ids=["forward", "backward"],
)
def test_five_failures_in_a_row_end_a_read_of_the_past_and_others_do_not(read_all: Any) -> None:
    async def drained(log: Failing) -> int:
        async for _ in read_all(log):
            pass
        return log.reads

    dead, seldom = Failing(), Failing(answers=5)
    with pytest.raises(ReadError):
        run(drained(dead))
    assert dead.reads == 5
    assert run(drained(seldom)) > 20, "four in a row, again and again"


@pytest.mark.parametrize(("oldest", "lost"), [((100,), ""), ((100, 100, 700), "from 100:1 to 700:1")])
async def test_what_rolls_over_while_the_past_is_read_backwards_is_reported(oldest: tuple[int, ...], lost: str) -> None:
    log = Plain(900, *oldest)
    *_, found = [part async for part in scan(log)]  # type: ignore[arg-type]
    assert found.done
    assert found.trouble == (f"Entries {lost} were overwritten before they were read." if lost else "")
    assert found.reached == (Ts(700, 1) if lost else Ts(100, 1))


def test_a_slice_that_is_full_is_not_read_over_and_over() -> None:
    pace = SliceLength()
    pace.took(0.1, size=12_000_000)
    assert pace.seconds == 30, "as long as it can be"
    pace.took(0.5, size=1_000)
    assert pace.seconds == 30, "as quick as it should be"
    pace.took(0.1, size=1_000)
    assert pace.seconds == 60
    pace.took(2.0)
    assert pace.seconds == 60
    pace.took(2.1)
    assert pace.seconds == 30
    pace.took(0.1, size=5_999_999)
    assert pace.seconds == 60
    pace.filled(9)
    assert pace.seconds == 4, "with room for a span that has more"
    pace.filled(1)
    assert pace.seconds == 1


class Plain(Log):
    """A server without access control."""

    async def command(self, name: str, **how: Any) -> dict[str, Any]:
        return {"authInfo": {}} if name == "connectionStatus" else await super().command(name, **how)


class Closed(Log):
    """A service that answers as if the oplog were empty."""

    async def find_one(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        return None


async def test_an_oplog_without_readable_entries_is_reported_as_closed() -> None:
    with pytest.raises(PrivilegeError, match="does not open its oplog"):
        await safe_end(Closed(900, 100))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "ns", "expected"),
    [
        ("querying oplog with an ns other than a string is not supported in this atlas tier", "local.oplog.rs", True),
        ("bad auth : authentication failed", "local.oplog.rs", False),
        ("find is not allowed or the syntax is incorrect", "shop.orders", False),
    ],
)
def test_what_a_shared_tier_answers_is_a_closed_oplog(message: str, ns: str, expected: bool) -> None:
    found = translate(OperationFailure(message, 8000), f"find on {ns}")
    assert ("does not open its oplog" in str(found)) is expected
    assert isinstance(found, PrivilegeError) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("not authorized on admin to execute command { serverStatus: 1 }", "This user may not run command x."),
        ("user is not allowed to do action [find] on [shop.auth_roles]", "This user may not run command x."),
        ("bad auth : authentication failed", "The server does not accept this user name and password."),
        ("CMD_NOT_ALLOWED: serverStatus", "This tier of Atlas does not allow command x."),
    ],
)
def test_what_an_atlas_user_may_not_do_is_not_a_wrong_password(message: str, expected: str) -> None:
    assert translate(OperationFailure(message, 8000), "command x").title == expected


def test_a_refusal_without_a_code_is_no_lost_connection() -> None:
    found = translate(OperationFailure("no such command"), "command x")
    assert isinstance(found, RefusedError)
    assert found.code == 0


async def test_a_member_that_knows_no_majority_is_not_read() -> None:
    with pytest.raises(ReadError, match="majority"):
        await safe_end(Log(0, 100))  # type: ignore[arg-type]
    assert (await safe_end(Log(900, 100))) == EntryPosition(Ts(900, 1), 1)  # type: ignore[arg-type]
