"""Who is named for an incident, at which grade, and that nobody is named where the numbers do not add up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from builders.authors import (
    ANN,
    BEGIN,
    BOB,
    JOB,
    LSID,
    MILLIS,
    NS,
    SHELL,
    TOOL,
    TTL,
    Known,
    Oplog,
    T,
    a_delete,
    a_log,
    authors_of,
    book_of,
    deletes,
    named,
    ran,
    typed,
)
from tallyglass.errors import InputError
from tallyglass.evidence.book import Book, Coverage, LineTally
from tallyglass.evidence.facts import INTERNAL_USER, Client, Definition, Source, Statement
from tallyglass.evidence.log_files import FOUND_BYTES
from tallyglass.evidence.store import EvidenceFolder
from tallyglass.moment import Ts, from_seconds
from tallyglass.oplog.incidents import authors as authors_module
from tallyglass.oplog.incidents.assignment import AlikeEntries, Demand, assign
from tallyglass.oplog.incidents.attribution import attribute, concerning, entries_between
from tallyglass.oplog.incidents.authors import Authors
from tallyglass.oplog.incidents.by_log import FOUND, read_run
from tallyglass.oplog.incidents.habits import LoggedRun
from tallyglass.oplog.snapshot import Authorship, Certainty, Harm, Incident, IncidentScan


async def judge(oplog: Oplog, book: Book, first: int = 0, last: int = 0, **how: Any) -> Authorship:
    """The evidence of the incident from one entry to another, by position; all of them by default."""
    rows = [bson.decode(raw) for raw in oplog.raw]
    begin, end = rows[first], rows[last or -1]
    stamps = [Ts(one["ts"].time, one["ts"].inc) for one in (begin, end)]
    incident = Incident(
        1, how.pop("kind", "deleteMany"), "", how.pop("ns", NS), Harm.LOSS, *stamps,
        begin["wall"], end["wall"], len(rows), None, **{"op": "d", **how},
    )  # fmt: skip
    return await attribute(oplog, incident, book)  # type: ignore[arg-type]


def told(found: Authorship) -> tuple[str, list[tuple[str, int | None]]]:
    return found.grade, [(one.user.partition("@")[0], one.documents) for one in found.candidates]


async def test_one_statement_that_counts_all_is_unique() -> None:
    found = await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 9, 41, 30, text="deleteMany({})")))
    assert told(found) == (Certainty.UNIQUE, [("ann", 30)])
    assert found.who is not None
    assert (found.who.statement, found.who.name) == ("deleteMany({})", "ann, shell")


@pytest.mark.parametrize("count", [29, 31])
async def test_a_count_that_does_not_add_up_names_nobody_for_sure(count: int) -> None:
    oplog = Oplog().many(range(10, 40)).many(range(300, 303))
    found = await judge(oplog, book_of(ran(ANN, 9, 41, count), ran(BOB, 290, 310, 4)))
    assert found.grade is Certainty.AMBIGUOUS
    assert found.who is None


async def test_one_entry_of_an_unlogged_writer_is_seen() -> None:
    """Of twelve entries a line counts eleven: who wrote which is open, but eleven are more than nine tenths."""
    assert told(await judge(Oplog().many(range(10, 22)), book_of(ran(ANN, 9, 41, 11)))) == (
        Certainty.UNIQUE,
        [("ann", 11)],
    )
    part = await judge(Oplog().many(range(10, 22)), book_of(ran(ANN, 9, 41, 10)))
    assert (part.grade, part.reason.partition(":")[0]) == (
        Certainty.AMBIGUOUS,
        "Not all documents are accounted for",
    )


async def test_a_statement_that_may_be_of_a_session_is_never_certain() -> None:
    """Its own entries may carry the session, and those at hand be another's, whose line is missing."""
    oplog = Oplog().write(10)
    assert told(await judge(oplog, book_of(ran(ANN, 9, 41, 1, in_session=None)))) == (Certainty.AMBIGUOUS, [("ann", 1)])
    assert told(await judge(oplog, book_of(ran(ANN, 9, 41, 1, in_session=True)))) == (Certainty.NONE, [])


async def test_two_clients_that_delete_as_many_at_once_are_both_possible() -> None:
    found = await judge(Oplog().many(range(10, 70)), book_of(ran(ANN, 9, 71, 30), ran(BOB, 9, 71, 30)))
    assert told(found) == (Certainty.AMBIGUOUS, [("ann", 30), ("bob", 30)])
    assert (found.by, found.reason.partition(" fit ")[0]) == ("2 possible", "Statements of several clients")


async def test_they_are_told_apart_by_the_ids_in_their_filters() -> None:
    ids = [{"ids": frozenset(range(begin, begin + 30))} for begin in (10, 40)]
    found = await judge(
        Oplog().many(range(10, 70)), book_of(ran(ANN, 9, 71, 30, **ids[0]), ran(BOB, 9, 71, 30, **ids[1]))
    )
    assert told(found) == (Certainty.UNIQUE, [("ann", 30), ("bob", 30)])
    assert (found.who, found.by) == (None, "ann, shell and 1 more")


async def test_connections_without_an_account_are_named_by_their_application() -> None:
    nobodies = [Client("", "shop", f"10.0.0.1:{n}", "", f"conn{n}") for n in (1, 2)]
    ids = [{"ids": frozenset(range(begin, begin + 30))} for begin in (10, 40)]
    facts = [ran(one, 9, 71, 30, **own) for one, own in zip(nobodies, ids, strict=True)]
    assert (await judge(Oplog().many(range(10, 70)), book_of(*facts))).by == "shop, 2 connections"


async def test_one_account_and_application_over_a_pool_is_one() -> None:
    pool = [Client("ann@admin", "shell", f"10.0.0.1:{n}", "", f"conn{n}") for n in range(3)]
    found = await judge(Oplog().many(range(10, 70)), book_of(*(ran(one, 9, 71, 20) for one in pool)))
    assert told(found) == (Certainty.UNIQUE, [("ann", 60)])
    assert len(found.candidates[0].clients) == 3


@pytest.mark.parametrize(
    "limit",
    [{"floor": MILLIS + 20}, {"after": Ts(T, 15)}, {"before": Ts(T, 15)}, {"ids": frozenset({1})}],
    ids=["a line before", "cluster time", "of the next command", "_id"],
)
async def test_what_cannot_be_of_a_statement_is_not(limit: dict[str, Any]) -> None:
    assert (
        told(await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 9, 41, 30, **limit))))[0] is not Certainty.UNIQUE
    )


async def test_an_update_changes_only_the_fields_it_names() -> None:
    oplog = Oplog().many(range(10, 40), op="u")
    for fields, grade in (("x", Certainty.UNIQUE), ("xy", Certainty.UNIQUE), ("y", Certainty.NONE)):
        one = Statement("u", NS, ANN, MILLIS + 9, MILLIS + 41, 30, in_session=False, fields=frozenset(fields))
        assert (await judge(oplog, book_of(one), op="u")).grade is grade


@pytest.mark.parametrize("shift", [5_000, -5_000])
async def test_a_log_with_another_clock_names_nobody(shift: int) -> None:
    found = await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 9 + shift, 41 + shift, 30)))
    assert told(found) == (Certainty.NONE, [])


async def test_a_line_that_was_written_late() -> None:
    assert told(await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 900, 941, 30))))[0] is Certainty.UNIQUE
    # Not written after the line's own time.
    assert told(await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 0, 38, 30))))[0] is Certainty.AMBIGUOUS


async def test_statements_beyond_the_incident_find_their_entries_too() -> None:
    oplog = Oplog().many(range(10, 20_010, 200))
    found = await judge(oplog, book_of(ran(ANN, 9, 9_820, 50), ran(BOB, 10_000, 19_820, 50)), first=40, last=49)
    assert told(found) == (Certainty.UNIQUE, [("ann", 10)])


async def test_a_count_says_nothing_of_a_part_of_its_time() -> None:
    """A statement that wrote 30 of 40 entries may have written only ten of the first twenty."""
    found = await judge(Oplog().many(range(10, 50)), book_of(ran(ANN, 9, 51, 30)), last=19)
    assert told(found) == (Certainty.AMBIGUOUS, [("ann", 20)])


@pytest.mark.parametrize(
    ("counts", "last", "grade", "named"),
    [
        ([37], 37, Certainty.UNIQUE, [("ann", 35)]),  # two of forty lie beyond: at least 35 of 38 are its own
        ([36], 37, Certainty.AMBIGUOUS, [("ann", 36)]),
        ([40], 37, Certainty.UNIQUE, [("ann", 38)]),
        ([41], 37, Certainty.AMBIGUOUS, [("ann", 38)]),  # more than there are: a line is of something else
        ([None], 37, Certainty.AMBIGUOUS, [("ann", 38)]),  # stopped, and its line says nothing that can be read
        ([2, 37], 37, Certainty.UNIQUE, [("bob", 35)]),
        ([2, 30], 37, Certainty.AMBIGUOUS, [("bob", 30), ("ann", 2)]),
        ([36], 39, Certainty.UNIQUE, [("ann", 36)]),
        ([35], 39, Certainty.AMBIGUOUS, [("ann", 35)]),
    ],
)
async def test_who_wrote_nearly_all_is_named_by_the_count_alone(
    counts: list[int | None], last: int, grade: Certainty, named: list[tuple[str, int]]
) -> None:
    """Of forty documents changed in the time of the statements, the first ones are of the incident."""
    lines = [ran(one, 9, 51, count) for one, count in zip((ANN, BOB), counts, strict=False)]
    found = await judge(Oplog().many(range(10, 50)), book_of(*lines), last=last)
    assert told(found) == (grade, named)
    # An open statement, and one whose session is not known, names nobody however many it counts.
    unsure = [replace(one, in_session=None) for one in lines]
    assert (await judge(Oplog().many(range(10, 50)), book_of(*unsure), last=last)).grade is Certainty.AMBIGUOUS


async def test_without_entries_no_statement_is_named() -> None:
    """An incident whose entries are gone, or of another kind: what a stopped statement counts is all of nothing."""
    for documents in (None, 1):
        found = await judge(Oplog().write(10, ns="shop.other"), book_of(ran(ANN, 9, 41, documents)))
        assert told(found) == (Certainty.NONE, [])


@pytest.mark.parametrize(("keys", "grade"), [(60, Certainty.UNIQUE), (61, Certainty.AMBIGUOUS)])
async def test_a_stopped_statement_counts_index_keys(keys: int, grade: Certainty) -> None:
    found = await judge(Oplog().many(range(10, 40)), book_of(ran(ANN, 9, 41, None, keys=keys)))
    assert found.grade is grade


async def test_sessions_are_exact_by_their_own_key() -> None:
    oplog = Oplog()
    for n in range(10):
        oplog.write(n, n, lsid=LSID, txnNumber=n)
    session = bytes(LSID["id"])
    known = book_of((session, 3, ANN), ran(BOB, 0, 20, 10))
    assert told(await judge(oplog, known, sessions=2)) == (Certainty.EXACT, [("ann", 10)])
    # What other sessions wrote there later is no part of it.
    beside = Oplog()
    beside.raw += oplog.raw
    for n in range(10):
        beside.write(10 + n, n, lsid={"id": Binary(b"t" * 16, 4)}, txnNumber=n)
    assert told(await judge(beside, known, last=9, sessions=2)) == (Certainty.EXACT, [("ann", 10)])
    # Only the hash of the account is known, from any login.
    hashed = book_of()
    hashed.users[bytes(LSID["uid"])] = "ann@admin"
    assert told(await judge(oplog, hashed, sessions=2)) == (Certainty.EXACT, [("ann", 10)])
    # A session of a router's connection names no account, and one of another account is not believed.
    for other in (Client(INTERNAL_USER, "mongos", "", "", "conn3"), None):
        book = book_of((session, 3, other or BOB))
        book.users[bytes(LSID["uid"])] = "ann@admin"
        found = await judge(oplog, book, sessions=1, session=session.hex(), user_hash=bytes(LSID["uid"]).hex(), txn=3)
        assert [one.user for one in found.candidates] == ["ann@admin"]
        assert found.candidates[0].application == (other.application if other else "")


async def test_definitions_by_timestamp_then_by_name() -> None:
    oplog = Oplog().write(10, op="c", ns="shop.$cmd")
    at = {"kind": "drop", "op": ""}
    line = Definition("drop", NS, ANN, MILLIS + 11, Ts(T, 1), "drop shop.orders")
    assert told(await judge(oplog, book_of(line), **at)) == (Certainty.EXACT, [("ann", None)])
    other = Definition("drop", NS, ANN, MILLIS + 11, Ts(T, 7))
    assert told(await judge(oplog, book_of(other), **at))[0] is Certainty.NONE
    mods = [Definition("collMod", "orders", one, MILLIS + 11) for one in (ANN, BOB)]
    assert told(await judge(oplog, book_of(mods[0]), kind="collMod", op=""))[0] is Certainty.UNIQUE
    assert told(await judge(oplog, book_of(*mods), kind="collMod", op=""))[0] is Certainty.AMBIGUOUS


async def test_a_name_by_time_alone_is_not_given_where_the_clock_is_doubted() -> None:
    oplog = Oplog().many(range(10, 40))
    book = book_of(ran(ANN, 9, 41, 30))
    assert told(await judge(oplog, book))[0] is Certainty.UNIQUE
    book.doubt_clock(MILLIS + 30_000)
    found = await judge(oplog, book)
    assert (found.grade, [one.user for one in found.candidates]) == (Certainty.AMBIGUOUS, ["ann@admin"])
    assert "clock" in found.reason


async def test_why_nobody_is_named() -> None:
    oplog = Oplog().many(range(10, 40))
    assert "slowms" in (await judge(oplog, book_of())).reason
    assert "covers" in (await judge(oplog, Book(coverage={"a": [Coverage(1, 2)]}))).reason
    missed = LineTally(missed=1_505, cut=2)
    reason = (await judge(oplog, Book(missed, coverage={"a": [Coverage(1, 2)]}))).reason
    assert reason.endswith("Lines of the log: 1,505 overwritten before they were read, 2 cut.")
    assert (await judge(oplog, Book())).reason == "No log of the server was read."


def test_concerning() -> None:
    def incident(first: float, last: float) -> Incident:
        at = [from_seconds(T + one) for one in (first, last)]
        return Incident(1, "drop", "", NS, Harm.LOSS, Ts(T, 1), Ts(T, 2), at[0], at[1], 1, 1)

    concerns = concerning([incident(10, 20), incident(15, 16), incident(100, 101)])
    seconds = [(5, 8), (5, 9), (21, 22), (22, 50), (22, 200), (60, 99), (103, 104)]
    assert [concerns(NS, (T + a) * 1000, (T + b) * 1000) for a, b in seconds] == [
        False,
        True,
        True,
        False,
        True,
        True,
        False,
    ]


def test_assignment_never_contradicts_the_truth() -> None:
    """Random statements and entries with a known writer: what is certain is right, whatever is left out of the log."""
    certain = Counter[str]()
    for seed in range(400):
        rng = random.Random(seed)
        spans = [(begin, begin + rng.randint(0, 12), rng.randint(1, 4)) for begin in rng.sample(range(40), 6)]
        truth: Counter[tuple[AlikeEntries, int]] = Counter()
        logged = [n for n in range(6) if rng.random() < (1.0 if seed % 2 else 0.8)]
        for n, (begin, end, count) in enumerate(spans):
            for _ in range(count):
                at = rng.randint(begin, end)
                fits = tuple(k for k, m in enumerate(logged) if spans[m][0] <= at <= spans[m][1])
                truth[AlikeEntries(True, fits), n] += 1
        groups = Counter[AlikeEntries]()
        for (group, _), count in truth.items():
            groups[group] += count
        people = [rng.choice("abc") for _ in spans]
        found = assign(groups, [Demand(spans[n][2], 0, people[n]) for n in logged])
        for group, share in found.items():
            who = {people[n] for (other, n), count in truth.items() if other == group and count}
            assert sum(share.by.values()) == groups[group]
            if share.certain:
                right = {people[logged[n]] for n in share.by} == who
                certain[f"{'right' if right else 'wrong'}, {'whole' if len(logged) == 6 else 'lines missing'}"] += 1
    assert certain["right, whole"] > 500
    assert certain["wrong, whole"] == 0


async def test_a_statement_in_log_and_profile_counts_once_and_the_profile_fills_gaps() -> None:
    oplog = Oplog().many(range(10, 40))
    logged, profiled = ran(ANN, 9, 41, 30), ran(replace(ANN, connection=""), 9, 41, 30, source=Source.PROFILE)
    for facts, source in (((logged, profiled), "log"), ((profiled,), "profile")):
        found = await judge(oplog, book_of(*facts))
        assert (*told(found), found.source) == (Certainty.UNIQUE, [("ann", 30)], source)
    # The log has a part only, and a part of the truth names nobody.
    found = await judge(oplog, book_of(ran(BOB, 9, 41, 20), profiled))
    assert (*told(found), found.source) == (Certainty.UNIQUE, [("ann", 30)], "profile")


async def test_an_audit_log_without_counts_makes_an_account_possible() -> None:
    audited = ran(ANN, 9, 60_000, None, source=Source.AUDIT, in_session=None)
    found = await judge(Oplog().many(range(10, 40)), book_of(audited))
    assert (*told(found), found.source, found.who) == (Certainty.AMBIGUOUS, [("ann", 30)], "audit", None)


@pytest.mark.parametrize("session", [b"", b"s" * 16, b"unknown"])
async def test_behind_a_router_the_routers_own_log_names_the_client(session: bytes) -> None:
    """A shard knows the router's account alone, and the session that the client began."""
    shard = Client(INTERNAL_USER, "shell", "10.0.0.9:1", "", "conn7")
    book = book_of(ran(shard, 9, 41, 30, session=session), (b"s" * 16, None, ANN))
    found = await judge(Oplog().many(range(10, 40)), book)
    assert found.grade is Certainty.UNIQUE
    assert found.who is not None
    assert (found.who.user, found.who.clients) == (
        ("ann@admin", (ANN.address,)) if session == b"s" * 16 else ("", (shard.address,))
    )


async def test_a_drop_that_only_the_profile_has_is_unique() -> None:
    oplog = Oplog().write(10, op="c", ns="shop.$cmd")
    dropped = Definition("drop", NS, ANN, MILLIS + 11)
    assert told(await judge(oplog, book_of(dropped), kind="drop", op=""))[0] is Certainty.UNIQUE
    other = Definition("drop", NS, BOB, MILLIS + 11, commit=Ts(T, 1))
    assert told(await judge(oplog, book_of(dropped, other), kind="drop", op="")) == (Certainty.EXACT, [("bob", None)])


@pytest.mark.parametrize(
    ("logs", "beside", "kept", "read", "members", "begun"),
    [
        (["mongod.log"], "beside.log", True, [("mongod.log", 0), ("a_1_1795409595.log", 0)], ["", "a_1"], 0),
        (["mongod.log"], "beside.log", False, [("mongod.log", 0)], [""], 0),
        ([], "beside.log", False, [("beside.log", FOUND_BYTES)], [""], 0),
        ([], "beside.log", True, [("a_1_1795409595.log", 0)], ["a_1"], 0),
        ([], "", False, [], [], 1),
    ],
    ids=["named and kept", "named", "found beside", "kept", "none"],
)
async def test_log_files_are_read_once_and_before_the_memory_of_the_server(
    logs: list[str],
    beside: str,
    kept: bool,
    read: list[tuple[str, int]],
    members: list[str],
    begun: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    found = list[tuple[str, int]]()
    reads = list[bool]()

    def read_files(_: Book, files: list[Path], __: object, *, most: int = 0, others: object = ()) -> dict[str, str]:
        found.extend((file.name, most) for file in files)
        return {"a line": "a file"}

    async def log_beside(_: object) -> Path | None:
        return tmp_path / beside if beside else None

    class Counting(Known):
        def __init__(self) -> None:
            super().__init__(Book())
            self.last_lines: dict[str, object] = {}

        async def read(self, *, urgent: bool) -> None:
            reads.append(urgent)

    monkeypatch.setattr(authors_module, "read_files", read_files)
    monkeypatch.setattr(authors_module, "log_beside", log_beside)
    observer: Any = Counting()
    observer.folder = EvidenceFolder(tmp_path / "kept")
    if kept:
        (tmp_path / "kept" / "a_1_1795409595.log").touch()
    authors = Authors(Oplog(), observer, [tmp_path / name for name in logs])  # type: ignore[arg-type]
    await authors.begin()
    assert (reads, found) == ([False] * begun, [])
    for _ in range(3):
        await authors.added_to(IncidentScan((), 0, None, done=True))
    assert (found, observer.last_lines) == (read, {member: {"a line": "a file"} for member in members})


@pytest.mark.parametrize(
    ("session", "names"), [(b"s" * 16, ["ann, shell"] * 3), (b"", ["ann, shell", "", "ann, shell and 1 more"])]
)
async def test_who_wrote_what_goes_on(session: bytes, names: list[str]) -> None:
    """What a session writes is its client's, however long it goes on. Of a statement the new entries are later than the
    evidence, until more is read."""

    class Busy(Known):
        spent = 0
        due = False

        def is_due(self, *, urgent: bool) -> bool:
            return self.due

        def spend(self, commands: int = 1) -> None:
            self.spent += commands

    book = book_of((session, 3, ANN), ran(ANN, 9, 41, 30))
    observer, found = Busy(book), list[str]()
    authors = Authors(Oplog().many(range(10, 70)), observer)  # type: ignore[arg-type]
    begun = a_delete(session=session.hex(), sessions=int(bool(session)))
    grown = replace(begun, last=Ts(T, 60), last_wall=from_seconds((MILLIS + 69) / 1000), ops=60, documents=60)
    for incident in (begun, grown, grown):
        (one,) = (await authors.added_to(IncidentScan((incident,), 0, None, done=True))).incidents
        found.append(one.by)
        if incident is grown:
            observer.due = True
            book.add_statement(ran(BOB, 9, 71, 30, floor=MILLIS + 40))
    assert (found, observer.spent) == (names, 0 if session else 2)


async def test_for_an_incident_of_nobody_the_log_is_read_soon_three_times() -> None:
    class Counting(Known):
        reads = 0

        async def read(self, *, urgent: bool) -> None:
            self.reads += urgent

    observer = Counting(Book())
    authors = Authors(Oplog().many(range(10, 40)), observer)  # type: ignore[arg-type]
    for _ in range(5):
        await authors.added_to(IncidentScan((a_delete(),), 0, None, done=True))
    assert observer.reads == 3


async def test_a_file_of_a_folder_of_evidence_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    observer = Known(Book())
    observer.folder = EvidenceFolder(tmp_path / "kept")
    (tmp_path / "kept" / "a_1_1795409595.log").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        await Authors(Oplog(), observer).added_to(IncidentScan((), 0, None, done=True))  # type: ignore[arg-type]


async def test_a_pass_of_a_ttl_index_is_routine_if_the_log_says_so() -> None:
    oplog = Oplog().many(range(10, 40))
    passed = ran(TTL, 9, 41, 30, text="TTL index at_1")
    (one,) = await named(oplog, book_of(passed), a_delete())
    assert (one.routine, one.kind, one.by, one.note) == (True, "ttl", "the server, TTL", "TTL index at_1")
    assert one.who == "It was written by the server itself, TTL index at_1."
    # What a changed index removes is the loss of who changed it.
    _, one = await named(oplog, book_of(passed), a_delete(kind="collMod", op=""), a_delete())
    assert (one.routine, one.by) == (False, "the server, TTL")
    # An application may call itself what it likes, and without access control it has no account.
    forged = Client(application="TTL", address="10.0.0.1:1", connection="conn1")
    (one,) = await named(oplog, book_of(ran(forged, 9, 41, 30)), a_delete())
    assert (one.routine, one.by) == (False, "TTL")


async def test_deletes_of_clients_beside_a_ttl_index_are_told() -> None:
    facts = [ran(TTL, 9, 41, 10), ran(ANN, 9, 20, 15), ran(ANN, 21, 41, 5)]
    (one,) = await named(Oplog(), book_of(*facts), a_delete(kind="ttl", note="3 times"))
    assert one.note == "3 times; the log also has deletes of clients: 20 by ann@admin, shell"
    (one,) = await named(Oplog(), book_of(facts[0]), a_delete(kind="ttl", note="3 times"))
    assert one.note == "3 times"


async def test_one_definition_in_log_and_audit_log_is_one_account() -> None:
    oplog = Oplog().write(10, op="c", ns="shop.$cmd")
    logged = Definition("rename", NS, ANN, MILLIS + 11)
    for audited, grade in (
        (Client("ann@admin"), Certainty.UNIQUE), (Client("bob@admin"), Certainty.AMBIGUOUS),
        (Client("ann@admin", "other"), Certainty.AMBIGUOUS),
    ):  # fmt: skip
        book = book_of(Definition("rename", NS, audited, MILLIS + 10), logged)
        found = await judge(oplog, book, kind="rename", op="")
        assert (found.grade, found.candidates[0].application) == (grade, "shell")


@pytest.mark.parametrize(
    ("application", "others", "confidence"),
    [("mongosh 2.5.6", 0, "high"), ("MongoDB Compass", 0, "high"), ("agenda", 0, "low"), ("mongosh 2.5.6", 1, "low")],
)
async def test_what_the_evidence_tells_to_be_of_a_shell_is_certain_at_once(
    application: str, others: int, confidence: str
) -> None:
    """A window of less than five minutes shows too little of what is usual, and the account and application do."""
    person = replace(ANN, application=application)
    facts = [ran(person, 9, 41, 30 - 15 * others)] + [ran(BOB, 9, 41, 15)] * others
    (one,) = await named(Oplog().many(range(10, 40)), book_of(*facts), a_delete(confidence="low"))
    assert one.confidence == confidence
    (one,) = await named(Oplog().many(range(10, 40)), book_of(*facts), a_delete(confidence="low", reason="recurs"))
    assert (one.confidence, one.routine) == ("low", True)


# What the log decides


@pytest.mark.parametrize("client", [SHELL, TOOL])
async def test_a_statement_of_usual_size_that_no_application_runs_is_found_by_its_line(client: Client) -> None:
    found = await named(deletes(5), book_of(), log=a_log(typed(client, 3)))
    assert [(one.kind, one.ns, one.documents, one.documents_exact, one.first, one.number, one.by) for one in found] == [
        ("deleteMany", NS, 12, True, Ts(T, 1), 1, f"{client.user.partition('@')[0]}, {client.application}")
    ]
    assert found[0].confidence == "high"
    who = f"the account {client.user}, application {client.application}, {client.address}"
    assert found[0].described == f"deleteMany on {NS}, 2026-11-23T04:53:15Z, written by {who}"
    # Others delete at that time by a session, or shortly after it.
    beside = deletes(5).write(15, id=70, lsid=LSID, txnNumber=Int64(1)).many(range(100, 103))
    (one,) = await named(beside, book_of(), log=a_log(typed(client, 3)))
    assert (one.documents, one.documents_exact, one.last) == (12, True, Ts(T, 12))
    # One that the entries show has a row already.
    shown = replace(a_delete(), last_wall=from_seconds((MILLIS + 16) / 1000))
    assert [one.number for one in await named(deletes(5), book_of(), shown, log=a_log(typed(client, 3)))] == [1]
    # Its entries are not in this oplog, or lie before where reading ended or began.
    assert await named(Oplog(), book_of(), log=a_log(typed(client, 3))) == []
    for reached in (Ts(T + 1, 0), None):
        assert await named(deletes(5), book_of(), log=a_log(typed(client, 3)), reached=reached) == []


@pytest.mark.parametrize(
    ("times", "documents", "first", "count"),
    [
        ([500, 503, 510], 3, 500, 3),
        ([449, 450, 503], 2, 450, 2),  # within 50 ms two are found, and the one before is another's
        ([249, 250, 503], 2, 250, 2),  # within 250 ms
        ([250, 503, 510], 3, 250, 3),
        ([-1_000, 503, 510], 3, -1_000, 3),  # 1.5 s, and no more
        ([-1_001, 503, 510], 3, 0, 0),  # one of its own is missing
        ([503, 520, 521], 2, 503, 2),  # none after its line
        ([500, 503], 1, 500, 2),  # one of them is another's
        ([530], 1, 0, 0),
    ],
)
@pytest.mark.parametrize("op", ["d", "u"])
async def test_the_entries_of_a_line_are_those_of_the_least_delay_in_which_all_are_found(
    times: list[int], documents: int, first: int, count: int, op: str
) -> None:
    oplog = Oplog()
    for at in times:
        oplog.write(at, id=at, op=op)
    run = LoggedRun(replace(typed(TOOL, 500, documents), op=op), MILLIS + 500, MILLIS + 520, documents)
    found = await read_run(oplog, run, book_of())  # type: ignore[arg-type]
    assert (found is not None) == bool(count)
    if found is not None:
        kept = [at for at in times if at >= first][:count]
        walls = [from_seconds((MILLIS + at) / 1000) for at in (kept[0], kept[-1])]
        begun = Ts(T + kept[0] // 1000, times.index(kept[0]) + 1)
        harm, kind = (Harm.LOSS, "deleteMany") if op == "d" else (Harm.CHANGE, "updateMany")
        assert found == Incident(
            0, kind, f"{kind} on {NS}", NS, harm, begun, Ts(T + kept[-1] // 1000, times.index(kept[-1]) + 1), *walls,
            count, count, tuple(map(str, kept)), begun, note=FOUND, op=op, documents_exact=count == documents,
        )  # fmt: skip


async def test_what_a_migration_wrote_is_of_no_statement() -> None:
    """Moved documents are single entries, or operations in a batch among those of a statement."""
    inner = [{"op": "d", "ns": NS, "ui": Binary(b"u" * 16, 4), "o": {"_id": n}} for n in range(3)]
    inner[2] |= {"fromMigrate": True}
    inner.append(inner[0] | {"ns": "shop.other"})
    oplog: Any = Oplog().write(503, op="c", ns="admin.$cmd", o={"applyOps": inner}).write(504, 9, fromMigrate=True)
    found = await read_run(oplog, LoggedRun(typed(TOOL, 500, 2), MILLIS + 500, MILLIS + 520, 2), book_of())
    assert found is not None
    assert (found.ops, found.documents, found.documents_exact, found.samples) == (1, 2, True, ("0", "1"))
    assert told(await judge(oplog, book_of(ran(ANN, 500, 520, 2)))) == (Certainty.UNIQUE, [("ann", 2)])


async def test_a_line_while_the_clock_is_doubted_has_no_entries() -> None:
    book, run = book_of(), LoggedRun(typed(TOOL, 500, 1), MILLIS + 500, MILLIS + 520, 1)
    oplog: Any = Oplog().write(503)
    assert await read_run(oplog, run, book) is not None
    book.doubt_clock(MILLIS + 500)
    assert await read_run(oplog, run, book) is None


@pytest.mark.parametrize("ahead", [2, 3, 30])
async def test_the_entries_of_a_line_are_found_where_the_cluster_s_clock_is_ahead(ahead: int) -> None:
    """Timestamps go on where they were when a member whose clock was fast was primary."""
    oplog: Any = Oplog()
    stamps = [Timestamp(T + ahead, n) for n in (1, 2)]
    oplog.raw = [
        bson.encode(bson.decode(raw) | {"ts": ts}) for raw, ts in zip(deletes(503, 2).raw, stamps, strict=True)
    ]
    known = typed(TOOL, 500, 2, after=Ts(T + ahead, 0))
    found = await read_run(oplog, LoggedRun(known, known.began, known.ended, 2), book_of())
    assert found is not None
    assert (found.first, found.last, found.documents) == (Ts(T + ahead, 1), Ts(T + ahead, 2), 2)


async def test_the_entries_of_a_line_are_looked_for_until_a_secondary_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    behind, scan = Oplog(), IncidentScan((), 0, BEGIN, done=True)
    authors, late = authors_of(behind, book_of(), a_log(typed(SHELL, 3))), authors_module.LATE_SECONDS
    assert (await authors.added_to(scan)).incidents == ()
    behind.raw += deletes(5).raw
    for seconds, count in ((-1.0, 0), (late, 1)):
        monkeypatch.setattr(authors_module, "LATE_SECONDS", seconds)
        assert len((await authors.added_to(scan)).incidents) == count
    behind.raw.clear()  # what was found once stays
    assert len((await authors.added_to(scan)).incidents) == 1


async def test_so_many_acts_of_the_log_alone_are_looked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authors_module, "LOGGED_LIMIT", 1)
    log = a_log(typed(SHELL, 3), replace(typed(SHELL, 60_003), ns="shop.other"))
    oplog = deletes(5).many(range(60_005, 60_017), ns="shop.other")
    authors = authors_of(oplog, book_of(), log)
    found = (await authors.added_to(IncidentScan((), 0, BEGIN, done=True))).incidents
    assert [one.ns for one in found] == [NS]
    # What is no longer looked for makes room: the entries show it, or lie before what is left of the oplog.
    for incidents, reached in (((replace(a_delete(), last_wall=from_seconds(T + 0.016)),), BEGIN), ((), Ts(T + 1, 0))):
        found = (await authors.added_to(IncidentScan(incidents, 0, reached, done=True))).incidents
        assert "shop.other" in [one.ns for one in found]


async def test_its_number_comes_after_those_of_the_entries() -> None:
    shown = replace(a_delete(), ns="shop.other", number=7)
    found = await named(deletes(5), book_of(), shown, log=a_log(typed(SHELL, 3)))
    assert {one.ns: one.number for one in found} == {NS: 8, "shop.other": 7}


@pytest.mark.parametrize("client", [SHELL, TOOL])
async def test_what_is_run_all_the_time_is_not_found(client: Client) -> None:
    often = [typed(client, at, 40) for at in range(-400_000, 1_200_000, 200_000)]
    assert await named(deletes(5), book_of(), log=a_log(*often)) == []


async def test_what_the_same_application_runs_at_other_times_is_routine() -> None:
    row = a_delete(confidence="low")
    oplog, now, before = deletes(10, 30), replace(typed(JOB, 9, 30), ended=MILLIS + 41), typed(JOB, -300_000, 500)
    (one,) = await named(oplog, book_of(), row, log=a_log(now, before))
    assert (one.routine, one.kind, one.number) == (True, "job", 1)
    assert one.note == "shop runs this statement at other times too, by the log"
    (one,) = await named(oplog, book_of(), row, log=a_log(now, replace(before, documents=0)))
    assert one.routine, "one that found nothing to change is another time"
    for log in (
        a_log(now),
        a_log(now, replace(before, shape=2)),
        a_log(now, replace(before, client=TOOL)),
        a_log(replace(now, client=SHELL), replace(before, client=SHELL)),
        a_log(replace(now, client=TOOL), replace(before, client=TOOL)),
    ):
        (one,) = await named(oplog, book_of(), row, log=log)
        assert not one.routine


async def test_a_statement_that_changed_nothing_is_no_act() -> None:
    assert await named(deletes(5), book_of(), log=a_log(typed(SHELL, 3, 0))) == []
    (one,) = await named(deletes(5), book_of(), log=a_log(typed(SHELL, -2_000, 0), typed(SHELL, 3)))
    assert (one.documents, one.first) == (12, Ts(T, 1))


async def test_a_loop_is_not_what_its_application_runs_at_other_times() -> None:
    """One statement after the other for two minutes, by an application that writes all the time: each other one is of
    the same loop."""
    loop = [typed(JOB, at, 1) for at in range(0, 120_000, 2_000)]
    oplog, now = Oplog().many(range(5, 120_000, 2_000)), a_delete(confidence="low")
    row = replace(now, last_wall=from_seconds((MILLIS + 58_005) / 1000), documents=30)
    (one,) = await named(oplog, book_of(), row, log=a_log(*loop))
    assert not one.routine


@pytest.mark.parametrize(("count", "confidence"), [(3, "high"), (4, "low")])
async def test_a_statement_that_is_tried_again_a_few_times_is_no_loop(count: int, confidence: str) -> None:
    times = range(0, count * 2_000, 2_000)
    found = await named(
        Oplog().many(times), book_of(), log=a_log(*(ran(TOOL, at, at, 1, many=True, shape=1) for at in times))
    )
    assert [(one.documents, one.confidence) for one in found] == [(count, confidence)]


@pytest.mark.parametrize(("end", "confidence"), [(100_000, ["low"]), (1_190_000, [])])
async def test_small_statements_again_and_again_are_an_act_only_once_they_are_over(
    end: int, confidence: list[str]
) -> None:
    """A worker that was just started may go on for days."""
    begin = end - 100_000
    log = a_log(*(ran(TOOL, at, at, 1, many=True, shape=1) for at in range(begin, end, 2_000)))
    found = await named(Oplog().many(range(begin, end, 2_000)), book_of(), log=log)
    assert [one.confidence for one in found] == confidence


@pytest.mark.parametrize(
    "gap",
    [
        lambda log: [one for one in log if one.began < one.ended],
        lambda log: [
            replace(one, in_session=None if one.shape == 9 and n % 20 == 0 else False) for n, one in enumerate(log)
        ],
        lambda log: [*log[:-1], *(replace(log[-1], shape=100 + n) for n in range(5_000)), log[-1]],
    ],
    ids=["a threshold", "a sample", "more shapes than are kept"],
)
async def test_of_a_log_that_is_not_whole_only_a_shell_is_believed(gap: Any) -> None:
    """What is missing, or has no room, may be what is usual."""
    assert await named(deletes(5), book_of(), log=gap(a_log(typed(TOOL, 3)))) == []
    (one,) = await named(deletes(5), book_of(), log=gap(a_log(typed(SHELL, 3))))
    assert one.by == "ann, mongosh 2.5.6"


async def test_in_a_young_log_everything_is_new() -> None:
    assert await named(deletes(5), book_of(), log=a_log(typed(TOOL, 3), minutes=3)) == []
    assert len(await named(deletes(5), book_of(), log=a_log(typed(SHELL, 3), minutes=3))) == 1


async def test_no_entries_are_taken_by_a_doubted_clock() -> None:
    book = book_of()
    book.doubt_clock(MILLIS)
    assert await named(deletes(5), book, log=a_log(typed(SHELL, 3))) == []


@pytest.mark.parametrize(("first", "begin"), [(1, 0), (2, 0), (100, 98)])
async def test_entries_are_read_two_seconds_beyond_those_that_a_record_names(first: int, begin: int) -> None:
    asked: list[Any] = []

    class Server:
        async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
            asked.append(query)
            for _ in ():
                yield b""

    gateway: Any = Server()
    assert [raw async for raw in entries_between(gateway, NS, "d", first, 200)] == []
    assert asked[0]["ts"] == {"$gte": Timestamp(begin, 0), "$lt": Timestamp(202, 0)}
