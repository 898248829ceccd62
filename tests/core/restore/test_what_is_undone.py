"""From an incident, or from the entry at the point, to the operations that are undone and those that are left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import bson
import pytest
from bson import Binary, Int64
from bson.datetime_ms import DatetimeMS

from builders.history import COLLECTION, Row, Server, diff, entry
from builders.incidents import incident
from tallyglass.moment import Ts
from tallyglass.oplog.entry.changes import changes_of
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.restore.model.undo import Accident, WriteGroup
from tallyglass.restore.undo.accident import Attribution, UpdateEffect
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.effects import Side
from tallyglass.restore.undo.evidence import read_evidence
from tallyglass.restore.undo.incident_scope import ANY_SESSION
from tallyglass.restore.undo.infer import Inferred, _Around, _miscounted, find_accident, with_removals

SHAPE = diff(u={"v": 7})
SESSION = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(7)}


@pytest.mark.parametrize(
    ("accident", "owned"),
    [
        (Accident("transaction", "", Ts(100, 1), Ts(100, 1)), "i d u drop create"),
        (Accident("transaction", "", Ts(99, 1), Ts(99, 1)), ""),
        (Accident("transaction", "", Ts(101, 1), Ts(101, 1)), ""),
        (Accident("removal", "", Ts(99, 1), Ts(100, 1)), "drop"),
        (Accident("removal", "", Ts(99, 1), Ts(99, 2)), ""),
        (Accident("everything", "", Ts(99, 1), None), "d drop"),
        (Accident("everything", "", Ts(101, 1), None), ""),
        (Accident("deletes", "s.c", Ts(99, 1), Ts(100, 1), ANY_SESSION), "d"),
        (Accident("deletes", "s.c", Ts(99, 1), Ts(100, 1)), ""),
        (Accident("updates", "s.c", Ts(99, 1), Ts(100, 1), ANY_SESSION, updates=True, command=7), "u"),
        (Accident("updates", "s.c", Ts(99, 1), Ts(100, 1), ANY_SESSION, updates=True, command=8), ""),
        (Accident("updates", "s.c", Ts(99, 1), Ts(100, 1), ANY_SESSION, updates=True), ""),
        (Accident("updates", "s.c", Ts(99, 1), Ts(100, 1), ANY_SESSION, command=7), ""),
        (Accident("updates", "s.c", Ts(99, 1), Ts(100, 1), updates=True, command=7), ""),
    ],
)
def test_whose_an_operation_is(accident: Accident, owned: str) -> None:
    def written(op: str, o: dict[str, Any]) -> Entry:
        return read_entry(bson.encode(entry(100, op, o, None if op == "c" else 1) | SESSION))

    operations = {op: written(op, SHAPE if op == "u" else {"_id": 1}) for op in "iud"}
    operations |= {name: written("c", {name: "c"}) for name in ("drop", "create")}
    attribution = Attribution(accident)
    assert {name for name, one in operations.items() if attribution.owns(one, one)} == {*owned.split()}


async def from_the_point(rows: list[Row], point: int) -> Inferred:
    server: Any = Server(rows)
    (at_limit,) = [row for row in rows if row["ts"].time == point]
    return await find_accident(server, None, Ts(point, 1), Ts(900, 1), read_entry(bson.encode(at_limit)), ["s.c"])


MANY = [entry(100 + n, "u", SHAPE, n) for n in range(30)]


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        (MANY, 129),
        ([*MANY, entry(189, "u", SHAPE, 50)], 189),
        ([*MANY, entry(190, "u", SHAPE, 50)], 129),
        ([*MANY, entry(140, "u", diff(u={"w": 1}), 50)], 129),
        ([entry(50, "u", diff(u={"w": 1}), 50), *MANY], 129),
        ([entry(50, "u", SHAPE, 50), *MANY], None),
        (MANY[:1], None),
        ([entry(100, "d", {"_id": 1}), *MANY[1:]], None),
    ],
    ids=[
        "many",
        "after a pause",
        "after a long pause",
        "of another shape",
        "else before",
        "routine",
        "one",
        "a delete",
    ],
)
async def test_updates_that_begin_at_the_point_are_undone_unless_the_application_makes_them(
    rows: list[Row], last: int | None
) -> None:
    found = await from_the_point(rows, 100)
    accident = found.accident
    assert (accident.kind, accident.first, accident.last) == ("everything", Ts(100, 1), Ts(900, 1))
    assert accident.updates == (last is not None)
    assert accident.updates_last == (Ts(last, 1) if last else None)
    assert accident.entries == (sum(row["o"] == SHAPE and row["ts"].time <= last for row in rows) if last else 0)
    assert [row.ns for row in found.undone] == (["s.c"] if last else [])


@pytest.mark.parametrize(("numbers", "command", "what"), [((5, 5), 5, "v = 7 (one command)"), ((5, 6), None, "v = 7")])
async def test_the_updates_of_one_command_are_known_by_its_number(
    numbers: tuple[int, ...], command: int | None, what: str
) -> None:
    """One that wrote the same before too is no routine."""
    before = [entry(90, "u", SHAPE, 50, **sent(4))] if command else []
    rows = [entry(100 + at, "u", SHAPE, at, **sent(number)) for at, number in enumerate(numbers)]
    found = await from_the_point([*before, *rows, entry(102, "u", diff(u={"w": 1}), 3, **sent(9))], 100)
    assert (found.accident.command, found.accident.entries, found.accident.updates_last) == (command, 2, Ts(101, 1))
    assert [row.what for row in found.undone] == [what]


async def test_a_transaction_is_undone_but_for_its_inserts() -> None:
    """Each document counts once, however often it was written."""

    def part(op: str, ns: str, o: Row, **more: Any) -> Row:
        return {"op": op, "ns": ns, "ui": COLLECTION, "o": o} | more

    parts = [part("i", "s.c", {"_id": 1}), part("i", "s.c", {"_id": 2}), part("d", "s.c", {"_id": 3})]
    parts += [part("u", "s.d", SHAPE, o2={"_id": 4})] * 2
    parts += [part("u", "s.c", SHAPE, o2={"_id": 5}), part("d", "s.c", {"_id": 5}), part("d", "s.c", {"_id": 1})]
    parts += [part("d", "s.d", {"_id": 6}), part("i", "s.d", {"_id": 6})]
    server: Any = Server([entry(10, "c", {"applyOps": parts}, ns="admin.$cmd")])
    row = incident(1, 10, kind="transaction", point=Ts(10, 1), last=Ts(10, 1))
    found = await find_accident(server, row, row.limit, row.last, None, [])
    assert (found.accident.kind, found.accident.entries) == ("transaction", len(parts))
    assert {(one.ns, one.what): one.documents for one in found.undone} == {
        ("s.c", "deleted in one transaction"): 2, ("s.d", "updated in one transaction"): 2,
    }  # fmt: skip
    assert [(one.ns, one.what, one.documents, one.why) for one in found.left_out] == [
        ("s.c", "inserted", 2, "an undo of a transaction removes nothing")
    ]


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        (Changed(deletes=3), ("deleted from the point on", 3)),
        (Changed(deletes=3, removed=True), ("deleted, and dropped, emptied or renamed from the point on", None)),
        (Changed(removed=True, replaced=True), ("dropped, emptied or renamed from the point on", None)),
        (Changed(deletes=3, replaced=True), ("deleted from the point on", 3)),
        (Changed(inserts=2, updates=5), None),
    ],
)
def test_without_an_incident_every_removal_is_undone(changed: Changed, row: tuple[str, int | None] | None) -> None:
    first = WriteGroup("s.a", "v = 1", 2, Ts(20, 1), Ts(21, 1))
    accident = Accident("everything", "s.c", Ts(20, 1), Ts(29, 1))
    found = with_removals(Inferred(accident, (first,)), {"s.c": changed})
    wanted = [WriteGroup("s.c", row[0], None, Ts(20, 1), Ts(29, 1), row[1])] if row else []
    assert (found.undone, found.left_out) == ((first, *wanted), ())


def test_without_an_incident_a_collection_that_was_replaced_stays() -> None:
    accident = Accident("everything", "", Ts(20, 1), None)
    found = with_removals(Inferred(accident), {"s.c": Changed(replaced=True)})
    what, why = "another collection was renamed to it", "no incident is named"
    assert (found.undone, found.left_out) == ((), (WriteGroup("s.c", what, None, Ts(20, 1), Ts(20, 1), why=why),))


@pytest.mark.parametrize(
    ("documents", "exact", "asks"), [(10, True, False), (11, True, True), (11, False, False), (None, True, False)]
)
async def test_the_documents_of_an_incident_are_compared_with_the_oplog_where_it_counts_them(
    documents: int | None, exact: bool, asks: bool
) -> None:
    row = incident(1, 100, kind="updateMany", ns="s.c", op="u", last=Ts(110, 1), documents=documents)
    row = replace(row, first=Ts(100, 1), documents_exact=exact)
    server: Any = Server([*MANY[:10], entry(112, "n", {})])
    found = await find_accident(server, row, row.limit, row.last, None, ["s.c"])
    assert found.doubts == (("The incident lists 11 documents, and the oplog has 10 in its span.",) if asks else ())


async def test_a_removal_is_undone_as_a_whole() -> None:
    server: Any = Server([])
    row = incident(1, 10, kind="drop", ns="s.c", documents=12)
    found = await find_accident(server, row, row.limit, row.last, None, ["s.c"])
    assert (found.accident.kind, found.accident.first, found.accident.last) == ("removal", row.first, row.last)
    assert [(one.what, one.documents) for one in found.undone] == [("dropped", 12)]


def sent(number: int, who: int = 1, wall: int | None = None) -> Row:
    lsid = {"id": Binary(bytes([who]) * 16, 4), "uid": Binary(b"\xe3" * 32)}
    row = {"lsid": lsid, "txnNumber": Int64(number), "stmtId": 0}
    return row if wall is None else row | {"wall": DatetimeMS(wall)}


@pytest.mark.parametrize(
    ("more", "mixed", "left"),
    [
        ([], False, []),
        ([entry(110, "d", {"_id": 90}, **sent(6))], True, [("deleted", "a write of another kind")]),
        ([entry(110, "d", {"_id": 90}, **sent(6, who=2))], False, [("deleted", "another client wrote it")]),
        ([entry(111, "d", {"_id": 90}, **sent(15))], True, []),
        ([entry(111, "d", {"_id": 90}, **sent(16))], False, []),
        ([entry(111, "d", {"_id": 90}, **sent(6, wall=309))], True, []),
        ([entry(111, "d", {"_id": 90}, **sent(6, wall=310))], False, []),
        ([entry(111, "i", {"_id": 90}, **sent(6))], True, [("inserted", "it may be the same statement")]),
        ([entry(111, "i", {"_id": 90}, **sent(6, wall=309))], True, [("inserted", "it may be the same statement")]),
        ([entry(111, "i", {"_id": 90}, **sent(6, wall=310))], False, []),
    ],
    ids=[
        "alone",
        "mixed",
        "another client",
        "near in number",
        "far in number",
        "soon",
        "late",
        "upserts",
        "soon inserts",
        "late inserts",
    ],
)
async def test_what_the_same_client_wrote_at_once_is_named(
    more: list[Row], mixed: bool, left: list[tuple[str, str]]
) -> None:
    rows = [entry(100 + n, "u", SHAPE, n, **sent(5)) for n in range(10)]
    whole = [*rows, *more, entry(112, "n", {})]
    session = read_entry(bson.encode(rows[0])).session_text
    row = incident(1, 100, kind="updateMany", ns="s.c", op="u", last=Ts(110, 1), documents=10, session=session)
    row = replace(row, first=Ts(100, 1))
    server: Any = Server(whole)
    found = await find_accident(server, row, row.limit, row.last, None, ["s.c"])
    assert (found.accident.command, found.accident.entries) == (5, 10)
    assert any("bulk write of several kinds" in doubt for doubt in found.doubts) is mixed
    assert [(one.what, one.why.partition(",")[0]) for one in found.left_out] == left


SET = "db.c.updateMany({}, {$set: {v: 7}})"
BEGINS = "It begins at 100:1, before the incident: plan for the incident before this one."


@pytest.mark.parametrize(
    ("statement", "count", "first", "doubts", "documents"),
    [
        (SET, 10, 100, [], 10),
        (SET, None, 100, [], 10),
        (SET, 8, 100, [], 8),
        ("", 10, 100, [], 10),
        (SET, 10, 101, [BEGINS], 10),
        (SET.replace("c.", "other.", 1), 10, 100, ["The statement is on other, the incident on s.c."], 10),
        ("deleteMany({})", 10, 100, ["The statement is a delete, and the incident is an update."], 10),
    ],
)
async def test_what_a_person_says_of_an_incident_decides_what_is_undone(
    statement: str, count: int | None, first: int, doubts: list[str], documents: int
) -> None:
    rows = [*MANY[:10], entry(111, "d", {"_id": 90}), entry(109, "u", SHAPE, 91, **sent(5)), entry(112, "n", {})]
    row = incident(1, first, kind="updateMany", ns="s.c", op="u", last=Ts(109, 1), documents=10)
    row = replace(row, first=Ts(first, 1), point=Ts(first, 1))
    known, server = read_evidence(statement, count), Server(sorted(rows, key=lambda one: one["ts"]))
    found = await find_accident(server, row, row.limit, row.last, None, ["s.c"], known)  # type: ignore[arg-type]
    one = found.accident
    assert (list(found.doubts), one.proven) == (doubts, count is not None and not doubts)
    assert (one.first, one.last, one.entries, one.count) == (Ts(100, 1), Ts(109, 1), 10, count)
    assert (one.kind, one.statement, one.command, UpdateEffect.of(one.effect)) == (
        "updates", statement, None, UpdateEffect(changes_of(bson.encode(SHAPE))),
    )  # fmt: skip
    assert [(shown.what, shown.documents, shown.entries) for shown in found.undone] == [("v = 7", documents, 10)]
    assert [(shown.what, shown.entries, shown.why) for shown in found.left_out] == [
        ("updated", 1, "another client wrote it")
    ]


@pytest.mark.parametrize(
    ("session", "numbers", "commands"),
    [
        ("a", {5: 3, 6: 2}, 2),
        ("a", {5: 1, 6: 2, 7: 1}, 3),
        ("a", {5: 1, 6: 1}, 0),
        ("a", {5: 3}, 0),
        ("a", {5: 100_000, 6: 7}, 0),
        ("a", {7: 5, 6: 100_000, 5: 100_000}, 0),
        ("a", {5: 7, 6: 100_000}, 2),
        ("", {0: 3, 6: 2}, 0),
        (ANY_SESSION, {5: 3, 6: 2}, 0),
    ],
)
def test_several_commands_of_one_client_are_named(session: str, numbers: dict[int, int], commands: int) -> None:
    around = _Around(Accident("updates", "s.c", Ts(1, 1), Ts(2, 1), session), "u", False, numbers=Counter(numbers))
    said = f"The same client sent {commands:,} commands in this time." if commands else ""
    assert around.several_commands() == said


@pytest.mark.parametrize(
    ("sides", "kinds"),
    [
        ([Side.INSIDE, Side.INSIDE], "2 inserted"),
        ([Side.INSIDE, Side.BEFORE], "1 inserted"),
        ([Side.AFTER, Side.BEFORE], ""),
        ([Side.INSIDE, Side.BEFORE, Side.AFTER], ""),
        ([], ""),
    ],
)
def test_other_writes_without_a_session_are_part_of_it_unless_they_go_on_around_it(
    sides: list[Side], kinds: str
) -> None:
    around = _Around(Accident("updates", "s.c", Ts(1, 1), Ts(2, 1)), "u", False)
    around.others += [("i", side, "", 0, 0) for side in sides] + [("d", side, "", 0, 0) for side in Side]
    said = f"A bulk write of several kinds: the same client also wrote here at once ({kinds})." if kinds else ""
    assert around.mixed() == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"documents": 11}, ["The incident lists 11 documents, and the oplog has 10 in its span."]),
        ({"documents": 11, "ops": 10, "op": "u"}, []),
        (
            {"documents": 11, "ops": 10, "op": "d"},
            ["The incident lists 11 documents, and the oplog has 10 in its span."],
        ),
        ({"documents": 11, "documents_exact": False, "op": "u"}, []),
        ({"documents": None}, []),
        ({"op": "d", "sessions": 1}, []),
        ({"op": "d", "sessions": 2}, ["Several clients delete here, and a delete does not say whose it is."]),
        (
            {"op": "d", "documents_exact": False},
            ["Several clients delete here, and a delete does not say whose it is."],
        ),
        ({"op": "u", "sessions": 2}, []),
    ],
)
def test_an_incident_is_counted(changes: dict[str, Any], said: list[str]) -> None:
    row = incident(1, 9, **{"documents": 10, "ops": 12, "op": "u"} | changes)
    assert list(_miscounted(row, 10, row.op)) == said


@pytest.mark.parametrize(
    ("side", "millis", "entries"),
    [
        (Side.BEFORE, [800], 1), (Side.BEFORE, [799], 0), (Side.BEFORE, [400, 600, 800], 3),
        (Side.BEFORE, [399, 600, 800], 2), (Side.BEFORE, [800, 1_001], 1), (Side.BEFORE, [], 0),
        (Side.AFTER, [1_300], 1), (Side.AFTER, [1_301], 0), (Side.AFTER, [1_300, 1_500], 2),
        (Side.AFTER, [1_300, 1_501, 1_502], 1),
    ],
)  # fmt: skip
def test_inserts_go_on_into_the_updates_without_a_pause(side: Side, millis: list[int], entries: int) -> None:
    """The updates were written from 1,000 ms to 1,100 ms."""
    around = _Around(Accident("updates", "s.c", Ts(10, 1), Ts(11, 1)), "u", False)
    for at, wall in ((10, 1_000), (11, 1_100)):
        around.span.add(Ts(at, 1), wall, key=b"\x10\0\0\0\0")
    for place, wall in enumerate(millis):
        row = read_entry(bson.encode(entry(1, "i", {"_id": place})))
        around.insert_beside(row, side, Ts(5 if side is Side.BEFORE else 20, place + 1), wall)
    found = list(around.inserted())
    assert [(row.what, row.entries, row.documents) for row in found] == [("inserted", entries, entries)] * bool(entries)
