"""One document without the accident: what the oplog says of each side, in the forms that servers write."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Timestamp
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from builders.history import diff
from tallyglass.moment import Ts
from tallyglass.oplog.entry.changes import Unfit, apply_update, get
from tallyglass.restore.undo import counterfactual
from tallyglass.restore.undo.counterfactual import Counterfactual, Verdict, _appended, repair
from tallyglass.restore.undo.earlier_returns import undone_by

Step = tuple[str, str, dict[str, Any]]
COPY = {"_id": 1, "status": "ok", "name": "n", "balance": 5, "addr": {"zip": 7, "street": "s"}, "tags": [1, 2]}
BAD: Step = ("accident", "u", diff(u={"status": "BAD"}, d={"name": False}))
STREET: Step = ("accident", "u", diff(saddr={"d": {"street": False}}))
SUM: Step = ("others", "u", diff(u={"balance": 6}))
NUMBER: Step = ("accident", "u", diff(u={"balance": 9}))
ARRAY: Step = ("accident", "u", diff(u={"tags": []}))
DATED: Step = ("accident", "u", diff(i={"ends": DatetimeMS(978_307_200_007)}))


def after(*steps: Step) -> Counterfactual:
    document = Counterfactual(bson.encode(COPY), bson.encode(COPY), expiring={"status"})
    for who, op, o in steps:
        if who == "accident":
            document.accident(op, bson.encode(o))
        else:
            document.others(op, bson.encode(o), may_be_expiry=who == "expiry")
    return document


@pytest.mark.parametrize(
    ("steps", "verdict", "wanted"),
    [
        ([BAD], Verdict.DAMAGED, COPY),
        ([BAD, ("others", "u", diff(u={"balance": 6}))], Verdict.DAMAGED, COPY | {"balance": 6}),
        ([("others", "u", diff(u={"name": "m"})), BAD], Verdict.DAMAGED, COPY | {"name": "m"}),
        ([BAD, ("others", "u", diff(u={"status": "new"}))], Verdict.DAMAGED, COPY | {"status": "new"}),
        ([BAD, ("others", "u", diff(u={"status": "ok"}, i={"name": "n"}))], Verdict.LEFT, None),
        ([BAD, ("others", "d", {"_id": 1})], Verdict.LEFT, None),
        ([BAD, ("expiry", "d", {"_id": 1})], Verdict.UNCLEAR, None),
        ([NUMBER, ("expiry", "d", {"_id": 1})], Verdict.LEFT, None),
        ([STREET, ("others", "u", diff(d={"addr": False}))], Verdict.LEFT, None),
        ([STREET, ("others", "u", diff(d={"addr": False}, i={"at": {"zip": 7}}))], Verdict.UNCLEAR, None),
        ([BAD, ("others", "u", COPY | {"status": "BAD", "$n": {"a.b": 1}})], Verdict.UNCLEAR, None),
        ([BAD, ("others", "u", COPY | {"status": "x", "$n": {"a.b": 1}})], Verdict.LEFT, None),
        ([BAD, ("others", "d", {"_id": 1}), ("others", "i", {"_id": 1, "x": 1})], Verdict.LEFT, {"_id": 1, "x": 1}),
        ([BAD, ("others", "u", {"_id": 1, "status": "BAD", "name": "m"})], Verdict.UNCLEAR, None),
        ([BAD, ("others", "u", {"_id": 1, "status": "new", "name": "m"})], Verdict.LEFT, None),
        ([NUMBER, ("others", "u", diff(u={"balance": 5}))], Verdict.UNCLEAR, None),
        ([NUMBER, SUM, ("others", "u", diff(u={"balance": "x"}))], Verdict.LEFT, None),
        ([NUMBER, SUM, ("others", "d", {"_id": 1})], Verdict.LEFT, None),
        ([("accident", "u", diff(d={"balance": False})), SUM], Verdict.UNCLEAR, None),
        ([("accident", "u", diff(u={"balance": None})), SUM], Verdict.UNCLEAR, None),
        ([("accident", "u", diff(u={"balance": "x"})), SUM], Verdict.LEFT, None),
        ([BAD, ("others", "u", diff(d={"status": False}, i={"state": "BAD"}))], Verdict.UNCLEAR, None),
        ([BAD, ("others", "u", diff(u={"status": "was BAD"}))], Verdict.UNCLEAR, None),
        (
            [ARRAY, ("others", "u", diff(stags={"a": True, "u0": 9}))],
            Verdict.DAMAGED,
            COPY | {"tags": [1, 2, 9]},
        ),
        ([ARRAY, ("others", "u", diff(u={"tags": [4]}))], Verdict.UNCLEAR, None),
        ([("others", "u", diff(smissing={"u": {"x": 1}}))], Verdict.UNCLEAR, None),
        (
            [("accident", "u", diff(u={"name": [7]})), ("others", "u", diff(sname={"a": True, "u1": 8}))],
            Verdict.DAMAGED,
            COPY,
        ),
        (
            [("accident", "u", diff(i={"new": [7]})), ("others", "u", diff(snew={"a": True, "u1": 8}))],
            Verdict.DAMAGED,
            COPY | {"new": [8]},
        ),
        ([("accident", "u", diff(i={"flag": True})), ("others", "u", diff(u={"flag": False}))], Verdict.LEFT, None),
        (
            [("accident", "u", diff(i={"flag": True, "late": None})), ("others", "u", diff(u={"flag": None}))],
            Verdict.DAMAGED,
            COPY | {"flag": None},
        ),
        (
            [("accident", "u", diff(i={"word": "long"})), ("others", "u", diff(u={"word": "longer"}))],
            Verdict.UNCLEAR,
            None,
        ),
        ([("accident", "d", {"_id": 1})], Verdict.DAMAGED, COPY),
        (
            [("others", "u", diff(u={"balance": 8})), ("accident", "d", {"_id": 1})],
            Verdict.DAMAGED,
            COPY | {"balance": 8},
        ),
        ([("accident", "d", {"_id": 1}), ("others", "i", {"_id": 1, "y": 1})], Verdict.LEFT, {"_id": 1, "y": 1}),
        ([("accident", "d", {"_id": 1}), ("others", "i", COPY)], Verdict.WHOLE, COPY),
        (
            [("accident", "u", diff(saddr={"u": {"zip": None}})), ("others", "u", diff(saddr={"u": {"street": "t"}}))],
            Verdict.DAMAGED,
            COPY | {"addr": {"zip": 7, "street": "t"}},
        ),
        (
            [
                ("accident", "u", diff(saddr={"u": {"zip": None}})),
                ("others", "u", diff(u={"addr": {"zip": None, "p": 1}})),
            ],
            Verdict.UNCLEAR,
            None,
        ),
        ([("accident", "u", diff(saddr={"u": {"zip": 0}})), ("others", "u", diff(u={"addr": 3}))], Verdict.LEFT, None),
        *(
            ([DATED, ("others", "u", diff(u={"ends": DatetimeMS(978_307_200_007 + moved)}))], verdict, None)
            for moved, verdict in (
                (30 * 86_400_000, Verdict.UNCLEAR),
                (-60_000, Verdict.UNCLEAR),
                (60_001, Verdict.LEFT),
                (86_399_000, Verdict.LEFT),
            )
        ),
        ([DATED, ("others", "u", diff(u={"ends": 978_307_260_000}))], Verdict.LEFT, None),
        ([NUMBER, ("others", "u", diff(u={"balance": DatetimeMS(60_009)}))], Verdict.LEFT, None),
    ],
)
def test_a_document_without_the_accident(steps: list[Step], verdict: Verdict, wanted: dict[str, Any] | None) -> None:
    document = after(*steps)
    assert document.verdict is verdict
    if wanted is not None:
        assert document.wanted is not None
        assert bson.decode(document.wanted) == wanted


def test_a_document_that_the_accident_inserted_may_expire() -> None:
    document = Counterfactual(None, None, expiring={"status"})
    document.accident("i", bson.encode(COPY))
    document.others("d", bson.encode({"_id": 1}), may_be_expiry=True)
    assert (document.verdict, document.actual) == (Verdict.LEFT, None)


def test_the_repair_itself_is_not_taken_for_a_change_of_others() -> None:
    document = after(BAD)
    assert document.wanted is not None
    order = list(bson.decode(document.wanted))
    assert order == list(COPY)
    document.repaired("u", document.wanted)
    assert document.verdict is Verdict.WHOLE
    gone = after(("accident", "d", {"_id": 1}))
    gone.repaired("u", bson.encode(diff(u={"status": "ok"})))
    assert (gone.verdict, gone.actual) == (Verdict.UNCLEAR, None), "there was nothing to update"
    other = after(BAD)
    other.repaired("u", bson.encode(diff(sname={"u": {"x": 1}})))
    assert other.verdict is Verdict.UNCLEAR, "it does not fit"


def test_a_repair_names_the_fields_that_differ_and_the_whole_where_their_order_would_change() -> None:
    document = after(BAD)
    assert document.wanted is not None
    raw = repair((0x10, (1).to_bytes(4, "little")), document.actual, document.wanted)
    assert raw is not None
    found = bson.decode(raw)
    assert found["f"] == [{"k": "status", "l": "BAD", "r": "ok"}, {"k": "name", "r": "n"}]
    assert found["l"]["status"] == "BAD"
    assert found["r"] == COPY


def test_a_repair_is_no_larger_than_a_document_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, identity = bson.encode({"p": "x" * 2_000}), (0x10, bytes(4))
    size = len(repair(identity, None, wanted) or b"")
    for largest, fits in ((size, True), (size - 1, False)):
        monkeypatch.setattr(counterfactual, "LARGEST", largest)
        assert (repair(identity, None, wanted) is not None) is fits


MB = 1024 * 1024


@pytest.mark.parametrize(
    ("was", "wanted", "fits"),
    [
        (None, {"p": "x" * (16 * MB - 100)}, True),
        ({"p": "x" * (15 * MB), "s": "BAD"}, {"p": "x" * (15 * MB), "s": "ok"}, True),
        ({"p": "cut", "s": "BAD"}, {"s": "ok", "p": "x" * (15 * MB)}, True),
        ({"p": "x" * (9 * MB)}, {"p": "y" * (9 * MB)}, False),
    ],
    ids=["removed", "another field", "the field itself, elsewhere", "two long values"],
)
def test_a_repair_of_a_large_document_is_one_that_a_server_takes(
    was: dict[str, Any] | None, wanted: dict[str, Any], fits: bool
) -> None:
    identity = {"_id": 1}
    actual = None if was is None else bson.encode(identity | was)
    raw = repair((0x10, (1).to_bytes(4, "little")), actual, bson.encode(identity | wanted))
    assert (raw is not None) == fits
    if raw is None:
        return
    assert len(raw) <= 16 * MB
    found = bson.decode(raw)
    if was is None:
        assert found["r"] == identity | wanted
    else:
        assert {one["k"]: one["r"] for one in found["f"]} == {k: v for k, v in wanted.items() if was[k] != v}


def test_what_another_return_undid_is_in_neither_world() -> None:
    """It brings back what was deleted, or written over; what the accident left in that is still the accident's."""
    bad = ("accident", "u", diff(u={"status": "BAD"}))
    for undone, op, back in (
        (("accident", "d", {"_id": 1}), "i", COPY | {"status": "BAD"}),
        (("accident", "u", diff(u={"status": "X"})), "u", diff(u={"status": "BAD"})),
        (("accident", "u", diff(u={"balance": 7})), "u", diff(u={"balance": 5})),
    ):
        document = after(bad, undone)
        document.repaired(op, bson.encode(back))
        assert (document.verdict, document.wanted) == (Verdict.DAMAGED, bson.encode(COPY))
        assert document.actual == bson.encode(COPY | {"status": "BAD"})


def test_a_repair_says_when_what_it_undoes_was_written() -> None:
    raw = repair((0x10, (1).to_bytes(4, "little")), None, bson.encode(COPY), [Ts(7, 1), Ts(2**31, 9)])
    assert raw is not None
    assert bson.decode(raw)["w"] == [Timestamp(7, 1), Timestamp(2**31, 9)]
    assert undone_by(raw) == [Ts(7, 1), Ts(2**31, 9)]


def repeated(document: dict[str, Any], name: str, value: Any) -> bytes:
    """A document with one more field, which may have the name of another."""
    body = bson.encode(document)[4:-1] + bson.encode({name: value})[4:-1]
    return (len(body) + 5).to_bytes(4, "little") + body + b"\0"


@pytest.mark.parametrize("inner", [False, True])
def test_no_update_is_made_of_a_document_with_one_field_name_twice(inner: bool) -> None:
    once, both = bson.encode({"a": 1}), repeated({"a": 1}, "a", 2)
    nest = (lambda raw: bson.encode({"n": [RawBSONDocument(raw)]})) if inner else (lambda raw: raw)
    identity = (0x10, b"\0\0\0\0")
    assert repair(identity, nest(both), nest(once)) is None
    assert repair(identity, nest(once), nest(both)) is None
    assert repair(identity, None, nest(both)) is not None, "a document that is inserted keeps its bytes"
    document = Counterfactual(both, both)
    document.accident("u", bson.encode(diff(u={"a": 3})))
    assert document.verdict is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("document", "o", "wanted"),
    [
        ({"a": [1, 2, 3]}, diff(sa={"a": True, "l": 2}), {"a": [1, 2]}),
        ({"a": [1]}, diff(sa={"a": True, "u2": 5}), {"a": [1, None, 5]}),
        ({"a": [{"x": 1}]}, diff(sa={"a": True, "s0": {"u": {"x": 2}}}), {"a": [{"x": 2}]}),
        ({"a": 1, "b": 2}, diff(i={"a": 3}), {"b": 2, "a": 3}),
        ({"a": [1, 2]}, diff(sa={"a": True, "l": 3}), {"a": [1, 2, None]}),
        ({"a": {"b": 1}}, {"$v": 1, "$set": {"a.c": 2}, "$unset": {"a.b": True}}, {"a": {"c": 2}}),
        (
            {"a": {"b": 1}},
            {"$v": 1, "$set": {"c.0": 2}, "$unset": {"a.x": True, "d.x": True}},
            {"a": {"b": 1}, "c": {"0": 2}},
        ),
        ({"a": [1, 2, 3]}, {"$v": 1, "$unset": {"a.0": True, "a.7": True}}, {"a": [None, 2, 3]}),
        ({"a": [1]}, {"$v": 1, "$set": {"a.0": 5, "a.3": 4}}, {"a": [5, None, None, 4]}),
        (
            {"a": [{"x": 1, "y": 1}]},
            {"$v": 1, "$set": {"a.0.x": 2, "a.1.x": 3}, "$unset": {"a.0.y": True}},
            {"a": [{"x": 2}, {"x": 3}]},
        ),
        ({"a": 1}, {"b": 2}, {"b": 2}),
        ({"a.b": 1, "$c": 1}, diff(u={"a.b": 2, "$c": 3}), {"a.b": 2, "$c": 3}),
        ({"a": 1}, diff(sa={"u": {"b": 1}}), None),
        ({"a": 1}, {"$v": 1, "$set": {"a.b": 1}}, None),
        ({"a": [1]}, {"$v": 1, "$set": {"a.b": 1}}, None),
        ({"a": [1]}, {"$v": 1, "$set": {"a.01": 1}}, None),
        ({"a": [1]}, diff(sa={"a": True, "ux": 1}), None),
        ({"a": [1]}, diff(sa={"a": True, "s-1": {"u": {"b": 1}}}), None),
        ({"a": [1]}, diff(sa={"a": True, "u99999999": 1}), None),
        ({"a": [1]}, diff(sa={"a": True, "l": -1}), None),
    ],
)
def test_an_update_entry_is_applied_as_the_server_does(
    document: dict[str, Any], o: dict[str, Any], wanted: dict[str, Any] | None
) -> None:
    if wanted is None:
        with pytest.raises(Unfit):
            apply_update(bson.encode(document), bson.encode(o))
        return
    found = bson.decode(apply_update(bson.encode(document), bson.encode(o)))
    assert list(found.items()) == list(wanted.items())


@pytest.mark.parametrize(
    ("sections", "appended"),
    [
        ({"a": True, "u2": 9}, [9]),
        ({"a": True, "u2": 9, "u3": {"x": 1}}, [9, {"x": 1}]),
        ({"a": True, "u1": 9}, None),
        ({"a": True, "u0": 9, "u2": 8}, None),
        ({"a": True, "l": 3}, None),
        ({"a": True, "l": 3, "u2": 9}, None),
        ({"a": True, "s0": {"u": {"x": 1}}}, None),
        ({"a": True, "s2": {"a": True, "u0": 1}}, None),
    ],
)
@pytest.mark.parametrize("below", [False, True])
def test_what_an_update_only_appends_to_an_array(
    sections: dict[str, Any], appended: list[Any] | None, below: bool
) -> None:
    o, document, path = diff(stags=sections), {"tags": [1, 2], "n": 0}, (b"tags",)
    if below:
        o, document, path = diff(u={"n": 1}, sm={"stags": sections}), {"m": document}, (b"m", *path)  # type: ignore[assignment]
    values = [get(bson.encode({"v": one}), (b"v",)) for one in appended or ()]
    assert _appended(bson.encode(o), bson.encode(document)) == ({path: values} if appended else {})
