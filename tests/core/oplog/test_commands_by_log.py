"""Commands that recur, and which of them the server's log tells to be somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import bson
import pytest
from bson import Binary, Timestamp

from builders.authors import ANN, JOB, MILLIS, SHELL, TOOL, Oplog, T, authors_of, book_of
from tallyglass.evidence.book import Coverage
from tallyglass.evidence.facts import INTERNAL_USER, Client, Definition
from tallyglass.moment import ZERO, Ts, from_seconds
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.snapshot import Certainty, IncidentScan

ROUTER = Client(INTERNAL_USER, "router", "10.0.0.9:1", "", "conn9")
CARL = replace(ANN, user="carl@admin", application="mongosh 2.1.0")
EVERY, TIMES = 24, 50
"""An application drops its cache so often, in seconds."""

Clients = Mapping[int, Client | None]
"""Who ran those that the application did not; None is nobody that the log names."""


async def dropped(
    others: Clients, *, covered: tuple[int, int] | None = None, every: int = EVERY, times: int = TIMES
) -> list[str]:
    """The list of drops of one collection, each after the one before; ``covered`` is of which of them the log was
    read."""
    grouper, book, covered = Grouper(), book_of(), covered or (0, times)
    for n in range(times):
        at = T + n * every
        entry = {"op": "c", "ns": "shop.$cmd", "ui": Binary(b"u" * 16, 4), "o": {"drop": "cache"}, "v": 2, "t": 1}
        entry |= {"o2": {"numRecords": 100}, "ts": Timestamp(at, 1), "wall": from_seconds(at)}
        grouper.feed_batch(bson.encode(entry))
        client = others.get(n, JOB)
        if client is not None and covered[0] <= n < covered[1]:
            book.add_definition(Definition("drop", "shop.cache", client, at * 1_000 + 1, Ts(at, 1)))
    first, last = (MILLIS + n * every * 1_000 for n in covered)
    book.coverage["a:1"] = [Coverage(first - 1_000, last)]
    scan = IncidentScan(grouper.incidents(), times, Ts(T, 1), done=True, recurring=grouper.recurring)
    found = await authors_of(Oplog(), book).added_to(scan)
    assert found.recurring == ()
    rows = []
    for one in found.incidents:
        assert one.documents == 100 * one.ops
        assert one.routine or (one.kind, one.title, one.point) == ("drop", "drop shop.cache", one.first)
        if not one.routine and one.evidence is not None and one.evidence.who is not None:
            assert one.evidence.grade is Certainty.EXACT
            assert one.note == f"others run this regularly, {one.evidence.who.application} does not, by the log"
        place = (one.first.t - T) // every
        rows.append(
            f"{one.number}: {one.note}" if one.routine else f"{one.number}: {place}, {one.confidence}, {one.by}"
        )
    return rows


ROUTINE = "1: 50 times, about every 24 s"
REST = "1: 49 times, about every 24 s"


@pytest.mark.parametrize(
    ("others", "rows"),
    [
        ({}, [ROUTINE]),
        ({7: SHELL}, ["2: 7, high, ann, mongosh 2.5.6", REST]),
        ({7: TOOL}, ["2: 7, high, bob, cleanup.py", REST]),
        # Those of an application that nobody is named for may be its own.
        ({7: TOOL, 9: None}, [ROUTINE]),
        ({7: TOOL, 9: ROUTER}, [ROUTINE]),
        ({7: SHELL, 9: None}, ["2: 7, high, ann, mongosh 2.5.6", REST]),
        # An application runs it at another time too; a person may do so, but not as often as a script.
        ({7: TOOL, 30: TOOL}, [ROUTINE]),
        (
            {7: SHELL, 30: SHELL},
            ["2: 7, high, ann, mongosh 2.5.6", "3: 30, high, ann, mongosh 2.5.6", "1: 48 times, about every 24 s"],
        ),
        (dict.fromkeys(range(0, 50, 10), SHELL), [ROUTINE]),
        (dict.fromkeys(range(50), ROUTER), [ROUTINE]),
        # A new version has another account or name, not both; of a shell each account is another person.
        ({7: replace(JOB, user="other@admin")}, [ROUTINE]),
        ({7: replace(JOB, application="other")}, [ROUTINE]),
        (
            {7: replace(JOB, application="job 1.2", user=""), 30: replace(JOB, application="job 1.3", user="")},
            [ROUTINE],
        ),
        ({7: replace(JOB, application="job 1.2", user="")}, ["2: 7, high, job 1.2", REST]),
        (
            {7: replace(SHELL, user=JOB.user), 9: CARL},
            [
                "2: 7, high, app, mongosh 2.5.6",
                "3: 9, high, carl, mongosh 2.1.0",
                "1: 48 times, about every 24 s",
            ],
        ),
        # It may have been started a moment ago.
        ({48: TOOL}, ["2: 48, low, bob, cleanup.py", REST]),
        ({48: SHELL}, ["2: 48, high, ann, mongosh 2.5.6", REST]),
    ],
)
async def test_a_command_is_compared_with_those_of_the_same_program(others: Clients, rows: list[str]) -> None:
    assert await dropped(others) == rows


@pytest.mark.parametrize(("times", "is_gone"), [(TIMES, True), (101, False)])
async def test_a_row_of_which_all_are_somebody_s_is_gone(times: int, is_gone: bool) -> None:
    """What more than a hundred programs run is everybody's."""
    people = [replace(ANN, user=f"user{n}@admin", application="mongosh") for n in range(times)]
    rows = await dropped(dict(enumerate(people)), times=times)
    gone = [f"{n + 2}: {n}, high, user{n}, mongosh" for n in range(times)]
    assert rows == (gone if is_gone else ["1: 101 times, about every 24 s"])


@pytest.mark.parametrize(
    ("client", "covered", "is_act"),
    [
        (SHELL, (5, 10), True), (TOOL, (5, 10), False), (CARL, (8, 50), False), (TOOL, (1, 50), False),
        (SHELL, (6, 9), False), (SHELL, (7, 8), False),
    ],
)  # fmt: skip
async def test_only_what_the_log_covers_is_judged(client: Client, covered: tuple[int, int], is_act: bool) -> None:
    """It must show that others run it regularly: a shell may run a script each night, of which it shows one run."""
    rows = await dropped({7: client}, covered=covered)
    assert (rows == [ROUTINE]) is not is_act


@pytest.mark.parametrize(("every", "is_act"), [(5, False), (7, True)])
async def test_in_a_young_log_every_application_is_new(every: int, is_act: bool) -> None:
    """Fifty times five seconds are less than five minutes."""
    assert len(await dropped({7: TOOL}, every=every)) == 1 + is_act


async def test_without_a_timestamp_the_name_and_time_must_fit_one_client() -> None:
    grouper, book = Grouper(), book_of()
    for n in range(TIMES):
        at = T + n * EVERY
        entry = {"op": "c", "ns": "shop.$cmd", "o": {"collMod": "cache", "hidden": True}, "ts": Timestamp(at, 1)}
        grouper.feed_batch(bson.encode(entry | {"wall": from_seconds(at)}))
        for client in (SHELL,) if n == 7 else (SHELL, JOB) if n == 9 else (JOB,):
            book.add_definition(Definition("collMod", "cache", client, at * 1_000 + 1, ZERO))
    scan = IncidentScan(grouper.incidents(), TIMES, Ts(T, 1), done=True, recurring=grouper.recurring)
    found = (await authors_of(Oplog(), book).added_to(scan)).incidents
    assert [(one.first.t - T) // EVERY for one in found if not one.routine] == [7]
