"""One document without the accident: what the oplog says of each side, in the forms that servers write."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from tallyglass.moment import Ts
from tallyglass.restore.impact.accident import WHOLE, Attribution, Changes, SignatureSearch, changes_of, refined
from tallyglass.restore.impact.counterfactual import Counterfactual, Verdict, repair
from tallyglass.restore.model.plan import Accident
from tallyglass.restore.raw.patch import Unfit, apply_update


def diff(**sections: Any) -> dict[str, Any]:
    return {"$v": 2, "diff": sections}


def changed(o: dict[str, Any]) -> Changes:
    return changes_of(bson.encode(o))


Step = tuple[str, str, dict[str, Any]]
COPY = {"_id": 1, "status": "ok", "name": "n", "balance": 5, "addr": {"zip": 7, "street": "s"}, "tags": [1, 2]}
BAD: Step = ("accident", "u", diff(u={"status": "BAD"}, d={"name": False}))
ARRAY: Step = ("accident", "u", diff(u={"tags": []}))


def after(*steps: Step) -> Counterfactual:
    document = Counterfactual(bson.encode(COPY), bson.encode(COPY))
    for who, op, o in steps:
        (document.accident if who == "accident" else document.others)(op, bson.encode(o))
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
        ([BAD, ("others", "d", {"_id": 1}), ("others", "i", {"_id": 1, "x": 1})], Verdict.LEFT, {"_id": 1, "x": 1}),
        (
            [BAD, ("others", "u", {"_id": 1, "status": "BAD", "balance": 9, "addr": {"zip": 1}, "tags": []})],
            Verdict.DAMAGED,
            {"_id": 1, "status": "ok", "balance": 9, "addr": {"zip": 1}, "tags": [], "name": "n"},
        ),
        ([ARRAY, ("others", "u", diff(stags={"a": True, "u0": 9}))], Verdict.UNCLEAR, None),
        ([ARRAY, ("others", "u", diff(u={"tags": [4]}))], Verdict.UNCLEAR, None),
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
            Verdict.DAMAGED,
            COPY | {"addr": {"zip": 7, "p": 1}},
        ),
        ([("accident", "u", diff(saddr={"u": {"zip": 0}})), ("others", "u", diff(u={"addr": 3}))], Verdict.LEFT, None),
    ],
)
def test_a_document_without_the_accident(steps: list[Step], verdict: Verdict, wanted: dict[str, Any] | None) -> None:
    document = after(*steps)
    assert document.verdict is verdict
    if wanted is not None:
        assert document.wanted is not None
        assert bson.decode(document.wanted) == wanted


def test_the_repair_itself_is_not_taken_for_a_change_of_others() -> None:
    document = after(BAD)
    assert document.wanted is not None
    order = list(bson.decode(document.wanted))
    assert order == list(COPY)
    document.others("u", document.wanted)
    assert document.verdict is Verdict.WHOLE


def test_a_repair_names_the_fields_that_differ_and_the_whole_where_their_order_would_change() -> None:
    document = after(BAD)
    assert document.wanted is not None
    raw = repair((0x10, (1).to_bytes(4, "little")), document.actual, document.wanted)
    assert raw is not None
    found = bson.decode(raw)
    assert found["f"] == [{"k": "status", "l": "BAD", "r": "ok"}, {"k": "name", "r": "n"}]
    assert found["l"]["status"] == "BAD"
    assert found["r"] == COPY


@pytest.mark.parametrize(
    ("document", "o", "wanted"),
    [
        ({"a": [1, 2, 3]}, diff(sa={"a": True, "l": 2}), {"a": [1, 2]}),
        ({"a": [1]}, diff(sa={"a": True, "u2": 5}), {"a": [1, None, 5]}),
        ({"a": [{"x": 1}]}, diff(sa={"a": True, "s0": {"u": {"x": 2}}}), {"a": [{"x": 2}]}),
        ({"a": 1, "b": 2}, diff(i={"a": 3}), {"b": 2, "a": 3}),
        ({"a": {"b": 1}}, {"$v": 1, "$set": {"a.c": 2}, "$unset": {"a.b": True}}, {"a": {"c": 2}}),
        ({"a": 1}, {"b": 2}, {"b": 2}),
        ({"a.b": 1, "$c": 1}, diff(u={"a.b": 2, "$c": 3}), {"a.b": 2, "$c": 3}),
        ({"a": 1}, diff(sa={"u": {"b": 1}}), None),
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


def test_the_commonest_shape_is_the_accidents() -> None:
    search = SignatureSearch()
    for n in range(20):
        search.feed(changed(diff(u={"status": "BAD"}, d={"name": False})))
        if n % 3 == 0:
            search.feed(changed(diff(u={"balance": n})))
    found = search.signature()
    assert found is not None
    assert found.fits(changed(diff(d={"name": False}))), "a document that had the status already"
    assert not found.fits(changed(diff(u={"status": "mine"}))), "another value"
    assert not found.fits(changed(diff(u={"status": "BAD", "x": 1}))), "another path changed too"
    assert not found.computed


def test_a_document_that_is_set_as_a_whole_counts_as_the_parts_that_differ() -> None:
    before = {"_id": 1, "status": "ok", "name": "n", "balance": 5, "addr": {"zip": 7, "street": "s"}}
    after = {"_id": 1, "status": "BAD", "balance": 5, "addr": {"zip": None, "street": "s"}}
    logged = changed(diff(u={"status": "BAD"}, d={"name": False}, saddr={"u": {"zip": None}}))
    whole = changed(after)
    assert set(whole) == {WHOLE}
    assert refined(whole, bson.encode(before), {WHOLE}) == logged
    part = changed(diff(u={"status": "BAD", "addr": after["addr"]}, d={"name": False}))
    assert refined(part, bson.encode(before), {WHOLE, (b"addr",)}) == logged
    assert refined(part, bson.encode(before), {WHOLE}) == part, "nobody changes a part of it"
    scalar = bson.encode(before | {"addr": 1})
    assert refined(part, scalar, {(b"addr",)}) == part, "there was no document to compare with"


def test_another_value_in_all_the_same_fields_may_be_computed() -> None:
    search = SignatureSearch()
    for n in range(40):
        search.feed(changed(diff(u={"balance": 150 if n != 7 else 151.5})), b"%d" % n, Ts(5, n + 1), n)
    found = Attribution(Accident("updates", "s.c", Ts(5, 0), Ts(6, 0), updates=True), search.signature())
    assert found.owns_update(changed(diff(u={"balance": 150})), Ts(5, 3))
    assert found.doubts_update(changed(diff(u={"balance": 151.5})), Ts(5, 8))
    assert not found.doubts_update(changed(diff(u={"balance": 151.5})), Ts(5, 60)), "after the last of them"
    assert not found.doubts_update(changed(diff(u={"balance": 151.5, "x": 1})), Ts(5, 8))


def test_an_application_that_writes_all_the_time_is_not_taken_for_the_accident() -> None:
    search = SignatureSearch()
    for n in range(900):
        search.feed(changed(diff(u={"balance": n})), b"%d" % (n % 300), Ts(n, 1), n * 100)
        if n == 450:
            for at in range(100):
                search.feed(changed(diff(u={"price": at * 1.1})), b"%d" % at, Ts(n, 2 + at), n * 100 + at // 10)
    found = search.signature()
    assert found is not None
    assert found.paths == {(b"price",)}
    assert (found.first, found.last, found.ambiguous) == (Ts(450, 2), Ts(450, 101), False)


def test_sums_of_several_statements_are_ambiguous() -> None:
    search = SignatureSearch()
    for n in range(40):
        search.feed(changed(diff(u={"balance": n})), b"%d" % (n % 30), Ts(1, n + 1), n)
    found = search.signature()
    assert found is not None
    assert found.ambiguous
