"""Feeds: the latest value wins, rows are merged, failures are reported and retried, and shutdown is quick."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass_tui.shell.feed import Feed, Feeds, FeedTrouble


class NoGateway:
    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def feeds() -> Iterator[Feeds]:
    gateway = NoGateway()
    feeds = Feeds(lambda: gateway)  # type: ignore[arg-type,return-value]
    feeds.start()
    yield feeds
    feeds.close()
    assert gateway.closed


def taken(feed: Feed[Any], wanted: Callable[[Any], bool], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = feed.take()
        if value is not None and wanted(value):
            return value
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def test_the_latest_wins_and_rows_are_merged() -> None:
    latest: Feed[int] = Feed("n", None, 1)
    rows: Feed[tuple[int, ...]] = Feed("r", lambda a, b: a + b, 1)
    for n in range(3):
        latest.put(n)
        rows.put((n,))
    assert (latest.take(), latest.take()) == (2, None)
    assert (rows.take(), rows.take()) == ((0, 1, 2), None)


def test_it_ends_though_its_cancellation_is_lost(feeds: Feeds) -> None:
    ended = threading.Event()

    async def deaf(_: Any) -> AsyncIterator[int]:
        try:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
                yield 1
        finally:
            ended.set()

    feed = feeds.follow("deaf", deaf)
    taken(feed, lambda value: value == 1)
    feed.stop()
    assert ended.wait(30)


def test_it_restarts_after_errors_silence_and_the_end(feeds: Feeds) -> None:
    begun: list[int] = []

    async def shaky(_: Any) -> AsyncIterator[int]:
        begun.append(1)
        yield len(begun)
        if len(begun) == 1:
            raise ReadError("The connection to the server was lost.")
        if len(begun) == 2:
            raise ZeroDivisionError("a defect \x1b[2J")
        if len(begun) == 3:
            await asyncio.sleep(3600)

    feed = feeds.follow("shaky", shaky, silence=0.2)
    assert taken(feed, lambda n: n >= 5) >= 5
    assert feed.trouble is None or feed.trouble.lost


def test_a_trouble_keeps_its_first_time_and_ends_with_the_next_value() -> None:
    feed: Feed[int] = Feed("n", None, 1)
    feed.fail(ReadError("No server answers."))
    first = feed.trouble
    assert first is not None
    assert first.lost
    feed.fail(ReadError("No server answers."))
    assert feed.trouble is not None
    assert feed.trouble.since == first.since
    assert f"Since {first.since:%H:%M:%S}Z" in feed.trouble.line
    long = replace(first, since=first.since - timedelta(days=1, minutes=1))
    assert f"Since {long.since:%Y-%m-%d %H:%M:%S}Z" in long.line, "at this time of day it could be today"
    feed.put(1)
    assert feed.trouble is None
    feed.fail(PrivilegeError("This user may not do that."))
    assert not feed.trouble.lost
    feed.show_trouble(replace(feed.trouble, since=long.since))
    feed.fail(ReadError("No server answers."))
    assert feed.trouble.since > first.since, "it answered until now"


def test_a_feed_that_begins_while_the_server_is_lost_does_not_change_since_when(feeds: Feeds) -> None:
    async def hold(_: Any) -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0

    early, late, other = (feeds.follow(name, hold) for name in ("counters", "incidents", "oplog"))
    moments = [datetime(2026, 11, 28, 20, 25, second, tzinfo=UTC) for second in (46, 58, 50)]
    titles = ("It does not answer.", "It does not answer.", "It is full.")
    for feed, at, title in zip((early, late, other), moments, titles, strict=True):
        feed.show_trouble(FeedTrouble(title, "", at, lost=True))
    assert [(one.title, one.since.second) for one in feeds.troubles] == [(titles[0], 46), (titles[2], 50)]


def test_the_trouble_of_a_feed_is_over_once_it_is_stopped() -> None:
    feed: Feed[int] = Feed("plan", None, 60)
    feed.fail(ReadError("No data for 60 s."))
    feed.stop()
    assert feed.trouble is None


def test_a_time_out_of_the_system_is_not_taken_for_silence(feeds: Feeds) -> None:
    begun: list[int] = []

    async def on_a_share(_: Any) -> AsyncIterator[int]:
        begun.append(1)
        yield len(begun)
        raise TimeoutError("Connection timed out")

    feed = feeds.follow("sources", on_a_share, silence=3600)
    said: list[FeedTrouble] = []
    feed.show_trouble = said.append  # type: ignore[method-assign]
    taken(feed, lambda n: n >= 2)
    assert all(one.title.startswith("The sources feed stopped: TimeoutError at ") for one in said)
    assert [one.lost for one in said[:1]] == [False], "the other pages go on"


def test_what_is_shared_runs_once_and_each_reader_has_a_mailbox(feeds: Feeds) -> None:
    begun: list[int] = []
    go_on = asyncio.Event()

    async def counting(_: Any) -> AsyncIterator[int]:
        begun.append(1)
        if len(begun) > 1:
            await asyncio.sleep(3600)
        yield 1
        await go_on.wait()
        yield 2
        raise ReadError("The connection to the server was lost.")

    first = feeds.share("counting", counting)
    assert taken(first, lambda n: n == 1) == 1
    late = feeds.share("counting", counting)
    assert late.take() == 1, "what came before is there for those who come later"
    assert begun == [1]
    feeds._loop.call_soon_threadsafe(go_on.set)
    for reader in (first, late):
        assert taken(reader, lambda n: n == 2) == 2
    deadline = time.monotonic() + 30
    while not (first.trouble and late.trouble) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert first.trouble == late.trouble == feeds.troubles[0]


def test_a_scan_may_end(feeds: Feeds) -> None:
    async def scan(_: Any) -> AsyncIterator[int]:
        yield 1

    feed = feeds.follow("scan", scan, once=True)
    assert taken(feed, lambda n: n == 1)
    for _ in range(3000):
        if feed.ended:
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never ended")


async def test_reads_answer_or_say_why(feeds: Feeds) -> None:
    async def answer(_: Any) -> int:
        return 41

    async def never(_: Any) -> int:
        await asyncio.sleep(3600)
        return 0

    assert await feeds.ask(answer) == 41
    with pytest.raises(ReadError, match="No answer"):
        await feeds.ask(never, 0.05)


def test_a_hanging_server_does_not_delay_the_exit() -> None:
    class Frozen:
        async def close(self) -> None:
            await asyncio.sleep(3600)

    feeds = Feeds(Frozen)  # type: ignore[arg-type]
    feeds.start()
    assert taken(feeds.follow("numbers", numbers), lambda n: n == 1)
    feeds.close(0.05)
    feeds.close(30)
    assert not feeds._thread.is_alive()


async def clinging(_: Any) -> AsyncIterator[int]:
    yield 1
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


async def abandoning(_: Any) -> AsyncIterator[int]:
    async def call_of_the_driver() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise RuntimeError("Lock is not acquired")

    call = asyncio.ensure_future(call_of_the_driver())
    yield 1
    await asyncio.wait({call})


@pytest.mark.parametrize("feed", [clinging, abandoning])
def test_what_does_not_end_is_abandoned_in_silence(monkeypatch: pytest.MonkeyPatch, feed: Any) -> None:
    """A feed that does not let go, and a call of the driver that a feed leaves behind."""
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    feeds = Feeds(NoGateway)  # type: ignore[arg-type]
    feeds.start()
    assert taken(feeds.follow("feed", feed), lambda n: n == 1)
    feeds.close(30)
    del feeds
    gc.collect()
    assert [str(one.exc_value) for one in said] == []


async def numbers(_: Any) -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(3600)


def test_a_connection_string_that_cannot_be_used_is_fatal() -> None:
    def refuse() -> Any:
        raise InputError("That is no connection string.")

    feeds = Feeds(refuse)
    feeds.start()
    for _ in range(3000):
        if feeds.fatal:
            break
        threading.Event().wait(0.01)
    feeds.close()
    assert str(feeds.fatal) == "That is no connection string."
