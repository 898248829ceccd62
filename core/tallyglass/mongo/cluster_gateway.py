"""The shards of a cluster as one gateway, for reads that a mongos would send to all of them.

Documents that a chunk migration left behind (orphans) cannot be recognised without a router: until the server has
removed them, both shards yield them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar

import bson
from bson import DBRef, Decimal128, Regex

from tallyglass.errors import ConnectError, DeploymentError, ReadError, ServerError, TallyglassError
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Document, Extent, Gateway, Namespace, closing
from tallyglass.tasks import answers_by_name

Answer = TypeVar("Answer")

RETRY_SECONDS = 10.0
"""Seconds before a shard that could not be reached is tried again: each attempt delays the whole answer."""


class ClusterGateway:
    """Queries every shard and merges the answers. A shard that cannot be read is listed in :attr:`lost`, by name and
    reason, and does not stop the others; if none can be read, the first error is raised.

    ``shards`` are the gateways by name. Closing this closes them.
    """

    def __init__(self, shards: Mapping[str, Gateway]) -> None:
        self.shards = dict(shards)
        self.lost: dict[str, str] = {}
        self._errors: dict[str, tuple[float, TallyglassError]] = {}

    async def command(self, name: str, value: object = 1, **how: Any) -> Document:
        """The answer of the first shard that responds."""
        error: TallyglassError | None = None
        for label in self.shards:
            try:
                return await self._ask(label, lambda shard: shard.command(name, value, **how))
            except TallyglassError as caught:
                error = error or caught
        raise error or DeploymentError("This cluster has no shards.")

    async def inspect(self, stage: str, options: Document, **how: Any) -> list[Document]:
        """The rows of all shards, ``limit`` of each."""
        found = await self._all(lambda shard: shard.inspect(stage, options, **how))
        return [row for rows in found for row in rows]

    async def catch_up(self) -> float | None:
        """What the clock of the first shard says that tells the time."""
        clocks = await self._all(lambda shard: shard.catch_up())
        return next((clock for clock in clocks if clock is not None), None)

    def members(self) -> tuple[str, ...]:
        return tuple(member for shard in self.shards.values() for member in shard.members())

    async def list_databases(self) -> list[str]:
        found = await self._all(lambda shard: shard.list_databases())
        return sorted({name for names in found for name in names})

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        found = await self._all(lambda shard: shard.list_collections(db))
        return list({row.ns: row for rows in reversed(found) for row in rows}.values())

    async def list_indexes(self, ns: Namespace) -> list[Document]:
        found = await self._all(lambda shard: shard.list_indexes(ns))
        return next((rows for rows in found if rows), [])

    async def estimate(self, ns: Namespace) -> int:
        return sum(await self._all(lambda shard: shard.estimate(ns)))

    async def count(self, ns: Namespace, **how: Any) -> int:
        return sum(await self._all(lambda shard: shard.count(ns, **how)))

    async def extent(self, ns: Namespace, query: Document, **how: Any) -> Extent:
        found = await self._all(lambda shard: shard.extent(ns, query, **how))
        return Extent(sum(one.documents for one in found), sum(one.bytes for one in found))

    async def find_one(
        self, ns: Namespace, query: Document, *, sort: Sequence[tuple[str, int]] = (), **how: Any
    ) -> Document | None:
        found = await self._all(lambda shard: shard.find_one(ns, query, sort=sort, **how))
        return next(iter(_sorted([row for row in found if row is not None], ns, sort)), None)

    async def find(self, ns: Namespace, query: Document, *, limit: int = 0, **how: Any) -> AsyncIterator[Document]:
        given = 0
        async for row in self._chain(lambda shard: shard.find(ns, query, limit=limit, **how)):
            yield row
            given += 1
            if given == limit > 0:
                return

    async def find_raw(
        self, ns: Namespace, query: Document, *, sort: Sequence[tuple[str, int]] = (), limit: int = 0, **how: Any
    ) -> AsyncIterator[bytes]:
        """Sorted or limited answers are merged in memory: ``limit`` bounds them."""
        batches = self._chain(lambda shard: shard.find_raw(ns, query, sort=sort, limit=limit, **how))
        if not sort and not limit:
            async for batch in batches:
                yield batch
            return
        rows: list[Document] = [row async for batch in batches for row in bson.decode_iter(batch, CODEC)]
        rows = _sorted(rows, ns, sort)
        yield b"".join(bson.encode(row, codec_options=CODEC) for row in (rows[:limit] if limit else rows))

    def tail_raw(self, ns: Namespace, query: Document, **how: Any) -> AsyncIterator[bytes]:
        """Raises DeploymentError: each shard has an oplog, which is followed through its own gateway."""
        raise DeploymentError("A sharded cluster has one oplog for each shard.", "Follow each through its own gateway.")

    async def close(self) -> None:
        await asyncio.gather(*(shard.close() for shard in self.shards.values()))

    async def _all(self, ask: Callable[[Gateway], Awaitable[Answer]]) -> list[Answer]:
        """The answers of the shards that respond, in order."""
        answers, _ = await answers_by_name({name: self._ask(name, ask) for name in self.shards})
        return [*answers.values()]

    async def _ask(self, name: str, ask: Callable[[Gateway], Awaitable[Answer]]) -> Answer:
        with self._noting(name):
            return await ask(self.shards[name])

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Record whether a shard answers. Raises the error of a recent attempt that could not reach it."""
        until, known = self._errors.get(name, (0.0, None))
        try:
            if known is not None and time.monotonic() < until:
                raise known
            yield
        except TallyglassError as error:
            self.lost[name] = str(error)
            unreachable = isinstance(error, (ConnectError, ReadError)) and not isinstance(error, ServerError)
            if unreachable and error is not known:
                self._errors[name] = (time.monotonic() + RETRY_SECONDS, error)
            raise
        self.lost.pop(name, None)
        self._errors.pop(name, None)

    async def _chain(self, ask: Callable[[Gateway], AsyncIterator[Answer]]) -> AsyncIterator[Answer]:
        """The rows of each shard, one shard after the other."""
        errors: list[TallyglassError] = []
        for name, shard in self.shards.items():
            try:
                with self._noting(name):
                    async with closing(ask(shard)) as rows:
                        async for row in rows:
                            yield row
            except TallyglassError as error:
                errors.append(error)
        if errors and len(errors) == len(self.shards):
            raise errors[0]


def _sorted(rows: list[Document], ns: Namespace, sort: Sequence[tuple[str, int]]) -> list[Document]:
    """Rows of several shards in the requested order."""
    for field, direction in reversed(sort):
        # The natural order of an oplog is that of its timestamps.
        path = "ts" if field == "$natural" and ns == OPLOG else field
        rows = sorted(rows, key=lambda row, path=path: _order(_value(row, path)), reverse=direction < 0)  # type: ignore[misc]
    return rows


def _value(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = row.get(part) if isinstance(row, Mapping) else None
    return row


def _order(value: Any) -> tuple[int, Any]:
    """A key that orders values of one type as the server does, and numbers before all others."""
    if value is None:
        return (0, 0)
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return (1, value) if value == value else (0, 0)
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return (2, (kind, tuple((name, _order(inner)) for name, inner in value.items())))
    if isinstance(value, list):
        return (2, (kind, tuple(map(_order, value))))
    return (2, (kind, repr(value) if isinstance(value, (DBRef, Regex)) else value))
