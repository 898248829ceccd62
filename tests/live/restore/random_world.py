"""One random world: random changes before and after a backup, and the server of the plan's exact commands, compared."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from bson import json_util
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from restore_scene import OWN, Scene, State, copy_of_data, documents, record, same, start_copy

BEFORE, AFTER = 10, 30
"""Changes before the backup and after it."""


def seeds(first: int, *, always: int, soaked: int) -> list[Any]:
    """Seeds of worlds: the first ones belong to every run, the rest to a soak."""
    rest = [pytest.param(first + n, marks=pytest.mark.soak) for n in range(always, soaked)]
    return [*(first + n for n in range(always)), *rest]


def go_on(change: Callable[[], object], count: int) -> None:
    """Some changes are refused, as by a unique index: then nothing happens."""
    for _ in range(count):
        with suppress(PyMongoError):
            change()


async def restored(scene: Scene, rng: random.Random, change: Callable[[], object]) -> None:
    """Take a backup amid random changes, restore the moment after them, and compare the servers to the byte."""
    go_on(change, BEFORE)
    scene.client["other"].other.insert_one({})  # mongodump takes no oplog that begins with a rename
    scene.settle()
    of_files, of_archive = rng.random() < 0.3, rng.random() < 0.3
    backup = copy_of_data(scene)[0] if of_files else scene.backup("--oplog", archive=of_archive)
    go_on(change, AFTER)
    before, since = whole(scene.client), scene.now()
    scene.client["other"].mark.insert_one({"_id": 1})
    scene.settle()
    limit = scene.first_entry({"o.create": "mark"}, since)
    with ExitStack() as stack:
        spare, client = {}, scene.spare_client
        if of_files:
            port = stack.enter_context(start_copy(backup, scene.folder))
            spare = {"spare": f"127.0.0.1:{port}"}
            client = stack.enter_context(closing(MongoClient("127.0.0.1", port, directConnection=True)))
        plan = await scene.plan(backup, limit, **spare)
        scene.must_run(plan, "--until", "verify")
        found = whole(client)
        same(found[0], before[0])
        assert found[1] == before[1]


def whole(client: MongoClient[Any]) -> tuple[State, dict[str, object]]:
    """What the server holds, with every option as it is stored, and what is in order in that order."""
    more: dict[str, object] = {}
    for db in client.list_database_names():
        if db in OWN:
            continue
        for info in client[db].list_collections():
            name, options = info["name"], info["options"]
            more[f"{db}.{name}"] = json_util.dumps(options, json_options=json_util.CANONICAL_JSON_OPTIONS)
            if options.get("capped"):
                more[f"{db}.{name} in order"] = documents(client, db, name, None)
    return record(client), more
