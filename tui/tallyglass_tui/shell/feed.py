"""Core feeds in one background thread with its own event loop.

A stalled terminal does not stall a feed, and a slow server does not stall a key. What a feed yields waits in a mailbox
until the screen takes it: a newer snapshot replaces an older one, and rows are merged up to a limit.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tallyglass.connection.target import Target
from tallyglass.errors import ConnectError, ReadError, TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.terminal.daemon_threads import DaemonThreadExecutor

if TYPE_CHECKING:
    from tallyglass_tui.shell.recording import Recorder

T = TypeVar("T")

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
"""Seconds before a feed that failed begins again, doubled each time: every page shows new values within 10 s."""

_CLOSE_SECONDS = 0.5
"""How many seconds the feeds, and then the client, may take to end: the server may hang."""


@dataclass(frozen=True, slots=True)
class FeedTrouble:
    """Why a feed delivers nothing, and since when. ``lost`` means that the server may come back on its own."""

    title: str
    advice: str
    since: datetime
    lost: bool

    @property
    def line(self) -> str:
        """One line for the banner."""
        since = f" {fmt.since(self.since)}, trying again." if self.lost else ""
        return f"{self.title}{since} {self.advice}".rstrip()


class Feed(Generic[T]):
    """One running feed as the screen sees it. Safe to use from both threads."""

    def __init__(self, name: str, merge: Callable[[T, T], T] | None, silence: float, subject: str = "") -> None:
        self.name = name
        self.subject = subject
        self.silence = silence
        self.ended = False
        self.stopped = False
        self._merge = merge
        self._lock = threading.Lock()
        self._value: T | None = None
        self.latest: T | None = None
        """The last value, if values replace each other; None if they are merged: keeping it would hold every row."""
        self._trouble: FeedTrouble | None = None
        self._heard: float | None = None
        self._readers: list[Feed[T]] = []
        self._future: concurrent.futures.Future[None] | None = None

    @property
    def merges(self) -> bool:
        """Whether values are joined, rather than the latest kept."""
        return self._merge is not None

    def take(self) -> T | None:
        """The value that arrived since the last call, or None."""
        with self._lock:
            value, self._value = self._value, None
        return value

    @property
    def trouble(self) -> FeedTrouble | None:
        """The current problem; None while it delivers, and once it is stopped: then nobody tries again."""
        return None if self.stopped else self._trouble

    @property
    def silent_seconds(self) -> float | None:
        """Seconds since it last delivered; None before the first time."""
        return None if self._heard is None else time.monotonic() - self._heard

    def put(self, value: T) -> None:
        """Put a value into the mailbox."""
        with self._lock:
            self._value = value if self._merge is None or self._value is None else self._merge(self._value, value)
            self.latest = value if self._merge is None else None
            readers = tuple(self._readers)
        self._heard = time.monotonic()
        self._trouble = None
        for reader in readers:
            reader.put(value)

    def fail(self, error: TallyglassError) -> None:
        """Record why nothing arrives; keeps the time of the first failure, or since when the server is lost."""
        before, lost = self._trouble, isinstance(error, (ReadError, ConnectError))
        since = before.since if before and before.lost is lost else datetime.now(UTC)
        self.show_trouble(FeedTrouble(error.title, error.advice, since, lost))

    def show_trouble(self, trouble: FeedTrouble) -> None:
        """Set the current problem."""
        self._trouble = trouble
        for reader in tuple(self._readers):
            reader._trouble = trouble

    def reader(self) -> Feed[T]:
        """A second mailbox that receives what this one receives, including its present content."""
        other = Feed(self.name, self._merge, self.silence)
        with self._lock:
            other._value, other._heard, other._trouble = self._value, self._heard, self._trouble
            self._readers.append(other)
        return other

    def stop(self) -> None:
        """End the feed. Values in the mailbox stay there."""
        self.stopped = True
        if self._future:
            self._future.cancel()


def open_target(target: Target, **options: Any) -> Gateway:
    """The gateway to a target. The driver comes with it: call it in the background thread. ``options`` go to the
    client. Raises ConnectError."""
    from tallyglass.mongo.client import open_deployment

    return open_deployment(target, **options)


class Feeds:
    """The background thread, the gateway in it, and the feeds that run there. ``record`` keeps what they deliver."""

    def __init__(self, open_gateway: Callable[[], Gateway], record: Recorder | None = None) -> None:
        self._open = open_gateway
        self._record = record
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreadExecutor())
        self._gateway: asyncio.Future[Gateway] = self._loop.create_future()
        self._feeds: dict[str, Feed[Any]] = {}
        self._thread = threading.Thread(target=self._run, name="tallyglass-feeds", daemon=True)
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.fatal: TallyglassError | None = None
        """Set if no gateway could be created: the connection string is invalid."""

    def start(self) -> None:
        """Start the thread; the driver is imported and the gateway made there."""
        self._thread.start()

    def follow(
        self,
        name: str,
        make: Callable[[Gateway], AsyncIterator[T]],
        *,
        merge: Callable[[T, T], T] | None = None,
        silence: float = 60.0,
        once: bool = False,
        subject: str = "",
    ) -> Feed[T]:
        """Run ``make`` and start it again whenever it fails, ends, or says nothing for ``silence`` seconds.

        ``once`` lets it end. A feed that already runs under ``name`` is stopped. ``subject`` tells feeds of one name
        apart in a recording: a filter, the point of a plan.
        """
        feed: Feed[T] = Feed(name, merge, silence, subject)
        before = self._feeds.get(name)
        if before:
            before.stop()
        self._feeds[name] = feed
        feed._future = self._submit(self._keep_running(feed, make, once))
        return feed

    def share(self, name: str, make: Callable[[Gateway], AsyncIterator[T]], *, silence: float = 60.0) -> Feed[T]:
        """Like :meth:`follow`, but one run for all callers with the same ``name``: each gets its own mailbox with the
        latest value."""
        # No caller takes from the running feed itself, so it holds the latest value.
        running = self._feeds.get(name) or self.follow(name, make, silence=silence)
        return running.reader()

    async def ask(self, make: Callable[[Gateway], Awaitable[T]], seconds: float = 30.0) -> T:
        """Run one read in the background thread and wait for it here. Raises TallyglassError."""

        async def bounded() -> T:
            gateway = await asyncio.shield(self._gateway)
            async with asyncio.timeout(seconds):
                return await make(gateway)

        try:
            return await asyncio.wrap_future(self._submit(bounded()))
        except TimeoutError:
            raise ReadError(f"No answer within {seconds:.0f} s.") from None

    @property
    def record_ended(self) -> str:
        """Why what they deliver is not recorded any more, in one sentence; empty where it is, or was never wanted."""
        return self._record.ended if self._record else ""

    def latest(self, name: str, kind: type[T]) -> T | None:
        """The latest value of the feed with this name; None before the first, and for a feed of another kind."""
        feed = self._feeds.get(name)
        return feed.latest if feed and isinstance(feed.latest, kind) else None

    @property
    def troubles(self) -> tuple[FeedTrouble, ...]:
        """The current problems of all feeds, each sentence once, since when it began first; the oldest first."""
        found: dict[str, FeedTrouble] = {}
        for trouble in sorted((feed.trouble for feed in self._feeds.values() if feed.trouble), key=attrgetter("since")):
            found.setdefault(trouble.title, trouble)
        return tuple(found.values())

    def close(self, seconds: float = 1.2) -> None:
        """Stop all feeds and the thread; wait at most ``seconds``, since a frozen server may not let go."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        if not self._closing:
            self._closing = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(seconds)

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(self._noted(work), self._loop)

    async def _noted(self, work: Coroutine[Any, Any, T]) -> T:
        """``work``, as a task that :meth:`close` may cancel; the driver's own tasks are left alone."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            return await work
        finally:
            self._tasks.discard(task)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._make_gateway)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._wind_up())
            self._loop.close()

    def _make_gateway(self) -> None:
        try:
            self._gateway.set_result(self._open())
        except TallyglassError as error:
            self.fatal = error
            self._gateway.cancel()

    async def _wind_up(self) -> None:
        # Tasks that do not end in time are abandoned: asyncio's messages about them would land on the user's terminal.
        self._loop.set_exception_handler(lambda *_: None)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        if self._gateway.done() and not self._gateway.cancelled():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._gateway.result().close()
        if asyncio.all_tasks() - {asyncio.current_task()}:
            # So would what is left say when it is thrown away as the process ends: feeds that hang, and calls of the
            # driver, which a feed that ends abandons without cancelling them.
            sys.unraisablehook = lambda _: None

    async def _keep_running(self, feed: Feed[T], make: Callable[[Gateway], AsyncIterator[T]], once: bool) -> None:
        gateway = await asyncio.shield(self._gateway)
        delay = _FIRST_DELAY
        while not feed.stopped:
            values = make(gateway)
            try:
                while not feed.stopped:
                    async with asyncio.timeout(feed.silence) as patience:
                        value = await anext(values)
                    recovered = feed.trouble is not None
                    feed.put(value)
                    self._keep(feed, value, recovered=recovered)
                    delay = _FIRST_DELAY
            except StopAsyncIteration:
                if once:
                    feed.ended = True
                    return
            except TimeoutError as error:  # of the system, such as a file on a share that hangs, if patience lasts
                silent = ReadError(f"No data for {feed.silence:.0f} s.")
                feed.fail(silent if patience.expired() else _unexpected(feed.name, error))
            except TallyglassError as error:
                feed.fail(error)
            except Exception as error:  # noqa: BLE001 - the outermost guard of a feed: it reports and restarts
                feed.fail(_unexpected(feed.name, error))
            finally:
                await _close(values)
            if feed.trouble:
                self._keep(feed, feed.trouble)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    def _keep(self, feed: Feed[T], value: T | FeedTrouble, *, recovered: bool = False) -> None:
        if self._record and isinstance(value, FeedTrouble):
            self._record.put(trouble_of(feed.name), feed.subject, value)
        elif self._record:
            self._record.put(feed.name, feed.subject, value, feed._merge, recovered=recovered)


def trouble_of(feed: str) -> str:
    """The name under which a recording keeps the problems of a feed."""
    return f"{feed}: trouble"


def _unexpected(name: str, error: Exception) -> TallyglassError:
    """A defect, or this machine: no ReadError, by which all pages would take the server for lost."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{place.tb_lineno}" if place else "?"
    return TallyglassError(
        f"The {name} feed stopped: {type(error).__name__} at {where}.", f"{clean(str(error), 120)} It is restarted."
    )


async def _close(values: AsyncIterator[T]) -> None:
    close = getattr(values, "aclose", None)
    # A task that was abandoned in the middle of a value leaves its generator marked as running: it cannot be closed.
    if close and not getattr(values, "ag_running", False):
        await close()
