"""The stream reopens whatever ends, hangs or stays silent, always at the last entry seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.oplog.read import batch_reader, stream
from tallyglass.oplog.read.stream import Arrived, Event, Gap, Opened, Place, Stream, TakenBack, Trouble

Script = Callable[[], AsyncIterator[bytes]]


def entry(n: int, term: int = 1) -> bytes:
    return bson.encode({"op": "i", "ns": "a.b", "o": {"_id": n}, "ts": Timestamp(100 + n, 1), "t": Int64(term)})


class Scripted:
    """A gateway whose cursors do what the test says, one after the other; ``log`` is the oplog that it would find."""

    def __init__(self, *cursors: Script, log: tuple[bytes, ...] = ()) -> None:
        self.cursors = list(cursors)
        self.queries: list[dict[str, Any]] = []
        self.log = [bson.decode(raw) for raw in log]

    async def tail_raw(self, ns: Any, query: dict[str, Any], *, on_open: Any, **_: Any) -> AsyncIterator[bytes]:
        self.queries.append(query)
        if not self.cursors:
            await asyncio.Event().wait()
        script = self.cursors.pop(0)
        on_open("host:1")
        async for batch in script():
            yield batch

    async def find_one(self, ns: Any, query: dict[str, Any], **_: Any) -> Any:
        return next((row for row in self.log if "ts" not in query or row["ts"] == query["ts"]), None)


def gives(*batches: bytes, then: Exception | None = None, hang: bool = False, quiet: bool = False) -> Script:
    async def script() -> AsyncIterator[bytes]:
        for batch in batches:
            yield batch
        if then is not None:
            raise then
        while quiet:
            await asyncio.sleep(0)
            yield b""
        if hang:
            await asyncio.Event().wait()

    return script


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BACKOFF_SECONDS", (0.0,))
    monkeypatch.setattr(stream, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(batch_reader, "ANSWER_SECONDS", 0.2)


async def events(gateway: Scripted, enough: Callable[[list[Event]], bool], **how: Any) -> list[Event]:
    found: list[Event] = []
    following = Stream(gateway, Ts(101, 1), how.pop("match", None), **how)  # type: ignore[arg-type]
    async with asyncio.timeout(60), aclosing(following.events()) as running:  # type: ignore[type-var]
        async for event in running:
            if event != Arrived(b"") and not isinstance(event, Opened):
                found.append(event)
            if enough(found):
                break
    return found


def arrived(found: list[Event]) -> bytes:
    return b"".join(event.batch for event in found if isinstance(event, Arrived))


@pytest.mark.parametrize("how", [{}, {"then": ReadError("lost", code=11602)}, {"hang": True}, {"quiet": True}])
async def test_it_goes_on_after_the_last_entry_whatever_happens(how: dict[str, Any]) -> None:
    gateway = Scripted(gives(entry(1) + entry(2), **how), gives(entry(2) + entry(3), hang=True))
    found = await events(gateway, lambda found: entry(3) in arrived(found))
    assert arrived(found) == entry(1) + entry(2) + entry(3)
    assert [query["ts"] for query in gateway.queries] == [{"$gte": Timestamp(101, 1)}, {"$gte": Timestamp(102, 1)}]
    troubles = [event for event in found if isinstance(event, Trouble)]
    assert len(troubles) == (1 if how.get("then") or how.get("hang") else 0)


async def test_a_hole_is_a_gap_and_another_branch_a_rollback() -> None:
    rolled = Scripted(gives(entry(1)), gives(entry(9)), log=(entry(8), entry(9)))
    found = await events(rolled, lambda found: entry(9) in arrived(found))
    assert found[1:] == [Gap(Ts(101, 1), Ts(109, 1)), Arrived(entry(9))]
    lost = (entry(1), entry(2), entry(3, 2))
    other = Scripted(gives(entry(1) + entry(2) + entry(3)), gives(entry(3, 2)), gives(entry(2) + entry(3, 2)), log=lost)
    found = await events(other, lambda found: entry(3, 2) in arrived(found))
    assert found[1:] == [TakenBack(Ts(102, 1), Ts(103, 1), Ts(103, 1), 1), Arrived(entry(3, 2))]


async def test_an_entry_that_is_known_is_not_given_again_and_must_be_there() -> None:
    gateway = Scripted(gives(entry(1) + entry(2), hang=True))
    found = await events(gateway, lambda found: bool(arrived(found)), anchor=Place(Ts(101, 1), 1))
    assert arrived(found) == entry(2)


async def test_a_server_that_looks_too_long_for_what_is_rare_is_asked_for_everything() -> None:
    gateway = Scripted(gives(hang=True), gives(hang=True), gives(entry(1), hang=True))
    found = await events(gateway, lambda found: bool(arrived(found)), match={"ns": "a.b"})
    assert arrived(found) == entry(1)
    assert ["$or" in query for query in gateway.queries] == [True, True, False]


async def test_a_missing_privilege_ends_it() -> None:
    gateway = Scripted(gives(then=PrivilegeError("no")))
    with pytest.raises(PrivilegeError):
        await events(gateway, lambda found: False)
