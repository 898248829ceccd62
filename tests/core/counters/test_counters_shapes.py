"""Every library's counter document is recognised for what it is, and ordinary documents are not counters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId

from tallyglass.counters.numbers import numeric_type
from tallyglass.counters.recognise.discovery import is_counter
from tallyglass.counters.recognise.guess import guess
from tallyglass.counters.recognise.identity import label_of
from tallyglass.counters.recognise.libraries import number_fields, recognise
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import Grade, NumericType, Semantics

LAST, NEXT = Semantics.LAST, Semantics.NEXT
OID = ObjectId("656f9b2c0000000000000001")
SCOPED = {"_id": OID, "id": "inhabitant_seq", "reference_value": {"city": "x"}, "seq": 4}
UNSCOPED = {"_id": OID, "id": "_id", "reference_value": None, "seq": 9}
ATLAS = {"_id": {"db": "shop", "coll": "orders"}, "seq_value": 7}
BY_FIELD = {"_id": OID, "collection": "a", "field": "n", "current": 3}
BY_TENANT = {"_id": OID, "collection": "tickets", "field": "id", "tenantId": "1", "current": 3}
GROUPED = {"_id": OID, "groupingField": "g1", "count": 0, "model": "Pen", "field": "n", "__v": 0}
REWORKED = {"_id": OID, "c": 102, "f": "_id", "m": "Parcel"}
DJONGO = {"name": "polls_question", "auto": {"field_names": ["id"], "seq": 8}, "fields": {"id": {"type_code": "int"}}}
SPRING = {"_id": "users_sequence", "seq": Int64(5), "_class": "app.DatabaseSequence"}

# collection, document, shape, what it is called, meaning, stored type
KNOWN: list[tuple[str, dict[str, Any], str, str, Semantics, str]] = [
    ("counters", {"_id": "userid", "seq": 41.0}, "manual", "userid", LAST, "double"),
    ("counters", {"_id": "userid", "seq": 41}, "manual", "userid", LAST, "int32"),
    ("counters", {"_id": "productid", "sequence_value": 3.0}, "tutorialspoint", "productid", LAST, "double"),
    ("counters", ATLAS, "atlas-trigger", "shop.orders", LAST, "int32"),
    ("counters", {"_id": "users", "field": "_id", "seq": 12}, "mongodb-autoincrement", "users", LAST, "int32"),
    ("counters", SCOPED, "mongoose-sequence", 'inhabitant_seq.{"city":"x"}', LAST, "int32"),
    ("counters", UNSCOPED, "mongoose-sequence", "_id", LAST, "int32"),
    ("counters", BY_FIELD, "mongo-autoincrement", "a.n", LAST, "int32"),
    ("counters", BY_TENANT, "mongo-autoincrement", 'tickets.id.{"tenantId":"1"}', LAST, "int32"),
    ("identitycounters", GROUPED, "mongoose-auto-increment", "Pen.n.g1", LAST, "int32"),
    ("identitycounters", GROUPED | {"groupingField": ""}, "mongoose-auto-increment", "Pen.n", LAST, "int32"),
    ("identitycounters", {"_id": OID, "model": "Book", "field": "_id", "count": -1, "__v": 0},
     "mongoose-auto-increment", "Book._id", LAST, "int32"),
    ("identitycounters", {"_id": OID, "field": "_id", "model": "Book", "count": 3000000001.0},
     "typegoose", "Book._id", LAST, "double"),
    ("identitycounters", {"_id": OID, "field": "_id", "modelName": "Book", "count": Int64(3000000002)},
     "typegoose", "Book._id", LAST, "int64"),
    ("idcounters", REWORKED, "mongoose-auto-increment-reworked", "Parcel._id", LAST, "int32"),
    ("mongoengine.counters", {"_id": "read_event.event_seq_id", "next": Int64(3000000000)},
     "mongoengine", "read_event.event_seq_id", LAST, "int64"),
    ("database_sequences", SPRING, "spring", "users_sequence", LAST, "int64"),
    ("hibernate_sequences", {"_id": "books_SEQ", "next_value": Int64(151), "increment": Int64(50)},
     "hibernate", "books_SEQ", NEXT, "int64"),
    ("hibernate_sequences", {"_id": "books", "sequence_value": Int64(3)}, "hibernate-ogm", "books", NEXT, "int64"),
    ("hibernate_sequences", {"_id": "default", "next_val": 4}, "hibernate-ogm", "default", NEXT, "int32"),
    ("doctrine_increment_ids", {"_id": "users", "current_id": 10}, "doctrine", "users", LAST, "int32"),
    ("auto_increment_counters", {"_id": "user_number", "c": 10}, "mongoid-autoinc", "user_number", LAST, "int32"),
    ("__sequences", {"_id": "user_number", "seq": 10}, "mongoid-sequence", "user_number", LAST, "int32"),
    ("sequences", {"_id": "bluejay", "current": 2}, "mongo_sequence", "bluejay", LAST, "int32"),
    ("__schema__", DJONGO, "djongo", "polls_question", LAST, "int32"),
    ("[SEQUENCE_COUNTERS]", {"_id": "Invoice", "Count": Int64(77)}, "mongodb-entities", "Invoice", LAST, "int64"),
    ("IDs", {"_id": "people", "seq": 2147483000}, "int-id-generator", "people", LAST, "int32"),
    ("anything", {"_id": OID, "id": "name", "seq": 4}, "mgo-ai", "name", LAST, "int32"),
    ("uniqueIdentifierCounter", {"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER", "COUNT": 1, "NOTES": "increment me"},
     "article", "UNIQUE COUNT DOCUMENT IDENTIFIER", NEXT, "int32"),
    ("ids", {"_id": "invoices", "value": Int64(3)}, "morphia", "invoices", LAST, "int64"),
    ("ids", {"_id": "orders", "index": 400}, "cached", "orders", LAST, "int32"),
    ("counters", {"_id": "orders", "next": 400}, "next", "orders", LAST, "int32"),
    ("counters", {"_id": {"numbers": "shop.bills.number", "tenant": "x"}, "next": Int64(9)},
     "gapless", '{"numbers":"shop.bills.number","tenant":"x"}', LAST, "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("collection", "document", "shape", "label", "semantics", "kind"), KNOWN)
def test_known_library(
    collection: str, document: dict[str, Any], shape: str, label: str, semantics: Semantics, kind: str
) -> None:
    (match,) = recognise(collection, document)
    assert (match.shape.name, match.shape.semantics) == (shape, semantics)
    assert label_of(match.shape, match.path, document) == label
    assert numeric_type(dig(document, match.path)) == kind
    assert (match.confidence == 1.0) == (collection != "anything")
    assert number_fields(collection).search(bson.encode(document))
    assert not number_fields(collection).search(bson.encode({"_id": OID, "seq": "7", "name": "next", "v": 1}))


@pytest.mark.parametrize(
    ("collection", "document", "target"),
    [
        ("counters", BY_FIELD, [("a", "n")]),
        ("counters", BY_TENANT, []),
        ("identitycounters", GROUPED, []),
        ("identitycounters", GROUPED | {"groupingField": ""}, [("pens", "n"), ("pen", "n")]),
        ("idcounters", REWORKED, [("parcels", "_id"), ("parcel", "_id")]),
        ("ids", {"_id": "invoices", "value": Int64(3)}, [("invoices", "_id")]),
    ],
)
def test_a_counter_of_a_part_is_not_held_against_the_whole(
    collection: str, document: dict[str, Any], target: list[tuple[str, str]]
) -> None:
    (match,) = recognise(collection, document)
    assert match.shape.target(document) == target


@pytest.mark.parametrize(
    ("collection", "document", "target"),
    [
        ("mongoengine.counters", {"_id": "shop.orders.n", "next": 1}, [("shop.orders", "n"), ("shop.orders", "_id")]),
        ("mongoengine.counters", {"_id": "orders", "next": 1}, []),
        ("counters", {"_id": "orders", "field": "n", "seq": 1}, [("orders", "n")]),
        ("counters", {"_id": {"db": "shop", "coll": "orders"}, "seq_value": 1}, [("orders", "_id")]),
        ("sequence", {"_id": "orders_SEQ", "seq": 1}, [("orders", "_id")]),
        ("sequence", {"_id": "sequence", "seq": 1}, []),
        ("__schema__", DJONGO, [("polls_question", "id")]),
        ("__sequences", {"_id": "user_number", "seq": 1}, [("users", "number"), ("user", "number")]),
        ("auto_increment_counters", {"_id": "big_box_seq_no", "c": 1}, [
            ("big_box_seqs", "no"), ("big_box_seq", "no"), ("big_boxes", "seq_no"), ("big_box", "seq_no"),
            ("bigs", "box_seq_no"), ("big", "box_seq_no"),
        ]),
        ("identitycounters", GROUPED | {"groupingField": "", "model": "City"}, [("cities", "n"), ("city", "n")]),
        ("identitycounters", GROUPED | {"groupingField": "", "model": "Day"}, [("days", "n"), ("day", "n")]),
    ],
)  # fmt: skip
def test_a_counter_names_the_collection_whose_ids_it_hands_out(
    collection: str, document: dict[str, Any], target: list[tuple[str, str]]
) -> None:
    (match,) = recognise(collection, document)
    assert match.shape.target(document) == target


def test_nodebb_keeps_several_counters_in_one_document() -> None:
    document = {"_id": OID, "_key": "global", "nextPid": 812, "nextUid": 33, "nexus": 5, "nextName": "x"}
    matches = recognise("objects", document)
    assert [match.path for match in matches] == ["nextPid", "nextUid"]
    assert number_fields("objects").search(bson.encode({"_id": OID, "_key": "global", "nextPid": 812}))
    assert label_of(matches[0].shape, "nextPid", document) == "global.nextPid"


@pytest.mark.parametrize(
    ("collection", "document", "shape", "least"),
    [
        ("my_ids_table", {"_id": "books_SEQ", "next_value": Int64(1), "increment": Int64(50)}, "hibernate", 0.8),
        ("numbering", {"_id": "users", "current_id": 10}, "doctrine", 0.8),
        ("own_counters", {"_id": OID, "collection": "big", "field": "id", "current": 150}, "mongo-autoincrement", 0.8),
        ("bill_numbers", {"_id": {"numbers": "shop.bills.number"}, "next": Int64(9)}, "gapless", 0.8),
        ("accounts_pool", {"_id": 7, "COUNT": Int64(7000), "MAX_VALUE": Int64(7999)}, "article", 1.0),
        ("accounts_pool", {"_id": 7, "COUNT": Int64(7000)}, "article", 0.8),
        ("numbering", {"_id": "orders", "seq": 10}, "guess", 0.5),
        ("numbering", {"_id": OID, "modelName": "Order", "sequenceValue": 10}, "guess", 0.5),
        ("numbering", {"_id": OID, "collection": "Orders", "seq_value": 10}, "guess", 0.5),
        ("uidCounter", {"_id": "orders", "value": 10}, "guess", 0.5),
        ("spans", {"_id": OID, "next_id": 10, "max": 99}, "guess", 0.5),
        ("sequence_numbers", {"_id": {"tenant": "a", "kind": "b"}, "n": Decimal128("7")}, "guess", 0.5),
    ],
)
def test_renamed_collection_is_found_by_shape(
    collection: str, document: dict[str, Any], shape: str, least: float
) -> None:
    (match,) = recognise(collection, document) or guess(collection, document)
    assert match.shape.name == shape
    assert least <= match.confidence <= max(least, 0.8)


@pytest.mark.parametrize("identity", [None, {"a": 1}, [1]])
def test_a_counter_of_the_article_is_named_by_one_value(identity: object) -> None:
    assert recognise("accounts_pool", {"_id": identity, "COUNT": Int64(7000), "MAX_VALUE": Int64(7999)}) == []


@pytest.mark.parametrize(
    ("collection", "document", "grade"),
    [
        ("spans", {"_id": "a", "next_id": 10, "max_value": 99}, Grade.LIKELY),
        ("serials", {"_id": "a", "n": 10, "max_value": 99}, Grade.LIKELY),
        ("spans", {"_id": "a", "n": 10, "max_value": 99}, Grade.POSSIBLE),
        ("serials", {"_id": "a", "next_id": 10, "max": 99}, Grade.POSSIBLE),
    ],
)
def test_a_guess_with_a_bound_that_means_nothing_else_may_alarm(
    collection: str, document: dict[str, Any], grade: Grade
) -> None:
    (match,) = guess(collection, document)
    assert match.grade is grade


@pytest.mark.parametrize(
    ("collection", "document"),
    [
        ("carts", {"_id": "c1", "count": 3, "total": 20}),
        ("carts", {"_id": OID, "count": 3, "total": 20}),
        ("stats", {"_id": "2026-11-20", "count": 7}),
        ("counters", {"_id": "2026-11-20", "count": 7}),
        ("users", {"_id": OID, "logins": 4}),
        ("users", {"_id": OID, "name": "Ann", "count": 4}),
        ("sessions", {"_id": "s3cr3t", "expires": datetime(2026, 1, 1, tzinfo=UTC), "session": "{}"}),
        ("photos.files", {"_id": OID, "length": 4, "chunkSize": 261120, "filename": "a"}),
        ("photos.chunks", {"_id": OID, "files_id": OID, "n": 0, "data": b"x"}),
        ("inventory", {"_id": "sku-1", "count": 4}),
        ("settings", {"_id": "maxUsers", "value": 10}),
        ("pages", {"_id": "/home", "count": 99}),
        ("products", {"_id": 5, "count": 3, "max": 10}),
        ("scores", {"_id": "ann", "current": 10, "last": 9}),
        ("jobs", {"_id": OID, "type": "mail", "number": 3}),
        ("metrics", {"_id": "cpu", "value": 0.5, "at": datetime(2026, 1, 1, tzinfo=UTC)}),
        ("events", {"_id": OID, "seq": [1, 2]}),
        ("messages", {"_id": OID, "seq": 5, "body": "hello"}),
        ("orders", {"_id": 17, "seq": 5, "items": [{"sku": "a"}]}),
        ("versions", {"_id": "schema", "version": 12}),
        ("locks", {"_id": "leader", "counter": True}),
        ("objects", {"_key": "user:1", "uid": 1, "reputation": 3}),
    ],
)
def test_false_friends_are_not_counters(collection: str, document: dict[str, Any]) -> None:
    assert not is_counter(collection, document)


def test_types_are_told_apart() -> None:
    assert [numeric_type(value) for value in (1, Int64(1), 1.0, Decimal128("1"), True, "1", None)] == [
        NumericType.INT32, NumericType.INT64, NumericType.DOUBLE, NumericType.DECIMAL, None, None, None,
    ]  # fmt: skip
