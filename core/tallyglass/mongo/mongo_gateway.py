"""The gateway over a real deployment: PyMongo's AsyncMongoClient, or Motor's client."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from pymongo import CursorType
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, SecondaryPreferred

from tallyglass.errors import ReadError
from tallyglass.mongo.client_certificate import ClientCertificate
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.driver_errors import NAMESPACE_NOT_FOUND, UNAUTHORIZED, family
from tallyglass.mongo.gateway import (
    DEFAULT_TIME_MS,
    READ_COMMANDS,
    CollectionInfo,
    Document,
    Namespace,
)
from tallyglass.tasks import heed_cancellation

# Until a tail has its first batch: with a filter, that may be a long way from where it starts.
_SEEK_MS = 60_000


class MongoGateway:
    """Reads through an asynchronous client, which it closes in :meth:`close`.

    ``client`` is an AsyncMongoClient or an AsyncIOMotorClient; both have the same methods, but some of
    them are coroutines in one and plain functions in the other. ``certificate`` is what it shows to the server.
    """

    def __init__(self, client: Any, certificate: ClientCertificate | None = None) -> None:
        self._client = client
        self._certificate = certificate

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
        if name not in READ_COMMANDS:
            raise ValueError(f"{name!r} is not a command that only reads")
        body = {name: value, **fields, "maxTimeMS": time_ms}
        how = {"read_preference": Nearest()} if member else {}
        with self._family(f"command {name}"), asking(member):
            return cast(Document, await self._client[db].command(body, codec_options=CODEC, **how))

    async def list_databases(self) -> list[str]:
        with self._family("listDatabases"):
            rows = await _awaited(self._client.list_databases(nameOnly=True, maxTimeMS=DEFAULT_TIME_MS))
            return [str(row["name"]) async for row in rows]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        async def rows(**how: bool) -> list[Document]:
            cursor = await _awaited(self._client[db].list_collections(maxTimeMS=DEFAULT_TIME_MS, **how))
            return [row async for row in cursor]

        with self._family("listCollections"):
            try:
                found = await rows()
            except OperationFailure as error:
                if error.code != UNAUTHORIZED:
                    raise
                found = await rows(nameOnly=True, authorizedCollections=True)
        return [
            CollectionInfo(Namespace(db, row["name"]), row.get("type", "collection"), row.get("options"))
            for row in found
        ]

    async def list_indexes(self, ns: Namespace) -> list[Document]:
        with self._family(f"listIndexes on {ns}"):
            # The driver's own method takes no deadline. All indexes of a collection, 64 at most, are in one batch.
            body = {"listIndexes": ns.collection, "cursor": {}, "maxTimeMS": DEFAULT_TIME_MS}
            try:
                answer = await self._client[ns.db].command(body, codec_options=CODEC)
            except OperationFailure as error:
                if error.code == NAMESPACE_NOT_FOUND:
                    return []
                raise
            return cast("list[Document]", answer["cursor"]["firstBatch"])

    async def estimate(self, ns: Namespace) -> int:
        with self._family(f"count of {ns}"):
            return int(await self._collection(ns).estimated_document_count(maxTimeMS=DEFAULT_TIME_MS))

    async def count(self, ns: Namespace, *, time_ms: int = DEFAULT_TIME_MS) -> int:
        with self._family(f"count of {ns}"):
            return int(await self._collection(ns).count_documents({}, maxTimeMS=time_ms))

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
        how = {"read_preference": Nearest()} if member else {}
        with self._family(f"find on {ns}"), asking(member):
            found = await self._collection(ns, **how).find_one(
                query, projection=projection, sort=list(sort) or None, max_time_ms=time_ms
            )
            return cast("Document | None", found)

    def find(
        self,
        ns: Namespace,
        query: Document,
        *,
        limit: int = 0,
        batch_size: int = 0,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[Document]:
        return self._found("find", ns, query, limit=limit, batch_size=batch_size, max_time_ms=time_ms)

    def find_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        sort: Sequence[tuple[str, int]] = (),
        limit: int = 0,
        batch_size: int = 0,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[bytes]:
        how = {"sort": list(sort) or None, "limit": limit, "batch_size": batch_size, "max_time_ms": time_ms}
        return self._found("find_raw_batches", ns, query, **how)

    async def _found(self, method: str, ns: Namespace, query: Document, **how: Any) -> AsyncIterator[Any]:
        with self._family(f"find on {ns}"):
            cursor = getattr(self._collection(ns), method)(query, **how)
            try:
                async for row in cursor:
                    heed_cancellation()
                    yield row
            finally:
                await _awaited(cursor.close())

    async def tail_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        batch_size: int = 1000,
        await_ms: int = 1000,
        prefer_secondary: bool = False,
        on_open: Callable[[str], None] | None = None,
    ) -> AsyncIterator[bytes]:
        how = {"read_preference": SecondaryPreferred()} if prefer_secondary else {}
        collection = self._collection(ns, read_concern=ReadConcern("local"), **how)
        with self._family(f"tail of {ns}"):
            cursor = collection.find_raw_batches(
                query, cursor_type=CursorType.TAILABLE_AWAIT, batch_size=batch_size, max_time_ms=_SEEK_MS
            ).max_await_time_ms(await_ms)
            told = on_open is None
            try:
                while cursor.alive:
                    try:
                        batch = await anext(cursor)
                    except StopAsyncIteration:
                        if not cursor.alive:
                            return
                        batch = b""
                    heed_cancellation()
                    if not told and on_open and cursor.address:
                        on_open(":".join(map(str, cursor.address)))
                        told = True
                    yield batch
            finally:
                await _awaited(cursor.close())

    async def close(self) -> None:
        await _awaited(self._client.close())

    @contextmanager
    def _family(self, what: str) -> Iterator[None]:
        """:func:`family`, with the client's certificate in mind, and a cancellation that the driver lost."""
        if self._certificate is not None:
            self._certificate.renew()
        try:
            with family(what):
                yield
        except ReadError as error:
            if self._certificate is None:
                raise
            raise self._certificate.explain(error) from error.__cause__
        heed_cancellation()

    def _collection(self, ns: Namespace, **how: Any) -> Any:
        return self._client[ns.db].get_collection(ns.collection, codec_options=CODEC, **how)


_ASKED: ContextVar[str] = ContextVar("asked", default="")


def only_the_asked(servers: Sequence[Any]) -> Sequence[Any]:
    """A ``server_selector`` for the client: within :func:`asking` that member alone, else every server."""
    name = _ASKED.get()
    return [server for server in servers if ":".join(map(str, server.address)) == name] if name else servers


@contextmanager
def asking(member: str) -> Iterator[None]:
    """Within it, operations that begin go to ``member``, where the client was opened with :func:`only_the_asked`."""
    token = _ASKED.set(member)
    try:
        yield
    finally:
        _ASKED.reset(token)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
