"""Entries of MongoDB 7.0 to 9.0: shown in words, grouped, and replayed or refused by name."""

from __future__ import annotations

import bson
import pytest

from corpus.newer_entries import ALONE, BATCH, INDEX, SECONDS, UUID, NewerEntry
from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import parse_entry, read_entry
from tallyglass.oplog.entry.operations import Transactions
from tallyglass.oplog.entry.row import detail, row
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.earlier_writes import EarlierWrites

EVERY = (*BATCH, *ALONE)
ORDERS = {"shop.orders": StoredCollection("shop.orders", "collection", None, {}, (), bytes(UUID).hex())}


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_an_entry_is_read_and_shown(entry: NewerEntry) -> None:
    raw = entry.raw()
    shown, read = row(raw), read_entry(raw)
    whole = "admin.$cmd" if entry.what.startswith("applyOps") else entry.ns
    assert (shown.what, shown.ns) == (entry.what, whole)
    assert read == parse_entry(raw, 0, len(raw)), "the short way reads what the long one does"
    assert '"applyOps"' in detail(raw) if read.command == "applyOps" else '"o"' in detail(raw)


@pytest.mark.parametrize("entry", ALONE, ids=[entry.name for entry in ALONE])
def test_an_entry_is_replayed_or_refused_by_name(entry: NewerEntry) -> None:
    replay = Replay(ORDERS)
    replay.feed(read_entry(entry.raw()))
    replay.finish()
    assert [problem.kind for problem in replay.problems] == [entry.plan] * bool(entry.plan)
    assert "admin-collections" not in replay.kinds
    name = next(iter(entry.body["o"])) if entry.plan == "unknown-command" else ""
    assert all(name in problem.text for problem in replay.problems)


def test_a_batched_delete_of_several_entries_takes_effect_with_the_last() -> None:
    first, last = (read_entry(entry.raw(n)) for n, entry in enumerate(BATCH, 1))
    plain = read_entry(ALONE[0].raw(3))
    transactions = Transactions()
    assert [*transactions.feed(first)] == []
    assert [(one.document_id, whole.ts) for one, whole in transactions.feed(last)] == [(n, last.ts) for n in range(4)]
    assert transactions.open == {}
    assert len([*transactions.feed(plain)]) == 3
    late = Transactions()
    key = late.key(last)
    assert key is not None
    late.begin(key, [first])
    assert late.complete(last) == [first, last], "its beginning was read later"


def test_a_plan_needs_all_of_a_batched_delete_or_nothing() -> None:
    first, last = (read_entry(entry.raw(n)) for n, entry in enumerate(BATCH, 1))
    whole, cut, begun = Replay(ORDERS), Replay(ORDERS), Replay(ORDERS)
    for replay, entries in ((whole, (first, last)), (cut, (first,)), (begun, (last,))):
        for entry in entries:
            replay.feed(entry)
        replay.finish()
    assert whole.problems == []
    assert whole.applied == 6, "two groups and their four deletes: mongorestore counts both"
    assert [problem.kind for problem in cut.problems] == ["batch-cut"]
    assert cut.open_transactions() == []
    assert begun.unlinked == {last.ts: first.ts}, "the window must begin with the first"


def test_what_a_backup_must_hold_counts_a_batched_delete_only_whole() -> None:
    first, last = (read_entry(entry.raw(n)) for n, entry in enumerate(BATCH, 1))
    whole, cut = EarlierWrites([bytes(UUID)]), EarlierWrites([bytes(UUID)])
    whole.feed(last)
    whole.feed(first)
    cut.feed(first)
    assert len(whole.by_uuid[bytes(UUID)]) == 4
    assert cut.by_uuid[bytes(UUID)] == {}


@pytest.mark.parametrize("backward", [False, True])
def test_what_the_incidents_are(backward: bool) -> None:
    grouper = Grouper()
    entries = [entry.raw(n) for n, entry in enumerate(EVERY, 1)]
    for raw in entries[::-1] if backward else entries:
        grouper.feed_batch(raw)
    found = {incident.kind: incident for incident in grouper.incidents()}
    assert set(found) == {"deleteMany", "sharding", "truncateRange"}
    assert grouper.damaged == 0
    assert found["deleteMany"].documents == 4 + 3 + 1
    assert found["deleteMany"].first == Ts(SECONDS, 1)
    assert found["truncateRange"].documents == 3
    assert found["truncateRange"].ns == "shop.orders"


def test_an_index_that_expires_documents_is_seen_as_a_spec_too() -> None:
    spec = next(entry for entry in ALONE if entry.name == "an index as a spec")
    command = {"createIndexes": "orders", "spec": INDEX | {"expireAfterSeconds": 60}}
    grouper = Grouper()
    grouper.feed_batch(bson.encode(bson.decode(spec.raw()) | {"o": command}))
    assert [incident.kind for incident in grouper.incidents()] == ["createIndexes"]
    assert grouper.known.ttl == {"shop.orders"}
