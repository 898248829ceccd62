"""Allocate unique ids. Apart from the demo, this is the only package that writes.

- :class:`Cached`: from memory, fetched ahead, over a :class:`Counter` or a :class:`Pool`; the usual choice
- :class:`Counter`: one counter document, one id or a range a call
- :class:`Counters`: counters by tenant, kind and period, created by their first use
- :class:`Pool`: many counter documents, each with its own span
- :class:`GaplessInsert`: numbers without a gap, as for invoices; allocated in the transaction of the insert
- :class:`RandomIds`: random numbers, kept unique by an index
- :class:`MaxPlusOne`: the largest id plus one, inserted if not present
- :func:`new_uuid`: UUIDs of version 1, 4 and 7; :func:`new_binary` as BSON
- :func:`new_object_id`: ObjectIds

``tallyglass.allocate.format`` formats numbers for people; ``tallyglass.allocate.observe`` exports the statistics of
allocators to Prometheus and OpenTelemetry.

Each class has an ``Async`` counterpart with the same methods, for AsyncMongoClient and Motor. No strategy issues an
id twice: across threads, tasks, processes, forks, crashes, failovers, retries and timeouts. Ids may be skipped
(*burned*), and are then counted. ``docs/library.md`` compares the classes.
"""

from __future__ import annotations

from tallyglass.allocate.cache.cached import Cached
from tallyglass.allocate.cache.cached_async import AsyncCached
from tallyglass.allocate.cache.calls import RangeSource
from tallyglass.allocate.cache.calls_async import AsyncRangeSource
from tallyglass.allocate.cache.step_size import Adaptive, Fixed, StepSize
from tallyglass.allocate.counter import AsyncCounter, Counter
from tallyglass.allocate.engine.attempts import Deadlines
from tallyglass.allocate.engine.meter import Event, EventKind, Hook, Stats
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    AllocatorClosed,
    CollisionLimit,
    CounterMissing,
    CounterRewound,
    CounterTypeError,
    Exhausted,
    NotUnique,
    PoolEmpty,
    PoolOverlap,
    TransactionRefused,
    UnsafeWriteConcern,
    WrongClient,
    WrongEventLoop,
)
from tallyglass.allocate.insert.absent import AsyncMaxPlusOne, MaxPlusOne
from tallyglass.allocate.insert.gapless import AsyncGaplessInsert, GaplessInsert
from tallyglass.allocate.insert.proxy import AsyncProxiedInsert, ProxiedInsert
from tallyglass.allocate.insert.random_ids import AsyncRandomIds, Fill, NumberSpace, RandomIds
from tallyglass.allocate.insert.unique import (
    Uniqueness,
    ensure_unique,
    ensure_unique_async,
    verify_unique,
    verify_unique_async,
)
from tallyglass.allocate.layout import ARTICLE, MANUAL, MANUAL_SEQ, NODE, Layout
from tallyglass.allocate.object_ids import new_object_id
from tallyglass.allocate.pool import AsyncPool, Pool
from tallyglass.allocate.pool_map import PoolLayout
from tallyglass.allocate.repair import Drift, advance_to, advance_to_async, verify, verify_async
from tallyglass.allocate.scopes import AsyncCounters, Counters
from tallyglass.allocate.uuids import Uuid7, Version, new_binary, new_uuid, read_uuid, to_binary
from tallyglass.counters.snapshot import Semantics

__all__ = [
    "ARTICLE",
    "MANUAL",
    "MANUAL_SEQ",
    "NODE",
    "Adaptive",
    "AllocationError",
    "AllocationRefused",
    "AllocationTimeout",
    "AllocationUnknown",
    "AllocatorClosed",
    "AsyncCached",
    "AsyncCounter",
    "AsyncCounters",
    "AsyncGaplessInsert",
    "AsyncMaxPlusOne",
    "AsyncPool",
    "AsyncProxiedInsert",
    "AsyncRandomIds",
    "AsyncRangeSource",
    "Cached",
    "CollisionLimit",
    "Counter",
    "CounterMissing",
    "CounterRewound",
    "CounterTypeError",
    "Counters",
    "Deadlines",
    "Drift",
    "Event",
    "EventKind",
    "Exhausted",
    "Fill",
    "Fixed",
    "GaplessInsert",
    "Hook",
    "Layout",
    "MaxPlusOne",
    "NotUnique",
    "NumberSpace",
    "Pool",
    "PoolEmpty",
    "PoolLayout",
    "PoolOverlap",
    "ProxiedInsert",
    "RandomIds",
    "RangeSource",
    "Semantics",
    "Stats",
    "StepSize",
    "TransactionRefused",
    "Uniqueness",
    "UnsafeWriteConcern",
    "Uuid7",
    "Version",
    "WrongClient",
    "WrongEventLoop",
    "advance_to",
    "advance_to_async",
    "ensure_unique",
    "ensure_unique_async",
    "new_binary",
    "new_object_id",
    "new_uuid",
    "read_uuid",
    "to_binary",
    "verify",
    "verify_async",
    "verify_unique",
    "verify_unique_async",
]
