"""The protocol for all reads of this package. It has no write methods.

:class:`Gateway` is the protocol that feeds and panels use;
:class:`~tallyglass.mongo.mongo_gateway.MongoGateway` implements it over PyMongo or Motor. Every read has a deadline on
the server (``maxTimeMS``) and on the client. Every method can raise ConnectError, PrivilegeError and ReadError.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast

Document = Mapping[str, Any]
"""A decoded BSON document. Untrusted."""

DEFAULT_TIME_MS = 5_000
"""Default limit for one read on the server, in milliseconds."""

GET_MORE_SECONDS = 0.125
"""The least time between two getMore of a tail that keeps up: each costs the server more than the entries in it."""

RAW_BATCH = 2_000
"""Documents of one undecoded batch: without a number a server answers with 16 MB, which the driver holds several times.
More cost no less."""

READ_COMMANDS = frozenset(
    {
        "buildInfo",
        "collStats",
        "connectionStatus",
        "currentOp",
        "getClusterParameter",
        "getCmdLineOpts",
        "getLog",
        "getParameter",
        "hello",
        "profile",
        "replSetGetConfig",
        "replSetGetStatus",
        "serverStatus",
        "shardingState",
        "top",
        "usersInfo",
    }
)
"""The only commands that :meth:`Gateway.command` sends."""

ONLY_VALUE = {"profile": -1}
"""Of a command that both reads and writes, the only value with which :meth:`Gateway.command` sends it."""

READ_STAGES = frozenset({"$currentOp", "$listLocalSessions"})
"""The only first stages of the aggregations that :meth:`Gateway.inspect` sends."""


class Extent(NamedTuple):
    """How many documents there are, and their bytes together."""

    documents: int
    bytes: int


class Namespace(NamedTuple):
    """A database and a collection. Names as stored, unsafe to show: see :func:`tallyglass.text.clean`."""

    db: str
    collection: str

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """Split at the first dot: a database name cannot contain one, a collection name can."""
        db, _, collection = text.partition(".")
        return cls(db, collection)

    def __str__(self) -> str:
        return f"{self.db}.{self.collection}"


OPLOG = Namespace("local", "oplog.rs")


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One row of listCollections.

    ``kind`` is collection, view or timeseries. ``options`` and ``uuid`` need more privileges than the name. ``uuid`` is
    empty for a view, or if it is unknown.
    """

    ns: Namespace
    kind: str = "collection"
    options: Document | None = None
    uuid: bytes = b""


Row = TypeVar("Row")


def closing(rows: AsyncIterator[Row]) -> AbstractAsyncContextManager[AsyncIterator[Row]]:
    """Return rows for ``async with``, which closes the cursor when a reader stops early.

    Otherwise the interpreter closes an abandoned generator later, possibly after the client.
    """
    return aclosing(cast("AsyncGenerator[Row, None]", rows))


class Gateway(Protocol):
    """Reads on one deployment. Any number of tasks of one event loop may use it."""

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
        """Run one of :data:`READ_COMMANDS`. Raises ValueError for any other command or value.

        ``member`` (``host:port``, as ``on_open`` of :meth:`tail_raw` receives it) sends it to that member. Otherwise it
        goes to the primary, and after ``hello`` no find is answered by a member that lacks what a majority had by then,
        in the oplog or elsewhere: a secondary that lags is waited for.
        """
        ...

    async def inspect(
        self, stage: str, options: Document, *, limit: int, time_ms: int = DEFAULT_TIME_MS, member: str = ""
    ) -> list[Document]:
        """Return rows about the server itself, ``limit`` at most: one of :data:`READ_STAGES`, on the admin database.

        Raises ValueError for any other stage. ``member`` as for :meth:`command`.
        """
        ...

    def members(self) -> tuple[str, ...]:
        """The members with data (``host:port``) that the client knows to be up; empty before the first read."""
        ...

    async def catch_up(self) -> float | None:
        """From here on each find reads what is there now, or later: a secondary that lags is waited for.

        Returns what the server's clock says (seconds since 1970), None if it does not say. Nothing is waited for on
        servers without a logical clock, nor behind a router unless the connection string chooses secondaries.
        """
        ...

    async def list_databases(self) -> list[str]:
        """Return the names of the databases that the user may list."""
        ...

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        """Return the collections and views of a database, without options if the user may only list names."""
        ...

    async def list_indexes(self, ns: Namespace) -> list[Document]:
        """Return the index specifications of a collection; empty if it does not exist."""
        ...

    async def estimate(self, ns: Namespace) -> int:
        """Return the document count from the metadata: fast, but inexact after an unclean shutdown."""
        ...

    async def count(self, ns: Namespace, *, time_ms: int = DEFAULT_TIME_MS) -> int:
        """Return the exact document count, by scanning the collection."""
        ...

    async def extent(self, ns: Namespace, query: Document, *, most: int, time_ms: int = DEFAULT_TIME_MS) -> Extent:
        """Return the number and the size of the matching documents, of ``most`` of them at most: the server adds them
        up."""
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
        """Return the first matching document, or None. ``member`` as for :meth:`command`."""
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
        """Yield the matching documents, at most ``limit`` unless it is 0."""
        ...

    def find_raw(
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
        """Yield the matching documents as undecoded batches: each is a concatenation of complete BSON documents.

        ``on_open`` is called once with the member (``host:port``) of the cursor, before the first batch.
        """
        ...

    def tail_raw(
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
        """Follow a capped collection with a tailable, awaiting cursor.

        Yields undecoded batches, and ``b""`` each time ``await_ms`` milliseconds pass without one, so that a caller can
        tell an idle server from a dead one. Ends when the server closes the cursor, for any reason: the caller must
        check for a gap when it opens the next one. The read concern is local, so entries may still be rolled back.
        ``on_open`` as for :meth:`find_raw`. After a batch that is not full, the next is asked for ``least_seconds``
        after it at the earliest.
        """
        ...

    async def close(self) -> None:
        """Close the client and its connections."""
        ...
