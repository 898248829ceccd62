"""The model of tests/adversary does to a document, and writes to the oplog, what the server does and writes."""

from __future__ import annotations

import random

import bson
import pytest
from bson import Timestamp
from pymongo.errors import PyMongoError
from restore_scene import Scene

from adversary.scenario import DenseWorlds
from adversary.statements import Document, Effect, StatementError, apply, matches, operators, same, update_entry

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

_CASES = 400


def test_each_update_leaves_what_the_model_leaves(scene: Scene) -> None:
    """The document afterwards, the entry, and what the filter of a statement finds."""
    worlds = DenseWorlds(random.Random(5))
    worlds.ids = [*range(1, _CASES + 1)]
    items, before = scene.client["shop"]["model"], scene.now()
    wanted: dict[int, tuple[Document, Document | None]] = {}
    for id_ in worlds.ids:
        document: Document = {"_id": id_} | worlds.fields()
        items.insert_one(document)
        query = worlds.query()
        assert bool(items.count_documents({"$and": [{"_id": id_}, query]})) is matches(document, query), query
        effects: tuple[Effect, ...] = worlds.pipeline() if id_ % 4 == 0 else worlds.effects()
        try:
            after: Document = apply(document, effects)
        except StatementError:
            with pytest.raises(PyMongoError):
                items.update_one({"_id": id_}, operators(effects))
            continue
        items.update_one({"_id": id_}, operators(effects))
        o = None if same(document, after) else update_entry(document, after, effects)
        wanted[id_] = after, o
        assert same(items.find_one({"_id": id_}), after), (document, effects)
    about = {"ts": {"$gt": Timestamp(*before)}, "ns": "shop.model", "op": "u"}
    logged = {entry["o2"]["_id"]: entry["o"] for entry in scene.client.local["oplog.rs"].find(about)}
    for id_, (after, o) in wanted.items():
        found = logged.get(id_)
        assert (found is None) is (o is None), after
        if found is not None and o is not None:
            assert bson.encode(found) == bson.encode(o), (found, o)
