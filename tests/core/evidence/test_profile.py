"""Documents of ``system.profile`` as facts. The documents are a server's (6.0.5), without what is not read."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Timestamp

from builders.evidence import MILLIS, profiled
from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Client, Source
from tallyglass.evidence.profile import read_profile
from tallyglass.moment import Ts

SESSION = b"s" * 16


def read(*rows: dict[str, Any]) -> Book:
    book = Book()
    read_profile(book, rows)
    return book


def test_a_delete_and_an_update_of_many() -> None:
    update = profiled(9, op="update", command={"q": {}, "u": {"$set": {"z.y": 1}}, "multi": True}, nModified=3)
    book = read(profiled(7), update, profiled(8, ndeleted=0))
    (removed,), (changed,) = (book.statements("shop.orders", op, 0, MILLIS * 2) for op in "du")
    assert (removed.began, removed.ended, removed.documents) == (MILLIS + 2, MILLIS + 7, 20)
    assert removed.client == Client("alice@admin", "nightly", "10.0.0.7")
    assert (removed.text, removed.plan, removed.source) == ("deleteMany({s: 1})", "COLLSCAN", Source.PROFILE)
    assert (changed.documents, changed.fields) == (3, {"z"})
    assert [removed.in_session, changed.in_session] == [False, False]


@pytest.mark.parametrize(
    "other", [{"command": {"q": {}, "limit": 1}}, {"locks": {"Global": {}}}, {"locks": None}, {"command": {"q": {}}}]
)
def test_whether_a_session_is_in_its_entries_is_known_only_outside_transactions_of_many(other: Any) -> None:
    (found,) = read(profiled(7, **other)).statements("shop.orders", "d", 0, MILLIS * 2)
    assert found.in_session is None


@pytest.mark.parametrize("name", ["findAndModify", "findandmodify"])
def test_find_and_modify_names_its_session(name: str) -> None:
    command = {
        name: "orders", "query": {"_id": 4}, "remove": True, "lsid": {"id": Binary(SESSION, 4)},
        "txnNumber": 3, "$clusterTime": {"clusterTime": Timestamp(1795409595, 4)},
    }  # fmt: skip
    book = read(profiled(7, op="command", command=command, ndeleted=1))
    (found,) = book.statements("shop.orders", "d", 0, MILLIS * 2)
    assert (found.in_session, found.ids, found.after) == (True, {4}, Ts(1795409595, 4))
    sender = book.sender(SESSION, 3)
    assert sender is not None
    assert sender.user == "alice@admin"


def test_definitions() -> None:
    rows = [
        profiled(1, op="command", command={"drop": "items", "$db": "shop"}, ns="shop.items"),
        profiled(2, op="command", command={"dropDatabase": 1, "$db": "shop"}),
        profiled(3, op="command", command={"drop": "gone", "$db": "shop"}, errCode=26),
    ]
    found = read(*rows).definitions(frozenset({"drop", "dropDatabase"}), 0, MILLIS * 2)
    assert [(one.name, one.ns, one.client.user) for one in found] == [
        ("drop", "shop.items", "alice@admin"), ("dropDatabase", "shop", "alice@admin"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        {"ts": 7}, {"millis": None}, {"millis": 10**15}, {"command": None},
        {"command": {"$truncated": "{ q: { x: "}, "ndeleted": None},
        {"command": {"q": {"$or": [1]}, "limit": 0, "lsid": 7}, "ndeleted": "many"}, {"op": "query"},
    ],
)  # fmt: skip
def test_what_has_another_form_is_left_out(damage: dict[str, Any]) -> None:
    assert read(profiled(7, **damage)).statements("shop.orders", "d", 0, MILLIS * 2) == []


def test_hostile_text_is_made_visible() -> None:
    esc = "\x1b[2J\u202e"
    hostile = profiled(7, user=f"al{esc}", appName=esc, command={"q": {"s": esc}, "limit": 0})
    (found,) = read(hostile).statements("shop.orders", "d", 0, MILLIS * 2)
    assert f"{found.client}{found.text}".isprintable()
