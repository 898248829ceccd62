"""Data files: whether a server runs on them, and whether the copy that runs on the spare is the one that was named."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Timestamp

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Namespace
from tallyglass.restore.backup.backup import DATA_FILES, Anchor, Contents, StoredCollection
from tallyglass.restore.backup.copy_note import CopyNote
from tallyglass.restore.backup.data_files import read_data_files, read_running
from tallyglass.restore.model.source import Backup

END = 100
Row = dict[str, Any]


class Spare:
    """A mongod on a copy: its oplog, and the documents of ``s.c``, beside a view and what is the server's own."""

    options: dict[str, Any]
    id_as: type = int

    def __init__(self, oplog: list[Row], *ids: int) -> None:
        self.oplog, self.ids, self.options = oplog, ids, {}

    async def find_raw(self, ns: Namespace, query: Any, *, limit: int = 0, **_: Any) -> AsyncIterator[bytes]:
        rows = (
            self.oplog[::-1] if ns == OPLOG else [{"_id": self.id_as(query["_id"])}] if query["_id"] in self.ids else []
        )
        yield b"".join(map(bson.encode, rows[: limit or None]))

    async def list_databases(self) -> list[str]:
        return ["admin", "s"]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [
            CollectionInfo(Namespace(db, "c"), "collection", self.options, uuid=bytes(16)),
            CollectionInfo(Namespace(db, "v"), "view", {"viewOn": "c"}),
            CollectionInfo(Namespace(db, "t"), "timeseries", {"timeseries": {}}),
            CollectionInfo(Namespace(db, "system.views"), "collection"),
        ]

    async def list_indexes(self, ns: Namespace) -> list[Row]:
        assert str(ns) in ("s.c", "s.t"), "a view has no indexes"
        return [{"name": "_id_"}]


def row(at: int, op: str, number: int, ns: str = "s.c") -> Row:
    return {"ts": Timestamp(at, 1), "op": op, "ns": ns, "ui": Binary(bytes(16), 4), "o": {"_id": number}}


def dropped(at: int) -> Row:
    return {"ts": Timestamp(at, 1), "op": "c", "ns": "s.$cmd", "o": {"drop": "c"}}


async def running(spare: Spare, *, source: str = "file times", start: Ts | None = None, **more: Any) -> Contents:
    backup = Backup(Path("/b"), DATA_FILES, False, start, None, source)
    return await read_running(spare, Contents(backup, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("oplog", "missing"),
    [
        ([row(90, "i", 1), row(END, "i", 2)], ""),
        ([row(90, "i", 1), row(END, "i", 7)], "s.c 7 is missing"),
        ([row(90, "i", 7), row(END, "i", 1)], "s.c 7 is missing"),
        ([row(90, "i", 7), row(END, "d", 7)], ""),
        ([row(90, "d", 7), row(END, "i", 7)], "s.c 7 is missing"),
        ([row(90, "i", 7), dropped(END)], ""),
        ([dropped(90), row(END, "i", 7)], "s.c 7 is missing"),
        ([row(90, "u", 7), row(END, "i", 7, "local.c")], ""),
    ],
)
async def test_the_newest_documents_of_a_copy_are_there(oplog: list[Row], missing: str) -> None:
    found = await running(Spare(oplog, 1, 2))
    assert [problem.endswith(missing) for problem in found.problems] == ([True] if missing else [])
    assert (found.backup.start, found.backup.end, found.backup.has_oplog) == (Ts(END, 1), Ts(END, 1), True)
    assert [(one.ns, one.kind, one.uuid_bytes) for one in found.collections.values()] == [
        ("s.c", "collection", bytes(16)),
        ("s.v", "view", b""),
        ("s.t", "timeseries", b""),
    ]


async def test_all_that_a_running_copy_tells() -> None:
    newest = row(END, "i", 1)
    spare = Spare([row(90, "i", 2), newest], 1, 2)
    at = Ts(END, 1)
    backup = Backup(Path("/b"), DATA_FILES, False, at, at, "oplog", namespaces=("s.c", "s.t", "s.v"), has_oplog=True)
    held = {
        "s.c": StoredCollection("s.c", "collection", None, {}, ({"name": "_id_"},), bytes(16).hex()),
        "s.t": StoredCollection("s.t", "timeseries", None, {"timeseries": {}}, ({"name": "_id_"},)),
        "s.v": StoredCollection("s.v", "view", None, {"viewOn": "c"}, ()),
    }
    assert await running(spare) == Contents(backup, held, anchors=(Anchor(at, entry=bson.encode(newest)),))
    spare.id_as = float
    assert (await running(spare)).problems == (
        "the copy was not recovered to the end of its oplog: s.c 1 is missing",
    ), "a server finds 1.0 for 1"


async def test_what_a_capped_collection_removed_is_not_missing() -> None:
    spare = Spare([row(90, "i", 7), row(END, "i", 1)], 1)
    spare.options = {"capped": True}
    assert (await running(spare)).problems == ()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"source": "sidecar", "start": Ts(END, 1)}, ""),
        ({"source": "sidecar", "start": Ts(END, 2)}, "before the position 100:2 of its sidecar"),
        ({"source": "given", "start": Ts(END, 2)}, ""),
        ({"note": CopyNote("n", end=Ts(END, 1))}, ""),
        ({"note": CopyNote("n", end=Ts(END, 2))}, "its oplog ends at 100:1; by n at 100:2"),
        ({"note": CopyNote("n", reaches=Ts(END, 1))}, ""),
        ({"note": CopyNote("n", reaches=Ts(END, 2))}, "its oplog ends at 100:1; by n it reaches 100:2"),
    ],
)
async def test_the_copy_that_runs_is_the_one_that_was_named(how: dict[str, Any], problem: str) -> None:
    found = await running(Spare([row(END, "i", 1)], 1), **how)
    assert [one.endswith(problem) for one in found.problems] == ([True] if problem else [])


async def test_a_copy_without_an_oplog_cannot_be_used() -> None:
    assert (await running(Spare([]))).problems == ("the copy holds no oplog",)


def test_data_files_that_a_server_uses_are_no_backup(tmp_path: Path) -> None:
    for name in ("WiredTiger", "_mdb_catalog.wt", "mongod.lock"):
        (tmp_path / name).touch()
    with (tmp_path / "mongod.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="a mongod that is running"):
            read_data_files(tmp_path)
    assert read_data_files(tmp_path).problems == ()
