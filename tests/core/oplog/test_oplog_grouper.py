"""Incidents from entries in the documented form, of servers that the live tests do not run."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import bson
import pytest
from bson import Binary, Int64, ObjectId, Timestamp

from builders.incidents import incident
from tallyglass.moment import Ts
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.incidents.commands import REMADE, bounded
from tallyglass.oplog.incidents.grouper import FINISHED_LIMIT, Grouper
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass_tui.cli.incident_facts import documents as documents_text
from tallyglass_tui.cli.incident_facts import facts

OTHERS_TOO = "Others delete here too: some of these documents may be theirs, and it may have begun earlier."
START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
SESSION = {"lsid": {"id": Binary(b"s" * 16, 4)}, "txnNumber": Int64(4)}
TEMPORARY = "tmp.agg_out.0b1c"


class Log:
    """Writes entries one after the other, each at its second."""

    def __init__(self, begin: int = 1_000) -> None:
        self.entries: list[bytes] = []
        self.begin = begin

    def add(self, at: float, op: str, ns: str, o: dict[str, Any], o2: dict[str, Any] | None = None, **first: Any) -> Ts:
        ts = Ts(self.begin + int(at), len(self.entries) + 1)
        ui = {"ui": Binary(b"\x11" * 16, 4)} if op in "iud" else {}
        statement = {"stmtId": first.pop("stmtId")} if "stmtId" in first else {}
        previous = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}} if statement else {}
        body = first | {"op": op, "ns": ns} | ui | {"o": o} | ({"o2": o2} if o2 else {}) | statement
        wall = START + timedelta(seconds=at)
        stamp = {"ts": Timestamp(*ts), "t": Int64(1), "v": Int64(2), "wall": wall}
        self.entries.append(bson.encode(body | stamp | previous))
        return ts

    def apply(self, at: float, inner: list[dict[str, Any]], flags: dict[str, Any] | None = None, **first: Any) -> Ts:
        return self.add(at, "c", "admin.$cmd", {"applyOps": inner} | (flags or {}), **first)

    def incidents(self, ttl_millis: int = 60_000, **known: set[str]) -> tuple[Incident, ...]:
        """The same entry by entry from either end, in one slice, and in three from the middle on."""
        found, single, third = [], self.entries, len(self.entries) // 3
        old, middle, new = b"".join(single[:third]), b"".join(single[third : 2 * third]), b"".join(single[2 * third :])
        for slices in (single, single[::-1], [b"".join(single)], [middle, old, new], [middle, new, old]):
            grouper = Grouper()
            grouper.known.ttl |= known.get("ttl", set())
            grouper.known.ttl_millis = ttl_millis
            grouper.known.capped |= known.get("capped", set())
            for one in slices:
                grouper.feed_batch(one)
            found.append(grouper.incidents())
        shapes = [
            [(i.number, i.kind, i.ns, i.first, i.last, i.ops, i.documents, i.point, i.note, i.parts) for i in f]
            for f in found
        ]
        assert shapes[1:] == shapes[:-1]
        return found[0]


def delete(ns: str, n: int) -> dict[str, Any]:
    return {"op": "d", "ns": ns, "o": {"_id": n}}


def test_batched_deletes_of_6_1_and_later_are_one_delete_many() -> None:
    log = Log()
    first = log.apply(0, [delete("shop.orders", n) for n in range(500)])
    log.add(0.2, "i", "shop.other", {"_id": 1}, **SESSION)
    log.add(0.3, "d", "shop.orders", {"_id": 501})
    last = log.apply(0.5, [delete("shop.orders", n) for n in range(600, 900)])
    (found,) = log.incidents()
    assert (found.kind, found.ns, found.first, found.last) == ("deleteMany", "shop.orders", first, last)
    assert (found.ops, found.documents, found.point, found.harm) == (3, 801, first, Harm.LOSS)
    assert (found.first_wall, found.last_wall) == (START, START + timedelta(seconds=0.5))
    assert found.samples == ("0", "501", "600")


def test_a_single_batch_is_enough_and_a_single_delete_is_not() -> None:
    log = Log()
    log.add(0, "d", "shop.a", {"_id": 1})
    first = log.apply(20, [delete("shop.b", 1), delete("shop.b", 2)])
    (found,) = log.incidents()
    assert (found.ns, found.first) == ("shop.b", first)


def test_what_is_damaged_is_counted_and_the_entries_before_it_are_read() -> None:
    log = Log()
    for n in range(50):
        log.add(n / 1_000, "d", "shop.orders", {"_id": n})
    grouper = Grouper()
    grouper.feed_batch(b"".join(log.entries) + log.entries[0][:40])
    (found,) = grouper.incidents()
    assert (found.documents, grouper.fed, grouper.damaged) == (50, 50, 1)
    for ns in ("shop.orders", "shop.$cmd"):
        log.add(1, "d" if ns == "shop.orders" else "c", ns, {"drop": "a"})
        log.entries[-1] = log.entries[-1].replace(b"\x09wall\0", b"\x7fwall\0")
        grouper.feed_batch(log.entries[-1])
    assert (grouper.incidents(), grouper.fed, grouper.damaged) == ((found,), 52, 3)


def test_vectored_inserts_are_no_incident() -> None:
    log = Log()
    inner = [{"op": "i", "ns": "shop.orders", "o": {"_id": n}} for n in range(500)]
    log.apply(0, inner, **SESSION, multiOpType=1)
    assert log.incidents() == ()


def test_buckets_are_named_after_their_time_series_and_not_counted_as_its_measurements() -> None:
    log = Log()
    log.apply(0, [delete("shop.system.buckets.m", n) for n in range(12)])
    (found,) = log.incidents()
    assert (found.title, found.ns) == ("deleteMany on shop.m (time-series)", "shop.system.buckets.m")
    assert "how many measurements is unknown" in found.note
    assert (facts(found)["documents"], facts(found)["documents_exact"]) == (12, False)
    assert documents_text(found) == "12 buckets"


def test_a_dropped_time_series_begins_where_its_view_was_removed() -> None:
    """At the drop of its buckets nothing is left that a point before it could bring back."""
    log = Log()
    log.add(0, "d", "shop.system.views", {"_id": "shop.m"})
    first = log.add(60.1, "d", "shop.system.views", {"_id": "shop.m"})
    last = log.add(60.3, "c", "shop.$cmd", {"drop": "system.buckets.m"}, {"numRecords": 3})
    view, found = sorted(log.incidents(), key=attrgetter("first"))
    assert view.title == "drop view shop.m"
    assert (found.kind, found.first, found.last, found.point, found.documents) == ("drop", first, last, first, 3)
    assert (found.title, found.ns) == ("drop shop.m (time-series)", "shop.system.buckets.m")
    assert "how many measurements is unknown" in found.note


def test_a_changed_view_is_listed_and_that_of_a_time_series_with_its_buckets() -> None:
    log = Log()
    for name, source in (("m", "system.buckets.m"), ("open", "orders")):
        changed = {"_id": f"shop.{name}", "viewOn": source, "pipeline": []}
        first = log.add(0, "u", "shop.system.views", changed, {"_id": f"shop.{name}"})
    (view,) = log.incidents()
    assert (view.kind, view.title, view.ns) == ("collMod", "collMod on view shop.open", "shop.open")
    assert (view.first, view.last, view.harm, view.documents) == (first, first, Harm.DEFINITION, None)


def test_a_dropped_view_is_listed_and_a_new_definition_is_not() -> None:
    log = Log()
    first = log.add(0, "d", "shop.system.views", {"_id": "shop.open\x1b"})
    log.add(0.01, "i", "shop.system.views", {"_id": "shop.open\x1b", "viewOn": "orders", "pipeline": []})
    log.add(20, "c", "shop.$cmd", {"drop": "system.buckets.m"}, {"numRecords": 3})
    view, series = sorted(log.incidents(), key=attrgetter("first"))
    assert (view.kind, view.title, view.ns) == ("drop", "drop view shop.open\\u{1b}", "shop.open\\u{1b}")
    assert (view.first, view.last, view.harm, view.documents) == (first, first, Harm.DEFINITION, None)
    assert (series.title, series.ops) == ("drop shop.m (time-series)", 1)


def test_two_mass_deletes_with_a_pause_are_two() -> None:
    log = Log()
    firsts = []
    for at in (0, 60):
        firsts.append(log.add(at, "d", "shop.orders", {"_id": 0}))
        for n in range(1, 50):
            log.add(at + n / 50, "d", "shop.orders", {"_id": n})
    assert sorted(one.first for one in log.incidents()) == firsts


UP, DOWN, MIXED = list(range(60)), list(range(60, 0, -1)), [n * 37 % 61 for n in range(60)]


@pytest.mark.parametrize(
    ("pause", "first", "second", "rows", "parts"),
    [
        (1, UP, UP, 2, 0),
        (1, DOWN, DOWN, 2, 0),
        (1, UP, DOWN, 2, 0),
        (1, UP, [n + 60 for n in UP], 1, 0),
        (5, UP, [n + 60 for n in UP], 1, 0),
        (5, UP, UP, 2, 0),
        (1, UP, [str(n) for n in UP], 1, 2),
        (0.5, MIXED, MIXED, 1, 0),
        (0.999, MIXED, MIXED, 1, 0),
        (1, MIXED, MIXED, 1, 2),
        (3, MIXED, MIXED, 1, 2),
        (5, MIXED, MIXED, 1, 2),
        (8, MIXED, MIXED, 1, 2),
        (9.999, MIXED, MIXED, 1, 2),
        (10, MIXED, MIXED, 2, 0),
        (11, MIXED, MIXED, 2, 0),
    ],
)
def test_statements_close_together_are_told_apart_or_listed_as_one_or_two(
    pause: float, first: list[Any], second: list[Any], rows: int, parts: int
) -> None:
    log = Log()
    firsts = []
    for at, ids in ((0, first), (0.06 + pause, second)):
        found = [log.add(at + n / 1_000, "d", "shop.orders", {"_id": one}) for n, one in enumerate(ids)]
        firsts.append(found[0])
    incidents = sorted(log.incidents(), key=lambda one: one.first)
    assert [one.first for one in incidents] == firsts[:rows]
    assert [part.first for one in incidents for part in one.parts] == firsts[:parts]
    if parts:
        assert (
            incidents[0].reading
            == f"One or two statements: one from {firsts[0]}, or two from {firsts[0]} (60), {firsts[1]} (60)."
        )
        assert [[part.documents for part in reading] for reading in incidents[0].readings] == [[120], [60, 60]]


def test_where_an_application_writes_too_a_pause_is_left_open_as_well() -> None:
    log = Log()
    for second in range(1_200):
        log.add(second, "d", "shop.orders", {"_id": -second})
        for pause, at in ((2, 300), (5, 600)):
            if second in (at, at + pause):
                for n in MIXED:
                    log.add(second + 0.3 + n / 10_000, "d", "shop.orders", {"_id": f"{second}.{n}"})
    found = sorted((one for one in log.incidents() if not one.routine), key=lambda one: one.first)
    assert [(one.first.t, len(one.parts)) for one in found] == [(1_300, 2), (1_600, 2)]


@pytest.mark.parametrize(
    "shape",
    [
        lambda n: n,
        Int64,
        lambda n: f"{n:03}@mail.example.com",
        lambda n: {"of": n, "by": "x" * 30},
        bson.ObjectId.from_datetime,
    ],
    ids=["number", "long", "text", "document", "ObjectId"],
)
@pytest.mark.parametrize("documents", [7, *(pytest.param(few, marks=pytest.mark.long) for few in (2, 40))])
@pytest.mark.parametrize("key", [{}, {"region": "a region with a long name"}], ids=["", "with a shard key"])
def test_no_single_statement_updates_a_document_twice(
    documents: int, shape: Callable[[Any], Any], key: dict[str, str]
) -> None:
    """350 updateOnes without a session, and the same on 350 documents."""
    for times, kind in ((1, "updateMany"), (350, "updates")):
        log = Log()
        for n in range(350):
            one = n if times == 1 else n % documents
            found_id = shape(START + timedelta(seconds=one)) if shape == bson.ObjectId.from_datetime else shape(one)
            log.add(n / 1_000, "u", "shop.orders", {"$v": 2, "diff": {"u": {"n": n}}}, {"_id": found_id, **key})
        (found,) = log.incidents()
        assert (found.kind, found.ops, found.first) == (kind, 350, Ts(1_000, 1))
        if times > 1:
            assert (found.documents, found.documents_exact) == ((documents, True) if documents < 8 else (350, False))
            assert "no single statement" in found.note


@pytest.mark.parametrize("id_", [None, True, "", "x", 7], ids=repr)
def test_one_document_that_is_replaced_again_and_again_is_one_whatever_its_id(id_: Any) -> None:
    log = Log()
    for n in range(350):
        log.add(n / 1_000, "u", "shop.settings", {"_id": id_, "n": n, "of": n << 16}, {"_id": id_})
    (found,) = log.incidents()
    assert (found.kind, found.documents, found.documents_exact) == ("updates", 1, True)


def test_documents_with_one_id_and_several_shard_keys_are_several() -> None:
    log = Log()
    for n in range(350):
        customer, id_ = (ObjectId(b"customer" + number.to_bytes(4, "big")) for number in (n, n // 2))
        log.add(n / 1_000, "u", "shop.orders", {"$v": 2, "diff": {"u": {"n": 1}}}, {"customer": customer, "_id": id_})
    (found,) = log.incidents()
    assert (found.kind, found.documents) == ("updateMany", 350)


@pytest.mark.parametrize(("shared", "rows"), [(60, 2), (0, 1)])
def test_two_statements_that_changed_one_document_both_are_two(shared: int, rows: int) -> None:
    log = Log()
    for at, begin in ((0, 0), (2, 60 - shared)):
        for n, one in enumerate(MIXED):
            log.add(at + n / 1_000, "u", "shop.orders", {"$v": 2, "diff": {"u": {"n": at}}}, {"_id": begin + one})
    found = log.incidents()
    assert [one.kind for one in found] == ["updateMany"] * rows
    assert [bool(one.parts) for one in found] == [rows == 1] * rows


@pytest.mark.parametrize(("fields", "statements"), [(("paid", "sent"), 2), (("paid", "paid"), 1)])
def test_updates_close_together_are_told_apart_by_the_fields_that_they_change(
    fields: tuple[str, str], statements: int
) -> None:
    log = Log()
    firsts = []
    for at, field in enumerate(fields):
        for n, one in enumerate(MIXED):
            other = {"_id": one + 100 * at}
            found = log.add(at + n / 1_000, "u", "shop.orders", {"$v": 2, "diff": {"u": {field: at}}}, other)
            firsts += [found] if not n else []
    assert sorted(one.first for one in log.incidents()) == firsts[:statements]


def test_ttl_passes_are_recognised_by_their_period_and_a_delete_between_them_is_reported() -> None:
    log = Log()
    for minute in range(6):
        for n in range(4):
            log.add(minute * 60 + n / 10, "d", "shop.sessions", {"_id": minute * 10 + n})
        if minute == 3:
            person = log.add(minute * 60 + 25, "d", "shop.sessions", {"_id": "p"})
            for n in range(300):
                log.add(minute * 60 + 25 + n / 1_000, "d", "shop.sessions", {"_id": f"p{n}"})
    found = {one.kind: one for one in log.incidents(ttl={"shop.sessions"})}
    assert found["deleteMany"].first == person
    assert "TTL" in found["deleteMany"].note
    assert (found["ttl"].ops, found["ttl"].note) == (24, "6 times")
    assert list(found) == ["deleteMany", "ttl"]


@pytest.mark.parametrize(
    ("seconds", "known", "kinds"),
    [(1, 1, ["ttl"]), (60, 60, ["ttl"]), (60, 0, ["deleteMany", "job"]), (300, 300, ["ttl"])],
    ids=["each second", "each minute", "interval unknown", "each five minutes"],
)
def test_the_interval_of_ttl_passes_is_the_servers(seconds: int, known: int, kinds: list[str]) -> None:
    """Passes of different sizes, a pause of the monitor, and a person's delete after it that is no pass."""
    log, expiring = Log(), {"shop.logs"}
    for turn in range(12):
        at = (turn + 4 * (turn > 8)) * seconds
        for n in range((3, 9)[turn % 2] * (1 + 4 * (turn == 9))):
            log.add(at + n / 10_000, "d", "shop.logs", {"_id": f"{turn}.{n}"})
    assert [one.kind for one in log.incidents(ttl=expiring, ttl_millis=known * 1_000)] == kinds
    (person, *_) = [log.add(20 * seconds + n / 10_000, "d", "shop.logs", {"_id": n}) for n in range(1_200)]
    (found,) = [one for one in log.incidents(ttl=expiring, ttl_millis=known * 1_000) if one.first == person]
    assert (found.kind, found.confidence == "low") == ("deleteMany", not known or seconds < 60)
    assert "TTL index" in found.note


@pytest.mark.parametrize("seconds", [1, 60])
def test_deletes_that_nothing_is_in_step_with_are_no_ttl_pass(seconds: int) -> None:
    """Documents that expire by a mistake are all in the first pass."""
    log = Log()
    for n in range(1_400):
        log.add(9 + n / 2_000, "d", "shop.orders", {"_id": n})
    (found,) = log.incidents(ttl={"shop.orders"}, ttl_millis=seconds * 1_000)
    assert (found.kind, found.documents, found.note) == ("deleteMany", 1_400, "or the TTL index of this collection")


def test_trims_of_a_capped_collection_count_only_since_it_is_capped() -> None:
    log = Log()
    first = log.add(0, "d", "shop.log", {"_id": 1})
    log.add(0.1, "d", "shop.log", {"_id": 2})
    rename = {
        "renameCollection": "shop.tmpAb3dE.convertToCapped.log",
        "to": "shop.log",
        "dropTarget": Binary(b"u" * 16, 4),
    }
    log.add(20, "c", "shop.$cmd", rename, {"numRecords": 9})
    for n in range(5):
        log.add(40 + n * 10, "d", "shop.log", {"_id": 10 + n})
        log.add(40.1 + n * 10, "d", "shop.log", {"_id": 20 + n})
    kinds = [(one.kind, one.ops) for one in log.incidents(capped={"shop.log"})]
    assert kinds == [("convertToCapped", 1), ("deleteMany", 2), ("capped", 10)]
    assert log.incidents(capped={"shop.log"})[1].first == first


def test_a_delete_unlike_the_trims_of_a_capped_collection_may_be_a_persons() -> None:
    log = Log(int(START.timestamp()))
    for n in range(360):
        log.add(10 * n, "d", "shop.log", {"_id": n})
        if n == 200:
            first, *_ = [log.add(2_001 + i / 1_000, "d", "shop.log", {"_id": i}) for i in range(1_000, 1_500)]
    act, trims = log.incidents(capped={"shop.log"})
    assert (act.kind, act.first, act.documents, act.confidence, act.routine) == ("deleteMany", first, 500, "low", False)
    assert act.note.startswith("or the size limit of this capped collection")
    assert (trims.kind, trims.documents) == ("capped", 360)


@pytest.mark.parametrize(("seconds", "remade"), [(0.5, True), (1, True), (1.001, False), (-0.5, False), (70, False)])
def test_what_is_made_again_within_a_second_says_so(seconds: float, remade: bool) -> None:
    log = Log()
    for at, body in sorted(
        [(30.0, {"drop": "a"}), (30 + seconds, {"create": "a"}), (30.1, {"create": "b"})], key=lambda one: one[0]
    ):
        log.add(at, "c", "shop.$cmd", body)
    (found,) = log.incidents()
    assert (found.kind, found.ns, found.note) == ("drop", "shop.a", REMADE if remade else "")


def test_drop_database_takes_in_its_drops_and_no_older_ones() -> None:
    log = Log()
    older = log.add(0, "c", "shop.$cmd", {"drop": "old"}, {"numRecords": 1})
    first = log.add(30, "c", "shop.$cmd", {"drop": "a"}, {"numRecords": 5})
    log.add(30.1, "c", "crm.$cmd", {"drop": "b"}, {"numRecords": 2})
    log.add(30.2, "c", "shop.$cmd", {"drop": "c"}, {"numRecords": 7})
    last = log.add(32, "c", "shop.$cmd", {"dropDatabase": 1})
    found = {(one.kind, one.ns): one for one in log.incidents()}
    whole = found["dropDatabase", "shop"]
    assert (whole.first, whole.last, whole.ops, whole.documents) == (first, last, 3, 12)
    assert found["drop", "shop.old"].first == older
    assert set(found) == {("dropDatabase", "shop"), ("drop", "shop.old"), ("drop", "crm.b")}


def test_a_prepared_transaction_counts_from_its_commit_and_an_aborted_one_never() -> None:
    for end, count in (("commitTransaction", 1), ("abortTransaction", 0)):
        log = Log()
        previous = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
        inner = [delete("shop.orders", n) for n in range(150)]
        first = log.apply(0, inner, {"prepare": True}, **SESSION, **previous)
        commit = log.add(9, "c", "admin.$cmd", {end: 1}, **SESSION, prevOpTime={"ts": Timestamp(*first), "t": Int64(1)})
        found = log.incidents()
        assert len(found) == count
        for one in found:
            assert (one.first, one.last, one.point, one.documents) == (first, commit, commit, 150)


@pytest.mark.parametrize(
    ("flags", "before", "wanted"),
    [
        ({}, Timestamp(0, 0), [(10, "deletes")]),
        ({"prepare": True}, Timestamp(0, 0), []),  # it may still be aborted
        ({"partialTxn": True}, Timestamp(0, 0), []),  # more of it follows
        ({}, Timestamp(999, 1), []),  # more of it came before
    ],
)
def test_a_small_transaction_counts_as_writes_of_its_session_if_it_is_whole(
    flags: dict[str, bool], before: Timestamp, wanted: list[tuple[int, str]]
) -> None:
    log, previous = Log(), {"prevOpTime": {"ts": before, "t": Int64(-1)}}
    log.apply(0, [delete("shop.orders", n) for n in range(10)], flags, **SESSION, **previous)
    assert [(one.documents, one.kind) for one in log.incidents()] == wanted


@pytest.mark.parametrize(("step", "rows"), [(1, [12]), (2, [6, 6])])
def test_small_transactions_are_one_run_of_their_session_by_their_numbers(step: int, rows: list[int]) -> None:
    log, previous = Log(), {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    for n in range(2):
        number = SESSION | {"txnNumber": Int64(7 + n * step)}
        log.apply(30 * n, [delete("shop.orders", 6 * n + one) for one in range(6)], **number, **previous)
    assert [one.documents for one in sorted(log.incidents(), key=lambda one: one.first)] == rows


@pytest.mark.parametrize("flags", [{}, {"prepare": True}], ids=["whole", "prepared"])
@pytest.mark.parametrize("last", ["i", "u", "d"])
def test_a_transaction_that_only_inserts_is_no_incident(last: str, flags: dict[str, bool]) -> None:
    """An import harms nothing, and an undo of it would bring nothing back. One that also changes or removes counts."""
    log, previous = Log(), {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    inner = [{"op": "i", "ns": "shop.orders", "o": {"_id": n}} for n in range(25)]
    other = {"u": {"op": "u", "ns": "shop.orders", "o": {"$v": 2, "diff": {"u": {"n": 1}}}, "o2": {"_id": 1}}}
    end = {"i": [], "u": [other["u"]], "d": [delete("shop.orders", 1)]}[last]
    first = log.apply(0, [*inner, *end], flags, **SESSION, **previous)
    if flags:
        place = {"ts": Timestamp(*first), "t": Int64(1)}
        log.add(9, "c", "admin.$cmd", {"commitTransaction": 1}, **SESSION, prevOpTime=place)
    wanted = {"i": [], "u": [(26, Harm.CHANGE)], "d": [(26, Harm.LOSS)]}[last]
    assert [(one.documents, one.harm) for one in log.incidents()] == wanted


def test_a_transaction_is_named_after_all_its_entries_and_removes_data_if_one_operation_does() -> None:
    """The last entry has the smaller part, on another collection, and the only delete stands after many inserts."""
    log, later = Log(), {"prevOpTime": {"ts": Timestamp(1_000, 1), "t": Int64(1)}}
    orders = [{"op": "i", "ns": "shop.orders", "o": {"_id": n}} for n in range(6_000)]
    log.apply(0, [*orders, delete("shop.orders", 1)], {"partialTxn": True}, **SESSION)
    end = log.apply(1, [{"op": "i", "ns": "shop.log", "o": {"_id": n}} for n in range(30)], **SESSION, **later)
    (found,) = log.incidents()
    assert (found.title, found.ns, found.documents) == ("transaction on shop.orders +1", "shop.orders", 6_031)
    assert (found.harm, found.point, found.sessions) == (Harm.LOSS, end, 1)


@pytest.mark.parametrize("ops", ["du", "ud", "uu"])
def test_transactions_of_a_session_one_after_the_other_remove_data_if_one_of_them_does(ops: str) -> None:
    log, first = Log(), {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    for n, op in enumerate(ops):
        inner = [{"op": op, "ns": "shop.orders", "o": {"_id": one}, "o2": {"_id": one}} for one in range(30)]
        log.apply(2 * n, inner, lsid=SESSION["lsid"], txnNumber=Int64(n), **first)
    (found,) = log.incidents()
    assert (found.documents, found.harm) == (60, Harm.LOSS if "d" in ops else Harm.CHANGE)


@pytest.mark.parametrize("minutes", [3, 30])
def test_transactions_that_recur_are_routine_and_one_that_does_not_is_listed(minutes: int) -> None:
    """An application changes five to thirty documents in one; once it, or a person, changes two hundred."""
    log, first = Log(), {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    for n in range(2 * minutes):
        size = 200 if n == minutes else (30 if n % 3 else 5)
        inner = [{"op": "u", "ns": "shop.orders", "o": {"$v": 2}, "o2": {"_id": one}} for one in range(size)]
        log.apply(30 * n, inner, lsid=SESSION["lsid"], txnNumber=Int64(n), **first)
    found = log.incidents()
    listed = [(one.documents, one.confidence) for one in found if not one.routine]
    assert listed == ([(200, "low"), (5, "low")] if minutes == 3 else [(200, "high")])
    assert "transaction on shop.orders" in {one.title for one in found if one.routine}


def test_out_of_older_servers_and_its_failed_temporary_collection() -> None:
    log = Log()
    log.add(0, "c", "shop.$cmd", {"create": TEMPORARY, "temp": True})
    log.add(0.1, "c", "shop.$cmd", {"drop": TEMPORARY}, {"numRecords": 5})
    at = log.add(9, "c", "shop.$cmd", {"renameCollection": f"shop.{TEMPORARY}", "to": "shop.r", "dropTarget": True})
    (found,) = log.incidents()
    assert (found.kind, found.first, found.harm, found.documents) == ("out", at, Harm.LOSS, None)


@pytest.mark.parametrize("name", [TEMPORARY, "tmpAb3dE.renameCollection", "orders_pitr_20261122T084100", "orders"])
def test_a_ttl_index_that_a_temporary_collection_inherits_is_nothing_new(name: str) -> None:
    """``$out`` gives its result the indexes that the collection had before."""
    log = Log()
    spec = {"v": 2, "key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}
    log.add(0, "c", "shop.$cmd", {"createIndexes": name} | spec)
    log.add(1, "c", "shop.$cmd", {"commitIndexBuild": name, "indexes": [spec]})
    assert [one.kind for one in log.incidents()] == ["createIndexes"] * 2 * (name == "orders")


def test_the_staging_collection_of_a_return_is_nobodys_loss() -> None:
    log = Log()
    log.add(0, "c", "shop.$cmd", {"drop": "orders_pitr_20261122T084100"}, {"numRecords": 5})
    log.add(9, "c", "shop.$cmd", {"drop": "orders_pitr_notes"}, {"numRecords": 5})
    (found,) = log.incidents()
    assert found.ns == "shop.orders_pitr_notes"


@pytest.mark.parametrize(
    ("updates", "marked", "kind"),
    [(30, 30, "return"), (31, 30, "updateMany"), (30, None, "updateMany")],
    ids=["as many as it had to write", "more", "it never ended"],
)
def test_what_a_return_wrote_is_no_act(updates: int, marked: int | None, kind: str) -> None:
    staging = "shop.orders_pitr_20261122T084100"
    log = Log()
    log.add(0, "c", "shop.$cmd", {"create": "orders_pitr_20261122T084100"})
    log.add(1, "i", staging, {"_id": 1, "r": {}, "f": []})
    log.add(2, "u", staging, {"$v": 2, "diff": {"i": {"b": START, "n": marked or 30}}}, {"_id": 1})
    for n in range(updates):
        log.add(2 + n / 1_000, "u", "shop.orders", {"$v": 2, "diff": {"u": {"a": n}}}, {"_id": n})
    if marked:
        log.add(3, "u", staging, {"$v": 2, "diff": {"d": {"n": False}}}, {"_id": 1})
        log.add(3.5, "c", "shop.$cmd", {"drop": "orders_pitr_20261122T084100"}, {"numRecords": 5})
    for n in range(40):
        log.add(9, "u", "shop.orders", {"$v": 2, "diff": {"u": {"a": 0}}}, {"_id": n})
    found = {row.first.t: row for row in log.incidents()}
    assert (found[1_002].kind, found[1_002].routine, found[1_002].documents) == (kind, kind == "return", updates)
    assert (found[1_009].kind, found[1_009].documents) == ("updateMany", 40)


def test_a_trickle_without_sessions_has_a_note() -> None:
    log = Log()
    for n in range(60):
        log.add(n, "u", "shop.orders", {"$v": 2, "diff": {"u": {"a": n}}}, {"_id": n})
    (found,) = log.incidents()
    assert "retryWrites=false" in found.note


def test_the_worst_of_each_kind_and_the_first_of_each_collection_are_not_left_out() -> None:
    many = [incident(0, 1_000 + n, ns="shop.a", documents=300 + n) for n in range(FINISHED_LIMIT)]
    other_kind = incident(0, 900, Harm.CHANGE, ns="shop.a", kind="collMod")
    first, second = (incident(0, 900, ns="shop.b", documents=documents) for documents in (2, 1))
    found = bounded([other_kind, first, second, *many])
    assert (found[0], found[-1], len(found)) == (many[-1], many[2], FINISHED_LIMIT)
    assert [one in found for one in (other_kind, first, second)] == [True, True, False]


@pytest.mark.parametrize("backward", [False, pytest.param(True, marks=pytest.mark.long)])
def test_memory_is_bounded_and_what_is_forgotten_is_counted(backward: bool) -> None:
    log = Log()
    worst = log.add(0, "c", "shop.$cmd", {"drop": "important"}, {"numRecords": 10**9})
    for n in range(3 * FINISHED_LIMIT):
        name = "".join(chr(ord("g") + int(digit)) for digit in str(n))
        log.add(20 * n, "c", f"{name}.$cmd", {"drop": "x"}, {"numRecords": 1})
    grouper = Grouper()
    for raw in log.entries[::-1] if backward else log.entries:
        grouper.feed_batch(raw)
    found = grouper.incidents()
    assert found[0].first == worst
    assert len(found) <= 2 * FINISHED_LIMIT
    assert len(found) + grouper.left_out == len(log.entries)


def test_a_command_of_which_not_every_run_is_kept_counts_them_all() -> None:
    log = Log()
    for n in range(2 * FINISHED_LIMIT + 2):
        log.add(20 * n, "c", "shop.$cmd", {"drop": "cache"}, {"numRecords": 3})
    grouper = Grouper()
    for raw in log.entries:
        grouper.feed_batch(raw)
    (found,), (recurring,) = grouper.incidents(), grouper.recurring
    assert (found.ops, found.documents, found.note.partition(" times")[0]) == (4_002, 12_006, "4,002")
    assert (found.first.t, found.last.t) == (1_000, 1_000 + 20 * 4_001)
    assert (len(recurring.runs) + recurring.times, recurring.row.ops) == (4_002, 4_002)
    assert recurring.folded is not None
    assert recurring.folded.ops == recurring.times > 3_900


@pytest.mark.parametrize(
    ("sessions", "users", "told"),
    [(b"s", b"u", ("73" * 16, 1, "75" * 32)), (b"st", b"u", ("", 2, "75" * 32)), (b"stv", b"uuw", ("", 3, ""))],
)
def test_routine_names_a_session_or_user_only_where_it_is_the_only_one(
    sessions: bytes, users: bytes, told: tuple[str, int, str]
) -> None:
    log = Log()
    for n in range(30):
        lsid = {"id": Binary(bytes([sessions[n % len(sessions)]]) * 16, 4)}
        lsid["uid"] = Binary(bytes([users[n % len(users)]]) * 32)
        inner = [delete("shop.orders", f"{n}-{k}") for k in range(40)]
        log.apply(20 * n, inner, lsid=lsid, txnNumber=Int64(n))
    (found,) = log.incidents()
    assert (found.kind, found.txn) == ("job", None)
    assert (found.session, found.sessions, found.user_hash) == told


def test_backward_then_forward_finds_the_same_as_forward() -> None:
    log = Log()
    for n in range(6):
        log.add(n, "d", "shop.orders", {"_id": n})
    log.add(6, "c", "shop.$cmd", {"drop": "old"}, {"numRecords": 1})
    for n in range(4):
        log.add(20 + n, "u", "shop.stock", {"_id": n}, {"_id": n})
    log.add(40, "c", "crm.$cmd", {"drop": "a"}, {"numRecords": 5})
    log.add(40.5, "c", "crm.$cmd", {"drop": "b"}, {"numRecords": 5})
    log.add(42, "c", "crm.$cmd", {"dropDatabase": 1})
    inner = [delete("shop.big", n) for n in range(30)]
    before = Ts(0, 0)
    for flags in ({"partialTxn": True}, {"partialTxn": True}, {"count": Int64(90)}):
        before = log.apply(60, inner, flags, **SESSION, prevOpTime={"ts": Timestamp(*before), "t": Int64(1)})
    for version in ({"version": "6.0", "targetVersion": "7.0"}, {"version": "7.0"}):
        log.add(80, "u", "admin.system.version", version, {"_id": "featureCompatibilityVersion"})
    for n in range(6):
        log.add(81 + n, "d", "shop.orders", {"_id": n})
    whole = [(one.kind, one.first, one.last, one.ops, one.documents, one.point) for one in log.incidents()]
    assert len(whole) == 7
    for turn in range(1, len(log.entries)):
        grouper = Grouper()
        grouper.note_newest(row(log.entries[turn - 1]).ts, None)
        for raw in reversed(log.entries[:turn]):
            grouper.feed_batch(raw)
        for raw in log.entries[turn:]:
            grouper.feed_batch(raw)
        found = [(one.kind, one.first, one.last, one.ops, one.documents, one.point) for one in grouper.incidents()]
        assert found == whole, turn


def test_sessions_are_told_apart_where_lsid_is_not_the_first_field() -> None:
    log = Log()
    for n in range(30):
        lsid = {"id": Binary(bytes([n % 2]) * 16, 4), "uid": Binary(b"u" * 32)}
        log.add(n * 0.1, "d", "shop.carts", {"_id": n}, ts=None, t=None, lsid=lsid, txnNumber=Int64(1 + n // 2))
    assert [(one.documents, one.sessions) for one in log.incidents()] == [(15, 1), (15, 1)]


def test_more_sessions_in_one_batch_than_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyglass.oplog.incidents.compaction.RUN_LIMIT", 3)
    log = Log()
    numbers = [(0, n) for n in range(25)] + [(n, 1) for n in range(1, 9)] + [(0, 500 + n) for n in range(25)]
    for at, (session, number) in enumerate(numbers):
        lsid = {"id": Binary(bytes([session]) * 16, 4), "uid": Binary(b"u" * 32)}
        log.add(at * 0.1, "d", "shop.carts", {"_id": at}, lsid=lsid, txnNumber=Int64(number))
    grouper = Grouper()
    grouper.feed_batch(b"".join(log.entries))
    (found,) = grouper.incidents()
    assert (found.kind, found.documents, found.sessions) == ("deletes", 50, 1)


@pytest.mark.parametrize("pause", [0.3, 1.0, 2.9])
def test_a_pause_of_the_server_neither_tears_a_delete_many_nor_delays_its_point(pause: float) -> None:
    log = Log()
    first = log.add(1, "d", "shop.orders", {"_id": 0})
    for n in range(1, 200):
        last = log.add(1 + pause * (n > 2) + pause * (n > 150) + n * 0.001, "d", "shop.orders", {"_id": n})
    log.add(40, "i", "shop.other", {"_id": 1}, **SESSION)
    (found,) = log.incidents()
    assert (found.first, found.last, found.point, found.documents) == (first, last, first, 200)
    assert found.documents_exact


@pytest.mark.parametrize(
    ("before", "pause"),
    [
        (3, 0.006),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in ((2, 0.03), (7, 0.03), (9, 0.2), (15, 0.03), (16, 0.06))
        ),
    ],
)
def test_a_short_pause_among_the_first_entries_is_part_of_the_act(before: int, pause: float) -> None:
    """An application deletes a document each second; a server's pause in a person's statement is not its end."""
    log, first = Log(), None
    for second in range(4_000):
        log.add(second, "d", "shop.orders", {"_id": -second})
        if second == 3_000:
            for n in range(500):
                ts = log.add(second + 0.3 + n / 10_000 + pause * (n >= before), "d", "shop.orders", {"_id": n})
                first = first or ts
    (act,) = [one for one in log.incidents() if not one.routine]
    assert (act.first, act.documents) == (first, 500)


def spread(log: Log, begin: float, count: int, pool: range, *, every: float, pause: float = 0.0) -> list[Ts]:
    """Deletes by the sessions of a pool in turn, with a pause of the server after each 15 of them."""
    found = []
    for n in range(count):
        lsid = {"id": Binary(bytes((pool[n % len(pool)],)) * 16, 4), "uid": Binary(b"u" * 32)}
        at, number = begin + n * every + n // 15 * pause, Int64(n // len(pool))
        found.append(log.add(at, "d", "s.pool", {"_id": n}, lsid=lsid, txnNumber=number, stmtId=0))
    return found


def test_deletes_of_a_pool_are_one_row_from_the_first_of_any_session() -> None:
    """The server pauses, and most sessions write too little for a row of their own."""
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    spread(log, 170, 6, range(50, 56), every=1)
    dense = spread(log, 200, 400, range(16), every=0.001, pause=0.05)
    dense += spread(log, 200.9, 150, range(20, 36), every=0.001)
    log.add(2_000, "n", "", {"msg": "periodic noop"})
    (found,) = log.incidents()
    assert (found.kind, found.documents, found.documents_exact) == ("fan_out", 550, True)
    assert (found.first, found.limit, found.last) == (dense[0], dense[0], dense[-1])
    assert found.sessions >= 2
    assert "without a session" not in found.who
    assert "session" in found.who or found.user_hash


@pytest.mark.parametrize("others", [60, 900], ids=["all are kept", "only some are kept"])
def test_an_act_of_a_pool_begins_with_the_first_of_its_sessions(others: int) -> None:
    """The first session waited longer than a server usually pauses, before the others began."""
    log = Log()
    spread(log, 0, others, range(60, 63), every=150 / others)
    (first,) = spread(log, 199.5, 1, range(1), every=1)
    rest = spread(log, 200, 300, range(16), every=0.001)
    spread(log, 202, others, range(70, 73), every=200 / others)
    (found,) = [one for one in log.incidents() if not one.routine]
    assert (found.kind, found.first, found.last, found.documents_exact) == ("fan_out", first, rest[-1], False)
    assert found.documents in (300, 301)
    assert found.note.endswith("it may have begun earlier.")


def test_a_slow_statement_is_whole_where_some_of_its_pauses_are_short() -> None:
    """More single writes than are kept, and pairs of them."""
    log = Log(int(START.timestamp()))
    log.add(0, "n", "", {"msg": "periodic noop"})
    first, *_ = [log.add(1_000 + 0.051 * n - 0.002 * (n % 4 == 1), "d", "s.c", {"_id": n}) for n in range(600)]
    log.add(3_600, "n", "", {"msg": "periodic noop"})
    (found,) = log.incidents()
    assert (found.kind, found.first, found.documents, found.documents_exact) == ("slow_loop", first, 600, True)


@pytest.mark.long
@pytest.mark.parametrize("minutes", [1, 3])
def test_a_script_of_some_minutes_is_an_act_for_its_own_batches_are_no_others(minutes: int) -> None:
    log = Log(int(START.timestamp()))
    log.add(0, "n", "", {"msg": "periodic noop"})
    for batch in range(30 * minutes):
        for n in range(100):
            key = {"lsid": SESSION["lsid"], "txnNumber": Int64(batch), "stmtId": n}
            log.add(1_000 + 2 * batch + n / 10_000, "d", "shop.orders", {"_id": 100 * batch + n}, **key)
    log.add(3_600, "n", "", {"msg": "periodic noop"})
    (found,) = log.incidents()
    assert (found.routine, found.documents) == (False, 3_000 * minutes)


@pytest.mark.parametrize(("pause", "routine"), [(9, False), (25, True)])
def test_drops_one_after_the_other_are_acts(pause: int, routine: bool) -> None:
    """Collections whose names differ by a number; with longer pauses that is how a cache is cleared."""
    log = Log(int(START.timestamp()))
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(30):
        log.add(1_000 + pause * n, "c", "shop.$cmd", {"drop": f"orders_{n}"}, {"numRecords": 50})
    log.add(3_600, "n", "", {"msg": "periodic noop"})
    assert {one.routine for one in log.incidents()} == {routine}


def test_a_loop_of_two_minutes_is_an_act_though_something_else_was_written_before() -> None:
    """What lies within one stretch of time is not seen at other times."""
    log, rng = Log(int(START.timestamp())), random.Random(5)
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(100):
        log.add(300 + n / 10_000, "u", "shop.coupons", {"$v": 2}, {"_id": n})
    at, first = 750.0, None
    while at < 885:
        ts = log.add(at, "u", "shop.coupons", {"$v": 2}, {"_id": 130 + (first is None)})
        first = first or ts
        at += rng.choice([0.01, 0.3, 1.5])
    log.add(1_600, "n", "", {"msg": "periodic noop"})
    statement, *loop = sorted(log.incidents(), key=lambda one: one.first)
    assert (statement.kind, statement.documents, statement.confidence) == ("updateMany", 100, "high")
    assert [one.routine for one in loop] == [False] * len(loop)
    assert (loop[0].first, loop[0].confidence) == (first, "low")


def test_single_writes_of_a_pool_that_pauses_are_no_statements() -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for begin in (200, 202.5):
        spread(log, begin, 300, range(16), every=0.001)
    log.add(2_000, "n", "", {"msg": "periodic noop"})
    (found,) = log.incidents()
    assert (found.kind, found.documents, found.parts) == ("fan_out", 600, ())


def test_a_pool_is_told_from_sessions_that_always_delete() -> None:
    log = Log()
    spread(log, 0, 400, range(60, 63), every=0.5)
    dense = spread(log, 200.001, 900, range(16), every=0.0005)
    spread(log, 201, 400, range(70, 73), every=0.5)
    (found,) = [one for one in log.incidents() if one.kind == "fan_out"]
    assert (found.documents, found.limit, found.documents_exact) == (900, dense[0], False)


@pytest.mark.long
def test_what_a_pool_writes_when_it_meets_by_chance_is_no_act() -> None:
    """An application that was started twelve minutes ago, on a server whose oplog is older: some of its writes meet."""
    log, rng = Log(), random.Random(3)
    log.add(0, "n", "", {"msg": "periodic noop"})
    at, numbers, hurried = 90_000.0, [0] * 6, list[Ts]()
    while at < 90_720:
        at += rng.expovariate(7)
        if at > 90_400 and not hurried:
            hurried = spread(log, 90_400.2, 300, range(16), every=0.002)
            at = 90_401.5
        session = rng.randrange(6)
        numbers[session] += rng.choice((1, 1, 8))
        lsid = {"id": Binary(bytes((90 + session,)) * 16, 4), "uid": Binary(b"u" * 32)}
        log.add(at, "d", "s.pool", {"_id": len(log.entries)}, lsid=lsid, txnNumber=Int64(numbers[session]), stmtId=0)
    found = log.incidents()
    (act,) = [one for one in found if not one.routine]
    assert (act.first, act.limit, act.last, act.documents) == (hurried[0], hurried[0], hurried[-1], 300)
    assert not act.documents_exact
    assert [one.kind for one in found if one.routine] == ["trickle"]


def test_a_worker_that_ended_is_not_called_a_script() -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(1_500):
        lsid = {"id": Binary(b"w" * 16, 4), "uid": Binary(b"u" * 32)}
        log.add(600 + n * 0.3, "d", "shop.jobs", {"_id": n}, lsid=lsid, txnNumber=Int64(1 + n), stmtId=0)
    log.add(9_000, "n", "", {"msg": "periodic noop"})
    (found,) = log.incidents()
    assert (found.documents, found.confidence) == (1_500, "low")
    assert "worker" in found.note


@pytest.mark.parametrize(("every", "confidence"), [(0.3, "low"), (0.02, "high")])
def test_a_session_that_writes_on_with_pauses_may_be_a_worker_that_began(every: float, confidence: str) -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(100):
        lsid = {"id": Binary(b"w" * 16, 4), "uid": Binary(b"u" * 32)}
        log.add(600 + n * every, "d", "shop.jobs", {"_id": n}, lsid=lsid, txnNumber=Int64(1 + n), stmtId=0)
    (found,) = log.incidents()
    assert (found.documents, found.confidence, "worker" in found.note) == (100, confidence, confidence == "low")


@pytest.mark.parametrize(("times", "rows"), [(1, ["out"]), (2, ["out", "out"]), (5, ["job"])])
def test_a_command_that_recurs_is_routine_and_says_how_often(times: int, rows: list[str]) -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(times):
        source = f"shop.{TEMPORARY}"
        rename = {"renameCollection": source, "to": f"shop.report_{20261120 + n}", "dropTarget": True}
        log.add(300 + 300 * n, "c", "shop.$cmd", rename, {"numRecords": 900 + 100 * n})
    log.add(2_000, "n", "", {"msg": "periodic noop"})
    found = log.incidents()
    assert [one.kind for one in found] == rows
    assert {one.confidence for one in found if not one.routine} <= ({"high"} if times == 1 else {"low"})
    assert [one.note for one in found if one.routine] == ["5 times, about every 300 s"] * (times == 5)


def test_single_deletes_of_an_application_are_not_part_of_a_statement_after_them() -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for n in range(600):
        log.add(1_000 + n * 0.1, "d", "shop.orders", {"_id": -n})
    first = log.add(1_060, "d", "shop.orders", {"_id": 0})
    for n in range(1, 3_000):
        log.add(1_060 + n / 10_000, "d", "shop.orders", {"_id": n})
    log.add(9_000, "n", "", {"msg": "periodic noop"})
    found = {one.kind: one for one in log.incidents()}
    assert (found["deleteMany"].limit, found["deleteMany"].documents) == (first, 3_000)
    loop = found["slow_loop"]
    assert (loop.limit.t, loop.documents_exact) == (2_000, False), "of so many single writes only some are kept"


def test_a_change_of_the_time_after_which_documents_expire_keeps_what_is_known_of_earlier_passes() -> None:
    log = Log()
    for minute in range(20):
        for n in range(30 + minute % 3):
            log.add(minute * 60 + n / 1_000, "d", "shop.logs", {"_id": minute * 100 + n})
    log.add(1_170, "c", "shop.$cmd", {"collMod": "logs", "index": {"name": "at_1", "expireAfterSeconds": 60}})
    assert sorted(one.kind for one in log.incidents(ttl={"shop.logs"})) == ["collMod", "ttl"]


@pytest.mark.parametrize(
    ("size", "minute", "note"),
    [
        (30, 8.0, ""),
        (30, 8.5, "Much like this recurs here, but it is out of step with all else here, every 60 s."),
        (80, 8.0, "Much like this recurs here, but it is twice as large as all else here."),
    ],
    ids=["as usual", "between two runs", "as a run, but larger"],
)
def test_what_is_out_of_step_or_larger_than_all_else_may_be_an_act(size: int, minute: float, note: str) -> None:
    """A job deletes 20 to 40 each minute; a deleteMany within four times of that is not sure to be somebody's."""
    log = Log()
    wanted: list[tuple[Any, ...]] = []
    for at, documents in sorted([*((float(n), 20 + 7 * n % 21) for n in range(20) if n != minute), (minute, size)]):
        first = log.add(at * 60, "d", "shop.results", {"_id": f"{at}"})
        for n in range(1, documents):
            log.add(at * 60 + n / 1_000, "d", "shop.results", {"_id": f"{at}.{n}"})
        wanted += [(first, size, "low", f"{note} {OTHERS_TOO}")] if at == minute and note else []
    found = [(one.first, one.documents, one.confidence, one.note) for one in log.incidents() if not one.routine]
    assert found == wanted


@pytest.mark.parametrize(("others", "routine"), [(4, True), (2, False)])
def test_a_run_without_a_pause_is_compared_with_whole_runs_that_had_some(others: int, routine: bool) -> None:
    log = Log()
    log.add(0, "n", "", {"msg": "periodic noop"})
    for run in range(others + 1):
        pause = 0.1 if run else 0.0
        for n in range(600):
            log.add(300 * (run + 1) + n / 10_000 + n // 100 * pause, "d", "shop.results", {"_id": run * 1_000 + n})
    log.add(2_000, "n", "", {"msg": "periodic noop"})
    acts = {one.first.t for one in log.incidents() if not one.routine}
    assert acts == (set() if routine else {1_300, 1_600, 1_900})


@pytest.mark.parametrize(("field", "wanted"), [("state", []), ("email", [(30, "low")])])
@pytest.mark.parametrize("runs", [6, 12])
def test_what_changes_fields_that_nothing_else_changes_may_be_an_act(
    runs: int, field: str, wanted: list[tuple[int, str]]
) -> None:
    """A job sets the state of thirty documents now and then; once a statement of that size sets something."""
    log = Log()
    for run, at in enumerate((0, 61, 118, 200, 233, 310, 395, 402, 480, 561, 633, 700)[:runs]):
        for n in range(30):
            change = {"$v": 2, "diff": {"u": {field if run == 3 else "state": run}}}
            log.add(at + n / 1_000, "u", "shop.jobs", change, {"_id": run * 100 + n})
    found = [one for one in log.incidents() if not one.routine]
    assert [(one.documents, one.confidence) for one in found] == wanted
    assert all("fields that nothing else here changes" in one.note for one in found)


def test_runs_that_keep_no_time_are_all_routine() -> None:
    log = Log()
    for at in (0, 61, 118, 200, 233, 310, 395, 402, 480, 561, 633, 700):
        for n in range(30):
            log.add(at + n / 1_000, "d", "shop.results", {"_id": f"{at}.{n}"})
    assert [one.routine for one in log.incidents()] == [True]


@pytest.mark.parametrize(("step", "wanted"), [(1, []), (7, [(50, "low")])])
def test_documents_that_are_no_neighbours_where_all_else_removes_neighbours_may_be_an_act(
    step: int, wanted: list[tuple[int, str]]
) -> None:
    """An application removes the chunks of a file at a time; one statement removes a chunk of each of fifty files."""
    log = Log()
    for run, at in enumerate((0, 61, 118, 200, 233, 310, 395, 402, 480, 561, 633, 700, 781, 822, 900, 961, 1_044)):
        for n in range(50):
            number = 10_000 + n * step if run == 8 else run * 100 + n
            made = ObjectId(b"\x65\0\0\0" + b"proc!" + number.to_bytes(3, "big"))
            log.add(at + n / 1_000, "d", "files.chunks", {"_id": made})
    assert [(one.documents, one.confidence) for one in log.incidents() if not one.routine] == wanted
