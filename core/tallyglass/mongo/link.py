"""The client that every read goes through, and its replacement when it no longer answers.

No call of the driver is ever cancelled. On CPython before 3.12 ``asyncio.wait_for`` runs what it waits for as a task of
its own; a second cancellation ends the outer call while the inner one re-acquires a lock of the client and never
releases it: from then on every call on that client waits for ever. So each call runs in a task of its own
(:meth:`Session.begin`), bounded by the driver's time limits, and is left to end by itself when nobody waits for it.

A client may stop answering all the same. When calls have had no answer for a while, the client is asked for ``hello``,
and if it stays silent, so is a new client. Where only the new one gets an answer, it takes the old one's place for
everybody; calls that wait on the old one fail with a ReadError and may be made again at once.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from pymongo.errors import ConnectionFailure
from pymongo.read_preferences import Nearest

from tallyglass.errors import ReadError, TallyglassError
from tallyglass.mongo.client_certificate import ClientCertificate

T = TypeVar("T")

SUSPICIOUS_SECONDS = 4.0
"""A call without an answer for so long, or calls that fail for so long, have the client examined."""

PING_SECONDS = 2.0
"""How long a client that is examined may take to answer ``hello``."""

CANDIDATE_SECONDS = 4.0
"""How long a new client may take to connect and answer ``hello``."""

_CLOSE_SECONDS = 5.0
_RELEASE_SECONDS = 2.0
_PAUSE_SECONDS = 1.0

_running: set[asyncio.Future[Any]] = set()
"""Calls that have not ended: the event loop itself holds tasks only weakly."""


@dataclass(frozen=True, slots=True)
class OpenClient:
    """A client (AsyncMongoClient or AsyncIOMotorClient) and the TLS certificate that it shows."""

    client: Any
    certificate: ClientCertificate | None = None


class Session:
    """One client for as long as it is in use, and what is known about its answers."""

    def __init__(self, opened: OpenClient, examine: Callable[[Session], None] | None = None) -> None:
        self.client = opened.client
        self.certificate = opened.certificate
        self.answered = time.monotonic()
        self._examine = examine
        self._silent_since: float | None = None
        self._replaced = False
        self._news: asyncio.Future[None] | None = None

    def begin(self, answer: Awaitable[T]) -> asyncio.Future[T]:
        """Start a call of the driver as a task of its own, which nobody cancels."""
        call = asyncio.ensure_future(answer)
        _running.add(call)
        call.add_done_callback(_ended)
        return call

    async def call(self, answer: Awaitable[T]) -> T:
        """The answer of a call of the driver. Raises what the driver raises, and ReadError where nobody answers.

        A caller that is cancelled leaves the call behind. A call may take as long as its own limits allow, as long as
        the client answers others.
        """
        return await self.answer(self.begin(answer))

    async def answer(self, call: asyncio.Future[T]) -> T:
        """As :meth:`call`, for a call that was begun."""
        began = time.monotonic()
        while True:
            if call.done():
                return self._heard(call)
            if self._replaced:
                raise ReadError("The connection stopped answering and was replaced.", "It is asked again.")
            waits: set[asyncio.Future[Any]] = {call, self._next_news()}
            await asyncio.wait(waits, timeout=SUSPICIOUS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                continue
            if self._silent_since is not None and self._silent_since >= began:
                raise self._silence()
            if self._examine and time.monotonic() - began >= SUSPICIOUS_SECONDS:
                self._examine(self)

    def _heard(self, call: asyncio.Future[T]) -> T:
        error = call.exception()
        if not isinstance(error, ConnectionFailure):
            self.answered = time.monotonic()
        elif self._examine and time.monotonic() - self.answered >= SUSPICIOUS_SECONDS:
            self._examine(self)
        return call.result()

    def _silence(self) -> ReadError:
        seconds = time.monotonic() - self.answered
        since = datetime.fromtimestamp(time.time() - seconds, UTC)
        return ReadError(f"No server has answered for {seconds:.0f} s (since {since:%H:%M:%S}Z).")

    async def pings(self, seconds: float) -> bool:
        """Whether the client gets an answer to ``hello`` from any server in so many seconds."""
        hello = self.begin(self.client.admin.command("hello", read_preference=Nearest()))
        await asyncio.wait({hello}, timeout=seconds)
        if hello.done() and hello.exception() is None:
            self.answered = time.monotonic()
            return True
        return False

    def say_silent(self, began: float) -> None:
        """No server answers, not even a new client that was made at ``began`` or later: whoever waits is told."""
        self._silent_since = began
        self._wake()

    def retire(self) -> None:
        """Another client has taken the place of this one: whoever waits is told."""
        self._replaced = True
        self._wake()

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Close the client. One that does not let go in time is left behind."""
        await asyncio.wait({self.begin(_awaited(self.client.close()))}, timeout=seconds)

    def _next_news(self) -> asyncio.Future[None]:
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Link:
    """The session in use on one deployment. ``open_client`` makes a client without sending anything.

    At most two clients exist: the one in use, and one that is tried or being closed.
    """

    def __init__(self, open_client: Callable[[], OpenClient]) -> None:
        self._open = open_client
        self._examination: asyncio.Task[None] | None = None
        self._paused_until = 0.0
        self._closed = False
        self._other: Session | None = None
        self.replacements = 0
        """How many clients were replaced so far."""
        self.session = Session(open_client(), self._suspect)

    async def close(self) -> None:
        """Close the client, and make no new one."""
        self._closed = True
        for session in filter(None, (self._other, self.session)):
            await session.close()

    def _suspect(self, session: Session) -> None:
        """Have a session examined, unless that is going on or was done a moment ago."""
        busy = self._examination is not None and not self._examination.done()
        if busy or self._closed or session is not self.session or time.monotonic() < self._paused_until:
            return
        # In a context of its own: the caller's may ask for one member alone.
        self._examination = asyncio.get_running_loop().create_task(self._run_examination(session), context=Context())

    async def _run_examination(self, session: Session) -> None:
        try:
            await self._examine(session)
        finally:
            self._paused_until = time.monotonic() + _PAUSE_SECONDS

    async def _examine(self, session: Session) -> None:
        if await session.pings(PING_SECONDS) or self._closed:
            return
        began = time.monotonic()
        try:
            candidate = self._other = Session(self._open(), self._suspect)
        except TallyglassError:
            session.say_silent(began)
            return
        connected = await candidate.pings(CANDIDATE_SECONDS)
        answers = session.answered > began or (connected and await session.pings(PING_SECONDS))
        if connected and not answers and not self._closed:
            self.session, self._other = candidate, session
            self.replacements += 1
            session.retire()
        elif not connected and not answers:
            session.say_silent(began)
        await self._other.close()
        self._other = None


class HeldCursor:
    """A cursor of the driver on one session: one call at a time, and closed after the last of them has ended."""

    def __init__(self, session: Session, cursor: Any) -> None:
        self._session = session
        self._cursor = cursor
        self._call: asyncio.Future[Any] | None = None

    @property
    def alive(self) -> bool:
        """Whether more may come."""
        return bool(self._cursor.alive)

    @property
    def member(self) -> str:
        """``host:port`` of the member that carries it; empty before the first answer."""
        return ":".join(map(str, self._cursor.address)) if self._cursor.address else ""

    async def rows(self, most: int) -> list[Any]:
        """The next rows, ``most`` at most; empty at the end."""
        return cast("list[Any]", await self._answer(self._cursor.to_list(most)))

    async def batch(self) -> bytes | None:
        """The next undecoded batch; None at the end, and where a tailable cursor has nothing new."""
        return cast("bytes | None", await self._answer(_next(self._cursor)))

    async def close(self) -> None:
        """Close it on the server. A call that hangs is left behind, and the cursor is closed after it."""
        closing = self._session.begin(self._close_after(self._call))
        await asyncio.wait({closing}, timeout=_RELEASE_SECONDS)

    async def _answer(self, answer: Awaitable[T]) -> T:
        self._call = self._session.begin(answer)
        return cast(T, await self._session.answer(self._call))

    async def _close_after(self, call: asyncio.Future[Any] | None) -> None:
        if call is not None and not call.done():
            await asyncio.wait({call})
        await _awaited(self._cursor.close())


async def _next(cursor: Any) -> Any:
    return await anext(cursor, None)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _ended(call: asyncio.Future[Any]) -> None:
    _running.discard(call)
    # What a call raises that nobody waits for any more is of no interest; unread, asyncio would report it.
    with suppress(asyncio.CancelledError):
        call.exception()
