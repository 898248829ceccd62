"""The garbage collector belongs to the program that imports the library: only a policy handed in may touch it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import tallyglass
from tallyglass.counters.follow.garbage import NO_GARBAGE_POLICY, GarbagePolicy
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher
from tallyglass.mongo.gateway import CollectionInfo, Namespace

COLLECTIONS = 9


class ManyCounters:
    """A gateway on one database of many collections with a counter each."""

    async def command(self, name: str, value: object = 1, **_: object) -> dict[str, Any]:
        return {}

    async def list_databases(self) -> list[str]:
        return ["shop"]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace(db, f"tenant_{n}_counters")) for n in range(COLLECTIONS)]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return []

    async def estimate(self, ns: Namespace) -> int:
        return 1

    async def find_one(self, ns: Namespace, query: object, **_: object) -> None:
        return None

    async def find(self, ns: Namespace, query: object, **_: object) -> AsyncIterator[dict[str, Any]]:
        yield {"_id": "orders", "seq": 41}


class Recorded:
    """A policy that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @contextmanager
    def building(self) -> Iterator[None]:
        self.calls.append("begin")
        yield
        self.calls.append("end")

    def built(self) -> None:
        self.calls.append("built")


def test_no_module_of_the_library_imports_gc() -> None:
    imports_gc = re.compile(r"^\s*(import|from) gc\b", re.MULTILINE)
    files = list(Path(tallyglass.__file__).parent.rglob("*.py"))
    assert files
    assert [file for file in files if imports_gc.search(file.read_text("utf-8"))] == []


async def test_a_watch_of_many_new_collections_says_so_to_the_policy_once() -> None:
    policy = Recorded()
    watcher = Watcher(ManyCounters(), WatchSettings(garbage=policy))  # type: ignore[arg-type]
    assert len((await watcher.refresh(5.0)).counters) == COLLECTIONS
    assert policy.calls == ["begin", "end"]
    await watcher.refresh(5.0)
    assert policy.calls == ["begin", "end"]
    await watcher.close()


def test_without_a_policy_the_collector_is_left_alone() -> None:
    policy: GarbagePolicy = WatchSettings().garbage
    assert policy is NO_GARBAGE_POLICY
    building: AbstractContextManager[object] = policy.building()
    with building:
        policy.built()
