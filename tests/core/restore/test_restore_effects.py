"""Which writes are one statement: what servers log for one, for several, and where nobody can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import bson
import pytest
from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS

from builders.history import entry
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import WHOLE, Changes, Path, changes_of
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.checks.undone import unclear
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.undo import Accident, WriteGroup
from tallyglass.restore.undo import effects
from tallyglass.restore.undo.accident import UpdateEffect, completed, millis_of, seconds_before
from tallyglass.restore.undo.effects import AttributedWrites, Side, WriteGroups
from tallyglass.restore.undo.evidence import read_evidence, statement_of
from tallyglass.restore.undo.tally import ScanOrder

Row = tuple[int, int | str, dict[str, Any] | None]
"""When, in milliseconds; the ``_id``; and the ``o`` of an update, None for a delete."""


def diff(**sections: Any) -> dict[str, Any]:
    return {"$v": 2, "diff": sections}


def changed(o: dict[str, Any]) -> Changes:
    return changes_of(bson.encode(o))


def fed(rows: list[Row], around: list[tuple[Side, dict[str, Any]]] | None = None, hit: int = 0) -> WriteGroups:
    """``around`` are entries outside, on the document ``hit``."""
    writes = WriteGroups()
    for place, (millis, id_, o) in enumerate(sorted(rows, key=lambda row: row[0]), start=1):
        element = next(walk.elements(raw := bson.encode({"_id": id_})))
        key = bytes((element.type,)) + raw[element.start : element.end]
        writes.feed(changed(o) if o else {}, key, Ts(100 + millis // 1_000, place), 100_000 + millis)
    for side, o in around or ():
        writes.feed(changed(o), b"\x10" + hit.to_bytes(4, "little"), Ts(1 if side is Side.BEFORE else 999, 1), 0, side)
    return writes


BOTH, STATUS, FLAG = diff(u={"s": "BAD", "flag": True}), diff(u={"s": "BAD"}), diff(u={"flag": True})


def half_had_it(least: dict[str, Any], count: int = 60) -> Iterator[Row]:
    for n in range(count):
        yield n, n, BOTH if n % 2 else least


def deletes(first: int, ids: range, step: int = 1) -> Iterator[Row]:
    for place, id_ in enumerate(ids):
        yield first + place * step, id_, None


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (list(half_had_it(STATUS)), 'flag = true, s = "BAD"'),
        ([*half_had_it(FLAG), (70, 90, STATUS)], 'flag = true, s = "BAD"'),
        ([(n, n, diff(u={"s": "BAD"}, d={"name": False}) if n % 3 else diff(d={"name": False})) for n in range(30)],
         'name removed, s = "BAD"'),
        ([(n, n, diff(u={"price": n * 1.5})) for n in range(30)], "price: different values"),
        ([(n, n, diff(u={"price": n * 1.5, "s": "BAD"})) for n in range(30)], 's = "BAD", price: different values'),
        ([(0, 1, diff(u={"m": {"x": 1}})), (1, 2, diff(sm={"u": {"x": 1}}))], "m.x = 1"),
        ([(0, 1, BOTH), (1, 2, {"_id": 2, "flag": True, "s": "BAD", "x": 5})], 'flag = true, s = "BAD"'),
        (list(deletes(0, range(100), 1_000)), "deleted"),
        ([*deletes(0, range(50, 100)), *deletes(500, range(49, 0, -1))], "deleted"),
        ([(n, f"k{n}", None) for n in range(50)], "deleted"),
    ],
    ids=["one value there", "either there", "removed", "computed", "computed too", "made parent", "two forms", "slow",
         "another order", "order of texts"],
)  # fmt: skip
def test_one_statement(rows: list[Row], what: str) -> None:
    found = fed(rows).one_statement(timed=True)
    assert (found.doubts, found.what, found.tally.entries) == ((), what, len(rows))


@pytest.mark.parametrize(
    ("rows", "words", "groups"),
    [
        ([*((n, n, STATUS) for n in range(20)), *((n, 50 + n, diff(u={"s": "GOOD"})) for n in range(200))],
         "Several values were written: s.", ('s = "BAD"', 's = "GOOD"')),
        ([*((n, n, STATUS) for n in range(20)), *((n, 50 + n, FLAG) for n in range(20))],
         "no entry has all of them", ('s = "BAD"', "flag = true")),
        ([*((n, n, STATUS) for n in range(20)), *((n, 50 + n, diff(u={"x": n})) for n in range(200))],
         "Several values were written: x.", ('s = "BAD"', "x: different values")),
        ([(n, n, diff(u={"p": str(n)})) for n in range(200)], "Several values were written: p.", ("p: different",)),
        ([(n, n, {"_id": n, "v": n}) for n in range(30)], "Several values were written: whole documents.",
         ("replaced whole",)),
        ([(n, n, diff(stags={"a": True, "u1": "x"})) for n in range(30)], "Several values were written: tags.", ()),
        ([*((n, n, diff(u={"p": n, "q": n})) for n in range(50)), (60, 60, diff(u={"p": 1}))],
         "Several values were written: p, q.", ("p: different values, q: different values",)),
        ([(0, 1, BOTH), (1, 2, {"_id": 2, "flag": False, "s": "BAD"})], "Whole documents were replaced", ()),
        ([(0, 1, BOTH), (1, 1, {"_id": 1, "flag": True, "s": "BAD"})], "hit twice, 1 time;", ()),
        ([*half_had_it(STATUS), *((3_000 + n, 90 + n, BOTH) for n in range(9))],
         "the longest of 2.9 s", ("60 entries (100:1 to 100:60,", "9 entries (103:61 to 103:69,")),
        ([*half_had_it(STATUS), (70, 3, BOTH)], "hit twice, 1 time;", ()),
        ([*deletes(0, range(0, 60, 2)), *deletes(100, range(1, 60, 2))], "starts over", ()),
        ([*deletes(0, range(50)), *deletes(1_050, range(60, 80))], "longest of 1.0 s", ("50 entries", "20 entries")),
    ],
    ids=["values", "fields", "fields of an application", "texts", "documents", "arrays", "a part of computed",
         "another whole", "whole again", "pause", "twice", "again", "two deletes"],
)  # fmt: skip
def test_what_may_be_several_statements(rows: list[Row], words: str, groups: tuple[str, ...]) -> None:
    found = fed(rows).one_statement(timed=True)
    assert any(words in one for one in found.doubts), found.doubts
    assert all(any(group in row.brief for row in found.groups) for group in groups), found.groups


@pytest.mark.parametrize("side", [Side.BEFORE, Side.AFTER])
@pytest.mark.parametrize(
    ("o", "timed", "asks"),
    [(BOTH, True, True), (diff(u={"x": 1}), True, True), (STATUS, False, True), (diff(u={"x": 1}), False, False),
     (diff(u={"s.part": 1}), False, False), ({"_id": 0, "x": 1}, False, True)],
    ids=["the same", "other fields", "of one client", "other fields of one client", "a name with a dot", "whole"],
)  # fmt: skip
def test_whatever_else_a_client_wrote_within_a_minute_may_be_of_the_same_statement(
    side: Side, o: dict[str, Any], timed: bool, asks: bool
) -> None:
    """An entry lacks what its document had: the rest of a statement may look like another value in another field."""
    writes = fed(list(half_had_it(STATUS)), [(side, o)])
    doubts = writes.one_statement(timed=timed).doubts
    assert any("1 more write" in one for one in doubts) is asks
    assert len(doubts) == asks
    assert fed(list(half_had_it(STATUS))).one_statement(timed=timed).doubts == ()


@pytest.mark.parametrize("timed", [True, False])
def test_more_deletes_near_may_be_of_the_same_statement(timed: bool) -> None:
    writes = fed(list(deletes(0, range(50))))
    writes.feed({}, b"\x10\0\0\0\1", Ts(999, 1), 0, Side.AFTER)
    (doubt,) = writes.one_statement(timed=timed).doubts
    assert "1 more write of the same kind" in doubt


def test_one_client_may_pause_and_hit_a_document_twice() -> None:
    rows = [(0, 1, STATUS), (5_000, 1, STATUS)]
    assert fed(rows).one_statement(timed=True).doubts
    assert not fed(rows).one_statement(timed=False).doubts


def beginning(rows: list[Row]) -> AttributedWrites:
    o = rows[0][2]
    assert o is not None
    return fed(rows).beginning_with(changed(o))


@pytest.mark.parametrize(
    ("rows", "what", "entries"),
    [
        ([(0, 0, STATUS), *half_had_it(FLAG), (9_000, 0, STATUS)], 'flag = true, s = "BAD"', 62),
        ([*((n, n, STATUS) for n in range(9)), *((n + 1, 20 + n, diff(u={"s": "GOOD"})) for n in range(90))],
         's = "BAD"', 9),
        ([(0, 0, BOTH), *((n, n, diff(u={"x": n})) for n in range(1, 90)), (91, 1, BOTH)], 'flag = true, s = "BAD"', 2),
        ([(0, 0, {"_id": 0, "flag": True, "s": "BAD"}), (1, 1, BOTH)], 'flag = true, s = "BAD"', 2),
    ],
    ids=["narrower and later", "another value", "another field", "whole first"],
)  # fmt: skip
def test_what_begins_at_a_point_is_told_from_others(rows: list[Row], what: str, entries: int) -> None:
    found = beginning(rows)
    assert (found.doubts, found.what, found.tally.entries) == ((), what, entries)


def test_sums_that_somebody_else_computes_too_are_in_doubt() -> None:
    assert beginning([(n, n % 30, diff(u={"balance": n})) for n in range(40)]).doubts
    assert not beginning([(n, n, diff(u={"balance": n})) for n in range(40)]).doubts


PAUSED = [*half_had_it(STATUS), *((9_000 + n, 90 + n, BOTH) for n in range(9))]
AMID = [*PAUSED, *((n, 200 + n, diff(u={"s": "GOOD"})) for n in range(300)), (9, 700, diff(u={"flag": True, "x": 1}))]
SET_BOTH = 'db.items.updateMany({a: {$gt: 1}}, {$set: {s: "BAD", flag: true}});'


@pytest.mark.parametrize(
    ("rows", "statement", "count", "words"),
    [
        (AMID, SET_BOTH, 69, ""),
        (AMID, SET_BOTH, 60, ""),
        (AMID, SET_BOTH, 80, "the rest is not there"),
        (PAUSED, SET_BOTH, None, "pauses"),
        (list(half_had_it(STATUS)), SET_BOTH, None, ""),
        (AMID, "", 69, "Several values"),
        (PAUSED, "", 69, ""),
        ([*deletes(0, range(50)), *deletes(1_100, range(60, 80))], "", 70, ""),
        ([*deletes(0, range(50)), *deletes(1_100, range(60, 80))], "", 50, "which of them are its own"),
        ([(n, n, diff(u={"p": n * 2, "s": 1.0})) for n in range(9)], "updateMany({}, {'$mul': {p: 2}, $set: {'s': 1}})",
         9, ""),
        ([(n, n, diff(u={"s": 2.0})) for n in range(9)], "updateMany({}, {$set: {s: 1}})", 9, "the rest is not there"),
        ([(n, n, diff(u={"s": 1.0})) for n in range(9)], "updateMany({}, {$set: {s: 1}})", 9, ""),
        ([(n, n, diff(u={"s": True})) for n in range(9)], "updateMany({}, {$set: {s: 1}})", 9, "the rest is not there"),
        ([(0, 90, diff(ss={"a": True, "u0": 1})), *((n, n, diff(u={"s": []})) for n in range(1, 10))],
         "updateMany({}, {$set: {s: []}})", 9, ""),
        ([(0, 90, diff(u={"s": DatetimeMS(10**15)})), *((n, n, diff(u={"s": 1.0})) for n in range(1, 10))],
         "updateMany({}, {$set: {s: 1}})", 9, ""),
        ([(n, n, diff(sm={"i": {"x": 1}})) for n in range(9)], "updateMany({}, [{$set: {m: {x: 1}}}])", 9, ""),
        ([(n, n, diff(u={"s": {"x": [Int64(1)]}})) for n in range(9)], "updateMany({}, {$set: {s: {x: [1]}}})", 9, ""),
        ([(n, n, diff(u={"s": {"x": n % 2 + 1.0}})) for n in range(9)], "updateMany({}, {$set: {s: {x: 1}}})", 5, ""),
        ([(n, n, diff(u={"s": Int64(1) if n % 2 else 1})) for n in range(9)], "updateMany({}, {$set: {s: 1}})", None,
         "s was written with numbers of several types"),
        ([(n, n, diff(u={"s": 2})) for n in range(9)], "updateMany({}, {$set: {s: 1}})", None, "No entry"),
        ([*half_had_it(STATUS), (70, 3, BOTH)], SET_BOTH, 61, "hit twice, 1 time;"),
        ([*deletes(0, range(50)), (60, 3, None)], "deleteMany({})", 51, "hit twice, 1 time;"),
        ([*deletes(0, range(50)), (60, 3, None)], "", 51, ""),
        ([*half_had_it(STATUS), (70, 3, BOTH), (71, 3, BOTH)], SET_BOTH, 62, "hit twice, 2 times;"),
        ([(n, n, diff(u={"n": n})) for n in range(9)], "updateMany({}, {$inc: {n: 1}})", 9, ""),
        ([*deletes(0, range(50)), *deletes(1_100, range(60, 80))], "deleteMany({})", None, "pauses"),
        ([*deletes(0, range(50)), *deletes(1_100, range(60, 80))], "deleteMany({})", 70, ""),
        ([(0, 1, diff(sm={"u": {"x": 1}})), (1, 2, diff(u={"m": {"x": 1}, "z": 5})), (2, 3, diff(u={"m": {"x": 1}}))],
         "updateMany({}, {$set: {'m.x': 1}})", 2, ""),
    ],
    ids=["text and count", "fewer than may be", "fewer", "paused", "text", "count amid others", "count", "deletes",
         "fewer deletes", "computed", "another number", "a number of another type", "a truth value", "a push",
         "a late date", "a document in a pipeline", "a number of another type within", "others within",
         "numbers of two types", "none", "twice", "deletes twice", "single deletes",
         "thrice", "always", "paused deletes", "deletes and a count", "whole, and more"],
)  # fmt: skip
def test_what_a_person_knows_is_compared_with_all_entries(
    rows: list[Row], statement: str, count: int | None, words: str
) -> None:
    known = read_evidence(statement, count)
    assert known is not None
    found = fed(rows).explained_by(known)
    if words:
        assert any(words in one for one in found.doubts), found.doubts
    else:
        assert found.doubts == ()
        assert found.tally.entries == (69 if rows is AMID else count or 60), "more may be of the statement"


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("items.$[].v", diff(sitems={"a": True, "s0": {"u": {"v": 5}}})),
        ("items.$[one].v", diff(sitems={"a": True, "s0": {"u": {"v": 5}}})),
        ("items.0.v", diff(sitems={"a": True, "s0": {"u": {"v": 5}}})),
        ("items.0.v", diff(sitems={"s0": {"u": {"v": 5}}})),
    ],
    ids=["all", "filtered", "by number", "a name that is a number"],
)
def test_what_a_statement_sets_within_arrays_is_found_in_the_entries(path: str, logged: dict[str, Any]) -> None:
    """An entry shows it as a change of the whole array."""
    rows = [(n, n, logged) for n in range(9)]
    known = read_evidence(f'updateMany({{}}, {{$set: {{"{path}": 5, s: "BAD"}}}})', 9)
    assert known is not None
    assert fed(rows).explained_by(known).doubts == ()
    assert fed(rows[:8]).explained_by(known).doubts


@pytest.mark.parametrize(
    ("update", "always"),
    [
        ("{$inc: {n: 1}, $mul: {q: 2}, $set: {s: 1}}", {(b"n",)}),
        ("{$inc: {'m.n': -5}}", {(b"m", b"n")}),
        ("{$inc: {n: 0}}", set()),
        ("{$inc: {n: 0.1}}", set()),
        ("{$inc: {'items.0.n': 1}}", set()),
        ("{$inc: {'items.$[].n': 1}}", set()),
    ],
)
def test_what_a_statement_increases_is_always_changed(update: str, always: set[tuple[bytes, ...]]) -> None:
    """A small fraction may leave a large number as it is, and an entry shows a change within an array otherwise."""
    known = read_evidence(f"updateMany({{}}, {update})", 3)
    assert known is not None
    assert known.always == always


@pytest.mark.parametrize(
    "statement",
    ["deleteMany(5)", "updateMany({})", "updateMany({}, [{$project: {a: 1}}])", "updateMany({}, {a: 1})", "drop()",
     "updateMany({}, {$set: {a: NumberDecimal('x')}})", "deleteMany({a: {$numberDecimal: 'x'}})",
     "updateMany({}, {$set: {a: NumberLong('9223372036854775808')}})", "deleteMany({a: {'b\\u0000': 1}})",
     "updateMany({}, {$set: {at: ISODate()}})", "updateMany({}, {$set: {at: {$oid: 5}}})", "updateMany(" + "[" * 9_999],
)  # fmt: skip
def test_a_statement_that_cannot_be_read_is_refused(statement: str) -> None:
    with pytest.raises(InputError, match="--statement"):
        read_evidence(statement, 3)


EFFECT = UpdateEffect({(b"s",): (2, b"\4\0\0\0BAD\0"), (b"name",): None, (b"addr", b"zip"): (10, b"")})


def test_an_entry_is_completed_from_the_document_before_it() -> None:
    before = {"_id": 1, "s": "ok", "name": "n", "balance": 5, "addr": {"zip": 7, "street": "s"}}
    after = {"_id": 1, "s": "BAD", "balance": 5, "addr": {"zip": None, "street": "s"}}
    logged = changed(diff(u={"s": "BAD"}, d={"name": False}, saddr={"u": {"zip": None}}))
    assert EFFECT.fits(logged)
    whole = changed(after)
    assert set(whole) == {WHOLE}
    assert completed(whole, bson.encode(before), EFFECT) == logged
    part = changed(diff(u={"s": "BAD", "addr": after["addr"]}, d={"name": False}))
    assert completed(part, bson.encode(before), EFFECT) == logged
    had = bson.encode({"_id": 1, "s": "ok", "balance": 5, "addr": {"zip": None}})
    assert completed(changed(STATUS), had, EFFECT) == logged, "the document had the rest"
    assert not EFFECT.fits(completed(changed(STATUS), bson.encode(before), EFFECT)), "it had not: another statement"
    assert completed(part, bson.encode(before | {"addr": 1}), EFFECT) == part, "there was no document to compare with"


def test_an_effect_is_read_as_it_was_stored() -> None:
    effect = UpdateEffect(EFFECT.constants, frozenset({(b"a.b", b"\xff"), WHOLE}))
    assert UpdateEffect.of(effect.stored()) == effect
    assert UpdateEffect.of(()) is None


def test_another_value_in_all_the_same_fields_may_be_computed() -> None:
    effect = UpdateEffect({}, frozenset({(b"balance",)}))
    assert effect.fits(changed(diff(u={"balance": 150})))
    assert not effect.may_fit(changed(diff(u={"balance": 151.5, "x": 1})))
    constant = UpdateEffect({(b"balance",): (16, (150).to_bytes(4, "little"))})
    assert not constant.fits(changed(diff(u={"balance": 151.5})))
    assert constant.may_fit(changed(diff(u={"balance": 151.5})))
    assert not constant.may_fit(changed(diff(u={"balance": "unknown"})))


@pytest.mark.parametrize(
    ("left", "explained"),
    [
        ({"s": "BAD", "n": 1}, True),
        ({"n": 1}, True),
        ({"s": "BAD"}, False),
        ({"s": "BAD", "n": 1, "x": 1}, False),
        ({"s": "other", "n": 1}, False),
        ({}, False),
    ],
)
def test_an_update_is_explained_by_what_its_statement_always_changes(left: dict[str, Any], explained: bool) -> None:
    name = (b"n",)
    effect = UpdateEffect(changed(diff(u={"s": "BAD"})), frozenset({name}), frozenset({name}))
    assert effect.explains(changed(diff(u=left))) is explained


def test_what_is_undone_is_counted_with_samples() -> None:
    """By entries and documents, with the first five."""
    found = fed(list(half_had_it(STATUS))).one_statement(timed=True)
    assert (found.tally.entries, found.documents) == (60, 60)
    assert [key[1] for key in found.tally.samples] == [0, 2, 4, 6, 8]
    twice = fed([(n, n % 40, STATUS) for n in range(60)]).one_statement(timed=True)
    assert (twice.tally.entries, twice.documents) == (60, 40)


def test_the_groups_of_two_statements_can_be_named_by_their_text() -> None:
    rows = [
        *((n, n, diff(u={"s": "BAD", "n": 1})) for n in range(20)),
        *((n, 50 + n, diff(d={"s": False})) for n in range(20)),
    ]
    found = fed(rows).one_statement(timed=True)
    texts = [row.statement for row in found.groups]
    assert texts == ['updateMany({}, {"$set": {"n": 1, "s": "BAD"}})', 'updateMany({}, {"$unset": {"s": ""}})']
    known = read_evidence(texts[0], 20)
    assert known is not None
    taken = fed(rows).explained_by(known)
    assert (taken.tally.entries, taken.doubts) == (20, ())
    assert [(row.what, row.entries) for row in taken.left_out] == [("s removed", 20)]
    all_of_it = read_evidence("", 40)
    assert all_of_it is not None
    assert (fed(rows).explained_by(all_of_it).doubts, found.doubts != ()) == ((), True), "nothing else was written"
    assert statement_of({(b"a", b"b"): (walk.STRING, b"\x02\0\0\0\xff\0")}) == "", "not UTF-8"
    assert statement_of({(b"a.b",): (walk.INT32, bytes(4))}) == "", "a name with a dot is no path"


def test_an_incident_that_goes_on_is_planned_with_a_warning() -> None:
    at = Ts(100, 1)
    incident = Incident(1, "deleteMany", "deleteMany on s.c", "s.c", Harm.LOSS, at, at, None, None, 1, 1)
    accident = Accident("deletes", "s.c", at, at)
    assert list(unclear(accident, (), (), incident)) == []
    (said,) = unclear(accident, (), (), replace(incident, open=True))
    assert (said.id, said.level) == ("incident-open", Level.WARN)
    assert list(unclear(replace(accident, proven=True), (), (), replace(incident, open=True))) == [], "all of it"


def test_a_plan_says_that_the_run_may_stop_where_values_differ() -> None:
    at = Ts(100, 1)
    effect = UpdateEffect({(b"s",): None}, frozenset({(b"price",)}))
    accident = Accident("updates", "s.c", at, at, updates=True, effect=effect.stored())
    (warned,) = unclear(accident, (), ())
    assert (warned.id, warned.level) == ("values-differ", Level.WARN)
    assert "price" in warned.title
    for known in (replace(accident, statement="updateMany({}, {$mul: {price: 2}})"), replace(accident, proven=True)):
        assert list(unclear(known, (), ())) == []
    constant = replace(accident, effect=replace(effect, computed=frozenset()).stored())
    assert list(unclear(constant, (), ())) == []


def test_a_row_of_one_entry_names_no_others() -> None:
    row = WriteGroup("shop.a", "updated", None, Ts(1, 1), Ts(1, 1), entries=1, samples=("7",))
    assert ("; _id 7" in row.line, "and others" in row.line) == (True, False)
    assert "and others" in replace(row, entries=2).line


def scanned(*runs: Iterable[int]) -> bool:
    order = ScanOrder()
    for id_ in chain.from_iterable(runs):
        order.add(id_key(bson.encode({"_id": id_})))
    return order.starts_over


@pytest.mark.parametrize(
    ("runs", "again"),
    [
        ([range(0, 16, 2), range(1, 17, 2)], True),
        ([range(0, 16, 2), range(1, 15, 2)], False),
        ([range(0, 14, 2), range(1, 17, 2)], False),
        ([range(0, 16, 2), range(4, 20)], True),
        ([range(0, 16, 2), range(5, 20)], False),
        ([range(1_000), range(250, 1_500)], True),
        ([range(1_000), range(300, 1_500)], False),
        ([range(10), [9], range(10)], False),
        ([range(10), range(10), range(10)], False),
        ([range(-10, 10), range(-10, 10)], True),
        ([range(10), [2**40], range(10)], True),
        ([range(10), range(10), ["a"]], False),
        ([[ObjectId(bytes([n] * 12)) for n in range(10)]] * 2, True),
        ([[ObjectId(bytes([n] * 12)) for n in range(10)], range(10)], False),
        ([["a", "b", "c", "d", "e", "f", "g", "h"]] * 2, False),
        ([range(20)], False),
        ([], False),
    ],
)
def test_documents_that_are_visited_from_near_the_beginning_again(runs: list[Iterable[Any]], again: bool) -> None:
    """From within the first quarter, however long the first visit was."""
    assert scanned(*runs) is again


GOOD = diff(u={"s": "GOOD"})
MIXED = [
    (0, 1, STATUS),
    (1, 2, STATUS),
    (2, 2, STATUS),
    (3, 3, GOOD),
    (4, 4, FLAG),
    (1_500, 5, FLAG),
    (9, 6, {"_id": 6, "s": "BAD"}),
]
SET_STATUS = 'updateMany({}, {"$set": {"s": "BAD"}})'


def listed(rows: Iterable[WriteGroup]) -> list[tuple[Any, ...]]:
    return [(one.what, one.documents, one.entries, *one.samples, one.statement) for one in rows]


def test_every_group_of_what_was_written_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = ('s = "BAD"', None, 3, "1", "2", "2", SET_STATUS), ('s = "GOOD"', None, 1, "3")
    flag = ("flag = true", 2, 2, "4", "5", 'updateMany({}, {"$set": {"flag": true}})')
    whole = ("replaced whole", 1, 1, "6", "")
    parts = [("", None, 6, "1", "2", "2", "3", "4", ""), ("", None, 1, "5", "")]
    writes = fed(MIXED)
    assert (writes.entries, writes.documents) == (7, 6)
    all_of_it = writes.one_statement(timed=True)
    assert listed(all_of_it.groups) == [bad, (*good, SET_STATUS.replace("BAD", "GOOD")), flag, whole, *parts]
    assert (all_of_it.tally.first, all_of_it.tally.last) == (Ts(100, 1), Ts(101, 7))
    assert (all_of_it.tally.begin, all_of_it.tally.end, all_of_it.left_out) == (100_000, 101_500, ())
    known = read_evidence(SET_STATUS, 4)
    assert known is not None
    for found, why in (
        (writes.explained_by(known), "the statement that was named does not do this"),
        (writes.beginning_with(changed(STATUS)), "the first entry does something else"),
    ):
        assert (found.effect, found.what) == (UpdateEffect(changed(STATUS)), 's = "BAD"')
        assert (found.tally.entries, found.tally.last, found.documents) == (4, Ts(100, 6), None)
        assert (found.doubts, listed(found.groups)) == ((), [])
        assert listed(found.left_out) == [flag, (*good, "")], "not the one that was replaced whole"
        assert {one.why for one in found.left_out} == {why}
    monkeypatch.setattr(effects, "_MOST_FORMS", 1)
    writes = fed(MIXED)
    assert listed(writes.one_statement(timed=True).groups)[:2] == [
        ("s: different values", 3, 4, "1", "2", "2", "3", ""), flag,
    ]  # fmt: skip
    found = writes.explained_by(known)
    assert found.doubts[0] == "There are too many different values to tell those of the statement."
    assert (found.tally.entries, found.tally.first, found.documents) == (1, Ts(100, 6), 1)
    other = read_evidence('updateMany({}, {$set: {flag: false, s: "x"}})', 1)
    assert other is not None
    assert writes.explained_by(other).tally.entries == 0


def test_the_documents_that_a_statement_hit_are_counted_once() -> None:
    known = read_evidence(SET_STATUS, 2)
    assert known is not None
    writes = fed([(0, 1, STATUS), (1, 2, STATUS), (2, 2, STATUS)])
    found = writes.explained_by(known)
    assert (found.tally.entries, found.documents, found.doubts) == (3, 2, ()), "the run finds the two that are its own"
    assert listed(writes.beginning_with(changed(STATUS)).groups) == []
    doubtful = writes.one_statement(timed=True)
    assert listed(doubtful.groups) == [('s = "BAD"', 2, 3, "1", "2", "2", SET_STATUS)]


@pytest.mark.parametrize(
    ("limits", "rows", "doubts", "groups"),
    [
        ({"_MOST_SHAPES": 2}, [STATUS, FLAG], 1, 2),
        ({"_MOST_SHAPES": 1}, [STATUS, STATUS], 0, 0),
        ({"_MOST_SHAPES": 1}, [STATUS, FLAG, STATUS], 1, 1),
        ({"_MOST_FORMS": 2}, [STATUS, GOOD], 1, 2),
        ({"_MOST_FORMS": 1}, [STATUS, GOOD], 1, 1),
        ({"_MOST_BYTES": 17}, [STATUS, GOOD, STATUS], 1, 2),
        ({"_MOST_BYTES": 16}, [STATUS, GOOD, STATUS], 1, 1),
        ({"_MOST_BYTES": 73}, [BOTH, {"_id": 2, "flag": True, "s": "BAD"}], 0, 2),
        ({"_MOST_BYTES": 72}, [BOTH, {"_id": 2, "flag": True, "s": "BAD"}], 1, 2),
        ({"_SHOWN_PATHS": 2}, [STATUS, GOOD], 1, 2),
        ({"_SHOWN_PATHS": 1}, [STATUS, GOOD], 1, 1),
    ],
)
def test_so_much_is_kept_of_what_was_written(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], rows: list[dict[str, Any]], doubts: int, groups: int
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(effects, name, limit)
    found = fed([(n, n, o) for n, o in enumerate(rows)]).one_statement(timed=True)
    assert (len(found.doubts), len(found.groups)) == (doubts, groups), found
    assert ("More than 1 sets of fields were written." in found.doubts) is (rows == [STATUS, FLAG, STATUS])
    whole = limits == {"_MOST_BYTES": 72}
    assert ("Whole documents were replaced among them." in found.doubts) is whole
    known = read_evidence(SET_BOTH, None)
    assert known is not None
    if GOOD not in rows:
        assert bool(fed([(n, n, o) for n, o in enumerate(rows)]).explained_by(known).doubts) is whole


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ((16, b"\1\0\0\0"), (), (16, b"\1\0\0\0")),
        ((16, b"\1\0\0\0"), (b"a",), None),
        ((3, bson.encode({"a": 1})), (b"a",), (16, b"\1\0\0\0")),
        ((4, bson.encode({"0": 1})), (b"0",), None),
        ((3, bson.encode({"a": 1, "b": 1}).replace(b"b\0", b"a\0")), (b"a",), None),
        (None, (b"a",), None),
    ],
    ids=["itself", "no document", "document", "array", "twice", "removed"],
)
def test_a_part_is_found_in_documents_alone(value: Any, path: Path, found: Any) -> None:
    assert effects._below(value, path) == found


@pytest.mark.parametrize(("wall", "millis"), [({}, 7), ({"wall": DatetimeMS(0)}, 7_000)])
def test_an_entry_was_written_by_the_clock_of_the_server_or_in_its_second(wall: dict[str, Any], millis: int) -> None:
    assert millis_of(read_entry(bson.encode(entry(7, "i", {"_id": 1}) | wall))) == millis
    assert [seconds_before(Ts(7, 3), seconds) for seconds in (5, 6, 7)] == [Ts(2, 0), Ts(1, 0), Ts(1, 0)]


def test_so_many_sets_of_fields_beside_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "_MOST_SHAPES", 1)
    other = diff(u={"x": 1})
    writes = fed([(0, 1, FLAG)], [(Side.BEFORE, o) for o in (other, STATUS, other, other)])
    (doubt,) = writes.one_statement(timed=False).doubts
    assert "1 more write to the same fields" in doubt, "the second may be to any"
