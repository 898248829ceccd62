"""Drills at random points of the window: each gives, byte for byte, what the live set held at that moment."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo.errors import OperationFailure
from restore_scene import Scene, State, record, same, with_wal_g

from server_version import major
from tallyglass.moment import Ts, parse_ts
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.tools]

STEPS = 160


def step(scene: Scene, rng: random.Random, number: int) -> None:
    """One change of the live set, of one entry or of one that takes effect with its last."""
    shop = scene.client["shop"]
    kind = rng.choices(["insert", "update", "delete", "transaction", "definition"], [6, 5, 2, 2, 2])[0]
    if kind == "insert":
        shop.orders.insert_one({"_id": number, "n": rng.random(), "x": "x" * rng.randrange(200)})
    elif kind == "update":
        shop.orders.update_one({"n": {"$gt": rng.random()}}, {"$set": {"n": rng.random(), "at": [number]}})
    elif kind == "delete":
        shop.orders.delete_one({"n": {"$gt": rng.random()}})
    elif kind == "transaction":
        with scene.client.start_session() as session, session.start_transaction():
            shop.orders.insert_many([{"_id": f"{number}-{n}", "n": rng.random()} for n in range(25)], session=session)
    else:
        define(shop, rng, number)


def define(shop: Any, rng: random.Random, number: int) -> None:
    kind = rng.choice(["create", "capped", "drop", "rename", "index", "index", "drop index", "modify"])
    others = [name for name in shop.list_collection_names() if name.startswith("other")]
    with suppress(OperationFailure):
        if kind in ("create", "capped") or not others:
            capped = {"capped": True, "size": 4096} if kind == "capped" else {}
            shop.create_collection(f"other{number}", **capped)
        elif kind == "drop":
            shop.drop_collection(rng.choice(others))
        elif kind == "rename":
            shop[rng.choice(others)].rename(f"other{number}r")
        elif kind == "index":
            shop[rng.choice([*others, "orders"])].create_index([(f"f{number}", 1), ("n", -1)])
        elif kind == "drop index":
            names = [name for name in shop.orders.index_information() if name != "_id_"]
            shop.orders.drop_index(rng.choice(names or ["none"]))
        else:
            shop.command("collMod", rng.choice(others), validationLevel=rng.choice(["off", "moderate"]))


def back_up(scene: Scene, kind: str, number: int) -> None:
    """One more backup of this kind in ``daily``."""
    (scene.folder / "daily").mkdir(exist_ok=True)
    if kind == "wal-g":
        with_wal_g(scene, "daily", f"stream_{number}")
    else:
        archive = kind == "archive"
        scene.backup("--oplog", *(["--gzip"] if archive else []), archive=archive, name=f"daily/{number}")


def busy_hour(scene: Scene, rng: random.Random, kind: str) -> list[tuple[Ts, State]]:
    """Steps one after another, with backups in between; the state after each, with the position of its last entry."""
    states = []
    scene.client["shop"].create_collection("orders")
    scene.settle()
    for number in range(STEPS):
        step(scene, rng, number)
        states.append((scene.now(), record(scene.client)))
        if number in (STEPS // 8, STEPS // 2):
            back_up(scene, kind, number)
    return states


@pytest.mark.parametrize(
    ("kind", "drills"),
    [
        ("directory", 3),
        pytest.param("archive", 3, marks=pytest.mark.soak),
        pytest.param("wal-g", 3, marks=pytest.mark.soak),
        pytest.param("directory", 50, marks=pytest.mark.soak),
    ],
)
def test_a_drill_at_a_random_point_restores_what_was_there(
    scene: Scene, drilled: dict[Ts, State], tmp_path: Path, kind: str, drills: int
) -> None:
    rng = random.Random(drills)
    states = busy_hour(scene, rng, kind)
    where: Counter[str] = Counter()
    for number in range(drills):
        words = ["restore", "drill", scene.source.uri, "--backup", str(tmp_path / "daily"), "--nice", "0"]
        done = CliRunner(catch_exceptions=False).invoke(main, [*words, "--at=random", f"--seed={number}", "--json"])
        # A server before 5.0 does not log what leaves a capped collection: its documents are not counted.
        assert done.exit_code in ((0,) if major() >= (5, 0) else (0, 1)), done.output
        report = json.loads(done.stdout)
        assert (report["random_drills"], report["seed"]) == (report["random_identical"], number)
        where[report["random_where"]] += 1
        limit = parse_ts(report["point"])
        before = [state for ts, state in states if ts < limit]
        same(drilled[limit], before[-1])
    print(f"{sum(where.values())} of {drills} identical: {dict(where)}")
