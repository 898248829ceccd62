"""The search for counters is bounded: what it asks of a server, counted by a gateway that holds documents in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look, watch
from tallyglass.counters.recognise.config import CountersConfig, Rule
from tallyglass.counters.recognise.discovery import MOST_GUESSED, MOST_READ, SAMPLE, Content, Discovery, LookedAt
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import CollectionInfo, Namespace

Rows = list[dict[str, Any]]


class Memory:
    """Collections in memory; ``asked`` lists the requests, in order."""

    def __init__(self, collections: Mapping[str, Rows], kinds: Mapping[str, str] | None = None) -> None:
        self.collections = {Namespace.parse(name): rows for name, rows in collections.items()}
        self.kinds = kinds or {}
        self.sizes: dict[str, int] = {}
        self.indexes: dict[str, Rows] = {}
        self.forbidden: set[str] = set()
        self.lost = False
        self.most = SAMPLE
        self.asked: list[str] = []

    def _ask(self, what: str, ns: object) -> None:
        self.asked.append(f"{what} {ns}")
        if self.lost:
            raise ReadError("No server answers.")
        if str(ns) in self.forbidden:
            raise PrivilegeError(f"This user may not run {what} on {ns}.")

    async def catch_up(self) -> None:
        pass

    async def list_databases(self) -> list[str]:
        self._ask("databases", "")
        return sorted({ns.db for ns in self.collections} | {"admin", "local", "config"})

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        self._ask("list", db)
        return [CollectionInfo(ns, self.kinds.get(str(ns), "collection")) for ns in self.collections if ns.db == db]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        self._ask("indexes", ns)
        return [{"key": {"_id": 1}}, *self.indexes.get(str(ns), [])]

    async def estimate(self, ns: Namespace) -> int:
        self._ask("estimate", ns)
        return self.sizes.get(str(ns), len(self.collections[ns]))

    async def find_one(self, ns: Namespace, query: Mapping[str, Any], **how: Any) -> dict[str, Any] | None:
        self._ask("find_one", ns)
        return next((row for row in self.collections.get(ns, []) if query.items() <= row.items()), None)

    async def command(self, name: str, **how: Any) -> dict[str, Any]:
        self._ask(name, "")
        return {"setName": "tally", "hosts": ["a:1"]} if name == "hello" else {}

    async def find(
        self, ns: Namespace, query: Mapping[str, Any], *, limit: int = 0, time_ms: int = 0, **how: Any
    ) -> AsyncIterator[dict[str, Any]]:
        self._ask("find", ns)
        assert 0 < limit <= self.most
        assert time_ms <= 5_000
        for row in self.collections[ns][:limit]:
            yield row


async def found(memory: Memory, rules: Sequence[Rule] = ()) -> Discovery:
    discovery = Discovery(memory, CountersConfig(tuple(rules)))  # type: ignore[arg-type]
    await discovery.advance(60)
    assert not discovery.is_busy
    return discovery


def names(discovery: Discovery) -> list[str]:
    return sorted(map(str, discovery.places))


COUNTER = {"_id": "orders", "seq": 4}


async def test_a_few_documents_once_and_known_names_first() -> None:
    memory = Memory({"shop.a_orders": [{"_id": 1, "total": 3}] * 50, "shop.counters": [COUNTER], "shop.empty": []})
    discovery = await found(memory)
    assert names(discovery) == ["shop.counters"]
    assert memory.asked == ["databases ", "list shop", "find shop.counters", "find shop.a_orders", "find shop.empty"]
    memory.asked.clear()
    await discovery.advance(60)
    assert memory.asked == [], "nothing is asked again within the minute"


@pytest.mark.parametrize(("row", "found"), [({"nextPid": 8}, ["forum.objects"]), ({"nextPid": "8"}, []), ({}, [])])
async def test_the_counters_of_a_forum_are_sought_in_the_one_document_that_may_hold_them(
    row: dict[str, Any], found: list[str]
) -> None:
    rows = [{"_id": 1, "_key": "topic:1", "nextPid": 5}, {"_id": 2, "_key": "global", **row}]
    discovery = Discovery(Memory({"forum.objects": rows}), CountersConfig())  # type: ignore[arg-type]
    await discovery.advance(60)
    assert names(discovery) == found


async def test_it_is_busy_until_each_was_looked_at_once() -> None:
    memory = Memory({"shop.counters": [COUNTER], "shop.orders": [{"_id": 1, "total": 3}], "shop.secret": [COUNTER]})
    memory.forbidden = {"shop.secret"}
    discovery = Discovery(memory, CountersConfig())  # type: ignore[arg-type]
    seen = [(discovery.is_busy, discovery.looked)]
    for seconds in (0, 60, 60):
        await discovery.advance(seconds)
        seen.append((discovery.is_busy, discovery.looked))
    assert seen == [(True, 0), (True, 0), (False, 2), (False, 2)]


async def test_what_an_earlier_run_found_is_looked_at_again_after_what_none_did() -> None:
    memory = Memory({f"shop.{name}": [COUNTER] for name in ("numbering", "fresh", "old", "older", "unknown")})
    discovery, now = Discovery(memory, CountersConfig()), time.time()  # type: ignore[arg-type]
    looked = {
        "numbering": LookedAt(Content.COUNTERS, now - 9 * 86_400, (("kind", "x"),)),
        "fresh": LookedAt(Content.OTHER, now - 500),
        "old": LookedAt(Content.EMPTY, now - 700),
        "older": LookedAt(Content.OTHER, now - 2 * 86_400),
    }
    discovery.recall({Namespace("shop", name): one for name, one in looked.items()})
    await discovery.advance(60)
    asked = [line.removeprefix("find shop.") for line in memory.asked if line.startswith("find")]
    assert asked == ["unknown", "old", "older"]
    assert names(discovery) == ["shop.numbering", "shop.old", "shop.older", "shop.unknown"]
    assert discovery.places[Namespace("shop", "numbering")] == (("kind", "x"),)


async def test_beside_one_counter_of_a_library_other_documents_do_not_hide_it() -> None:
    memory = Memory({f"shop.{name}": [COUNTER, {"_id": 1, "text": "x"}] for name in ("counters", "numbering")})
    assert names(await found(memory)) == ["shop.counters"]


async def test_what_cannot_hold_counters_is_not_looked_at() -> None:
    rows = {"admin.counters": [COUNTER], "local.counters": [COUNTER], "config.counters": [COUNTER]}
    rows |= {"a.system.views": [COUNTER], "a.fs.files": [COUNTER], "a.fs.chunks": [], "a.view": [], "a.series": []}
    memory = Memory(rows, {"a.view": "view", "a.series": "timeseries"})
    await found(memory)
    assert [line for line in memory.asked if line.startswith("find")] == []


async def test_a_large_collection_of_no_known_name_is_none() -> None:
    many = [COUNTER] * SAMPLE
    memory = Memory({"shop.numbering": [COUNTER], "shop.edge": many, "shop.huge": many, "shop.counters": [COUNTER]})
    memory.sizes = {"shop.edge": MOST_GUESSED, "shop.huge": MOST_GUESSED + 1, "shop.counters": 10**7}
    assert names(await found(memory)) == ["shop.counters", "shop.edge", "shop.numbering"]
    assert [line for line in memory.asked if line.startswith("estimate")] == [
        "estimate shop.edge",
        "estimate shop.huge",
    ]


async def test_only_of_documents_with_a_date_it_is_asked_whether_they_expire() -> None:
    dated = COUNTER | {"at": datetime(2026, 1, 2, tzinfo=UTC)}
    memory = Memory({"shop.limits": [dated], "shop.numbering": [dated], "shop.numbers": [COUNTER]})
    memory.indexes = {f"shop.{name}": [{"key": {"at": 1}, "expireAfterSeconds": 60}] for name in ("limits", "numbers")}
    assert names(await found(memory)) == ["shop.numbering", "shop.numbers"]
    assert [line for line in memory.asked if line.startswith("indexes")] == [
        "indexes shop.limits",
        "indexes shop.numbering",
    ]


@pytest.mark.parametrize(("size", "is_there"), [(10, True), (10**7, False)])
async def test_counters_among_other_documents_are_asked_for_only_by_an_index(size: int, is_there: bool) -> None:
    memory = Memory({"forum.objects": [{"_key": "user:1", "name": "x"}, {"_key": "global", "nextUid": 3}]})
    memory.sizes = {"forum.objects": size}
    discovery = await found(memory)
    assert bool(discovery.places) is is_there
    assert ("find_one forum.objects" in memory.asked) is is_there
    if is_there:
        assert discovery.places[Namespace("forum", "objects")] == (("_key", "global"),)


async def test_what_may_not_be_read_is_a_trouble_where_counters_are_likely() -> None:
    memory = Memory({"a.counters": [COUNTER], "a.private": [COUNTER], "b.counters": [COUNTER]})
    memory.forbidden = {"a.counters", "a.private", "b"}
    discovery = await found(memory)
    assert sorted(discovery.troubles) == ["a.counters", "b"]
    assert (len(discovery.seen), len(discovery.unread), discovery.looked) == (2, 2, 0)


async def test_a_collection_that_the_user_names_is_taken_unseen() -> None:
    memory = Memory({"shop.odd": [{"_id": 1, "x": {"n": 3}}]})
    memory.forbidden = {"shop"}
    discovery = await found(memory, [Rule(Namespace("shop", "odd"), field="x.n")])
    assert names(discovery) == ["shop.odd"]


async def test_what_the_user_names_is_followed_before_anything_is_asked_about_others() -> None:
    class Silent(Memory):
        async def find(self, ns: Namespace, query: Mapping[str, Any], **how: Any) -> AsyncIterator[dict[str, Any]]:
            raise ReadError("No server answers.")
            yield {}

    memory = Silent({f"shop.{name}": [COUNTER] for name in ("counters", *"abcdefghijkl", "serials")})
    discovery = Discovery(memory, CountersConfig((Rule(Namespace("shop", "serials")),)))  # type: ignore[arg-type]
    with pytest.raises(ReadError):
        await discovery.advance(60)
    assert names(discovery) == ["shop.serials"]


async def test_a_lost_server_is_raised_and_the_search_goes_on_afterwards() -> None:
    memory = Memory({"shop.counters": [COUNTER]})
    memory.lost = True
    discovery = Discovery(memory, CountersConfig())  # type: ignore[arg-type]
    with pytest.raises(ReadError):
        await discovery.advance(60)
    memory.lost = False
    await discovery.advance(60)
    assert names(discovery) == ["shop.counters"]


async def test_without_the_oplog_there_is_a_trouble_and_all_the_rest() -> None:
    memory = Memory({"shop.counters": [COUNTER]})
    memory.forbidden = {"local.oplog.rs"}
    memory.most = MOST_READ + 1
    snapshot = await look(memory)  # type: ignore[arg-type]
    assert [counter.value for counter in snapshot.counters] == [4]
    (trouble,) = snapshot.troubles
    assert (trouble.ns, trouble.title.startswith("The history of counters cannot be read.")) == ("local.oplog.rs", True)


async def test_while_no_server_answers_the_last_snapshot_stays_with_the_reason() -> None:
    memory = Memory({"shop.counters": [COUNTER]})
    memory.most, seen = MOST_READ + 1, []
    async with aclosing(watch(memory, WatchSettings(refresh_seconds=0.01))) as snapshots:  # type: ignore[arg-type]
        for lost in (True, False, True):
            memory.lost = lost
            snapshot = await anext(snapshots)
            seen.append((len(snapshot.counters), snapshot.discovering, [one.title for one in snapshot.troubles][:1]))
    lost_one = ["No server answers."]
    assert [seen[0], seen[2]] == [(0, True, lost_one), (1, False, lost_one)]
    assert seen[1][:2] == (1, False)


async def test_one_query_a_collection_a_refresh() -> None:
    memory = Memory({f"shop.{name}": [COUNTER, {"_id": "users", "seq": 1}] for name in ("counters", "my_counters")})
    memory.most = MOST_READ + 1
    async with aclosing(watch(memory, WatchSettings(refresh_seconds=0.01))) as snapshots:  # type: ignore[arg-type]
        await anext(snapshots)
        memory.asked.clear()
        await anext(snapshots)
    assert sorted(memory.asked) == ["find shop.counters", "find shop.my_counters"]


async def test_an_idle_guess_is_compared_with_collections_of_its_name_first() -> None:
    others = {f"shop.{name}": [{"_id": 500}] for name in ("archive", "orders", "zones")}
    memory = Memory({"shop.number_counters": [{"_id": "Order", "value": 500}], **others})
    memory.most = MOST_READ + 1
    await look(memory, WatchSettings(oplog_history=False))
    compared = [asked for asked in memory.asked if asked.startswith("indexes") and "counters" not in asked]
    assert compared == ["indexes shop.orders", "indexes shop.archive", "indexes shop.zones"]
