"""Notes beside data files, and data files in a tar file: what they say, and what contradicts the copy."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import bson
import pytest

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import DATA_FILES, Contents
from tallyglass.restore.backup.copy_note import CopyNote
from tallyglass.restore.backup.data_files import how_to_start, start_script
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.paths_of_backups import backups_of
from tallyglass.restore.model.source import Backup
from tallyglass.text import shell_quote

INFO = """Restore Information
Group Name: shop
Replica Set Name: rs0
Snapshot timestamp: Thu Aug 20 02:11:07 GMT 2015
Restore timestamp: (1440034999, 1)
Last Oplog Applied: Thu Aug 20 01:42:33 GMT 2015 (1440034953, 7)
MongoDB Version: 6.0.5
Master Key UUID: 2cc2f8a4
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "snapshots" / "a copy"
    folder.mkdir(parents=True)
    for name in ("WiredTiger", "_mdb_catalog.wt", "collection-0.wt"):
        (folder / name).write_bytes(b"x" * 100)
    options = {"storage": {"engine": "wiredTiger", "options": {"directoryPerDB": True, "directoryForIndexes": False}}}
    (folder / "storage.bson").write_bytes(bson.encode(options))
    return folder


def packed(copy: Path) -> Path:
    path = copy.with_name("snapshot.tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(copy, "rs0-1440034953")
    return path


@pytest.mark.parametrize("tar", [False, True])
def test_the_note_of_ops_manager(copy: Path, tar: bool) -> None:
    (copy / "restoreInfo.txt").write_text(INFO)
    found = read_backup(packed(copy) if tar else copy)
    assert (found.problems, found.backup.form, found.set_name) == ((), DATA_FILES, "rs0")
    assert (found.backup.server_version, found.backup.end, found.backup.start) == ("6.0.5", Ts(1440034953, 7), None)
    assert found.note is not None
    assert found.note.key == "2cc2f8a4"
    assert found.note.contradicts(Ts(1440034953, 7)) == ""
    for end in (Ts(1440034953, 6), Ts(1440034953, 8)):
        assert found.note.contradicts(end) == f"its oplog ends at {end}; by restoreInfo.txt at 1440034953:7"


def test_a_line_without_a_value_leaves_the_next_one_alone(copy: Path) -> None:
    first, *rest = INFO.splitlines(keepends=True)
    for text in (INFO.replace(" 2cc2f8a4", ""), f"{first}Master Key UUID: \n{''.join(rest[:-1])}"):
        (copy / "restoreInfo.txt").write_text(text)
        found = read_backup(copy)
        assert (found.problems, found.backup.end, found.note and found.note.key) == ((), Ts(1440034953, 7), "")


def test_the_note_of_an_external_backup_of_pbm(copy: Path) -> None:
    note = copy / "pbm.rsmeta.rs0.json"
    content = {"name": "rs0", "first_write_ts": {"T": 100, "I": 2}, "last_write_ts": {"T": 105, "I": 1}}
    note.write_text(json.dumps(content))
    found = read_backup(copy)
    assert (found.problems, found.set_name) == ((), "rs0")
    assert found.note is not None
    assert (found.note.contradicts(Ts(100, 2)), found.note.contradicts(Ts(200, 1))) == ("", "")
    assert "by pbm.rsmeta.rs0.json it reaches 100:2" in found.note.contradicts(Ts(100, 1))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("restoreInfo.txt", INFO.replace(" (1440034953, 7)", ""), "does not say which entry of the oplog was the last"),
        ("restoreInfo.txt", INFO.replace("(1440034953, 7)", "(9440034953, 7)"), "does not say which entry"),
        (
            "pbm.rsmeta.rs0.json",
            '{"name": "rs0", "first_write_ts": {"T": 1e999, "I": 1}}',
            "pbm.rsmeta.rs0.json cannot be read",
        ),
        ("pbm.rsmeta.rs0.json", "{", "pbm.rsmeta.rs0.json cannot be read"),
        ("pbm.rsmeta.rs0.json", '{"name": "rs1", "first_write_ts": {"T": 1, "I": 1}}', "is that of the set rs1"),
    ],
)
def test_a_note_that_cannot_be_believed_is_named(copy: Path, name: str, text: str, problem: str) -> None:
    (copy / name).write_text(text)
    assert problem in " ".join(read_backup(copy).problems)


def test_two_notes_are_one_too_many(copy: Path) -> None:
    (copy / "restoreInfo.txt").write_text(INFO)
    (copy / "pbm.rsmeta.rs0.json").write_text('{"name": "rs0", "first_write_ts": {"T": 1, "I": 1}}')
    assert "lie beside each other" in " ".join(read_backup(copy).problems)


def test_a_damaged_tar_file_is_named(copy: Path) -> None:
    path = packed(copy)
    assert backups_of(path.parent) == [copy, path]
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + bytes(8))
    assert "cannot be unpacked further" in " ".join(read_backup(path).problems), "its checksum is wrong"
    path.write_bytes(gzip.compress(b"no tar"))
    with pytest.raises(InputError, match="the data files of 0 servers"):
        read_backup(path)


def test_a_tar_file_that_is_cut_off_between_two_files_is_named(copy: Path) -> None:
    path = copy.with_name("snapshot.tar")
    with tarfile.open(path, "w") as tar:
        tar.add(copy, "rs0-1440034953")
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1].offset
    whole = path.read_bytes()
    assert read_backup(path).problems == ()
    damaged = bytes((whole[last] ^ 1,))
    for held in (
        whole[:last],
        whole[: last + 9],
        whole[:last] + damaged + whole[last + 1 :],
    ):
        path.write_bytes(held)
        assert "cannot be unpacked further" in " ".join(read_backup(path).problems)


@pytest.mark.parametrize("tar", [False, True])
def test_all_that_is_known_of_data_files_without_a_server(copy: Path, tar: bool) -> None:
    (copy / "restoreInfo.txt").write_text(INFO)
    (copy / "journal").mkdir()
    (copy / "journal" / "restoreInfo.txt").write_text(INFO.replace("rs0", "rs1"))
    for number, file in enumerate(sorted(copy.iterdir())):
        os.utime(file, (1_000_000 - number, 1_000_000 - number))
    (copy / "journal" / "old").touch()
    os.utime(copy / "journal" / "old", (900_000.9, 900_000.9))
    size = 3 * 100 + 2 * len(INFO) + (copy / "storage.bson").stat().st_size
    if tar:
        (copy / "journal" / "restoreInfo.txt").unlink()
        size -= len(INFO)
    path = packed(copy) if tar else copy
    note = CopyNote("restoreInfo.txt", "rs0", "6.0.5", Ts(1440034953, 7), key="2cc2f8a4")
    backup = Backup(
        path, DATA_FILES, False, None, Ts(1440034953, 7), "file times", "6.0.5", bytes=size,
        taken_hint=datetime.fromtimestamp(900_000, UTC),
    )  # fmt: skip
    found = read_backup(path)
    assert found == Contents(backup, set_name="rs0", note=note)
    key = " They are encrypted: mongod needs the master key 2cc2f8a4."
    assert how_to_start(found) == (
        f"In a new folder: tallyglass restore start-copy {shell_quote(str(path))} >start.sh, then bash start.sh: it "
        f"starts a mongod on a copy. Then plan with --spare 127.0.0.1:27117.{key}"
    )
    assert not how_to_start(replace(found, note=replace(note, key=""))).endswith(key)
    assert not how_to_start(replace(found, note=None)).endswith(key)


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ({"directoryPerDB": True, "directoryForIndexes": False}, "--directoryperdb"),
        ({"directoryPerDB": True, "directoryForIndexes": True}, "--directoryperdb --wiredTigerDirectoryForIndexes"),
        ({}, ""),
        ("no options", ""),
        (None, ""),
        (b"no document", ""),
    ],
)
def test_the_script_copies_and_names_the_options_of_the_files(copy: Path, storage: object, words: str) -> None:
    file = copy / "storage.bson"
    if storage is None:
        file.unlink()
    else:
        content = {"storage": {"options": storage}} if isinstance(storage, dict) else {"storage": storage}
        file.write_bytes(storage if isinstance(storage, bytes) else bson.encode(content))
    tar = packed(copy)
    for path, data, made in (
        (copy, "copy", f"cp -a '{copy}'/. copy/"),
        (tar, "copy/rs0-1440034953", f"tar -xf {shell_quote(str(tar))} -C copy"),
    ):
        head = f"#!/usr/bin/env bash\nDATA={data}\nPORT=27117\nOPTIONS='{words}'\ncopy() {{ {made}; }}\n"
        assert start_script(path).startswith(head)
        assert start_script(path, 5).splitlines()[2] == "PORT=5"
    with pytest.raises(InputError, match="holds no data files"):
        start_script(copy.parent)
