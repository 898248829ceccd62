"""The garbage collector belongs to the program that imports the library: only a context handed in may touch it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import tallyglass
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher
from tallyglass.mongo.gateway import CollectionInfo, Namespace

COLLECTIONS = 8


class ManyCounters:
    """A gateway on one database of many collections with a counter each."""

    async def command(self, name: str, value: object = 1, **_: object) -> dict[str, Any]:
        return {}

    async def catch_up(self) -> None:
        pass

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


def test_no_module_of_the_library_imports_gc() -> None:
    imports_gc = re.compile(r"^\s*(import|from) gc\b", re.MULTILINE)
    files = list(Path(tallyglass.__file__).parent.rglob("*.py"))
    assert files
    assert [file for file in files if imports_gc.search(file.read_text("utf-8"))] == []


async def test_a_watch_of_many_new_collections_enters_the_context_once() -> None:
    calls: list[str] = []

    @contextmanager
    def building() -> Iterator[None]:
        calls.append("begin")
        yield
        calls.append("end")

    watcher = Watcher(ManyCounters(), WatchSettings(building=building))  # type: ignore[arg-type]
    assert len((await watcher.refresh(5.0)).counters) == COLLECTIONS
    assert calls == ["begin", "end"]
    await watcher.refresh(5.0)
    assert calls == ["begin", "end"]
    await watcher.close()


def test_by_default_the_collector_is_left_alone() -> None:
    assert WatchSettings().building is nullcontext
