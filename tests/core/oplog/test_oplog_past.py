"""What lies between two moments of the oplog is read exactly, and a hole in it is reported with its exact size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp
from pymongo.errors import OperationFailure

from builders.virtual_time import run
from tallyglass.errors import PrivilegeError, ReadError, RefusedError
from tallyglass.moment import Ts
from tallyglass.mongo.driver_errors import translate
from tallyglass.oplog.entry.batch import entries
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.incident import scan, watch
from tallyglass.oplog.read import past as past_module
from tallyglass.oplog.read.past import SliceLength, backward, past, safe_end
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
    found = [part async for part in past(Log(900, 100, 700), Ts(100, 1), Ts(901, 0))]  # type: ignore[arg-type]
    assert found[0] == Gap(Ts(100, 1), Ts(700, 1))


async def test_the_newest_before_a_moment_are_as_many_as_asked_for() -> None:
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(until=Ts(500, 1)), limit=3)]  # type: ignore[arg-type]
    assert rows == [497, 498, 499]
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(), limit=3)]  # type: ignore[arg-type]
    assert rows == [898, 899, 900]
    rows = [row.ts.t async for row in read(Log(103, 100), OplogFilter(), limit=9)]  # type: ignore[arg-type]
    assert rows == [100, 101, 102, 103], "all that there are"


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
    log: Any = Log(900, 100, 100, 700)
    how = {"limit": limit} if limit else {}
    found = [(row.kind, row.ts.t) async for row in read(log, OplogFilter(since=Ts(100, 1)), **how)]
    gap, *others = found
    assert gap[0] is RowKind.GAP
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
    pace.took(0.1, size=1_000)
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
