"""The demo's own backup writer: what it writes is read back by other code, and is what mongodump writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import bson
import pytest

import database_tools
from server_version import major
from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet
from tallyglass.restore.backup.file_names import file_stem
from tallyglass.restore.backup.read import read_backup

pytestmark = pytest.mark.live

ODD = ["a/b", " lead", "*", "`id`", "é", "-rf", "x" * 180 + "/" * 20, "x" * 180 + "/" * 21]


@pytest.fixture
def odd(replica_set: ReplicaSet) -> ReplicaSet:
    with replica_set.client() as client:
        client.drop_database("odd")
        for number, name in enumerate(ODD):
            client.odd[name].insert_one({"_id": number})
        client.odd["*"].create_index([("a", -1), ("b", 1)], name="odd index", unique=True)
        client.odd.create_collection("capped", capped=True, size=4096)
        if major() >= (5, 0):
            client.odd.create_collection("measured", timeseries={"timeField": "at"})
        client.odd.create_collection("seen", viewOn="*", pipeline=[{"$match": {"a": 1}}])
    return replica_set


def test_every_name_and_kind_is_found_again(odd: ReplicaSet, tmp_path: Path) -> None:
    folder = backup.take(odd.uri, tmp_path / "backup")
    found = read_backup(folder, None).backup
    assert {f"odd.{name}" for name in ODD} | {"odd.capped"} <= set(found.namespaces)
    assert found.has_oplog
    assert found.start is not None
    assert found.end is not None
    assert found.start <= found.end
    for number, name in enumerate(ODD):
        dumped = folder / "odd" / f"{file_stem(name)}.bson"
        assert bson.decode_all(dumped.read_bytes()) == [{"_id": number}]
    meta = json.loads((folder / "odd" / "%2A.metadata.json").read_text())
    assert meta["indexes"][1]["key"] == {"a": {"$numberInt": "-1"}, "b": {"$numberInt": "1"}}
    assert meta["indexes"][1]["unique"] is True
    capped = json.loads((folder / "odd" / "capped.metadata.json").read_text())
    assert capped["options"]["capped"] is True
    assert json.loads((folder / "odd" / "seen.metadata.json").read_text())["options"]["viewOn"] == "*"
    assert not (folder / "odd" / "seen.bson").exists()
    assert (folder / "odd" / "system.buckets.measured.bson").exists() is (major() >= (5, 0))


@pytest.mark.tools
def test_it_writes_what_mongodump_writes(odd: ReplicaSet, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", backup.take(odd.uri, tmp_path / "ours")
    mongodump = shutil.which("mongodump", path=database_tools.search_path())
    assert mongodump
    subprocess.run([mongodump, f"--uri={odd.uri}", "--oplog", f"--out={theirs}", "--quiet"], check=True)
    for suffix in ("*.bson", "*.metadata.json"):
        names = {path.name for path in (theirs / "odd").glob(suffix)}
        assert {path.name for path in (ours / "odd").glob(suffix)} == names
        for name in names:
            a, b = (folder / "odd" / name for folder in (theirs, ours))
            if suffix == "*.bson":
                assert a.read_bytes() == b.read_bytes()
            else:
                assert json.loads(a.read_text()) == json.loads(b.read_text())
