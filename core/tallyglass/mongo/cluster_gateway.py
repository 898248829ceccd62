"""The shards of a cluster as one gateway, for reads that a mongos would send to all of them.

Documents that a chunk migration left behind (orphans) cannot be recognised without a router: until the server has
removed them, both shards yield them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import bson
from bson import Decimal128

from tallyglass.errors import ConnectError, DeploymentError, ReadError, TallyglassError
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.gateway import (
    DEFAULT_TIME_MS,
    GET_MORE_SECONDS,
    OPLOG,
    RAW_BATCH,
    CollectionInfo,
    Document,
    Extent,
    Gateway,
    Namespace,
    closing,
)

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
        """The answer of the first shard that responds."""
        error: TallyglassError | None = None
        for label, shard in self.shards.items():
            try:
                self._raise_recent(label)
                return await shard.command(name, value, db=db, time_ms=time_ms, member=member, **fields)
            except TallyglassError as caught:
                self._note_error(label, caught)
                error = error or caught
        raise error or DeploymentError("This cluster has no shards.")

    async def inspect(
        self, stage: str, options: Document, *, limit: int, time_ms: int = DEFAULT_TIME_MS, member: str = ""
    ) -> list[Document]:
        """The rows of all shards, ``limit`` of each."""
        found = await self._all(
            lambda shard: shard.inspect(stage, options, limit=limit, time_ms=time_ms, member=member)
        )
        return [row for rows in found for row in rows]

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

    async def count(self, ns: Namespace, *, time_ms: int = DEFAULT_TIME_MS) -> int:
        return sum(await self._all(lambda shard: shard.count(ns, time_ms=time_ms)))

    async def extent(self, ns: Namespace, query: Document, *, most: int, time_ms: int = DEFAULT_TIME_MS) -> Extent:
        found = await self._all(lambda shard: shard.extent(ns, query, most=most, time_ms=time_ms))
        return Extent(sum(one.documents for one in found), sum(one.bytes for one in found))

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
        found = await self._all(
            lambda shard: shard.find_one(ns, query, projection=projection, sort=sort, time_ms=time_ms, member=member)
        )
        return next(iter(_sorted([row for row in found if row is not None], ns, sort)), None)

    async def find(
        self,
        ns: Namespace,
        query: Document,
        *,
        limit: int = 0,
        batch_size: int = 0,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[Document]:
        given = 0
        async for row in self._chain(
            lambda shard: shard.find(ns, query, limit=limit, batch_size=batch_size, time_ms=time_ms)
        ):
            yield row
            given += 1
            if given == limit > 0:
                return

    async def find_raw(
        self,
        ns: Namespace,
        query: Document,
        *,
        sort: Sequence[tuple[str, int]] = (),
        limit: int = 0,
        batch_size: int = RAW_BATCH,
        time_ms: int = DEFAULT_TIME_MS,
    ) -> AsyncIterator[bytes]:
        """Sorted or limited answers are merged in memory: ``limit`` bounds them."""
        batches = self._chain(
            lambda shard: shard.find_raw(ns, query, sort=sort, limit=limit, batch_size=batch_size, time_ms=time_ms)
        )
        if not sort and not limit:
            async for batch in batches:
                yield batch
            return
        rows: list[Document] = [row async for batch in batches for row in bson.decode_iter(batch, CODEC)]
        rows = _sorted(rows, ns, sort)
        yield b"".join(bson.encode(row, codec_options=CODEC) for row in (rows[:limit] if limit else rows))

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
        """Raises DeploymentError: each shard has an oplog, which is followed through its own gateway."""
        raise DeploymentError("A sharded cluster has one oplog for each shard.", "Follow each through its own gateway.")
        yield b""

    async def close(self) -> None:
        await asyncio.gather(*(shard.close() for shard in self.shards.values()))

    async def _all(self, ask: Callable[[Gateway], Awaitable[Answer]]) -> list[Answer]:
        """The answers of the shards that respond, in order."""
        answers = await asyncio.gather(*(self._ask(name, ask) for name in self.shards))
        errors = [answer for answer in answers if isinstance(answer, TallyglassError)]
        if len(errors) == len(answers):
            raise errors[0]
        return [answer for answer in answers if not isinstance(answer, TallyglassError)]

    async def _ask(self, name: str, ask: Callable[[Gateway], Awaitable[Answer]]) -> Answer | TallyglassError:
        try:
            self._raise_recent(name)
            found = await ask(self.shards[name])
        except TallyglassError as error:
            self._note_error(name, error)
            return error
        self._note_answer(name)
        return found

    def _raise_recent(self, name: str) -> None:
        """Raise the error again if a recent attempt could not reach the shard."""
        until, error = self._errors.get(name, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error

    def _note_error(self, name: str, error: TallyglassError) -> None:
        self.lost[name] = str(error)
        unreachable = isinstance(error, ConnectError) or (isinstance(error, ReadError) and error.code is None)
        if unreachable and self._errors.get(name, (0.0, None))[1] is not error:
            self._errors[name] = (time.monotonic() + RETRY_SECONDS, error)

    def _note_answer(self, name: str) -> None:
        self.lost.pop(name, None)
        self._errors.pop(name, None)

    async def _chain(self, ask: Callable[[Gateway], AsyncIterator[Answer]]) -> AsyncIterator[Answer]:
        """The rows of each shard, one shard after the other."""
        errors: list[TallyglassError] = []
        for name, shard in self.shards.items():
            try:
                self._raise_recent(name)
                async with closing(ask(shard)) as rows:
                    async for row in rows:
                        yield row
            except TallyglassError as error:
                self._note_error(name, error)
                errors.append(error)
            else:
                self._note_answer(name)
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
    return (2, (type(value).__name__, value))
