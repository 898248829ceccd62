"""The client for all reads, and its replacement when it stops answering.

Driver calls are never cancelled. On CPython before 3.12, ``asyncio.wait_for`` runs its awaitable as a separate task. A
second cancellation ends the outer call while the inner one re-acquires a lock of the client and never releases it;
every later call on that client then waits forever. Each call therefore runs in its own task (:meth:`Session.begin`),
limited by the driver's timeouts, and runs to its end even if no caller waits for it any more.

A client may still stop answering. If calls get no answer for some time, the client is sent a ``hello``, and if that
gets no answer, so is a new client. If only the new client gets an answer, it replaces the old one. Calls that wait on
the old client then fail with a ReadError and may be retried at once.

If the first ``hello`` gets no answer, the addresses in the connection string are asked directly; see
:mod:`tallyglass.mongo.alone`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pymongo.errors import ConnectionFailure
from pymongo.read_preferences import Nearest

from tallyglass.errors import ReadError, TallyglassError
from tallyglass.mongo.alone import Alone, cut_off
from tallyglass.mongo.client_certificate import ClientCertificate

T = TypeVar("T")

SUSPICIOUS_SECONDS = 4.0
"""The client is examined after a call has waited, or calls have failed, for this long."""

PING_SECONDS = 2.0
"""How long an examined client may take to answer ``hello``."""

CANDIDATE_SECONDS = 4.0
"""How long a new client may take to connect and answer ``hello``."""

SEEDS_AFTER_SECONDS = 0.7
"""How long the first ``hello`` may take before the addresses that the set does not name are asked."""

_CLOSE_SECONDS = 5.0
"""How long a client may take to close: it looks for a server to end its sessions."""

_RELEASE_SECONDS = 2.0
"""How long closing a cursor is awaited; it is closed later all the same."""

_PAUSE_SECONDS = 1.0
"""How long after an examination none begins: all waiting calls ask for one at once."""

_running: set[asyncio.Future[Any]] = set()
"""Unfinished calls. The event loop holds only weak references to tasks."""


@dataclass(frozen=True, slots=True)
class OpenClient:
    """A client (AsyncMongoClient or AsyncIOMotorClient) and its TLS certificate."""

    client: Any
    certificate: ClientCertificate | None = None


class Session:
    """One client while it is in use, and the state of its answers."""

    def __init__(self, opened: OpenClient, examine: Callable[[Session], None]) -> None:
        self.client = opened.client
        self.certificate = opened.certificate
        self.answered = time.monotonic()
        self._examine = examine
        self._silent_since: float | None = None
        self._replaced = False
        self._news: asyncio.Future[None] | None = None

    def begin(self, answer: Awaitable[T]) -> asyncio.Future[T]:
        """Start a driver call as a separate task that is never cancelled."""
        call = asyncio.ensure_future(answer)
        _running.add(call)
        call.add_done_callback(_ended)
        return call

    async def call(self, answer: Awaitable[T]) -> T:
        """Return the result of a driver call. Raises the driver's errors, and ReadError if no server answers.

        A cancelled caller abandons the call. A call may take as long as its own limits allow while the client answers
        other calls.
        """
        return await self.answer(self.begin(answer))

    async def answer(self, call: asyncio.Future[T]) -> T:
        """Like :meth:`call`, for a call that was started by :meth:`begin`."""
        began = time.monotonic()
        while True:
            if call.done():
                return self._heard(call)
            if self._replaced:
                raise ReadError("The connection stopped answering and was replaced.", "The read is retried.")
            waits: set[asyncio.Future[Any]] = {call, self._next_change()}
            await asyncio.wait(waits, timeout=SUSPICIOUS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                continue
            if self._silent_since is not None and self._silent_since >= began:
                raise ReadError(f"No server has answered for {time.monotonic() - self.answered:.0f} s.")
            if time.monotonic() - began >= SUSPICIOUS_SECONDS:
                self._examine(self)

    def _heard(self, call: asyncio.Future[T]) -> T:
        error = call.exception()
        if not isinstance(error, ConnectionFailure):
            self.answered = time.monotonic()
        elif time.monotonic() - self.answered >= SUSPICIOUS_SECONDS:
            self._examine(self)
        return call.result()

    async def pings(self, seconds: float) -> bool:
        """Whether any server answers ``hello`` within ``seconds``."""
        hello = self.begin_hello()
        await asyncio.wait({hello}, timeout=seconds)
        if hello.done() and hello.exception() is None:
            self.answered = time.monotonic()
            return True
        return False

    def begin_hello(self) -> asyncio.Future[Mapping[str, Any]]:
        """Start to ask any server for ``hello``."""
        limit = int(CANDIDATE_SECONDS * 1_000)
        return self.begin(self.client.admin.command("hello", maxTimeMS=limit, read_preference=Nearest()))

    def fail_waiting_calls(self, began: float) -> None:
        """Fail the waiting calls: no server answers, not even to a new client created at ``began`` or later."""
        self._silent_since = began
        self._wake()

    def retire(self) -> None:
        """Fail the waiting calls, since another client has replaced this one."""
        self._replaced = True
        self._wake()

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Close the client. Give up after ``seconds``."""
        await asyncio.wait({self.begin(_awaited(self.client.close()))}, timeout=seconds)

    def _next_change(self) -> asyncio.Future[None]:
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Link:
    """The session in use on one deployment. ``open_client`` creates a client without sending anything.

    At most two clients exist: the one in use, and one that is being tried or closed. ``seeds`` create a client for one
    address of the connection string alone, by that address; ``set_name`` is the set that it names, or empty. ``tell``
    is called once if one of them is read.
    """

    def __init__(
        self,
        open_client: Callable[[], OpenClient],
        seeds: Mapping[str, Callable[[], OpenClient]] | None = None,
        set_name: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._open = open_client
        self._seeds = seeds or {}
        self._set_name = set_name
        self._tell = tell
        self._settling: asyncio.Task[None] | None = None
        self._examination: asyncio.Task[None] | None = None
        self._paused_until = 0.0
        self._closed = False
        self._other: Session | None = None
        self.replacements = 0
        """The number of clients replaced so far."""
        self.alone: Alone | None = None
        """The member that is read directly because the names of its set cannot be reached."""
        self.session = Session(open_client(), self._suspect)

    async def ready(self) -> Session:
        """The session in use, once a server has answered. Raises the driver's errors."""
        if self._seeds and not self._closed:
            if self._settling is None or self._settling.done():
                # Use a separate context: that of the caller may select a single member.
                self._settling = asyncio.get_running_loop().create_task(self._settle(), context=Context())
            await asyncio.shield(self._settling)
        return self.session

    async def close(self) -> None:
        """Close the client and create no new one."""
        self._closed = True
        for session in filter(None, (self._other, self.session)):
            await session.close()

    async def _settle(self) -> None:
        """Wait for the first answer; read one of the seeds alone if the members that it names cannot be reached."""
        hello, asked = self.session.begin_hello(), False
        while not hello.done():
            await asyncio.wait({hello}, timeout=SEEDS_AFTER_SECONDS)
            unnamed = [seed for seed in self._seeds if not hello.done() and not self._is_named(seed)]
            if unnamed and not asked:
                asked = True
                for seed in unnamed:
                    if await self._reads_alone(seed):
                        return
        error = hello.exception()
        if isinstance(error, ConnectionFailure):
            raise error
        self._seeds = {}

    def _is_named(self, seed: str) -> bool:
        """Whether the driver still asks this seed: it drops those that are not among the names of the set."""
        known = self.session.client.topology_description.server_descriptions()
        return seed.replace("[", "").replace("]", "") in {":".join(map(str, address)) for address in known}

    async def _reads_alone(self, address: str) -> bool:
        """Whether this seed is the only way to its set, and now in use. Raises the errors of a login and of cut_off."""
        open_seed = self._seeds[address]
        seed = self._other = Session(open_seed(), self._suspect)
        hello = seed.begin_hello()
        await asyncio.wait({hello}, timeout=CANDIDATE_SECONDS)
        alone = None
        try:
            if hello.done() and not isinstance(hello.exception(), ConnectionFailure):
                alone = await cut_off(address, hello.result(), self._set_name)
            if alone and not self._closed:
                self.session, self._other = seed, self.session
                self._open, self._seeds, self.alone = open_seed, {}, alone
                self._other.retire()
                if self._tell:
                    self._tell(str(alone))
        finally:
            await self._other.close()
            self._other = None
        return alone is not None

    def _suspect(self, session: Session) -> None:
        """Examine a session, unless an examination is running or has just finished."""
        busy = self._examination is not None and not self._examination.done()
        if busy or self._closed or session is not self.session or time.monotonic() < self._paused_until:
            return
        # Use a separate context: that of the caller may select a single member.
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
            session.fail_waiting_calls(began)
            return
        connected = await candidate.pings(CANDIDATE_SECONDS)
        answers = session.answered > began or (connected and await session.pings(PING_SECONDS))
        if connected and not answers and not self._closed:
            self.session, self._other = candidate, session
            self.replacements += 1
            session.retire()
        elif not connected and not answers:
            session.fail_waiting_calls(began)
        await self._other.close()
        self._other = None


class HeldCursor:
    """A driver cursor on one session. It runs one call at a time, and is closed after the last one has finished.

    ``on_open`` is called with ``host:port`` of the cursor's member before the first batch.
    """

    def __init__(self, session: Session, cursor: Any, on_open: Callable[[str], None] | None = None) -> None:
        self._session = session
        self._cursor = cursor
        self._on_open = on_open
        self._call: asyncio.Future[Any] | None = None

    @property
    def alive(self) -> bool:
        """Whether the cursor may return more."""
        return bool(self._cursor.alive)

    @property
    def resume_token(self) -> str:
        """The resume token after the last event of a change stream; empty before it has one."""
        token = self._cursor.resume_token
        return str(token["_data"]) if token else ""

    async def rows(self, most: int) -> list[Any]:
        """Return at most ``most`` further rows; empty at the end."""
        return cast("list[Any]", await self._answer(self._cursor.to_list(most)))

    async def batch(self) -> bytes | None:
        """Return the next undecoded batch, or None at the end or if a tailable cursor has nothing new."""
        found = cast("bytes | None", await self._answer(anext(self._cursor, None)))
        if self._on_open and self._cursor.address:
            self._on_open(":".join(map(str, self._cursor.address)))
            self._on_open = None
        return found

    async def changes(self, most: int) -> list[Any]:
        """Return at most ``most`` further events of a change stream; empty if there is nothing new."""
        return cast("list[Any]", await self._answer(_changes(self._cursor, most)))

    async def close(self) -> None:
        """Close the cursor on the server. A call that hangs is abandoned, and the cursor is closed after it."""
        if not self.alive and self._call is not None and self._call.done():
            return  # the driver closed it with the last answer
        closing = self._session.begin(self._close_after(self._call))
        await asyncio.wait({closing}, timeout=_RELEASE_SECONDS)

    async def _answer(self, answer: Awaitable[T]) -> T:
        self._call = self._session.begin(answer)
        return cast(T, await self._session.answer(self._call))

    async def _close_after(self, call: asyncio.Future[Any] | None) -> None:
        if call is not None and not call.done():
            await asyncio.wait({call})
        await _awaited(self._cursor.close())


async def _changes(stream: Any, most: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < most and (event := await stream.try_next()) is not None:
        found.append(event)
    return found


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _ended(call: asyncio.Future[Any]) -> None:
    _running.discard(call)
    # Retrieve the error of an abandoned call; asyncio would report it otherwise.
    with suppress(asyncio.CancelledError):
        call.exception()
