"""A fork within a call, by an event hook or a signal handler whose child returns into it: no id in both processes.

The child is played: what Python runs there after a fork is run here, at each moment at which a signal handler can.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient

from builders.memory_mongo import Memory
from tallyglass import allocate
from tallyglass.allocate import (
    AllocationError,
    AsyncCached,
    Cached,
    Counter,
    Event,
    EventKind,
    Stats,
    Version,
    new_object_id,
    new_uuid,
    object_ids,
    uuids,
)
from tallyglass.allocate.engine import forking
from tallyglass.allocate.engine.steps import Pause, Steps, call, run, run_async
from tallyglass.allocate.format import AsyncFormatted, Digits, Formatted, NumberFormat

LIBRARY = str(Path(allocate.__file__).parent)
REFUSED = "The process forked within this call, whose ids belong to the parent"
PLAIN = NumberFormat(body=Digits(3))


class Source:
    """Ids from 0 for all processes: ``at`` is the next one."""

    at = 0

    def take_up_to(self, n: int) -> range:
        self.at += n
        return range(self.at - n, self.at)

    def stats(self) -> Stats:
        return Stats()


class AsyncSource(Source):
    """The same for tasks."""

    async def take_up_to(self, n: int) -> range:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().take_up_to(n)


class Fork:
    """A fork at the ``nth`` moment in the library; ``at`` is the next id then, None if that moment did not come."""

    def __init__(self, nth: int, source: Any = None) -> None:
        self.left, self.source = nth, source
        self.at: int | None = None

    @contextmanager
    def within(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._moment)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _moment(self, frame: FrameType, event: str, arg: object) -> None:
        # Where CPython runs the handlers of signals: at the begin of a function and after a call of C.
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(LIBRARY):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                self.at = getattr(self.source, "at", 0)
                forking._in_child()


CALLS: dict[str, Callable[[Any], Any]] = {
    "next": lambda ids: ids.next(),
    "take": lambda ids: ids.take(7),
    "formatted": lambda ids: (AsyncFormatted if isinstance(ids, AsyncCached) else Formatted)(ids, PLAIN).next(),
    "many formatted": lambda ids: (AsyncFormatted if isinstance(ids, AsyncCached) else Formatted)(ids, PLAIN).take(7),
}


@pytest.mark.parametrize("kind", [Cached, AsyncCached])
@pytest.mark.parametrize(
    ("of", "held"), [("next", 0), ("next", 3), ("take", 3), ("formatted", 3), ("many formatted", 3)]
)
async def test_no_id_of_a_cache_is_in_both_processes(of: str, held: int, kind: type) -> None:
    async def done(answer: Any) -> Any:
        return await answer if inspect.isawaitable(answer) else answer

    for nth in range(1, 1_000):
        source = AsyncSource() if kind is AsyncCached else Source()
        cached = kind(source, step=5)
        before = await done(cached.take(5 - held))
        fork, got = Fork(nth, source), []
        try:
            with fork.within():
                answer = await done(CALLS[of](cached))
            got = [int(one) for one in (answer if isinstance(answer, list) else [answer])]
        except AllocationError as error:
            text = str(error)
        if fork.at is None:
            assert nth > 1 or of == "next"
            return
        # This process is the child from that moment on.
        after = await done(cached.take(7))
        assert min(after) >= fork.at > max(before)
        assert min(got) >= fork.at if got else REFUSED in text
    raise AssertionError("the call has no end")


@pytest.mark.parametrize("kind", [EventKind.FETCHED, EventKind.RETRIED, EventKind.WEAK])
def test_a_hook_that_forks_ends_the_call_in_the_child(monkeypatch: pytest.MonkeyPatch, kind: EventKind) -> None:
    def hook(event: Event) -> None:
        if event.kind is kind and not forks:
            forks.append(event)
            forking._in_child()

    forks: list[Event] = []
    memory = Memory(monkeypatch, random.Random(1), faults=0.3)
    memory.hello = {}
    with MongoClient[Any](connect=False) as client:
        ids = Counter(client.s.counters, "x", on_event=hook)
        ids.create()
        refused, taken = 0, []
        for _ in range(30):
            try:
                taken.append(ids.next())
            except AllocationError as error:
                refused += REFUSED in str(error)
    assert (refused, len(forks), len(taken)) == (1, 1, 29)
    assert len(set(taken)) == 29


def test_no_step_follows_a_fork() -> None:
    def operation() -> str:
        done.append("call")
        return "reply"

    def steps(at: str) -> Steps[str]:
        if at == "first":
            forking._in_child()
        yield Pause(0)
        if at == "second":
            forking._in_child()
        reply = yield from call(operation, 1)
        if at == "last":
            forking._in_child()
        return reply

    for at, calls in (("first", 0), ("second", 0), ("last", 1), ("never", 1)):
        for execute in (run, lambda steps: asyncio.run(run_async(steps))):
            done: list[str] = []
            if at == "never":
                assert execute(steps(at)) == "reply"
            else:
                with pytest.raises(AllocationError, match=REFUSED) as refused:
                    execute(steps(at))
                assert refused.value.advice == "Call again."
            assert len(done) == calls


@pytest.mark.parametrize("version", Version)
def test_no_uuid_is_in_both_processes(monkeypatch: pytest.MonkeyPatch, version: Version) -> None:
    made: list[Any] = []
    real = uuids.uuid.UUID

    def recorded(*args: Any, **options: Any) -> Any:
        made.append(real(*args, **options))
        return made[-1]

    monkeypatch.setattr(uuids.uuid, "UUID", recorded)
    for nth in range(1, 100):
        made.clear()
        fork = Fork(nth)
        with fork.within():
            got = new_uuid(version)
        assert (got.version, got) == (version, made[-1])
        if fork.at is None:
            assert len(made) == 1 < nth
            return
        if version is Version.V1:
            own = uuids._MAKERS[version].__self__._own  # type: ignore[attr-defined]
            assert got.int & (1 << 62) - 1 == own, "those of the child"
    raise AssertionError("the call has no end")


def test_an_object_id_that_a_fork_interrupts_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ObjectId] = []

    def make() -> ObjectId:
        made.append(ObjectId())
        if len(made) < 3:
            forking._in_child()
        return made[-1]

    monkeypatch.setattr(object_ids, "ObjectId", make)
    assert new_object_id() is made[2]
    assert new_object_id() is made[3]
