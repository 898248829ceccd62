"""Acts beside applications: none is hidden, split or called certain where it is not. Times are milliseconds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from corpus.oplog_build import BEGIN
from corpus.oplog_entries import UI, OplogWriter, Session
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.snapshot import Incident

FIRST = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
MINUTE = 60_000


def session(number: int, user: str = "app@admin") -> Session:
    return Session(bytes([number % 256, number // 256]) * 8, user)


def transaction(writer: OplogWriter, at: float, owner: Session, number: int, documents: int) -> None:
    inner = [{"op": "d", "ns": "shop.orders", "ui": UI, "o": {"_id": 9_000 * number + n}} for n in range(documents)]
    writer.command(at, "admin", {"applyOps": inner}, lsid=owner.lsid, txnNumber=Int64(number), **FIRST)


def deletes(writer: OplogWriter, times: Iterable[float], *owners: Session, ns: str = "shop.orders") -> None:
    for n, at in enumerate(times):
        writer.write(at, "d", ns, (int(at) << 20) + n, owners[n % len(owners)] if owners else None)


def incidents(write: Callable[[OplogWriter], Any], minutes: int = 60, ahead: int = 0) -> list[Incident]:
    """What is found where nothing else is written but what ``write`` writes, in one slice and, the same, in many.
    ``ahead`` says how many seconds the cluster's time is ahead of the server's clock."""
    writer = OplogWriter(BEGIN)
    for at in (0, minutes * MINUTE):
        writer.write(at, "d", "other.tick", at)
    write(writer)
    entries = writer.stream()[0]
    if ahead:
        read = map(bson.decode, entries)
        entries = [bson.encode(one | {"ts": Timestamp(one["ts"].time + ahead, one["ts"].inc)}) for one in read]
    found = []
    for size in (len(entries), 500):
        grouper = Grouper()
        for at in range(0, len(entries), size):
            grouper.feed_batch(b"".join(entries[at : at + size]))
        found.append(without_samples(one for one in grouper.incidents() if one.ns != "other.tick"))
    assert found[0] == found[1]
    return found[0]


def without_samples(found: Iterable[Incident]) -> list[Incident]:
    return [replace(one, samples=()) for one in found]


def acts(found: Iterable[Incident]) -> list[tuple[str, int | None, str]]:
    return [(one.kind, one.documents, one.confidence) for one in found if not one.routine]


def test_a_large_transaction_is_found_though_many_small_ones_follow() -> None:
    def write(writer: OplogWriter) -> None:
        transaction(writer, 600_000, session(1), 1, 5_000)
        for n in range(1_100):
            transaction(writer, 600_100 + n * 20, session(2 + n % 50), n, 2)

    assert ("transaction", 5_000, "high") in acts(incidents(write))


@pytest.mark.parametrize("pool", [1, 16])
def test_a_worker_of_hours_does_not_hide_a_loop(pool: int) -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, range(1_000, 180 * MINUTE, 5_000), session(1, ""))
        deletes(writer, range(5_000_500, 5_002_500), *(session(9 + n, "") for n in range(pool)))

    (found,) = [one for one in incidents(write, 180) if not one.routine]
    assert (found.kind, found.confidence) == ("deletes" if pool == 1 else "fan_out", "high")
    assert found.documents is not None
    assert 2_000 <= found.documents <= 2_001


@pytest.mark.parametrize(("pause", "confidence"), [(2_000, "high"), (12_000, "high"), (45_000, "low")])
def test_a_script_is_not_hidden_by_its_own_batches(pause: int, confidence: str) -> None:
    def write(writer: OplogWriter) -> None:
        owner = session(2)
        for batch in range(20):
            for n in range(100):
                at = 600_000 + batch * pause + n
                writer.write(at, "d", "shop.jobs", batch * 100 + n, owner, new_number=n == 0)

    assert acts(incidents(write)) == [("deletes", 2_000, confidence)]


def test_a_script_is_not_hidden_by_what_is_no_batch() -> None:
    def write(writer: OplogWriter) -> None:
        person = session(2)
        deletes(writer, (at + n for at in range(1_000, 60 * MINUTE, 20_000) for n in range(8)), session(1))
        for n in range(10_000):
            writer.write(2_000_000 + n, "d", "shop.orders", n, person, new_number=n % 20 == 0)

    assert acts(incidents(write)) == [("deletes", 10_000, "high")]


@pytest.mark.parametrize(("count", "every"), [pytest.param(200, 1_500, marks=pytest.mark.long), (40, 250)])
def test_a_loop_of_transactions_is_one_row(count: int, every: int) -> None:
    def write(writer: OplogWriter) -> None:
        for n in range(count):
            transaction(writer, 600_000 + n * every, session(3), n + 1, 100)

    (found,) = incidents(write)
    assert acts([found]) == [("transaction", 100 * count, "high")]
    assert (found.first.t - BEGIN // 1_000, found.txn) == (600, None)


@pytest.mark.parametrize(("largest", "wanted"), [(1, [("transaction", 1_200, "high")]), (40, [])])
def test_a_loop_of_transactions_is_compared_with_loops(largest: int, wanted: list[Any]) -> None:
    """Each of them is of usual size."""

    def write(writer: OplogWriter) -> None:
        for run in range(12):
            for n in range(largest):
                transaction(writer, run * 280_000 + n, session(1 + run), n + 1, 30)
        for n in range(40):
            transaction(writer, 1_700_000 + n, session(50), n + 1, 30)

    assert acts(incidents(write)) == wanted


@pytest.mark.parametrize("sessions", [100, 400])
def test_a_pool_of_small_transactions_is_one_row(sessions: int) -> None:
    def write(writer: OplogWriter) -> None:
        for n in range(400):
            transaction(writer, 600_000 + n * 5, session(n % sessions), n // sessions + 1, 2)

    assert acts(incidents(write)) == [("fan_out", 800, "high")]


def test_of_small_transactions_only_deletes_and_updates_by_users_are_writes_of_a_pool() -> None:
    other: list[dict[str, Any]] = [
        {"op": "i", "ns": "shop.orders", "ui": UI, "o": {"_id": 1}},
        {"op": "u", "ns": "config.transactions", "ui": UI, "o": {"n": 1}, "o2": {"_id": 1}},
        {"op": "d", "ns": "shop.orders", "ui": UI, "o": {"_id": 2}, "fromMigrate": True},
    ]

    def write(writer: OplogWriter) -> None:
        for n in range(400):
            inner = [{"op": "d", "ns": "shop.orders", "ui": UI, "o": {"_id": 9_000 + n}}, *other]
            owner = {"lsid": session(n % 100).lsid, "txnNumber": Int64(n // 100 + 1)}
            writer.command(600_000 + n * 5, "admin", {"applyOps": inner}, **owner, **FIRST)

    assert acts(incidents(write)) == [("fan_out", 400, "high")]


def test_what_of_a_pool_recurs_has_a_row_of_routine() -> None:
    def write(writer: OplogWriter) -> None:
        pool = [session(n) for n in range(200)]
        for run in range(4):
            for n in range(400):
                at, new_number = MINUTE + run * 300_000 + n, 1 if n >= 200 else 9
                writer.write(at, "d", "shop.carts", run * 1_000 + n, pool[n % 200], new_number=new_number)

    assert [(one.routine, one.documents) for one in incidents(write, 21)] == [(True, 1_600)]


def test_a_row_of_routine_tells_how_often_it_was_without_the_acts() -> None:
    def write(writer: OplogWriter) -> None:
        for run in range(12):
            deletes(writer, [run * 5 * MINUTE + 10 * n for n in range(6)], session(run))
        deletes(writer, [31 * MINUTE + 10 * n for n in range(300)], session(99))

    act, routine = incidents(write)
    assert (act.kind, act.documents, act.confidence, act.sessions) == ("deletes", 300, "high", 1)
    told = (routine.kind, routine.title, routine.ops, routine.documents, routine.note, routine.sessions)
    assert told == ("job", "routine deletes on shop.orders", 72, 72, "12 times, about every 300 s", 0)


def test_documents_of_a_pool_are_exact_only_where_its_sessions_wrote_all() -> None:
    def write(writer: OplogWriter) -> None:
        rng, at, others = Random(2), 0.0, [session(100 + n) for n in range(60)]
        while at < 60 * MINUTE:
            at += rng.expovariate(1 / 300)
            writer.write(at, "d", "shop.orders", int(at), rng.choice(others), new_number=rng.randrange(6, 30))
        deletes(writer, range(2_000_000, 2_001_500, 5), *(session(n) for n in range(16)))

    (found,) = [one for one in incidents(write) if not one.routine]
    assert (found.documents, found.documents_exact) == (300, False), "any of the others may have taken part"


def test_documents_of_a_pool_are_exact_where_each_session_began_and_ended_about_when_the_first_did() -> None:
    def write(writer: OplogWriter) -> None:
        for number, (begin, end) in enumerate(((0, 40_000), (1_000, 49_000), (2_000, 31_000))):
            deletes(writer, range(600_000 + begin, 600_000 + end, 100 + number), session(number))

    (found,) = incidents(write)
    assert (found.kind, found.sessions, found.documents_exact) == ("fan_out", 3, True)


def test_a_job_of_three_runs_is_no_certain_act_where_some_had_pauses() -> None:
    def write(writer: OplogWriter) -> None:
        for run in range(3):
            begin = 300_000 + run * 1_000_000
            deletes(writer, (begin + n + (n // 50 * 150 if run else 0) for n in range(400)))

    assert acts(incidents(write)) == [("deleteMany", 400, "low")] * 3


def test_single_documents_that_follow_on_each_other_do_not_excuse_a_statement() -> None:
    def write(writer: OplogWriter) -> None:
        for run in range(12):
            deletes(writer, (run * 290_000 + 300 * n for n in range(20)))
        deletes(writer, (2_000_000 + n // 8 for n in range(61)))

    assert acts(incidents(write)) == [("deleteMany", 61, "high")]


def test_a_long_statement_of_many_pieces_is_whole() -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, (600_000 + n * 0.65 + n // 100 * 80 for n in range(40_000)))
        deletes(writer, [9_000_000])

    (found,) = [one for one in incidents(write, 180) if not one.routine]
    assert acts([found]) == [("deleteMany", 40_000, "high")]


def test_names_that_differ_by_an_id_are_alike() -> None:
    rng = Random(3)

    def drops(writer: OplogWriter) -> None:
        for n in range(60):
            name = f"export_{uuid.UUID(int=rng.getrandbits(128), version=4)}"
            writer.command(n * 59_000 + 500, "shop", {"drop": name}, o2={"numRecords": 500 + n})

    def emptied(writer: OplogWriter) -> None:
        for hour in range(24):
            begin = hour * 60 * MINUTE + 1_000
            deletes(writer, range(begin, begin + 500), ns=f"shop.box_{2026112000 + hour}")

    def emptied_by_sessions(writer: OplogWriter) -> None:
        for hour in range(24):
            begin = hour * 60 * MINUTE + 1_000
            deletes(writer, range(begin, begin + 500), session(hour), ns=f"shop.box_{2026112000 + hour}")

    assert acts(incidents(drops)) == []
    assert acts(incidents(emptied, 1_440)) == [("deleteMany", 500, "low")] * 24
    assert acts(incidents(emptied_by_sessions, 1_440)) == [("deletes", 500, "low")] * 24


def test_a_session_that_uses_several_collections_at_once_goes_on() -> None:
    def write(writer: OplogWriter) -> None:
        owner = session(2)
        for n in range(12):
            for place, name in enumerate("abcdef"):
                writer.write(600_000 + n * 6 + place, "d", f"shop.{name}", n, owner)

    assert acts(incidents(write)) == [("deletes", 12, "high")] * 6


def test_two_loops_of_a_session_may_be_two() -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, (600_000 + loop * 45_000 + n * 2 for loop in range(2) for n in range(60)), session(2))

    (found,) = incidents(write)
    assert [part.documents for part in found.parts] == [60, 60]


def test_two_sessions_that_write_in_turn_may_be_two_scripts() -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, range(600_000, 600_480, 2), session(1), session(2))

    assert acts(incidents(write)) == [("deletes", 120, "high")] * 2


def test_a_pool_that_uses_one_session_most_is_one_row() -> None:
    def write(writer: OplogWriter) -> None:
        most = session(2)
        deletes(writer, range(600_000, 600_300, 5), most, most, most, session(3), session(4))

    assert acts(incidents(write)) == [("fan_out", 60, "high")]


def test_a_pause_between_two_dense_pieces_makes_no_slow_statement() -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, (600_000 + part * 9_000 + n * 0.5 for part in range(2) for n in range(40)))

    assert {one.kind for one in incidents(write)} == {"deleteMany"}


def test_slices_do_not_matter_where_the_clock_was_set_back() -> None:
    """By a minute, to just after the first of these deletes: the last is as close to the first as in one statement."""
    pieces = ((600_000, 0), (660_000, 0), (660_040, -60_000))
    events = [(begin + n, off) for begin, off in pieces for n in range(20)]
    entries, second, increment = list[bytes](), 0, 0
    for n, (at, off) in enumerate(events):
        wall = BEGIN + at + off
        if wall // 1_000 > second:
            second, increment = wall // 1_000, 0
        increment += 1
        row = {"op": "d", "ns": "shop.orders", "ui": UI, "o": {"_id": n}, "ts": Timestamp(second, increment)}
        entries.append(
            bson.encode({**row, "t": Int64(1), "v": Int64(2), "wall": datetime.fromtimestamp(wall / 1_000, UTC)})
        )
    whole, apart = Grouper(), Grouper()
    whole.feed_batch(b"".join(entries))
    for entry in entries:
        apart.feed_batch(entry)
    assert without_samples(whole.incidents()) == without_samples(apart.incidents())


def test_a_slow_statement_is_found_where_all_its_pieces_are_forgotten() -> None:
    def write(writer: OplogWriter) -> None:
        for run in range(400):
            deletes(writer, range(run * 8_000, run * 8_000 + 5))
        deletes(writer, (3_301_000 + n * 60 for n in range(600)))
        deletes(writer, [7_000_000])

    assert ("slow_loop", 600, "low") in acts(incidents(write, 120))


@pytest.mark.parametrize(("documents", "told"), [(5, (5, True)), (40, (350, False)), (350, (350, True))])
@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("pool", [1, 12])
def test_single_updates_of_sessions_count_documents(
    documents: int, told: tuple[int, bool], image: bool, pool: int
) -> None:
    def write(writer: OplogWriter) -> None:
        owners = [session(n) for n in range(pool)]
        for n in range(350):
            writer.write(600_000 + n, "u", "shop.orders", n % documents, owners[n % pool], image=image)

    (found,) = incidents(write)
    assert (found.documents, found.documents_exact, found.ops) == (*told, 350)
    assert (f"{found.ops} updates of" in found.note.replace("single ", "")) == (documents < 350)


@pytest.mark.parametrize("pool", [12, 200])
def test_a_pool_that_updates_its_documents_again_after_a_pause_is_one_act(pool: int) -> None:
    def write(writer: OplogWriter) -> None:
        owners = [session(n) for n in range(pool)]
        for n in range(600):
            writer.write(600_000 + n + 600 * (n >= 300), "u", "shop.orders", n % 300, owners[n % pool])

    (found,) = incidents(write)
    assert (found.kind, found.documents, found.documents_exact) == ("fan_out", 600, False)


@pytest.mark.parametrize("others", [0, 6])
@pytest.mark.parametrize("pace", [20, 60, 250])
@pytest.mark.parametrize("pool", [4, 16])
def test_a_pool_with_pauses_is_one_act(pace: int, pool: int, others: int) -> None:
    """Whatever the pauses: neither its dense stretches nor its sessions are acts of their own. It is exact unless
    ``others`` delete a document each meanwhile; one that does so just before may be a part of it."""

    def write(writer: OplogWriter) -> None:
        chance, at, owners = Random(pace), 600_000.0, [session(n) for n in range(pool)]
        for n in range(300):
            writer.write(at, "d", "shop.orders", n, chance.choice(owners))
            at += pace * chance.expovariate(1)
        for n in range(others):
            writer.write(599_970 + 150 * n, "d", "shop.orders", 1_000 + n, session(100 + n))

    (found,) = incidents(write)
    assert (found.kind, found.documents, found.documents_exact) == ("fan_out", 300, not others)
    assert (found.sessions, found.limit, found.confidence) == (pool, found.first, "high")
    begun = 599_970 if others else 600_000
    assert found.first_wall == datetime.fromtimestamp((BEGIN + begun) / 1_000, UTC)


@pytest.mark.parametrize("begin", [592_000, 630_100, 666_000])
def test_a_session_that_a_pool_used_for_a_part_of_its_time_may_be_of_the_pool(begin: int) -> None:
    """A part that begins or ends up to ten seconds outside of the others' time."""

    def write(writer: OplogWriter) -> None:
        deletes(writer, range(600_000, 720_000, 400), *[session(n) for n in range(15)])
        deletes(writer, range(begin, begin + 59_900, 4_000), session(20))

    (found,) = incidents(write)
    assert (found.kind, found.documents, found.documents_exact, found.sessions) == ("fan_out", 315, False, 16)
    assert found.first_wall == datetime.fromtimestamp((BEGIN + min(begin, 600_000)) / 1_000, UTC)


@pytest.mark.parametrize("owner", [None, session(2)], ids=["plain", "session"])
def test_updates_of_an_older_server_are_counted_by_document(owner: Session | None) -> None:
    writer = OplogWriter(BEGIN, "4.4")
    for n in range(350):
        writer.write(600_000 + n, "u", "shop.orders", n % 5, owner)
    writer.write(60 * MINUTE, "d", "other.tick", 0)
    grouper = Grouper()
    grouper.feed_batch(b"".join(writer.stream()[0]))
    (found,) = [one for one in grouper.incidents() if not one.routine]
    assert (found.kind, found.documents, found.documents_exact, found.ops) == ("updates", 5, True, 350)


@pytest.mark.parametrize(
    ("different", "batch", "note"),
    [
        (300, False, "300 single updates in 3.0 s: a script or a shell."),
        (100, False, "300 single updates (perhaps of some documents more than once) in 3.0 s: a script or a shell."),
        (100, True, "300 updates (perhaps of some documents more than once)."),
    ],
)
def test_updates_among_those_of_an_application_may_have_changed_a_document_twice(
    different: int, batch: bool, note: str
) -> None:
    def write(writer: OplogWriter) -> None:
        application, owner = session(1), session(2)
        for n in range(1_800):
            writer.write(n * 2_000, "u", "shop.orders", 5_000 + n, application)
        for n in range(300):
            writer.write(600_000 + 10 * n, "u", "shop.orders", n % different, owner, new_number=int(not (batch and n)))

    found = [one for one in incidents(write) if not one.routine]
    assert [(one.documents, one.documents_exact, one.note) for one in found] == [(300, different == 300, note)]


def test_a_pool_counts_the_sessions_that_wrote_too_little_for_a_row_of_their_own() -> None:
    def write(writer: OplogWriter) -> None:
        owners = [session(n) for n in range(20)]
        for n in range(100):  # ten of them write seven times, and ten of them three times
            writer.write(600_000 + 2 * n, "d", "shop.orders", n, owners[n % 20 if n < 60 else n % 10])

    (found,) = incidents(write)
    assert (found.kind, found.documents, found.documents_exact, found.sessions) == ("fan_out", 100, True, 20)


@pytest.mark.parametrize(("seconds", "documents"), [(8, 400), (60, 1_200)])
def test_a_few_sessions_do_not_stand_for_a_pool_that_writes_more(seconds: int, documents: int) -> None:
    def write(writer: OplogWriter) -> None:
        pool, few = [session(10 + n) for n in range(documents // 2)], [session(n) for n in range(3)]
        deletes(writer, range(600_000, 600_000 + seconds * 1_000, seconds * 1_000 // documents), *pool)
        deletes(writer, range(603_000, 605_000, 60), *few)

    (found,) = incidents(write)
    assert (found.kind, found.documents, found.limit) == ("fan_out", documents + 34, found.first)


def test_a_pool_that_just_began_and_goes_on_is_no_certain_act() -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, range(60 * MINUTE - 3_000, 60 * MINUTE - 1_000, 5), *[session(n) for n in range(4)])

    assert acts(incidents(write)) == [("fan_out", 400, "low")]


@pytest.mark.parametrize("ahead", [0, 120])
def test_a_worker_that_goes_on_is_no_certain_act_whatever_the_clock_of_the_cluster(ahead: int) -> None:
    def write(writer: OplogWriter) -> None:
        deletes(writer, range(57 * MINUTE, 60 * MINUTE, 700), session(1))

    assert [confidence for *_, confidence in acts(incidents(write, ahead=ahead))] == ["low"]


def updates(writer: OplogWriter, count: int, documents: int, owner: Session | None = None) -> None:
    for n in range(count):
        writer.write(600_000 + n, "u", "shop.orders", n % documents, owner)


def in_a_session(writer: OplogWriter, documents: int, in_one: int) -> None:
    """Deletes of one session, the first of them in one statement."""
    owner = session(1)
    for n in range(documents):
        writer.write(600_000 + 9 * n, "d", "shop.orders", n, owner, new_number=not 0 < n < in_one)


ON = "on shop.orders"
TOLD: dict[str, tuple[Callable[[OplogWriter], Any], list[tuple[Any, ...]]]] = {
    "a loop": (
        lambda writer: deletes(writer, range(600_000, 606_000, 20), session(1)),
        [(600, "deletes", f"deletes by one session {ON}", 300, 300, True, "high", 1, True, [],
          "300 single deletes in 6.0 s: a script or a shell.")],
    ),
    "a bulkWrite": (
        lambda writer: in_a_session(writer, 30, 30),
        [(600, "batch", f"bulkWrite of deletes {ON}", 30, 30, True, "high", 1, True, [], "")],
    ),
    "a pool": (
        lambda writer: deletes(writer, range(600_000, 601_000, 5), *map(session, range(8))),
        [(600, "fan_out", f"deletes by many sessions at once {ON}", 200, 200, True, "high", 8, False, [], "")],
    ),
    "a worker that ended": (
        lambda writer: deletes(writer, range(600_000, 1_000_000, 500), session(1)),
        [(600, "deletes", f"deletes by one session {ON}", 800, 800, True, "low", 1, True, [],
          "a worker that ended, or a script that pauses")],
    ),
    "a worker that began": (
        lambda writer: deletes(writer, range(3_500_000, 3_600_000, 500), session(1)),
        [(3_500, "deletes", f"deletes by one session {ON}", 200, 200, True, "low", 1, True, [],
          "a worker that began, or a script that pauses")],
    ),
    "updates of few documents": (
        lambda writer: updates(writer, 350, 5),
        [(600, "updates", f"single updates without a session {ON}", 350, 5, True, "high", 0, False, [],
          "350 updates of 5 documents: no single statement changes a document twice.")],
    ),
    "updates of many documents": (
        lambda writer: updates(writer, 350, 50),
        [(600, "updates", f"single updates without a session {ON}", 350, 350, False, "high", 0, False, [],
          "350 updates of some documents more than once: no single statement changes a document twice.")],
    ),
    "updates of few documents by a session": (
        lambda writer: updates(writer, 60, 4, session(1)),
        [(600, "updates", f"updates by one session {ON}", 60, 4, True, "high", 1, True, [],
          "60 single updates of 4 documents in 0.1 s: a script or a shell.")],
    ),
    "a slow loop": (
        lambda writer: deletes(writer, range(600_000, 700_000, 500)),
        [(600, "slow_loop", f"slow deletes one by one {ON}", 200, 200, True, "low", 0, False, [],
          "or an application that writes without sessions (retryWrites=false)")],
    ),
    "two loops of a session": (
        lambda writer: deletes(writer, [*range(600_000, 600_300, 10), *range(604_000, 604_200, 10)], session(1)),
        [(600, "deletes", f"deletes by one session {ON}", 50, 50, True, "high", 1, True, [30, 20],
          "50 single deletes in 4.2 s: a script or a shell.")],
    ),
    "a statement": (
        lambda writer: deletes(writer, range(600_000, 600_300)),
        [(600, "deleteMany", f"deleteMany {ON}", 300, 300, True, "high", 0, False, [], "")],
    ),
    "a statement beside a job": (
        lambda writer: deletes(writer, [*(300_000 * run + n for run in range(12) for n in range(20)),
                                        *range(1_000_000, 1_000_900)]),
        [(1_000, "deleteMany", f"deleteMany {ON}", 900, 900, False, "high", 0, False, [],
          "Others delete here too: some of these documents may be theirs, and it may have begun earlier."),
         (0, "job", f"routine deletes {ON}", 240, 240, True, "high", 0, False, [], "12 times, about every 300 s")],
    ),
    "what goes on all the time": (
        lambda writer: deletes(writer, range(0, 60 * MINUTE, 900)),
        [(0, "trickle", f"routine deletes {ON}", 4_000, 4_000, True, "high", 0, False, [], "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_each_form_of_writes_is_told_whole(name: str) -> None:
    write, wanted = TOLD[name]
    assert [
        (one.first.t - BEGIN // 1_000, one.kind, one.title, one.ops, one.documents, one.documents_exact, one.confidence,
         one.sessions, bool(one.session), [part.documents for part in one.parts], one.note)
        for one in incidents(write)
    ] == wanted  # fmt: skip


@pytest.mark.parametrize(
    ("documents", "in_one", "kinds"),
    [(4, 0, []), (5, 0, ["deletes"]), (19, 19, ["deletes"]), (20, 20, ["batch"]), (39, 19, ["deletes"]),
     (40, 20, ["batch"]), (41, 20, ["deletes"])],
)  # fmt: skip
def test_a_session_needs_five_writes_and_a_bulk_write_twenty_and_half_of_them(
    documents: int, in_one: int, kinds: list[str]
) -> None:
    assert [one.kind for one in incidents(lambda writer: in_a_session(writer, documents, in_one))] == kinds


@pytest.mark.parametrize("sessions", [2, 3])
def test_three_sessions_that_begin_and_end_together_are_a_pool(sessions: int) -> None:
    def write(writer: OplogWriter) -> None:
        for number in range(sessions):
            deletes(writer, range(600_000 + 3 * number, 630_000, 900), session(number))

    found = incidents(write)
    assert [one.kind for one in found] == (["deletes"] * 2 if sessions == 2 else ["fan_out"])
    assert sum(one.documents or 0 for one in found) == 34 * sessions
