"""Each kind of backup with each accident: the spare is as the live set was, byte for byte, or the plan is refused.

What must come of each is read from the table in ``docs/restore-tests.md``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from restore_scene import Scene, State, copy_of_data, ids, pack, record, same, start_copy, with_pbm, with_wal_g

from server_version import major
from tallyglass.moment import Ts
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.tools]

TABLE = Path(__file__).parents[3] / "docs" / "restore-tests.md"
IDENTICAL, DRILL = "identical", "a drill"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def with_sidecar(scene: Scene) -> Path:
    asyncio.run(scene.prepare())
    return scene.backup()


KINDS: dict[str, Callable[[Scene], Path]] = {
    "mongodump folder, with `pitr.json`": with_sidecar,
    "mongodump folder, `--oplog`": lambda scene: scene.backup("--oplog"),
    "gzip archive, `--oplog`": lambda scene: scene.backup("--oplog", "--gzip", archive=True),
    "data files, copied": lambda scene: copy_of_data(scene)[0],
    "data files in a tar file": lambda scene: pack(copy_of_data(scene)[0]),
    "PBM, logical": with_pbm,
    "wal-g, stream": lambda scene: with_wal_g(scene) / "basebackups_005" / "stream_1",
}


def transaction(scene: Scene, db: Any) -> None:
    with scene.client.start_session() as session, session.start_transaction():
        db.orders.update_many({"_id": {"$gt": 70}}, {"$set": {"v": 0}}, session=session)
        db.orders.delete_many({"_id": {"$lt": 20}}, session=session)


ACCIDENTS: dict[str, Callable[[Scene, Any], object]] = {
    "deleteMany": lambda _, db: db.orders.delete_many({"_id": {"$lt": 20}}),
    "drop": lambda _, db: db.orders.drop(),
    "`$out` over it": lambda _, db: db.others.aggregate([{"$out": "orders"}]),
    "rename over it": lambda _, db: db.others.rename("orders", dropTarget=True),
    "transaction": transaction,
    "view": lambda _, db: db.shown.drop(),
    "time-series": lambda _, db: db.weather.drop(),
    "capped": lambda _, db: db.log.drop(),
    DRILL: lambda _, db: db.orders.drop(),
}
DROPPED = {"view": "shown", "time-series": "system.buckets.weather"}
"""What the list names that the server drops in two steps, or by a delete."""
RETURNED = ("deleteMany", "drop", "`$out` over it", "view", "time-series")
"""These are followed into the live set, the others as far as the spare."""


def cells() -> Iterator[Any]:
    """Kind, accident and what the table says; one of each row runs always, the others in a soak."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TABLE.read_text().splitlines()
        if line.startswith("|")
    ]
    begin = next(at for at, row in enumerate(rows) if row[1:] == list(ACCIDENTS))
    table = rows[begin + 2 : begin + 2 + len(KINDS)]
    assert [row[0] for row in table] == list(KINDS)
    for number, (kind, *said) in enumerate(table):
        for column, (accident, outcome) in enumerate(zip(ACCIDENTS, said, strict=True)):
            marks = [] if column % len(KINDS) == number else [pytest.mark.soak]
            name = re.sub(r"[^\w-]+", "-", f"{kind}-{accident}").strip("-")
            yield pytest.param(kind, accident, outcome.strip("`"), name, marks=marks, id=name)


def fill(db: Any) -> None:
    db.orders.insert_many([{"_id": n, "v": n, "text": "x" * n} for n in range(60)])
    db.orders.create_index("v", v=1)
    db.others.insert_many([{"_id": n} for n in range(30, 50)])
    db.old_name.insert_many([{"_id": n, "v": n} for n in range(9)])
    for one in ("v", "w", "x"):
        db.old_name.create_index(one, v=1)
    db.create_collection("shown", viewOn="orders", pipeline=[{"$match": {"v": 3}}])
    db.create_collection("weather", timeseries={"timeField": "at", "metaField": "where"})
    db.create_collection("log", capped=True, size=2**16)
    write(db, 0)


def write(db: Any, first: int) -> None:
    db.weather.insert_many([{"at": NOON, "where": first + n, "c": n} for n in range(5)])
    db.log.insert_many([{"_id": first + n} for n in range(5)])


def write_on(db: Any) -> None:
    write(db, 60)
    db.orders.insert_many([{"_id": n, "v": n} for n in range(60, 90)])
    db.orders.update_many({"_id": {"$lt": 5}}, {"$set": {"late": True}})
    db.orders.delete_one({"_id": 7})
    change_indexes(db)


def change_indexes(db: Any) -> None:
    """Commands that mongorestore does not repeat on a copy of data files, or where a collection was renamed."""
    db.command({"collMod": "orders", "index": {"name": "v_1", "hidden": True}})
    db.old_name.drop_index("w_1")
    db.old_name.rename("new_name")
    db.new_name.create_index("y")
    db.command({"collMod": "new_name", "index": {"keyPattern": {"x": 1}, "hidden": True}})
    for change in ("prepareUnique", "unique") if major() >= (6, 0) else ():
        db.command({"collMod": "new_name", "index": {"name": "v_1", change: True}})


@pytest.mark.since(5, 0)
@pytest.mark.parametrize(("kind", "accident", "outcome", "name"), list(cells()))
def test_what_the_table_says_of_a_backup_and_an_accident(
    scene: Scene, drilled: dict[Ts, State], kind: str, accident: str, outcome: str, name: str
) -> None:
    db = scene.client[name.replace("-", "")[:60]]  # one of its own: what happens often looks like routine
    fill(db)
    scene.settle()
    backup = KINDS[kind](scene)
    write_on(db)
    scene.settle()
    before, since = record(scene.client), scene.now()
    ACCIDENTS[accident](scene, db)
    scene.settle()
    limit = scene.first_entry({"op": {"$ne": "n"}}, since)
    if accident == DRILL:
        words = ["restore", "drill", scene.source.uri, "--backup", str(backup), "--to", str(limit), "--nice=0"]
        done = CliRunner(catch_exceptions=False).invoke(main, words)
        if outcome != IDENTICAL:
            assert (done.exit_code, f"[{outcome}]" in done.stdout) == (2, True), done.output
            return
        assert done.exit_code in (0, 1), done.output
        same(drilled[limit], before)
        return
    more: dict[str, Any] = {}
    if "out" in accident:
        more["incident"] = asyncio.run(scene.incident("out", f"{db.name}.orders"))
        assert more["incident"].first > since
    if accident in DROPPED:
        more["incident"] = asyncio.run(scene.incident("drop", f"{db.name}.{DROPPED[accident]}"))
        assert more["incident"].limit == limit, "the point is before all of it"
    with ExitStack() as stack:
        client = scene.spare_client
        if kind.startswith("data files"):
            port = stack.enter_context(start_copy(backup, scene.folder))
            more["spare"] = f"127.0.0.1:{port}"
            client = stack.enter_context(closing(MongoClient("127.0.0.1", port, directConnection=True)))
        plan = asyncio.run(scene.plan(backup, limit, **more))
        if outcome != IDENTICAL:
            assert outcome in ids(plan), ids(plan)
            return
        scene.must_run(plan, *(() if accident in RETURNED else ("--until=verify",)))
        same(record(client), before)
    if accident in RETURNED:
        mine = {ns: rows for ns, rows in record(scene.client).items() if ns.startswith(f"{db.name}.")}
        wanted = {ns: rows for ns, rows in before.items() if ns.startswith(f"{db.name}.")}
        same({ns: rows for ns, rows in mine.items() if "_before_restore_" not in ns}, wanted)
