"""The stream reopens whatever ends, hangs or stays silent, always at the last entry seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from builders.virtual_time import run
from tallyglass.errors import PrivilegeError, RefusedError
from tallyglass.moment import Ts
from tallyglass.oplog.read.stream import (
    Arrived,
    EntryPosition,
    Event,
    Gap,
    Interruption,
    Opened,
    OplogStream,
    RolledBack,
)

Script = Callable[[], AsyncIterator[bytes]]


def entry(n: int, term: int = 1, op: str = "i") -> bytes:
    return bson.encode({"op": op, "ns": "a.b", "o": {"_id": n}, "ts": Timestamp(100 + n, 1), "t": Int64(term)})


class Scripted:
    """A gateway whose cursors do what the test says, one after the other; ``log`` is the oplog that it would find."""

    def __init__(self, *cursors: Script, log: tuple[bytes, ...] = ()) -> None:
        self.cursors = list(cursors)
        self.queries: list[dict[str, Any]] = []
        self.log = [bson.decode(raw) for raw in log]
        self.majority = EntryPosition(Ts(0, 0))

    async def tail_raw(self, ns: Any, query: dict[str, Any], *, on_open: Any, **_: Any) -> AsyncIterator[bytes]:
        self.queries.append(query)
        assert self.cursors, "one more cursor is opened than the test has a script for"
        script = self.cursors.pop(0)
        on_open("host:1")
        async for batch in script():
            yield batch

    async def command(self, name: str, *, member: str) -> dict[str, Any]:
        assert (name, member) == ("hello", "host:1")
        term = -1 if self.majority.term is None else self.majority.term
        return {"lastWrite": {"majorityOpTime": {"ts": Timestamp(*self.majority.ts), "t": Int64(term)}}}

    async def find_one(self, ns: Any, query: dict[str, Any], **_: Any) -> Any:
        return next((row for row in self.log if "ts" not in query or row["ts"] == query["ts"]), None)


def gives(*batches: bytes, then: Exception | None = None, hang: bool = False, quiet: bool = False) -> Script:
    async def script() -> AsyncIterator[bytes]:
        for batch in batches:
            yield batch
        if then is not None:
            raise then
        while quiet:
            await asyncio.sleep(1)
            yield b""
        if hang:
            await asyncio.Event().wait()

    return script


def events(gateway: Scripted, enough: Callable[[list[Event]], bool], **how: Any) -> list[Event]:
    found: list[Event] = []
    following = OplogStream(gateway, Ts(101, 1), how.pop("match", None), **how)  # type: ignore[arg-type]

    async def follow() -> None:
        async with aclosing(following.events()) as running:  # type: ignore[type-var]
            async for event in running:
                if event != Arrived(b"") and not isinstance(event, Opened):
                    found.append(event)
                if enough(found):
                    break

    run(follow())
    return found


def arrived(found: list[Event]) -> bytes:
    return b"".join(event.batch for event in found if isinstance(event, Arrived))


@pytest.mark.parametrize("how", [{}, {"then": RefusedError("lost", code=11602)}, {"hang": True}, {"quiet": True}])
def test_it_goes_on_after_the_last_entry_whatever_happens(how: dict[str, Any]) -> None:
    gateway = Scripted(gives(entry(1) + entry(2), **how), gives(entry(2) + entry(3), hang=True))
    found = events(gateway, lambda found: entry(3) in arrived(found))
    assert arrived(found) == entry(1) + entry(2) + entry(3)
    assert [query["ts"] for query in gateway.queries] == [{"$gte": Timestamp(101, 1)}, {"$gte": Timestamp(102, 1)}]
    troubles = [event for event in found if isinstance(event, Interruption)]
    assert len(troubles) == (1 if how.get("then") or how.get("hang") else 0)


def test_a_hole_is_a_gap_and_another_branch_a_rollback() -> None:
    rolled = Scripted(gives(entry(1)), gives(entry(9)), log=(entry(8), entry(9)))
    found = events(rolled, lambda found: entry(9) in arrived(found))
    assert found[1:] == [Gap(Ts(101, 1), Ts(108, 1)), Arrived(entry(9))]
    lost = (entry(1), entry(2), entry(3, 2))
    other = Scripted(gives(entry(1) + entry(2) + entry(3)), gives(entry(3, 2)), gives(entry(2) + entry(3, 2)), log=lost)
    found = events(other, lambda found: entry(3, 2) in arrived(found))
    assert found[1:] == [RolledBack(Ts(102, 1), Ts(103, 1), Ts(103, 1), 1), Arrived(entry(3, 2))]


def test_an_entry_that_is_known_is_not_given_again_and_must_be_there() -> None:
    gateway = Scripted(gives(entry(1) + entry(2), hang=True))
    found = events(gateway, lambda found: bool(arrived(found)), anchor=EntryPosition(Ts(101, 1), 1))
    assert arrived(found) == entry(2)


def test_a_server_too_slow_to_find_rare_entries_is_asked_for_all_entries() -> None:
    gateway = Scripted(gives(hang=True), gives(hang=True), gives(entry(1), hang=True))
    found = events(gateway, lambda found: bool(arrived(found)), match={"ns": "a.b"})
    assert arrived(found) == entry(1)
    assert ["$or" in query for query in gateway.queries] == [True, True, False]


def test_a_missing_privilege_ends_it() -> None:
    gateway = Scripted(gives(then=PrivilegeError("no")))
    with pytest.raises(PrivilegeError):
        events(gateway, lambda found: False)


# --- the edges of a gap and of a rollback --------------------------------------------------------------------------


def begins(gateway: Scripted) -> list[int]:
    """The entries with which the cursors were opened."""
    return [query["ts"]["$gte"].time - 100 for query in gateway.queries]


def test_with_a_filter_the_place_is_proven_by_the_last_entry_itself() -> None:
    gateway = Scripted(gives(entry(1)), gives(entry(1) + entry(2), hang=True))
    found = events(gateway, lambda found: entry(2) in arrived(found), match={"ns": "a.b"})
    assert arrived(found) == entry(1) + entry(2)
    wanted = [{"ns": "a.b"}, {"op": "n"}, {"ts": Timestamp(101, 1)}]
    assert [query["$or"] for query in gateway.queries] == [wanted, wanted]


def test_a_missing_known_entry_is_a_gap_or_a_rollback() -> None:
    known = EntryPosition(Ts(101, 1), 1)
    gap = Scripted(gives(entry(9), hang=True), log=(entry(8), entry(9)))
    found = events(gap, bool, anchor=known)
    assert found[0] == Gap(Ts(101, 1), Ts(108, 1)), "it ends where the oplog begins, not at the next match"
    oldest = Scripted(gives(entry(2, 2), hang=True), log=(entry(1, 2), entry(2, 2)))
    found = events(oldest, bool, anchor=known)
    assert found[0] == RolledBack(None, Ts(101, 1), Ts(101, 1), None), "nothing before it was seen"


def test_the_same_moment_in_another_term_is_another_entry() -> None:
    log = (entry(1), entry(2, 2))
    gateway = Scripted(
        gives(entry(1) + entry(2)), gives(entry(2, 2)), gives(entry(1) + entry(2, 2), hang=True), log=log
    )
    found = events(gateway, lambda found: entry(2, 2) in arrived(found))
    assert found[1:] == [RolledBack(Ts(101, 1), Ts(102, 1), Ts(102, 1), 1), Arrived(entry(2, 2))]


@pytest.mark.parametrize("left", range(6))
def test_after_a_rollback_it_goes_on_at_the_newest_entry_that_is_left(left: int) -> None:
    """Five entries in three batches came; the first ``left`` of them are left, and another branch begins after them."""
    batches = entry(1) + entry(2), entry(3), entry(4) + entry(5)
    kept = [entry(n) for n in range(1, left + 1)]
    other = entry(left + 1, 2)
    again = b"".join(kept[-1:]) + other
    cursors = [gives(again, hang=True)] if left == 5 else [gives(entry(6, 2)), gives(again, hang=True)]
    gateway = Scripted(gives(*batches), *cursors, log=(*kept, other, entry(6, 2)))
    found = events(gateway, lambda found: other in arrived(found))
    assert arrived(found) == b"".join(batches) + other, "nothing of the other branch before, no entry twice"
    taken = [event for event in found if isinstance(event, RolledBack)]
    common = Ts(100 + left, 1) if left else None
    assert taken == ([] if left == 5 else [RolledBack(common, Ts(101 + left, 1), Ts(105, 1), 5 - left)])
    assert begins(gateway) == ([1, 5] if left == 5 else [1, 5, left or 1])


def rolled_back(left: int, *, commit: int = 0, term: int | None = 1, **how: int) -> Event:
    """Three batches of two entries came; the majority had ``commit`` of them, and the first ``left`` are left.

    ``term`` is that of the newest entry that the majority has."""
    kept = tuple(entry(n) for n in range(1, left + 1))
    gateway: Any = Scripted(
        gives(entry(1) + entry(2), entry(3) + entry(4), entry(5) + entry(6)), gives(entry(7, 2)),
        log=(entry(1), *kept, entry(7, 2)),
    )  # fmt: skip
    following = OplogStream(gateway, Ts(101, 1), **how)

    async def follow() -> Event:
        async with aclosing(following.events()) as running:  # type: ignore[type-var]
            async for event in running:
                if event == Arrived(entry(5) + entry(6)):
                    before = following.kept_bytes
                    gateway.majority = EntryPosition(Ts(100 + commit, 1), term)
                    known = None if term == 2 else gateway.majority.ts
                    assert await following.read_ends() == (None, known)
                    assert following._anchor == EntryPosition(Ts(106, 1), 1)
                    assert before - following.kept_bytes == (0 if term == 2 else commit * len(entry(1)))
                if isinstance(event, RolledBack):
                    assert following.kept_bytes == 0
                    return event
        raise AssertionError("no rollback was seen")

    return run(follow())


@pytest.mark.parametrize(("commit", "left"), [(0, 3), (2, 3), (4, 4), (4, 5), (6, 6)])
def test_majority_committed_entries_are_released_and_the_rest_are_counted(commit: int, left: int) -> None:
    if left == 6:
        gone = rolled_back(5, commit=6)
        assert isinstance(gone, RolledBack)
        assert gone.count is None, "what a majority had was taken back: how much of it is not known"
        return
    assert rolled_back(left, commit=commit) == RolledBack(Ts(100 + left, 1), Ts(101 + left, 1), Ts(106, 1), 6 - left)


def test_what_the_majority_has_of_a_later_term_releases_nothing() -> None:
    """The primary of that term may not have them, as when the member that is read was asked before its first entry."""
    assert rolled_back(2, commit=7, term=2) == RolledBack(Ts(102, 1), Ts(103, 1), Ts(106, 1), 4)
    gone = rolled_back(5, commit=6, term=None)
    assert isinstance(gone, RolledBack)
    assert gone.count is None


def test_no_ops_that_are_taken_back_are_not_counted() -> None:
    gateway = Scripted(gives(entry(1) + entry(2) + entry(3, op="n")), gives(entry(4, 2)), log=(entry(1), entry(4, 2)))
    (gone,) = events(gateway, lambda found: isinstance(found[-1] if found else None, RolledBack))[-1:]
    assert gone == RolledBack(Ts(101, 1), Ts(102, 1), Ts(103, 1), 1)


@pytest.mark.parametrize(("left", "count"), [(5, 1), (4, None), (2, None)])
def test_entries_too_many_to_keep_are_not_counted(left: int, count: int | None) -> None:
    gone = rolled_back(left, kept_bytes=2 * len(entry(1)))
    assert isinstance(gone, RolledBack)
    assert (gone.common, gone.count) == (Ts(100 + left, 1), count)
