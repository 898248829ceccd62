"""What a tail says beside the entries: what is missing, what was taken back, and whether the member answers at all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from builders.virtual_time import run
from tallyglass.errors import DeploymentError, PrivilegeError, ReadError, RefusedError
from tallyglass.moment import Ts
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read import export, shard_tail, tail
from tallyglass.oplog.read.past import ATTEMPTS
from tallyglass.oplog.read.stream import Gap, Opened
from tallyglass.oplog.snapshot import NamespaceRate, OplogRow, OplogUpdate, OplogWindow, RowKind
from tallyglass.text import whole_duration

Script = tuple[bytes | Exception | float, ...]


def entry(n: int, term: int = 1, ns: str = "a.b") -> bytes:
    return bson.encode({"op": "i", "ns": ns, "o": {"_id": n}, "ts": Timestamp(100 + n, 1), "t": Int64(term)})


class Member:
    """A member that holds entries, knows of one at ``newest``, and whose cursors give batches, wait and fail in turn.

    The last cursor answers from then on that there is nothing new.
    """

    def __init__(self, held: list[bytes], *cursors: Script, newest: int = 3) -> None:
        self.held = [bson.decode(raw) | {"raw": raw} for raw in held]
        self.cursors = list(cursors)
        self.newest = newest
        self.refusals = 0
        self.refuses_the_past = False
        self.asked: Counter[str] = Counter()
        self.prefers_secondary = False

    async def command(self, name: str, *_: Any, member: str = "", **__: Any) -> dict[str, Any]:
        self.asked[name] += 1
        if self.refusals:
            self.refusals -= 1
            raise ReadError("no answer")
        newest = 100 + self.newest if member == "host:1" else 999  # any other is further
        ends = {"opTime": {"ts": Timestamp(newest, 1)}, "majorityOpTime": {"ts": Timestamp(103, 1), "t": 1}}
        return {"setName": "rs", "secondary": True, "lastWrite": ends} if name == "hello" else {"version": "6.0.5"}

    async def find_one(self, _: Any, query: dict[str, Any], sort: Any = (), **__: Any) -> Any:
        rows = self.held[::-1] if sort and sort[0][1] < 0 else self.held
        return next((row for row in rows if query.get("ts", row["ts"]) == row["ts"]), None)

    async def find_raw(self, _: Any, query: dict[str, Any], *, sort: Any = (), **__: Any) -> AsyncIterator[bytes]:
        if self.refuses_the_past:
            raise ReadError("too slow")
        first, end = query.get("ts", {}).get("$gte", Timestamp(0, 0)), query.get("ts", {}).get("$lt", Timestamp(103, 2))
        rows = [row["raw"] for row in self.held if first <= row["ts"] < end]
        for raw in rows[::-1] if sort else rows:
            yield raw

    async def tail_raw(self, *_: Any, on_open: Any, prefer_secondary: bool, **__: Any) -> AsyncIterator[bytes]:
        self.prefers_secondary = prefer_secondary
        script = self.cursors.pop(0) if self.cursors else ()
        on_open("host:1")
        for step in script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await asyncio.sleep(step)
        while not self.cursors:
            await asyncio.sleep(1)
            yield b""

    async def extent(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(documents=1, bytes=1)


@pytest.fixture(autouse=True)
def virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time(), time=time.time)
    for module in (tail, shard_tail, export):
        monkeypatch.setattr(module, "time", clock)


def updates(
    member: Member | dict[str, Member], enough: Callable[[list[OplogUpdate]], bool], **how: Any
) -> list[OplogUpdate]:
    """The updates of the tail of a member, or of shards by name."""
    found: list[OplogUpdate] = []
    gateway: Any = member

    async def follow() -> None:
        tails = shard_tail.follow_shards if isinstance(member, dict) else tail.follow
        async with aclosing(tails(gateway, **how)) as following:  # type: ignore[type-var, operator]
            async for update in following:
                found.append(update)
                if enough(found):
                    return

    run(follow())
    return found


def rows(found: list[OplogUpdate]) -> list[OplogRow]:
    return [row for update in found for row in update.rows]


def test_the_newest_entries_come_first_and_then_what_is_new() -> None:
    member = Member([entry(n) for n in (1, 2, 3)], (2.0, entry(3) + entry(4) + entry(5)), newest=9)
    found = updates(member, lambda found: len(found) > 12, backlog=2)
    last = found[-1]
    assert member.prefers_secondary, "the primary is spared"
    assert member.asked["collStats"] <= 2, "the window changes slowly"
    assert [(row.ts.t, row.majority) for row in rows(found)] == [(102, True), (103, True), (104, False), (105, False)]
    assert (last.matched, last.last, last.behind_seconds) == (4, Ts(105, 1), 4.0)
    assert last.older_unread, "there is one more than was asked for"
    assert max(update.per_second for update in found) == 2 / 2, "new ones, over the two seconds that were watched"
    assert min(update.per_second for update in found if update.per_second) == 2 / 5, "over five seconds"
    assert (last.per_second, last.trouble, last.connected_to) == (0.0, "", "host:1")
    assert [(rate.ns, rate.inserts > 0) for rate in last.rates] == [("a.b", True)]


def test_many_small_batches_are_all_counted_in_the_rate() -> None:
    script: list[bytes | Exception | float] = [entry(3)]
    for n in range(4, 3_004):
        script += [0.002, entry(n)]
    found = updates(Member([entry(3)], tuple(script)), lambda found: found[-1].seen > 2_500)
    assert found[-1].per_second == pytest.approx(500, rel=0.01)


@pytest.mark.parametrize("cut", [False, True])
def test_a_look_back_that_is_cut_short_says_so_and_a_quiet_server_has_no_rate(cut: bool) -> None:
    member = Member([entry(3)], (entry(3) + entry(4),))
    member.refuses_the_past = cut
    last = updates(member, lambda found: len(found) > 80, backlog=2)[-1]
    assert (last.older_unread, last.behind_seconds, last.rates) == (cut, 0.0, ())


def test_a_deployment_without_an_oplog_ends_the_tail() -> None:
    class Alone(Member):
        async def command(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {}

    with pytest.raises(DeploymentError):
        updates(Alone([]), lambda found: len(found) > 9)


def test_what_is_missing_and_what_was_taken_back_are_rows_in_their_place() -> None:
    rolled = Member([entry(3), *(entry(n) for n in (8, 9))], (entry(3),), (entry(9),))
    rolled.held.pop(0)
    found = updates(rolled, lambda found: bool(rows(found)) and rows(found)[-1].ts.t == 109, backlog=0)
    gap, new = rows(found)
    assert (gap.kind, gap.ts, gap.documents, new.kind) == (RowKind.GAP, Ts(108, 1), 0, RowKind.ENTRY)
    assert "up to 5 s are missing" in gap.what
    assert (found[-1].gaps, found[-1].rollbacks) == (1, 0)

    lost = [entry(3), entry(4), entry(5, 2)]
    member = Member(lost, (entry(3) + entry(4) + entry(5),), (entry(5, 2),), (entry(4) + entry(5, 2),))
    found = updates(member, lambda found: sum(row.ts.t == 105 for row in rows(found)) == 2, backlog=0)
    (taken,) = [row for row in rows(found) if row.kind is RowKind.ROLLBACK]
    assert (taken.ts, taken.documents) == (Ts(104, 1), 1)
    assert "1 entry after 104:1 up to 105:1 no longer exists" in taken.what
    assert (found[-1].gaps, found[-1].rollbacks) == (0, 1)


def test_what_the_filter_leaves_out_is_not_counted_among_what_was_taken_back() -> None:
    """A server that is asked again after two failures sends everything."""
    own = (entry(4), entry(5, ns="config.sessions"), entry(6))
    member = Member([entry(3), entry(7, 2)], (entry(3) + b"".join(own),), (entry(7, 2),), (entry(3) + entry(7, 2),))
    found = updates(
        member,
        lambda found: any(row.ts.t == 107 for row in rows(found)),
        backlog=0,
        wanted=OplogFilter(namespaces=("a.*",)),
    )
    (taken,) = [row for row in rows(found) if row.kind is RowKind.ROLLBACK]
    assert (taken.ts, taken.documents) == (Ts(103, 1), 2)


@pytest.mark.parametrize(
    ("since", "said"), [(Ts(41, 1), ["the oplog begins 1 min after the requested time"]), (Ts(101, 1), [])]
)
def test_a_past_that_begins_too_late_says_so(since: Ts, said: list[str]) -> None:
    member = Member([entry(n) for n in (1, 2, 3)], (entry(3),))
    found = updates(member, lambda found: len(rows(found)) >= 3 + len(said), wanted=OplogFilter(since=since))
    assert [row.what for row in rows(found) if row.kind is RowKind.NOTE] == said
    assert (found[-1].gaps, found[-1].older_unread) == (0, False)


@pytest.mark.parametrize(("oldest", "gaps"), [(1, 0), (3, 1)])
def test_a_past_that_is_read_again_after_an_outage_goes_on_where_it_was(oldest: int, gaps: int) -> None:
    """The link is lost after the first entry, for longer than a read of the past tries."""

    class Losing(Member):
        reads = 0

        async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
            self.reads += 1
            for row in [row for row in self.held if query["ts"]["$gte"] <= row["ts"] < query["ts"]["$lt"]]:
                if 1 < self.reads <= ATTEMPTS:
                    break
                yield row["raw"]
                if self.reads == 1:
                    break
            if self.reads == ATTEMPTS:
                del self.held[: oldest - 1]
            if self.reads <= ATTEMPTS:
                raise ReadError("lost")

    member = Losing([entry(n) for n in (1, 2, 3)], (entry(3),))
    found = updates(member, lambda found: bool(found[-1].connected_to), wanted=OplogFilter(since=Ts(101, 1)))
    wanted = [101, *[103] * gaps, *range(100 + max(oldest, 2), 104)]
    assert [row.ts.t for row in rows(found)] == wanted
    assert (found[-1].matched, found[-1].gaps) == (len(wanted) - gaps, gaps)


def test_trouble_is_said_from_its_beginning_until_entries_flow_again() -> None:
    lost = RefusedError("lost", code=11602)
    member = Member([entry(3)], (entry(3), lost), (lost,), (lost,), (entry(3) + entry(4),))
    member.refusals = 1
    found = updates(member, lambda found: found[-1].matched == 1, backlog=0)
    begun = {update.since for update in found if update.trouble.startswith("lost")}
    assert len(begun) >= 1
    assert None not in begun
    assert any(update.trouble == "no answer" for update in found), "before the first cursor"
    assert (found[-1].trouble, found[-1].since, found[-1].majority) == ("", None, Ts(103, 1))


def test_a_member_that_does_not_answer_is_named_with_how_long() -> None:
    member = Member([entry(3)], (entry(3), 9.0, entry(4)))
    found = updates(member, lambda found: found[-1].matched == 1, backlog=0)
    mute = [update for update in found if update.trouble]
    assert mute
    assert all(update.trouble == f"host:1 has not answered for {update.answered_seconds:.0f} s." for update in mute)
    assert all(update.since is not None and update.since < update.at for update in mute)
    assert min(update.answered_seconds for update in mute) >= 4
    assert found[-1].trouble == ""


def test_the_tails_of_shards_are_one_and_of_a_lost_one_only_what_it_had() -> None:
    shards = {
        "s0": Member([entry(3)], (entry(3), 1.0, entry(4) + entry(8), 9.0, entry(9)), newest=9),
        "s1": Member([entry(3)], (entry(3), 1.0, entry(5) + entry(6), 9.0, PrivilegeError("no")), newest=8),
    }
    found = updates(shards, lambda found: len(rows(found)) == 5, backlog=0)
    assert [(row.ts.t, row.shard) for row in rows(found)] == [
        (104, "s0"), (105, "s1"), (106, "s1"), (108, "s0"), (109, "s0"),
    ]  # fmt: skip
    before = [update for update in found if update.seen == 4 and not update.trouble][-1]
    assert (before.connected_to, before.majority, before.behind_seconds) == ("s0 host:1, s1 host:1", Ts(103, 1), 2.0)
    assert (before.matched, before.last) == (4, Ts(108, 1))
    assert max(update.per_second for update in found) == 4 / 1, "within the second since the tails began"
    after = found[-1]
    assert (after.trouble, after.connected_to, after.behind_seconds) == ("s1 is not read: no", "s0 host:1", 0.0)
    assert (after.matched, after.seen, after.last, after.per_second) == (5, 5, Ts(109, 1), 1 / 5)


def of_shard(n: int, **changes: Any) -> OplogUpdate:
    """An update in which nothing has the value that it has without one."""
    rates = tuple(NamespaceRate(f"a.{name}", n, 2 * n, 3 * n, 4 * n) for name in ("same", f"n{n}"))
    update = OplogUpdate(
        at=datetime(2026, 1, n, tzinfo=UTC), rows=(), seen=10 * n, matched=n, dropped=n, last=Ts(n, 1),
        window=OplogWindow(Ts(0, 1), Ts(3_600 * n, 1)), rates=rates, per_second=1.5 * n, connected_to=f"host:{n}",
        trouble=f"trouble {n}.", since=datetime(2026, 2, n, tzinfo=UTC), majority=Ts(100 + n, 1), rates_5m=rates[:1],
        rates_all=rates[1:], partial=n == 1, behind_seconds=float(n), gaps=n, rollbacks=2 * n, answered_seconds=n / 2,
        older_unread=n == 1,
    )  # fmt: skip
    return replace(update, **changes)


@pytest.mark.parametrize("lost", [False, True])
async def test_the_updates_of_shards_are_added_up_and_of_a_lost_one_only_what_it_counted(lost: bool) -> None:
    parts = [shard_tail._Shard(f"s{n}") for n in (1, 2, 3)]
    for n, part in enumerate(parts[:2], 1):
        part.update_with(of_shard(n))
    merged = shard_tail._merged(parts, {"s1": ReadError("gone")} if lost else {})
    one, two = [NamespaceRate("a.n1", 1, 2, 3, 4), NamespaceRate("a.n2", 2, 4, 6, 8)]
    same = [NamespaceRate("a.same", n, 2 * n, 3 * n, 4 * n) for n in (2, 3)]
    assert merged == OplogUpdate(
        at=merged.at, rows=(), seen=30, matched=3, dropped=3, last=Ts(2, 1),
        window=OplogWindow(Ts(0, 1), Ts(7_200 if lost else 3_600, 1)),
        rates=(same[0], two) if lost else (same[1], two, one),
        per_second=3.0 if lost else 4.5, connected_to="s2 host:2" if lost else "s1 host:1, s2 host:2",
        trouble="s1 is not read: gone s2: trouble 2." if lost else "s1: trouble 1. s2: trouble 2.",
        since=datetime(2026, 2, 1 + lost, tzinfo=UTC), majority=Ts(101 + lost, 1),
        rates_5m=(same[0] if lost else same[1],), rates_all=(two, one), partial=True, behind_seconds=2.0, gaps=3,
        rollbacks=6, answered_seconds=1.0 if lost else 0.5, older_unread=True,
    )  # fmt: skip
    parts[2].update_with(
        of_shard(3, window=None, since=None, majority=None, behind_seconds=None, last=None, trouble="")
    )
    again = shard_tail._merged(parts, {})
    assert (again.dropped, again.majority, again.last, again.behind_seconds) == (3, None, Ts(2, 1), 2.0)
    assert (again.window, again.since) == (OplogWindow(Ts(0, 1), Ts(3_600, 1)), datetime(2026, 2, 1, tzinfo=UTC))
    assert again.trouble == "s1: trouble 1. s2: trouble 2."


def test_a_rollback_of_one_shard_takes_no_later_rows_of_it_before_those_of_others() -> None:
    left = [entry(3), entry(4), entry(7, 2)]
    rolled = Member(left, (entry(3) + entry(4) + entry(6),), (entry(7, 2),), (entry(4) + entry(7, 2),))
    other = Member([entry(3)], (entry(3) + entry(4), 1.0, entry(5), 1.0, entry(9)))
    found = updates({"s0": rolled, "s1": other}, lambda found: len(rows(found)) == 7, backlog=0)
    assert [(row.ts.t, row.shard) for row in rows(found)] == [
        (104, "s0"), (104, "s1"), (105, "s1"), (106, "s0"), (104, "s0"), (107, "s0"), (109, "s1"),
    ]  # fmt: skip
    assert [row.kind for row in rows(found)].index(RowKind.ROLLBACK) == 4


class Past(Member):
    """A member of which only the past is read; its search for older entries may be cut short."""

    def __init__(self, *numbers: int, cut: bool = False) -> None:
        super().__init__([entry(n) for n in numbers])
        self.cut = cut

    async def find_raw(self, _: Any, query: dict[str, Any], *, sort: Any = (), **how: Any) -> AsyncIterator[bytes]:
        async for raw in super().find_raw(_, query, sort=sort, **how):
            if query.get("ts", {}).get("$gte", Timestamp(0, 0)) <= bson.decode(raw)["ts"]:
                yield raw
        if self.cut:
            raise ReadError("too slow")


@pytest.mark.parametrize(
    ("since", "limit", "cut", "wanted"),
    [
        (None, 0, False, [101, 102, 102, 103]),
        (None, 2, False, [102, 103]),
        (None, 9, False, [101, 102, 102, 103]),
        (None, 3, True, [0, 102, 102, 103]),
        (Ts(101, 1), 2, False, [101, 102]),
        (Ts(102, 1), 0, False, [102, 102, 103]),
    ],
)
def test_of_the_past_of_shards_as_many_are_kept_as_are_asked_for(
    since: Ts | None, limit: int, cut: bool, wanted: list[int]
) -> None:
    """That one shard was not searched to its beginning is said, whatever the others have."""
    shards: Any = {"s0": Past(1, 2, cut=cut), "s1": Past(2, 3)}
    found = run(shard_tail.read_shards(shards, OplogFilter(since=since), limit=limit))
    assert [row.ts.t for row in found] == wanted
    assert [row.kind for row in found].count(RowKind.NOTE) == cut


def test_a_shard_that_cannot_be_read_is_named_before_the_rows_of_the_others() -> None:
    class Closed(Past):
        async def find_one(self, *_: Any, **__: Any) -> Any:
            raise PrivilegeError("no")

    shards: Any = {"s0": Closed(1), "s1": Past(2, 3)}
    found = run(shard_tail.read_shards(shards))
    assert [(row.ts.t, row.shard, row.what) for row in found][:2] == [
        (102, "s0", "s0 is not read: no"),
        (102, "s1", "insert"),
    ]
    with pytest.raises(PrivilegeError):
        run(shard_tail.read_shards({"s0": shards["s0"]}))


@pytest.mark.parametrize(("since", "seconds"), [(None, 2.0), (Ts(101, 1), 0.0)])
@pytest.mark.parametrize(("newest", "behind"), [(12, []), (14, [11])])
def test_a_reader_of_what_is_rare_is_not_behind_where_nothing_is_wanted(
    since: Ts | None, seconds: float, newest: int, behind: list[int]
) -> None:
    """The last of the past that is wanted is older than the last that was read."""

    class Slow(Member):
        async def find_raw(self, *args: Any, **how: Any) -> AsyncIterator[bytes]:
            await asyncio.sleep(seconds)
            async for raw in super().find_raw(*args, **how):
                yield raw

    found: list[export.ExportItem] = []
    slow: Any = Slow([entry(1), entry(newest, ns="c.d")], (1.5, b"", 0.1, entry(3)), newest=newest)

    async def follow() -> None:
        async with aclosing(export.follow_entries(slow, OplogFilter(namespaces=("a.b",), since=since))) as items:  # type: ignore[type-var]
            async with asyncio.timeout(8):
                async for item in items:
                    found.append(item)

    with pytest.raises(TimeoutError):
        run(follow())
    assert (entry(1),) in found
    assert [item.behind_seconds for item in found if isinstance(item, export.Lag)] == behind


@pytest.mark.parametrize("of_stream", [False, True])
def test_a_lag_is_said_when_it_begins_has_doubled_and_is_over(of_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most once a second, and not where the end is not known."""
    clock, asked = [50.0], list[int]()

    async def end(*_: Any) -> Ts | None:
        asked.append(round(clock[0]))
        if newest is None:
            raise ReadError("lost")
        return Ts(1_000 + newest, 1)

    async def ends() -> tuple[Ts | None, None]:
        return await end(), None

    monkeypatch.setattr(export, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(export, "end_of_oplog", end)
    stream: Any = SimpleNamespace(read_ends=ends) if of_stream else None
    monitor, said = export._LagMonitor(None), list[tuple[int, int]]()  # type: ignore[arg-type]
    steps = [(0, 99), (0.99, 99), (1, 9), (2, None), (3, 10), (4, 19), (5, 20), (5.5, 99), (6, 39), (7, 40), (8, 5),
             (9, 4), (10, 4), (11, 12), (12, -5), (13, None)]  # fmt: skip
    for at, newest in steps:
        clock[0] = 50 + at
        found = run(monitor.news(Ts(1_000, 1), stream))
        if found is not None:
            assert newest is not None
            assert found == export.Lag(max(newest, 0), Ts(1_000, 1), Ts(1_000 + newest, 1))
            said.append((round(at), found.behind_seconds))
    assert said == [(3, 10), (5, 20), (7, 40), (9, 4), (11, 12), (12, 0)]
    assert asked == [50 + n for n in range(1, 14)]


@pytest.mark.parametrize("since", [None, Ts(102, 1)])
def test_what_is_followed_for_a_program_may_have_no_past(since: Ts | None) -> None:
    member: Any = Member([entry(3, ns="c.d")], (entry(3, ns="c.d") + entry(4) + entry(5, ns="c.d"), 2.0, entry(6)))
    found: list[export.ExportItem] = []

    async def follow() -> None:
        async with aclosing(export.follow_entries(member, OplogFilter(namespaces=("a.b",), since=since))) as items:  # type: ignore[type-var]
            async for item in items:
                found.append(item)
                if item == (entry(6),):
                    return

    run(follow())
    begins_later = [Gap(since, Ts(103, 1), requested=True)] if since else []
    assert found == [*begins_later, (), Opened("host:1"), (entry(4),), (entry(6),)], since


def test_a_duration_has_two_units_at_most() -> None:
    said = {59: "59 s", 60: "1 min", 3_661: "1 h 1 min", 7_199: "1 h 59 min", 90_000: "1 d 1 h", 86_400: "1 d"}
    assert {seconds: whole_duration(seconds) for seconds in said} == said
