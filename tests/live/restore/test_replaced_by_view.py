"""A collection that gave its name to a view or a time series, or took it from one, shortly before the backup: the
replay begins before that."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import MongoClient
from random_world import BEFORE, restored
from restore_scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.tools]

Change = Callable[[MongoClient[Any]], object]


def series(client: MongoClient[Any]) -> None:
    client.two.create_collection("x", timeseries={"timeField": "at"})
    client.two.x.insert_one({"at": datetime(2026, 1, 1, tzinfo=UTC)})


def view(client: MongoClient[Any]) -> None:
    client.two.create_collection("x", viewOn="a", pipeline=[])


def plain(client: MongoClient[Any]) -> None:
    client.two.x.insert_many([{"n": 1}, {"n": 2}])
    client.two.x.delete_one({"n": 1})
    client.two.x.update_one({}, {"$set": {"m": 1}})
    client.two.command({"collMod": "x", "validationLevel": "moderate"})
    client.two.x.create_index("n")
    client.two.x.drop_index("n_1")


def transaction(*others: str) -> Change:
    """A transaction that deletes and inserts there, and inserts into others."""

    def write(client: MongoClient[Any]) -> None:
        client.two.x.insert_one({"n": 1})
        with client.start_session() as session, session.start_transaction():
            client.two.x.delete_one({"n": 1}, session=session)
            for name in others:
                client.two[name].insert_one({"k": 1}, session=session)

    return write


def drop(client: MongoClient[Any]) -> None:
    client.two.drop_collection("x")


def rename_away(client: MongoClient[Any]) -> None:
    client.two.x.rename("y")


ALWAYS: dict[str, list[Change]] = {
    "plain, series": [plain, drop, series],
    "view, plain, view": [view, drop, plain, drop, view],
    "transaction, view": [transaction("x"), drop, view],
}
SOAKED: dict[str, list[Change]] = {
    "plain, view": [plain, drop, view],
    "view, plain": [view, drop, plain],
    "series, plain": [series, drop, plain],
    "series, plain, series": [series, drop, plain, drop, series],
    "away, series": [plain, rename_away, series],
    "away, view": [plain, rename_away, view],
    "transaction, series": [transaction("x"), drop, series],
    "transaction with another, view": [transaction("a"), drop, view],
    "transaction with another, series": [transaction("a"), drop, series],
    "series, view": [series, drop, view],
    "view, series": [view, drop, series],
}


@pytest.mark.parametrize(
    "changes",
    [*ALWAYS.values(), *(pytest.param(one, marks=pytest.mark.soak) for one in SOAKED.values())],
    ids=[*ALWAYS, *SOAKED],
)
async def test_what_had_the_name_before_is_not_replayed_onto_a_view(scene: Scene, changes: list[Change]) -> None:
    steps: list[Change] = [lambda client: client.two.a.insert_one({"n": 1}), *changes]
    waiting = [*steps, *([None] * (BEFORE - len(steps))), lambda client: client.two.a.insert_one({"n": 2})]

    def change() -> None:
        step = waiting.pop(0) if waiting else None
        if step is not None:
            step(scene.client)

    await restored(scene, random.Random(5), change)
