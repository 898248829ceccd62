"""What comes back, and what must not be touched on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from builders.replay import after_point
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.undo import Accident, Choice, Return, Strategy
from tallyglass.restore.proof.choice import read_choice
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.returns import merged_back, plan_returns, with_again
from tallyglass.restore.undo.changed import Changed


def incident(kind: str, ns: str) -> Incident:
    return Incident(1, kind, kind, ns, Harm.LOSS, Ts(5, 1), Ts(6, 1), None, None, 1, None)


def expected(*names: str, kind: str = "collection") -> list[ExpectedNamespace]:
    return [ExpectedNamespace(name, kind, 1) for name in names]


def plan(names: list[ExpectedNamespace], changed: dict[str, Changed], live: set[str], what: Incident | None) -> Any:
    rows = plan_returns(names, changed, frozenset(live), what, "T")
    return {row.ns: (row.strategy, row.beside) for row in rows}


@pytest.mark.parametrize(
    ("only", "target", "made"),
    [
        ("s.c", None, "s.c_pitr_20261120T082640"),
        ("s.c", "t.d", "t.d"),
        ("s.c.d", "s." + "x" * 253, "s." + "x" * 253),
        ("s.c", "s." + "x" * 254, ""),
        ("s.c", "s.c", ""),
        ("s.c", "s", ""),
        ("s.c", "s.", ""),
        ("s.a$b", "s.d", ""),
        ("s.c", "s.a$b", ""),
        ("s.system.js", None, ""),
        ("s.system.js", "s.scripts", "s.scripts"),
        ("s.c", "s..d", ""),
        ("s.c", "a b.d", ""),
        ("s.c", f"{'x' * 64}.d", ""),
    ],
)
def test_a_copy_has_a_name_that_a_collection_can_have(only: str, target: str | None, made: str) -> None:
    if not made:
        with pytest.raises(InputError):
            read_choice(only, target, [], Ts(1_795_163_200, 1))
        return
    assert read_choice(only, target, [], Ts(1_795_163_200, 1)) == Choice(only, made)


HEX = ("0" * 24, "507191234567890123456789", "5071e1234567890123456789")
"""ObjectIds that also look like numbers."""


def test_ids_are_read_as_they_are_typed() -> None:
    found = read_choice("s.c", None, ["7", "seven", '{"$numberLong": "7"}', *HEX, "0" * 23], Ts(9, 1))
    digits = [text for one in HEX for text in (f'"{one}"', f'{{"$oid": "{one}"}}')]
    assert found.ids == ("7", '"seven"', '{"$numberLong": "7"}', *digits, f'"{"0" * 23}"')


@pytest.mark.parametrize(
    "typed",
    [
        *('{"$oid": "7"}', '{"$numberDecimal": "x"}', '{"$numberLong": "9223372036854775808"}', '{"$code": 5}'),
        *("9" * 20, "1e999"),
    ],
)
def test_an_id_that_is_no_value_is_refused(typed: str) -> None:
    with pytest.raises(InputError, match="--id"):
        read_choice("s.c", None, [typed], Ts(9, 1))


def test_what_others_dropped_stays_dropped() -> None:
    names = expected("s.mine", "s.theirs", "other.x")
    changed = {"s.mine": Changed(dropped=True), "s.theirs": Changed(dropped=True)}
    assert plan(names, changed, {"other.x"}, incident("drop", "s.mine")) == {
        "s.mine": (Strategy.WHOLE, "s.mine_pitr_T")
    }
    assert set(plan(names, changed, {"other.x"}, None)) == {"s.mine", "s.theirs"}
    assert set(plan(names, {}, {"other.x"}, incident("dropDatabase", "s"))) == {"s.mine", "s.theirs"}


def test_a_dropped_time_series_is_named_by_its_buckets_and_comes_back_under_its_own_name() -> None:
    names = [*expected("s.weather", "s.other", kind="timeseries"), *expected("s.c")]
    changed = {"s.system.buckets.weather": Changed(dropped=True), "s.c": Changed(deletes=1)}
    assert plan(names, changed, {"s.c"}, incident("drop", "s.system.buckets.weather")) == {
        "s.weather": (Strategy.WHOLE, "")
    }


def test_what_cannot_be_listed_is_left_to_a_person() -> None:
    changed = {"s.c": Changed(deletes=1), "other.x": Changed(dropped=True)}
    rows = plan_returns(expected("s.c", "other.x"), changed, frozenset(), None, "T", frozenset({"s"}))
    assert [(row.ns, row.strategy, row.beside) for row in rows] == [
        ("s.c", Strategy.BESIDE, ""),
        ("other.x", Strategy.WHOLE, "other.x_pitr_T"),
    ]
    assert rows[0].note


def test_nothing_is_merged_into_a_view_that_took_the_name() -> None:
    changed = {"s.c": Changed(dropped=True, commands=1)}
    (row,) = plan_returns(expected("s.c"), changed, frozenset({"s.c"}), None, "T", others=frozenset({"s.c"}))
    assert (row.strategy, row.beside, bool(row.note)) == (Strategy.BESIDE, "s.c_pitr_T", True)


def test_a_name_beside_that_is_taken_is_not_dropped() -> None:
    changed = {"s.c": Changed(by_incident=2)}
    rows = plan(expected("s.c"), changed, {"s.c", "s.c_pitr_T"}, incident("updateMany", "s.c"))
    assert rows == {"s.c": (Strategy.MERGE, "s.c_pitr_T_2")}


@pytest.mark.parametrize(
    ("o", "strategy"),
    [
        ({"renameCollection": "s.tmp.agg_out.1", "to": "s.c"}, Strategy.BESIDE),
        ({"drop": "c"}, Strategy.BESIDE),
        ({"collMod": "c"}, Strategy.MERGE),
    ],
)
def test_what_took_the_name_after_a_bad_update_is_not_overwritten(o: dict[str, Any], strategy: Strategy) -> None:
    what = incident("updateMany", "s.c")
    count = LossCount(what)
    sink = after_point(count)
    for i, row in enumerate((
        {"op": "u", "ns": "s.c", "o": {"$v": 2, "diff": {}}, "o2": {"_id": 1}},
        {"op": "c", "ns": "s.$cmd", "o": o},
    )):  # fmt: skip
        sink.feed(read_entry(bson.encode({"ts": Timestamp(5, 1 + i), "t": Int64(1), "v": 2, **row})))
    assert plan(expected("s.c"), count.changed, {"s.c"}, what)["s.c"][0] is strategy


def test_a_rename_over_another_brings_back_both() -> None:
    changed = {"s.a": Changed(commands=1), "s.b": Changed(commands=1), "s.c": Changed(updates=1)}
    found = plan(expected("s.a", "s.b", "s.c"), changed, {"s.b", "s.c"}, incident("rename", "s.a"))
    assert found == {"s.a": (Strategy.WHOLE, "s.a_pitr_T"), "s.b": (Strategy.REPLACE, "s.b_pitr_T")}


@pytest.mark.parametrize(
    ("kind", "recreated", "note"),
    [
        ("drop", True, "Live documents stay unchanged; missing documents come back."),
        ("transaction", False, "Documents that the transaction inserted stay."),
        ("deleteMany", False, ""),
        ("updateMany", False, ""),
    ],
)
def test_definitions_come_back_where_a_command_removed_the_collection(kind: str, recreated: bool, note: str) -> None:
    changed = {"s.c": Changed(by_incident=1, commands=1)}
    (row,) = plan_returns(expected("s.c"), changed, frozenset({"s.c"}), incident(kind, "s.c"), "T")
    assert (row.strategy, row.recreated, row.note) == (Strategy.MERGE, recreated, note)


@pytest.mark.parametrize(("kind", "word"), [("view", "view"), ("timeseries", "time series")])
def test_what_is_no_collection_does_not_say_what_has_its_name_now(kind: str, word: str) -> None:
    changed = {ns: Changed(dropped=True) for ns in ("s.c", "s.system.buckets.c")}
    made = plan_returns(expected("s.c", kind=kind), changed, frozenset({"s.c"}), incident("drop", "s.c"), "T")
    note = f"A {word} is not merged into what has its name now: compare it manually."
    assert [(row.strategy, row.note) for row in made] == [(Strategy.BESIDE, note)]


def test_a_live_view_or_a_long_name_is_left_to_a_person() -> None:
    what = incident("drop", "s.c")
    changed = {"s.c": Changed(dropped=True)}
    assert plan(expected("s.c", kind="view"), changed, {"s.c"}, what) == {"s.c": (Strategy.BESIDE, "")}
    long = "s." + "x" * 250
    found = plan(expected(long), {long: Changed(dropped=True)}, {long}, incident("drop", long))
    assert found == {long: (Strategy.BESIDE, "")}
    assert plan(expected(long), {long: Changed(dropped=True)}, set(), None) == {long: (Strategy.WHOLE, "")}
    kept_too_long = "s." + "x" * 237
    replaced = plan(expected(kept_too_long), {kept_too_long: Changed(commands=1)}, {kept_too_long},
                    incident("out", kept_too_long))  # fmt: skip
    assert replaced == {kept_too_long: (Strategy.BESIDE, "")}, "the name that the live one is kept under is longer"
    scripts = "s.system.js"  # the server makes no other collection whose name begins like that
    changed = {scripts: Changed(dropped=True)}
    assert plan_returns(expected(scripts), changed, frozenset(), what, "T") == ()
    dropped = incident("dropDatabase", "s")
    (whole,) = plan_returns(expected(scripts), changed, frozenset(), dropped, "T")
    assert (whole.strategy, whole.beside) == (Strategy.WHOLE, "")
    assert plan(expected(scripts), changed, {scripts}, dropped) == {scripts: (Strategy.BESIDE, "")}
    money = plan(expected("s.a$b"), {"s.a$b": Changed(dropped=True)}, set(), None)
    assert money == {"s.a$b": (Strategy.BESIDE, "")}


WHOLE = Return("s.c", Strategy.WHOLE, "s.c_pitr_T")
MERGE = Return("s.c", Strategy.MERGE, "s.c_pitr_T", 3)
ADDED = replace(MERGE, note="Documents deleted since then come back; live documents stay unchanged.")
REMADE = replace(MERGE, note="Live documents stay unchanged; missing documents come back.", recreated=True)
KEPT = "A copy of the live collection is kept; what others inserted there since comes along."
REPLACED = Return("s.c", Strategy.REPLACE, "s.c_pitr_T", note=KEPT, away="s.c_before_restore_T")
BY_HAND = Return(
    "s.c", Strategy.BESIDE, "s.c_pitr_T",
    note="It was dropped, emptied or replaced after the point: compare and merge manually.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "changed", "live", "row"),
    [
        (None, Changed(dropped=True), False, WHOLE),
        (None, None, False, WHOLE),
        (None, Changed(inserts=1), True, None),
        (None, Changed(deletes=1, others=3), True, ADDED),
        (None, Changed(commands=1, others=3), True, ADDED),
        (None, Changed(dropped=True, others=3), True, replace(ADDED, recreated=True)),
        (None, None, True, None),
        (("collMod", "s.c"), Changed(commands=1), True, None),
        (("dropIndexes", "s.c"), Changed(commands=1), False, None),
        (("ttl", "s.c"), Changed(by_incident=1), True, None),
        (("drop", "s.c"), None, False, WHOLE),
        (("drop", "s.d"), None, False, None),
        (("drop", "s.d"), Changed(dropped=True, commands=1), False, None),
        (("drop", "s.d"), Changed(by_incident=1), False, WHOLE),
        (("dropDatabase", "s"), None, False, WHOLE),
        (("dropDatabase", "t"), None, False, None),
        (("dropDatabase", "s"), Changed(by_incident=1, others=3), True, REMADE),
        (("drop", "s.c"), Changed(commands=1, others=3), True, REMADE),
        (("drop", "s.d"), Changed(commands=1, others=3), True, None),
        (("rename", "s.d"), Changed(commands=1), False, WHOLE),
        (("rename", "s.d"), Changed(), False, None),
        (("rename", "s.d"), Changed(commands=1, others=3), True, REPLACED),
        (("out", "s.c"), Changed(others=3), True, REPLACED),
        (("out", "s.d"), Changed(others=3), True, None),
        (("deleteMany", "s.c"), Changed(by_incident=2, others=3), True, MERGE),
        (("deleteMany", "s.d"), Changed(by_incident=2, others=3), True, MERGE),
        (("deleteMany", "s.d"), Changed(deletes=2, others=3), True, None),
        (("deleteMany", "s.c"), Changed(by_incident=2, others=3, replaced=True), True, MERGE),
        (("updateMany", "s.c"), Changed(by_incident=2, others=3, replaced=True), True, BY_HAND),
        (("updateMany", "s.c"), Changed(by_incident=2, others=3), True, MERGE),
        (("transaction", "s.c"), Changed(by_incident=2, others=3, replaced=True), True, BY_HAND),
        (
            ("transaction", "s.c"), Changed(by_incident=2, others=3), True,
            replace(MERGE, note="Documents that the transaction inserted stay."),
        ),
        (
            ("many sessions", "s.c"), Changed(by_incident=2, others=3), True,
            replace(MERGE, note="Many clients deleted: what others deleted in that time comes back too."),
        ),
    ],
)  # fmt: skip
def test_each_namespace_comes_back_as_it_was_damaged(
    what: tuple[str, str] | None, changed: Changed | None, live: bool, row: Return | None
) -> None:
    named = incident(what[0].replace("many sessions", "deleteMany"), what[1]) if what else None
    if named is not None and what is not None and what[0] == "many sessions":
        named = replace(named, sessions=2)
    there = frozenset({"s.c"} if live else ())
    found = plan_returns(expected("s.c"), {"s.c": changed} if changed else {}, there, named, "T")
    assert found == ((row,) if row else ())


def test_only_the_updates_that_are_to_be_undone_make_a_return_without_an_incident() -> None:
    changed = {"s.c": Changed(updates=1), "s.d": Changed(updates=1)}
    rows = plan_returns(expected("s.c", "s.d"), changed, frozenset(changed), None, "T", updated="s.d")
    assert [row.ns for row in rows] == ["s.d"]


def test_what_the_server_made_for_a_moment_does_not_come_back() -> None:
    names = expected("s.tmpAb3dE.rename", "s.tmp.agg_out.4", "s.tmp")
    assert [row.ns for row in plan_returns(names, {}, frozenset(), None, "T")] == ["s.tmp"]


def test_ids_that_were_inserted_again_are_counted_for_what_is_merged() -> None:
    rows = (WHOLE, replace(MERGE, ns="s.d"), replace(MERGE, ns="s.e"))
    removal = Accident("deletes", "s.d", Ts(5, 1), Ts(6, 1))
    counted = (WHOLE, replace(MERGE, ns="s.d", again=4), replace(MERGE, ns="s.e"))
    assert with_again(rows, {"s.c": 7, "s.d": 4}, removal) == counted
    assert with_again(rows, {"s.c": 7, "s.d": 4}, replace(removal, kind="updates")) == rows


def test_a_staging_collection_gets_a_name_that_nothing_has() -> None:
    point = Ts(1_795_163_200, 1)
    name = "s.c_pitr_20261120T082640"
    assert merged_back("s.c", point, (), 2) == Return("s.c", Strategy.MERGE, name, 2)
    assert merged_back("s.c", point, {name, f"{name}_2"}, 2).beside == f"{name}_3"
