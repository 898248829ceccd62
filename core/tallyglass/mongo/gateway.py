"""The reads that the rest of the package needs. No write method exists here.

:class:`Gateway` is what feeds and panels are written against; :class:`~tallyglass.mongo.mongo_gateway.MongoGateway`
is its form over PyMongo or Motor. Every read has a deadline on the server (``maxTimeMS``) and here.
Errors of every method: ConnectError, PrivilegeError, ReadError.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast

Document = Mapping[str, Any]
"""A decoded BSON document. Untrusted."""

DEFAULT_TIME_MS = 5_000
"""How long one read may take on the server unless the caller says otherwise."""

READ_COMMANDS = frozenset(
    {
        "buildInfo",
        "collStats",
        "connectionStatus",
        "getCmdLineOpts",
        "getParameter",
        "hello",
        "replSetGetConfig",
        "replSetGetStatus",
        "serverStatus",
        "shardingState",
        "usersInfo",
    }
)
"""The only command names that :meth:`Gateway.command` sends."""


class Namespace(NamedTuple):
    """A database and a collection. Names as stored, unsafe to show: see :func:`tallyglass.text.clean`."""

    db: str
    collection: str

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """Split at the first dot: a database name cannot hold one, a collection name can."""
        db, _, collection = text.partition(".")
        return cls(db, collection)

    def __str__(self) -> str:
        return f"{self.db}.{self.collection}"


OPLOG = Namespace("local", "oplog.rs")


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One row of listCollections. ``kind`` is collection, view or timeseries; options and ``uuid`` need a fuller
    privilege. ``uuid`` is empty for a view, and where it is not known."""

    ns: Namespace
    kind: str = "collection"
    options: Document | None = None
    uuid: bytes = b""


Row = TypeVar("Row")


def closing(rows: AsyncIterator[Row]) -> AbstractAsyncContextManager[AsyncIterator[Row]]:
    """Rows for ``async with``, so that a reader that leaves early gives back cursor and connection at once.

    Without it the interpreter closes an abandoned generator some time later, maybe after the client.
    """
    return aclosing(cast("AsyncGenerator[Row, None]", rows))


class Gateway(Protocol):
    """Reads on one deployment. Safe to use from one event loop, many tasks."""

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
        """Run one of :data:`READ_COMMANDS`; ValueError for any other name.

        ``member`` (``host:port``, as ``on_open`` of :meth:`tail_raw` names it) asks that member alone.
        """
        ...

    async def list_databases(self) -> list[str]:
        """The names of the databases that this user may see."""
        ...

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        """The collections and views of a database; without their options where only names may be read."""
        ...

    async def list_indexes(self, ns: Namespace) -> list[Document]:
        """The index specifications of a collection; empty where it does not exist."""
        ...

    async def estimate(self, ns: Namespace) -> int:
        """The collection's document count from its metadata: fast, and not exact after a crash."""
        ...

    async def count(self, ns: Namespace, *, time_ms: int = DEFAULT_TIME_MS) -> int:
        """The collection's document count, exact: each is looked at."""
        ...

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
        """The first matching document, or None. ``member`` as for :meth:`command`."""
        ...

    def find(
        self,
        ns: Namespace,
        query: Document,
        *,
        limit: int = 0,
        batch_size: int = 0,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[Document]:
        """All matching documents, ``limit`` at most where it is not 0."""
        ...

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
        """The same as undecoded batches: each the concatenation of whole BSON documents."""
        ...

    def tail_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        batch_size: int = 1000,
        await_ms: int = 1000,
        prefer_secondary: bool = False,
        on_open: Callable[[str], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """Follow a capped collection with a tailable, awaiting cursor.

        Yields undecoded batches, and ``b""`` each time ``await_ms`` passes without one, so that a caller
        can tell a quiet server from a dead one. Ends when the server closes the cursor, whatever the
        reason: the caller must check for a gap when it opens the next one. Read concern is local: entries
        arrive that may still be rolled back. ``on_open`` is told once which member (``host:port``) carries
        the cursor.
        """
        ...

    async def close(self) -> None:
        """Close the client."""
        ...
