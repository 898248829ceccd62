"""What the backup lacks, and what it need not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bson
import pytest
from bson import Int64

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import Contents, StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, Stated, id_key
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.checks.live import live_data
from tallyglass.restore.model.source import Backup
from tallyglass.restore.model.undo import Choice, Return, Strategy
from tallyglass.restore.proof import base as base_module
from tallyglass.restore.proof.base import BaseFacts, read_base
from tallyglass.restore.proof.catalog import Catalog
from tallyglass.restore.proof.findings import Assessed, Covered, Findings, Located, Replayed
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.undo.changed import Changed


def test_an_update_of_a_user_is_no_lack_of_the_backup() -> None:
    catalog = Catalog({})
    for ns in ("admin.system.users", "shop.orders"):
        catalog.create(ns, b"", {}, None)
        touched = catalog.collections[ns].touched
        assert touched is not None
        touched.touch(b"id", "u")
    assert read_base({}, catalog).missing == {"shop.orders": 1}


def test_the_largest_id_at_the_point(tmp_path: Path) -> None:
    data = tmp_path / "orders.bson"
    data.write_bytes(b"".join(bson.encode({"_id": one}) for one in (5, Int64(2**40), Int64(-3), 7.0, 7.5, "x", 900)))
    stored = {"s.orders": StoredCollection("s.orders", "collection", data, {}, ())}
    catalog = Catalog(stored)
    assert read_base(stored, catalog).largest == {"s.orders": 2**40}
    touched = catalog.collections["s.orders"].touched
    assert touched is not None
    touched.touch(id_key(bson.encode({"_id": Int64(2**40)})), "d")
    touched.touch(id_key(bson.encode({"_id": 901})), "i")
    assert read_base(stored, catalog).largest == {"s.orders": 901}, "what was deleted does not count"


@pytest.mark.parametrize(
    "raw", [bson.encode({"op": "i"}), bson.encode({"ts": 5}), b"\x14\0\0\0" + b"\xff" * 15 + b"\0"]
)
def test_an_oplog_that_is_none_is_a_lack_of_the_backup(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "oplog.bson").write_bytes(raw)
    found = read_backup(tmp_path)
    assert found.backup.start is None
    assert any("oplog.bson is not an oplog" in problem for problem in found.problems)


def test_an_unreadable_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    # Opens, and then refuses to be read, for root too.
    refused = Path("/proc/self/mem")
    with pytest.raises(InputError, match="cannot be read"):
        read_backup(refused)
    (tmp_path / "shop").mkdir()
    (tmp_path / "pitr.json").symlink_to(refused)
    assert "pitr.json cannot be read" in read_backup(tmp_path).problems


@pytest.mark.parametrize(
    ("strategy", "numbers", "largest", "expected_text"),
    [
        (Strategy.WHOLE, (1001, 1042), {"s.c": 1000}, "at the point the largest was 1000"),
        (Strategy.REPLACE, (1001, 1042), {}, "at the point is not known"),
        (Strategy.WHOLE, (1001, 1042), {"s.c": None}, "none was there"),
        (Strategy.WHOLE, (3, 9), {"s.c": 1000}, ""),
        (Strategy.MERGE, (1001, 1042), {"s.c": 1000}, ""),
        (Strategy.COPY, (1001, 1042), {"s.c": 1000}, ""),
        (Strategy.WHOLE, None, {"s.c": 1000}, ""),
    ],
)
def test_ids_that_no_counter_handed_out(
    strategy: Strategy, numbers: tuple[int, int] | None, largest: dict[str, int | None], expected_text: str
) -> None:
    backup = Backup(Path("/b"), "directory", False, Ts(5, 1), None, "oplog")
    inputs = Inputs(Ts(9, 1), Deployment(Kind.REPLICA_SET, version="6.0.5", set_name="rs"), Contents(backup))
    start = Start(Ts(5, 1), 0, Ts(1, 1), Ts(9, 1))
    covered = Covered(Located(inputs, "6.0", Ts(9, 1), start), start, Replay({}))
    loss = LossCount()
    loss.changed["s.c"] = Changed(inserts=2, numbers=numbers)
    returns = (Return("s.c", strategy, "s.c_pitr"),)
    assessed = Assessed(Replayed(covered, BaseFacts(largest=largest), loss=loss), returns=returns)
    titles = [check.title for check in live_data(Findings(inputs, assessed)) if check.id == "ids"]
    assert len(titles) == (1 if expected_text else 0)
    assert all("1001 to 1042" in title and expected_text in title for title in titles)
    beside = replace(inputs, choice=Choice("s.c", "s.c2"))
    lost = [any(check.id == "loss" for check in live_data(Findings(one, assessed))) for one in (inputs, beside)]
    assert lost == [True, False], "a copy under another name brings nothing back"


def rows_of(*ids: int) -> bytes:
    return b"".join(bson.encode({"_id": one, "text": "x" * one}) for one in ids)


def test_what_is_too_large_to_read_is_counted_as_unread(tmp_path: Path) -> None:
    held = {}
    for name in "abc":
        (tmp_path / name).write_bytes(rows_of(1, 2))
        held[f"s.{name}"] = StoredCollection(f"s.{name}", "collection", tmp_path / name, {}, ())
    size = (tmp_path / "a").stat().st_size
    held["s.v"] = StoredCollection("s.v", "view", None, {"viewOn": "a"}, ())
    held["s.lost"] = StoredCollection("s.lost", "collection", None, {}, ())
    held["s.empty"] = StoredCollection("s.empty", "collection", None, {}, (), stated=Stated(0, 0))
    for room, unread in ((3 * size, 0), (3 * size - 1, size), (2 * size, size), (size, 2 * size), (size - 1, 3 * size)):
        found = read_base(held, Catalog(held), most_bytes=room)
        read = 3 - unread // size
        counts = dict(zip(("s.a", "s.b", "s.c"), [2] * read + [None] * 3, strict=False))
        assert found.unread_bytes == unread
        assert found.documents == counts | {"s.lost": None, "s.empty": 0, "s.system.views": 0}
        known = {ns: 2 for ns, count in counts.items() if count}
        assert found.largest == known | {"s.empty": None, "s.system.views": None}
        assert (found.problems, found.missing, found.count_mismatches) == ([], {}, [])


@pytest.mark.parametrize(
    ("room", "damage", "documents", "unread", "problem"),
    [
        (0, False, {"s.c": 2, "s.t": 1}, 0, ""),
        (-1, False, {"s.c": None, "s.t": None}, None, ""),
        (0, True, {}, 0, "b.archive is damaged or incomplete: a length is invalid after 2 documents."),
    ],
)
def test_the_documents_of_an_archive_are_counted_for_their_collections(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    damage: bool,
    documents: dict[str, int | None],
    unread: int | None,
    problem: str,
) -> None:
    archive = tmp_path / "b.archive"
    archive.write_bytes(b"x" * 10)

    def read(path: Path) -> Iterator[tuple[str, bytes]]:
        for ns in ("s.c", "s.other", "s.system.buckets.t", "s.c"):
            if damage and ns == "s.system.buckets.t":
                raise BrokenFile(path, 2, "a length is invalid")
            yield ns, bson.encode({"_id": len(ns)})

    monkeypatch.setattr(base_module, "archive_documents", read)
    held = {
        "s.c": StoredCollection("s.c", "collection", None, {}, ()),
        "s.t": StoredCollection("s.t", "timeseries", None, {"timeseries": {}}, ()),
    }
    found = read_base(held, Catalog(held), archive, 10 + room)
    shown = {ns.replace("system.buckets.", ""): count for ns, count in found.documents.items() if "views" not in ns}
    assert shown == documents
    assert found.unread_bytes == (10 if unread is None else unread)
    assert [one.startswith(problem) for one in found.problems] == [True] * bool(problem)


def test_large_documents_of_the_backup_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "c.bson"
    data.write_bytes(rows_of(1, 2, 3))
    held = {"s.c": StoredCollection("s.c", "collection", data, {}, ())}
    for size, large in ((len(rows_of(2)), 1), (len(rows_of(2)) - 1, 2), (len(rows_of(3)), 0)):
        monkeypatch.setattr(base_module, "LARGE", size)
        assert read_base(held, Catalog(held)).large == {"s.c": large}


def test_an_id_that_a_file_holds_twice_counts_twice(tmp_path: Path) -> None:
    data = tmp_path / "c.bson"
    data.write_bytes(rows_of(1, 1, 2))
    held = {"s.c": StoredCollection("s.c", "collection", data, {}, ())}
    assert read_base(held, Catalog(held)).documents == {"s.c": 3}
