"""The gateway over a real deployment: PyMongo's AsyncMongoClient, or Motor's client."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from bson import Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import CursorType
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, Primary, PrimaryPreferred, SecondaryPreferred

from tallyglass.errors import ReadError
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.driver_errors import NAMESPACE_NOT_FOUND, family, lacks_privilege
from tallyglass.mongo.gateway import (
    DEFAULT_TIME_MS,
    GET_MORE_SECONDS,
    ONLY_VALUE,
    RAW_BATCH,
    READ_COMMANDS,
    READ_STAGES,
    CollectionInfo,
    Document,
    Extent,
    Namespace,
)
from tallyglass.mongo.link import HeldCursor, Link, Session

_ROWS_A_CALL = 1_000
"""Rows, or events, of one call of the driver: each call is a task of its own."""
_EVENT_PARTS = ("clusterTime", "documentKey", "fullDocumentBeforeChange", "operationType")
"""The requested fields of an event: with the full document and the update it could exceed 16 MB."""
# The limit until the first batch of a tail: with a filter, the first match may be far from the start.
_SEEK_MS = 60_000
_PREFERS_PRIMARY = (Primary().mode, PrimaryPreferred().mode)


class MongoGateway:
    """Reads through the client of a link, which it closes in :meth:`close`.

    That is an AsyncMongoClient or an AsyncIOMotorClient; both have the same methods, but some of them are coroutines in
    one and plain functions in the other. ``open_sibling`` opens another replica set of the same cluster by its hosts
    and its name. ``own_preference`` means that the connection string chooses the members to read from, which then
    comes before ``prefer_secondary``.
    """

    def __init__(
        self,
        link: Link,
        *,
        open_sibling: Callable[[str, str], MongoGateway] | None = None,
        own_preference: bool = False,
    ) -> None:
        self.link = link
        self._open_sibling = open_sibling
        self._siblings: dict[tuple[str, str], MongoGateway] = {}
        self._own_preference = own_preference
        self._since: Timestamp | None = None

    def sibling(self, hosts: str, set_name: str) -> MongoGateway:
        """The gateway to another replica set of the same cluster, with the same user; closed together with this one."""
        if self._open_sibling is None:
            raise ValueError("this gateway was made without a way to open others")
        key = (hosts, set_name)
        if key not in self._siblings:
            self._siblings[key] = self._open_sibling(hosts, set_name)
        return self._siblings[key]

    async def command(
        self,
        name: str,
        value: object = 1,
        *,
        db: str = "admin",
        time_ms: int = DEFAULT_TIME_MS,
        member: str = "",
        **fields: object,
    ) -> Document:
        if name not in READ_COMMANDS or value != ONLY_VALUE.get(name, value):
            raise ValueError(f"{name!r} is not a command that only reads")
        body = {name: value, **fields, "maxTimeMS": time_ms}
        how = _anywhere(member)
        async with self._session(f"command {name}", member) as session:
            answer = cast(Document, await session.call(session.client[db].command(body, codec_options=CODEC, **how)))
            if name == "hello" and not member:
                # It comes from the primary, and a read may go to a member that does not have yet what it told.
                self._read_from(session, answer, _majority(answer))
        return answer

    async def inspect(
        self, stage: str, options: Document, *, limit: int, time_ms: int = DEFAULT_TIME_MS, member: str = ""
    ) -> list[Document]:
        if stage not in READ_STAGES:
            raise ValueError(f"{stage!r} is not a stage that only reads")
        async with self._session(stage, member) as session:
            admin = session.client.get_database("admin", codec_options=CODEC, **_anywhere(member))
            rows = admin.aggregate([{stage: options}, {"$limit": limit}], maxTimeMS=time_ms)
            return await session.call(_all_rows(rows))

    async def catch_up(self) -> float | None:
        async with self._session("command hello") as session:
            hello = {"hello": 1, "maxTimeMS": DEFAULT_TIME_MS}
            how = {"read_preference": PrimaryPreferred(), "codec_options": CODEC}
            answer = await session.call(session.client.admin.command(hello, **how))
            self._read_from(session, answer, answer.get("operationTime"))
        clock = answer.get("localTime")
        return clock.timestamp() if isinstance(clock, datetime) else None

    def _read_from(self, session: Session, hello: Document, at: object) -> None:
        """From here on read nothing as it was before ``at``, a time of the server that answered ``hello``."""
        # A shard that is idle has its primary write an entry into the oplog before it answers a router that waits.
        may_wait = hello.get("msg") != "isdbgrid" or session.client.read_preference.mode not in _PREFERS_PRIMARY
        if isinstance(at, Timestamp) and at.time and "$clusterTime" in hello and may_wait:
            self._since = max(at, self._since or at)

    def members(self) -> tuple[str, ...]:
        # Not the client's nodes: an arbiter is among them, which it never sends a read.
        known = self.link.session.client.topology_description.readable_servers
        return tuple(sorted(f"{one.address[0]}:{one.address[1]}" for one in known))

    async def list_databases(self) -> list[str]:
        async with self._session("listDatabases") as session:
            answer = session.client.list_databases(nameOnly=True, maxTimeMS=DEFAULT_TIME_MS)
            return [str(row["name"]) for row in await session.call(_all_rows(answer))]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        async def rows(**how: bool) -> list[Document]:
            return await session.call(_all_rows(session.client[db].list_collections(maxTimeMS=DEFAULT_TIME_MS, **how)))

        async with self._session("listCollections") as session:
            try:
                found = await rows()
            except OperationFailure as error:
                if not lacks_privilege(error):
                    raise
                found = await rows(nameOnly=True, authorizedCollections=True)
        return [
            CollectionInfo(
                Namespace(db, row["name"]), row.get("type", "collection"), row.get("options"), _uuid(row.get("info"))
            )
            for row in found
        ]

    async def list_indexes(self, ns: Namespace) -> list[Document]:
        async with self._session(f"listIndexes on {ns}") as session:
            # The driver's own method takes no deadline. All indexes of a collection, 64 at most, are in one batch.
            body = {"listIndexes": ns.collection, "cursor": {}, "maxTimeMS": DEFAULT_TIME_MS}
            try:
                answer = await session.call(session.client[ns.db].command(body, codec_options=CODEC))
            except OperationFailure as error:
                if error.code == NAMESPACE_NOT_FOUND:
                    return []
                raise
            return cast("list[Document]", answer["cursor"]["firstBatch"])

    async def estimate(self, ns: Namespace) -> int:
        async with self._session(f"count of {ns}") as session:
            count = _collection(session, ns).estimated_document_count(maxTimeMS=DEFAULT_TIME_MS)
            return int(await session.call(count))

    async def count(self, ns: Namespace, *, time_ms: int = DEFAULT_TIME_MS) -> int:
        async with self._session(f"count of {ns}") as session:
            return int(await session.call(_collection(session, ns).count_documents({}, maxTimeMS=time_ms)))

    async def extent(self, ns: Namespace, query: Document, *, most: int, time_ms: int = DEFAULT_TIME_MS) -> Extent:
        total = {"_id": None, "documents": {"$sum": 1}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}}
        stages = [{"$match": query}, {"$limit": most}, {"$group": total}]
        async with self._session(f"aggregate on {ns}") as session:
            rows = await session.call(_all_rows(_collection(session, ns).aggregate(stages, maxTimeMS=time_ms)))
        return Extent(int(rows[0]["documents"]), int(rows[0]["bytes"])) if rows else Extent(0, 0)

    async def find_one(
        self,
        ns: Namespace,
        query: Document,
        *,
        projection: Document | None = None,
        sort: Sequence[tuple[str, int]] = (),
        time_ms: int = DEFAULT_TIME_MS,
        member: str = "",
    ) -> Document | None:
        async with self._session(f"find on {ns}", member) as session:
            how = _anywhere(member) if member else self._as_of_now(session)
            found = _collection(session, ns, **how).find_one(
                query, projection=projection, sort=list(sort) or None, max_time_ms=time_ms
            )
            return cast("Document | None", await session.call(found))

    async def find(
        self,
        ns: Namespace,
        query: Document,
        *,
        limit: int = 0,
        batch_size: int = 0,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[Document]:
        how = {"limit": limit, "batch_size": batch_size, "max_time_ms": time_ms}
        async with self._cursor("find", ns, query, how) as cursor:
            # The first answer of a small collection is its last: another call would only say so.
            while cursor.alive and (rows := await cursor.rows(_ROWS_A_CALL)):
                for row in rows:
                    yield row

    async def find_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        sort: Sequence[tuple[str, int]] = (),
        limit: int = 0,
        batch_size: int = RAW_BATCH,
        time_ms: int = DEFAULT_TIME_MS,
        on_open: Callable[[str], None] | None = None,
    ) -> AsyncIterator[bytes]:
        how = {"sort": list(sort) or None, "limit": limit, "batch_size": batch_size, "max_time_ms": time_ms}
        async with self._cursor("find_raw_batches", ns, query, how, on_open=on_open) as cursor:
            while (batch := await cursor.batch()) is not None:
                yield batch

    async def tail_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        batch_size: int = 1000,
        await_ms: int = 1000,
        least_seconds: float = GET_MORE_SECONDS,
        prefer_secondary: bool = False,
        on_open: Callable[[str], None] | None = None,
    ) -> AsyncIterator[bytes]:
        prefers = prefer_secondary and not self._own_preference
        options: dict[str, Any] = {"read_preference": SecondaryPreferred()} if prefers else {}
        how = {"cursor_type": CursorType.TAILABLE_AWAIT, "batch_size": batch_size, "max_time_ms": _SEEK_MS}
        async with self._cursor("find_raw_batches", ns, query, how, await_ms, on_open, **options) as cursor:
            while cursor.alive:
                asked = time.monotonic()
                batch = await cursor.batch()
                if batch is None and not cursor.alive:
                    return
                yield batch or b""
                if not _holds(batch or b"", batch_size):
                    await asyncio.sleep(asked + least_seconds - time.monotonic())

    async def changes(
        self, ns: Namespace, since: Timestamp, *, await_ms: int = 1_000
    ) -> AsyncIterator[tuple[list[RawBSONDocument], str]]:
        """Follow the changes of one collection from ``since`` on, each with its pre-image if the server has one.

        Yields events (``clusterTime``, ``documentKey``, ``fullDocumentBeforeChange``, ``operationType``), none if
        ``await_ms`` passed without one, and the resume token after them. The driver keeps the token, and resumes
        there after an election.
        """
        async with self._session(f"change stream on {ns}") as session:
            options = CODEC.with_options(document_class=RawBSONDocument)
            stream = (
                session.client[ns.db]
                .get_collection(ns.collection, codec_options=options)
                .watch(
                    [{"$project": dict.fromkeys(_EVENT_PARTS, 1)}],
                    full_document_before_change="whenAvailable",
                    start_at_operation_time=since,
                    max_await_time_ms=await_ms,
                )
            )
            held = HeldCursor(session, await session.call(stream) if inspect.isawaitable(stream) else stream)
            try:
                while True:
                    events = await held.changes(_ROWS_A_CALL)
                    yield events, held.resume_token
            finally:
                await held.close()

    @asynccontextmanager
    async def _session(self, what: str, member: str = "") -> AsyncIterator[Session]:
        """The session for one read, of ``member`` if given. ``what`` names it in errors, which are raised as those of
        this package."""
        # The generator of a cursor may be closed in another context, where a context variable cannot be reset.
        with _errors(what, self.link.session), asking_member(member) if member else nullcontext():
            yield await self.link.ready()

    @asynccontextmanager
    async def _cursor(
        self,
        method: str,
        ns: Namespace,
        query: Document,
        how: dict[str, Any],
        await_ms: int = 0,
        on_open: Callable[[str], None] | None = None,
        **options: Any,
    ) -> AsyncIterator[HeldCursor]:
        """A cursor, closed at the end. With ``await_ms`` it is a tailable cursor on a capped collection."""
        async with self._session(f"{'tail of' if await_ms else 'find on'} {ns}") as session:
            options |= {"read_concern": ReadConcern("local")} if await_ms else self._as_of_now(session)
            cursor = getattr(_collection(session, ns, **options), method)(query, **how)
            held = HeldCursor(session, cursor.max_await_time_ms(await_ms) if await_ms else cursor, on_open)
            try:
                yield held
            finally:
                await held.close()

    def _as_of_now(self, session: Session) -> dict[str, Any]:
        """The read concern that waits for a member that lags, as :meth:`command` and :meth:`catch_up` ask for."""
        if self._since is None:
            return {}
        own: str = session.client.read_concern.level or "local"
        return {"read_concern": _NotBefore(own, self._since)} if own in ("local", "majority") else {}

    async def close(self) -> None:
        await asyncio.gather(self.link.close(), *(sibling.close() for sibling in self._siblings.values()))


class _NotBefore(ReadConcern):
    """A read concern for no state before a moment of the logical clock (``afterClusterTime``)."""

    def __init__(self, level: str, since: Timestamp) -> None:
        super().__init__(level)
        self._since = since

    @property
    def document(self) -> dict[str, Any]:
        """The read concern with that moment."""
        return {**super().document, "afterClusterTime": self._since}


@contextmanager
def _errors(what: str, session: Session) -> Iterator[None]:
    """:func:`family`, which also renews the client's certificate and explains errors that it may cause."""
    if session.certificate is not None:
        session.certificate.renew()
    try:
        with family(what):
            yield
    except ReadError as error:
        if session.certificate is None:
            raise
        raise session.certificate.explain(error) from error.__cause__


def _holds(batch: bytes, documents: int) -> bool:
    """Whether a batch has at least so many documents: there are more to read."""
    at = 0
    while at < len(batch) and documents:
        at += int.from_bytes(batch[at : at + 4], "little")
        documents -= 1
    return not documents


def _majority(hello: Document) -> object:
    """The ``ts`` of the newest entry that a majority of the members has; None where the server does not say."""
    found: object = hello
    for name in ("lastWrite", "majorityOpTime", "ts"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _anywhere(member: str) -> dict[str, Any]:
    """The read preference that lets a member be asked whatever its state."""
    return {"read_preference": Nearest()} if member else {}


def _collection(session: Session, ns: Namespace, **options: Any) -> Any:
    return session.client[ns.db].get_collection(ns.collection, codec_options=CODEC, **options)


async def _all_rows(cursor: Any) -> list[Document]:
    """All rows of a cursor, which PyMongo returns from a coroutine and Motor directly."""
    rows = await cursor if inspect.isawaitable(cursor) else cursor
    return [row async for row in rows]


_ASKED: ContextVar[str] = ContextVar("asked", default="")


def only_asked_member(servers: Sequence[Any]) -> Sequence[Any]:
    """A ``server_selector`` for the client: within :func:`asking_member` that member alone, else every server."""
    name = _ASKED.get()
    return [server for server in servers if ":".join(map(str, server.address)) == name] if name else servers


@contextmanager
def asking_member(member: str) -> Iterator[None]:
    """Operations begun in this context go to ``member``, if the client was opened with :func:`only_asked_member`."""
    token = _ASKED.set(member)
    try:
        yield
    finally:
        _ASKED.reset(token)


def _uuid(info: object) -> bytes:
    """The UUID in a row of listCollections, however the client's codec represents it."""
    found = info.get("uuid") if isinstance(info, Mapping) else None
    return found.bytes if isinstance(found, UUID) else bytes(found) if isinstance(found, bytes) else b""
