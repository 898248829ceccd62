"""A folder of backups: what counts as one, and which is taken for a point."""

from __future__ import annotations

import fcntl
import gzip
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from bson import Timestamp, encode

from tallyglass.errors import DeploymentError, InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup import pbm, walg
from tallyglass.restore.backup.archive import MAGIC
from tallyglass.restore.backup.pbm import note_of
from tallyglass.restore.backup.walg import sentinel_of
from tallyglass.restore.catalogue.backups import Listed, list_backups, newest_before
from tallyglass.restore.catalogue.paths_of_backups import backups_of, holds_backups
from tallyglass.restore.catalogue.window import find_window
from tallyglass.restore.model.source import Backup


def dump(path: Path, start: int, end: int) -> Path:
    (path / "shop").mkdir(parents=True)
    (path / "shop" / "a.bson").write_bytes(encode({"_id": 1}))
    (path / "shop" / "a.metadata.json").write_text('{"indexes": [], "type": "collection", "collectionName": "a"}')
    entries = [{"ts": Timestamp(t, 1), "op": "n", "ns": "", "o": {}} for t in (start, end)]
    (path / "oplog.bson").write_bytes(b"".join(map(encode, entries)))
    return path


def listed(name: str, end: int, why: str = "") -> Listed:
    backup = Backup(Path(name), "directory", False, Ts(end - 1, 1), Ts(end, 1), "oplog")
    return Listed(Path(name), backup, why, compared=True)


def test_a_backup_is_distinguished_from_a_folder_of_backups(tmp_path: Path) -> None:
    one = dump(tmp_path / "all" / "monday", 5, 6)
    plain = tmp_path / "plain"
    (plain / "shop").mkdir(parents=True)
    (plain / "shop" / "a.bson").write_bytes(b"")
    assert holds_backups(tmp_path / "all")
    dump(one / "inner", 5, 6)
    assert not holds_backups(one), "a backup, whatever else lies in it"
    assert not holds_backups(plain)
    assert not holds_backups(tmp_path / "none")
    data = tmp_path / "server" / "0" / "data"
    data.mkdir(parents=True)
    for name in ("WiredTiger", "storage.bson"):
        (data / name).write_bytes(b"")
    assert not holds_backups(tmp_path / "server"), "the folder of a mongod"
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "notes.txt").write_text("x")
    assert not holds_backups(tmp_path / "archives")
    (tmp_path / "archives" / "a.gz").write_bytes(gzip.compress(MAGIC + b"rest"))
    assert holds_backups(tmp_path / "archives")


@pytest.mark.parametrize("name", ["oplog.bson", "WiredTiger", "pitr.json", "prelude.json", "prelude.json.gz"])
def test_what_lies_at_the_top_of_a_backup_makes_one_of_a_folder(tmp_path: Path, name: str) -> None:
    monday = dump(tmp_path / "monday", 5, 6)
    assert (holds_backups(tmp_path), backups_of(tmp_path), holds_backups(monday)) == (True, [monday], False)
    assert backups_of(monday) == [monday]
    assert not holds_backups(monday / "shop" / "a.bson")
    (tmp_path / name).touch()
    assert (holds_backups(tmp_path), backups_of(tmp_path)) == (False, [tmp_path])


def test_a_folder_that_may_not_be_read_holds_nothing_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump(tmp_path / "monday", 5, 6)

    def closed(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", closed)
    assert not holds_backups(tmp_path)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        backups_of(tmp_path)


def test_data_that_a_server_uses_are_no_backup(tmp_path: Path) -> None:
    for name in ("WiredTiger", "mongod.lock"):
        (tmp_path / name).touch()
    assert backups_of(tmp_path) == [tmp_path]
    with (tmp_path / "mongod.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="There is no backup in"):
            backups_of(tmp_path)


async def test_each_is_listed_with_its_span_and_what_is_wrong(tmp_path: Path) -> None:
    dump(tmp_path / "monday", 5, 6)
    broken = dump(tmp_path / "tuesday", 7, 8)
    (broken / "shop" / "a.metadata.json").unlink()
    (tmp_path / "wednesday").write_bytes(MAGIC + b"\x01")
    (tmp_path / "readme.txt").write_text("x")
    found = {one.path.name: one async for one in list_backups(tmp_path)}
    assert list(found) == ["monday", "tuesday", "wednesday"]
    monday = found["monday"]
    assert monday.backup is not None
    assert (monday.backup.start, monday.backup.end, monday.provable) == (Ts(5, 1), Ts(6, 1), None)
    assert (found["tuesday"].provable, found["wednesday"].provable) == (False, False)
    assert "no metadata" in found["tuesday"].why
    with pytest.raises(InputError):
        [one async for one in list_backups(tmp_path / "monday" / "shop")]


async def test_what_cannot_be_read_beside_backups_does_not_hide_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump(tmp_path / "monday", 5, 6)
    (tmp_path / "damaged.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 40)
    for name in ("closed", "lost+found"):
        (tmp_path / name / "shop").mkdir(parents=True)
    read = Path.iterdir

    def closed(path: Path) -> Iterator[Path]:
        if path.name in ("closed", "lost+found"):
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    found = {one.path.name: one async for one in list_backups(tmp_path)}
    assert [(name, one.provable) for name, one in found.items()] == [
        ("closed", False), ("damaged.zst", False), ("monday", None),
    ]  # fmt: skip
    assert "Permission denied" in found["closed"].why


async def test_a_backup_that_records_no_end_proves_no_window(tmp_path: Path) -> None:
    folder = dump(tmp_path / "monday", 5, 6)
    (folder / "oplog.bson").unlink()
    (folder / "pitr.json").write_text('{"format": 1, "term": 1, "before": "5:1"}')
    (tmp_path / "oplog").mkdir()
    entries = [{"ts": Timestamp(t, 1), "t": 1, "op": "n", "ns": "", "o": {}} for t in range(4, 20)]
    (tmp_path / "oplog" / "oplog.rs.bson").write_bytes(b"".join(map(encode, entries)))
    window = await find_window([folder], [tmp_path / "oplog" / "oplog.rs.bson"])
    assert window.restorable == ()
    assert "does not record when it ended" in window.bases[0].why


class Server:
    """A server that answers hello in this way."""

    def __init__(self, **hello: Any) -> None:
        self.hello = hello

    async def command(self, name: str, *_: Any, **__: Any) -> Mapping[str, Any]:
        return self.hello if name == "hello" else {"version": "6.0.5"}

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        for _ in ():
            yield b""


async def test_no_window_is_proven_against_a_server_that_does_not_show_its_oplog(tmp_path: Path) -> None:
    dump(tmp_path / "monday", 5, 6)
    for server, error, why in (
        (Server(isWritablePrimary=True), DeploymentError, "A standalone has no oplog"),
        (Server(setName="rs", secondary=True), ReadError, "which entries a majority"),
    ):
        with pytest.raises(error, match=why):
            await find_window([tmp_path], (), cast("Gateway", server))


PBM_BACKUP = "2026-11-23T06:11:05Z"


@pytest.mark.parametrize("sign", [".pbm.init", "pbmPitr/", "2026-11-22T06:11:05Z.pbm.json"])
def test_a_backup_of_pbm_is_known_by_its_note(tmp_path: Path, sign: str) -> None:
    for name in (PBM_BACKUP, "notes", "2026-11-23"):
        (tmp_path / name).mkdir()
    assert not pbm.is_storage(tmp_path)
    assert note_of(tmp_path / PBM_BACKUP) is None, "any folder may be called so"
    if sign.endswith("/"):
        (tmp_path / sign).mkdir()
    else:
        (tmp_path / sign).touch()
    assert pbm.is_storage(tmp_path)
    assert pbm.backups_in(tmp_path) == [tmp_path / PBM_BACKUP]
    assert (note_of(tmp_path / "notes"), note_of(tmp_path / "2026-11-23")) == (None, None)
    with pytest.raises(InputError, match=f"PBM did not finish {PBM_BACKUP}: {PBM_BACKUP}.pbm.json is missing"):
        note_of(tmp_path / PBM_BACKUP)
    note = tmp_path / f"{PBM_BACKUP}.pbm.json"
    assert note_of(note) is None
    note.touch()
    assert (note_of(note), note_of(tmp_path / PBM_BACKUP)) == (note, note)


def test_a_backup_of_wal_g_is_known_by_its_sentinel(tmp_path: Path) -> None:
    folder = tmp_path / "basebackups_005" / "stream_1"
    folder.mkdir(parents=True)
    (tmp_path / "basebackups_004").touch()
    (tmp_path / "other").mkdir()
    assert walg.bases_of(tmp_path) == folder.parent
    assert (walg.bases_of(tmp_path / "other"), walg.backups_in(folder.parent)) == (None, [folder])
    sentinel = folder.with_name(f"{folder.name}_backup_stop_sentinel.json")
    assert (sentinel_of(sentinel), sentinel_of(tmp_path / "other")) == (None, None)
    for path in (folder, folder / "stream.lz4"):
        with pytest.raises(InputError, match="wal-g did not finish stream_1"):
            sentinel_of(path)
    sentinel.touch()
    for path in (sentinel, folder, folder / "stream.lz4"):
        assert sentinel_of(path) == sentinel


def test_the_root_of_all_folders_is_no_backup_of_pbm_or_wal_g() -> None:
    assert (note_of(Path("/")), sentinel_of(Path("/"))) == (None, None)


def test_the_newest_that_was_finished_before_the_point_is_taken() -> None:
    found = [listed("old", 10), listed("new", 20), listed("later", 30), listed("broken", 25, "It is incomplete.")]
    assert newest_before(found, Ts(26, 1)) == Path("new")
    assert newest_before(found, Ts(30, 1)) == Path("new"), "a backup holds what was written until its end"
    assert newest_before(found, Ts(30, 2)) == Path("later")
    with pytest.raises(InputError, match="None of the 4 backups") as error:
        newest_before(found, Ts(5, 1))
    assert "broken: It is incomplete." in error.value.advice
    unknown = replace(found[0], backup=None, why="")
    with pytest.raises(InputError, match="The only backup there cannot be continued"):
        newest_before([unknown], Ts(30, 1))
