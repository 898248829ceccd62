"""A statement explains what it did on a server, and nothing else: random filters and updates on values of all types."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tallyglass.demo.server import ReplicaSet
from tallyglass.restore.undo.evidence import read_statement

pytestmark = pytest.mark.live

_STATEMENTS = int(os.environ.get("STATEMENTS", "60"))
_FIRST = int(os.environ.get("STATEMENTS_SEED", "0"))
_VALUES: tuple[Any, ...] = (
    0, 1, 5, -1, 2.5, -0.0, 0.1, 1e300, float("nan"), float("inf"), Int64(5), Int64(2**53 + 1), Decimal128("5"),
    Decimal128("1.5"), Decimal128("NaN"), None, True, False, "a", "b", "", "é", "5", datetime(2020, 1, 1, tzinfo=UTC),
    ObjectId("5f0000000000000000000001"), [], [1, 2], ["a"], [None], [[1]], {}, {"k": 1}, {"k": 1, "x": 2},
    {"x": 2, "k": 1}, [{"k": 1}, {"k": 5}], Binary(b"x", 5), Timestamp(1, 1), MinKey(), MaxKey(), Regex("a"),
)  # fmt: skip
_PATHS = ("a", "b", "c", "m.k", "m.x")


class _Random(random.Random):
    """Draws documents and statements."""

    def value(self) -> Any:
        return self.choice(_VALUES)

    def document(self, id_: int) -> dict[str, Any]:
        found = {"_id": id_} | {name: self.value() for name in "abc" if self.random() < 0.8}
        inner = [{"k": self.value()}, {"k": self.value(), "x": self.value()}, [{"k": self.value()}, {"x": 1}]]
        return found | ({"m": self.choice([*inner, [], [1, 2], None, 5])} if self.random() < 0.6 else {})

    def condition(self) -> Any:
        name = self.choice(("", "", "$gt", "$gte", "$lt", "$lte", "$ne", "$in", "$nin", "$exists", "$not"))
        match name:
            case "":
                return self.value()
            case "$in" | "$nin":
                return {name: [self.value(), self.value()]}
            case "$exists":
                return {name: self.choice((True, False, 0, 1))}
            case "$not":
                return {name: {self.choice(("$gt", "$eq", "$lte")): self.value()}}
        return {name: self.value()}

    def query(self) -> dict[str, Any]:
        parts = [{self.choice(_PATHS): self.condition()} for _ in range(2)]
        choice = self.choice(("none", "one", "both", "$or", "$and", "$nor"))
        found: dict[str, Any] = {"none": {}, "one": parts[0], "both": parts[0] | parts[1]}.get(choice, {choice: parts})
        return found

    def expression(self) -> Any:
        field, value = "$" + self.choice(_PATHS), {"$literal": self.value()}
        return self.choice([
            value, field, {self.choice(("$add", "$subtract", "$multiply")): [field, self.choice((1, 2.5, "$b"))]},
            {"$concat": [field, "x"]}, {"$ifNull": [field, "$b", 7]},
            {"$cond": [{self.choice(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")): [field, value]}, "y", "n"]},
            {self.choice(("$isNumber", "$type", "$not")): [field]}, {self.choice(("$and", "$or")): [field, "$c"]},
        ])  # fmt: skip

    def update(self) -> Any:
        path, name = self.choice(_PATHS), self.choice((
            "$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$addToSet", "$pull", "$pop", "$rename",
            "pipeline", "pipeline", "pipeline",
        ))  # fmt: skip
        if name == "pipeline":
            stage: dict[str, Any] = {self.choice(("$set", "$addFields")): {path: self.expression()}}
            return [stage, {"$unset": self.choice(_PATHS)}][: self.randint(1, 2)]
        number = self.choice((1, 2.5, Int64(5), -1, Decimal128("1.5"), float("nan")))
        given = {"$inc": number, "$mul": number, "$pop": self.choice((1, -1)), "$rename": "z"}
        return {name: {path: given.get(name, self.value())}}


def test_what_a_statement_did_is_explained_or_unknown(live_set: ReplicaSet) -> None:
    rng, counts = _Random(_FIRST), Counter[tuple[bool, bool | None]]()
    client: MongoClient[Any] = MongoClient(live_set.uri)
    items = client["statements"].get_collection("items", codec_options=CodecOptions(document_class=RawBSONDocument))
    for _ in range(_STATEMENTS):
        items.delete_many({})
        items.insert_many([bson.raw_bson.RawBSONDocument(bson.encode(rng.document(id_))) for id_ in range(20)])
        before = {row["_id"]: row.raw for row in items.find()}
        query, update = rng.query(), rng.update() if rng.random() < 0.6 else None
        typed = ", ".join(_text(one) for one in (query, update) if one is not None)
        statement = read_statement(f"{'deleteMany' if update is None else 'updateMany'}({typed})")
        for id_ in before:
            one = {"$and": [{"_id": id_}, query]}
            with suppress(OperationFailure):  # it does not fit this document
                items.delete_one(one) if update is None else items.update_one(one, update)
        after = {row["_id"]: row.raw for row in items.find()}
        for id_, held in before.items():
            changed = after.get(id_) != held
            if changed or update is None:
                known = statement.explains(held, after.get(id_) if changed else None)
                counts[changed, known] += 1
                assert known in (None, changed), (typed, bson.decode(held), after.get(id_))
    client.close()
    assert counts[True, True] > counts[True, None], "most of it is known"


def _text(value: Any) -> str:
    return json.dumps(json.loads(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)))
