"""What a backup says about itself, and that no truncated, mixed or linked backup counts as complete."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson import Timestamp

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup import archive
from tallyglass.restore.backup.archive import MAGIC, TERMINATOR, small_collections
from tallyglass.restore.backup.backup import Contents, read_backup
from tallyglass.restore.backup.bson_file import BrokenFile, documents
from tallyglass.restore.runbook.prepare import prepare

ROWS = [bson.encode({"_id": n, "text": "x" * 20}) for n in range(3)]


def oplog_entry(t: int) -> bytes:
    return bson.encode({"ts": Timestamp(t, 1), "op": "n", "ns": "", "o": {}})


def dump(folder: Path, *, packed: bool = False) -> Path:
    """A directory with one collection, and an oplog from 10 to 30."""
    (folder / "s").mkdir(parents=True)
    held = b"".join(ROWS)
    (folder / "s" / ("c.bson.gz" if packed else "c.bson")).write_bytes(gzip.compress(held) if packed else held)
    (folder / "s" / "c.metadata.json").write_text(json.dumps({"indexes": [], "collectionName": "c"}))
    (folder / "oplog.bson").write_bytes(b"".join(map(oplog_entry, (10, 20, 30))))
    return folder


@pytest.mark.parametrize("size", [1, 4, 20, len(ROWS[0]) - 1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_cut_off_is_broken_after_what_is_whole(tmp_path: Path, size: int, packed: bool) -> None:
    file = tmp_path / "c.bson"
    held = ROWS[0] + ROWS[1] + ROWS[2][:size]
    file.write_bytes(gzip.compress(held) if packed else held)
    found = []
    with pytest.raises(BrokenFile) as broken:
        found += documents(file)
    assert broken.value.whole == 2
    file.write_bytes(gzip.compress(b"".join(ROWS)) if packed else b"".join(ROWS))
    assert list(documents(file)) == ROWS


@pytest.mark.parametrize("head", [b"\x04\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\0"])
def test_a_length_that_cannot_be_right_is_not_believed(tmp_path: Path, head: bytes) -> None:
    file = tmp_path / "c.bson"
    file.write_bytes(ROWS[0] + head + b"\0" * 100)
    with pytest.raises(BrokenFile, match="length"):
        list(documents(file))
    file.write_bytes(ROWS[0] + ROWS[1][:-1] + b"x")
    with pytest.raises(BrokenFile):
        list(documents(file))


def test_a_dump_began_and_ended_with_its_oplog(tmp_path: Path) -> None:
    found = read_backup(dump(tmp_path / "b"))
    assert (found.backup.start, found.backup.end, found.backup.source) == (Ts(10, 1), Ts(30, 1), "oplog")
    assert found.problems == ()
    given = read_backup(tmp_path / "b", Ts(7, 1)).backup
    assert (given.start, given.end, given.source) == (Ts(7, 1), Ts(30, 1), "given")


@pytest.mark.parametrize(
    ("content", "start", "end"),
    [
        ({"before": "5:1", "after": "9:1"}, Ts(5, 1), Ts(9, 1)),
        ({"before": "5:1"}, Ts(5, 1), Ts(30, 1)),
        ({"after": "9:1"}, Ts(10, 1), Ts(30, 1)),
    ],
)
def test_the_sidecar_says_it_exactly(tmp_path: Path, content: dict[str, str], start: Ts, end: Ts) -> None:
    folder = dump(tmp_path / "b")
    (folder / "pitr.json").write_text(json.dumps({"format": 1, "term": 1} | content))
    found = read_backup(folder)
    assert (found.backup.start, found.backup.end) == (start, end)
    assert bool(found.problems) is ("before" not in content)


def test_a_sidecar_does_not_vouch_for_what_the_dump_itself_does_not_hold(tmp_path: Path) -> None:
    folder = dump(tmp_path / "b")
    own = read_backup(folder).backup.start
    assert own is not None
    later = Ts(own.t + 5, 1)
    (folder / "pitr.json").write_text(json.dumps({"format": 1, "term": 1, "before": str(later)}))
    found = read_backup(folder)
    assert (found.backup.start, found.backup.source, found.late_sidecar) == (own, "oplog", later)


def problems(folder: Path) -> str:
    return " / ".join(read_backup(folder).problems)


def test_what_is_mixed_linked_or_lacks_its_half_is_a_problem(tmp_path: Path) -> None:
    mixed = dump(tmp_path / "mixed", packed=True)
    assert "gzip and plain" in problems(mixed)
    linked = dump(tmp_path / "linked")
    (linked / "s" / "d.bson").symlink_to(linked / "s" / "c.bson")
    assert "d.bson is a symbolic link" in problems(linked)
    piped = dump(tmp_path / "piped")
    os.mkfifo(piped / "s" / "d.bson")
    assert problems(piped) == "d.bson is not a file", "reading it would never end"
    with pytest.raises(InputError, match="neither a file nor a folder"):
        read_backup(piped / "s" / "d.bson")
    half = dump(tmp_path / "half")
    (half / "s" / "c.bson").unlink()
    assert "metadata but no documents" in problems(half)
    bare = dump(tmp_path / "bare")
    (bare / "s" / "c.metadata.json").unlink()
    assert "documents but no metadata" in problems(bare)
    with pytest.raises(InputError):
        read_backup(tmp_path / "none")


def block(ns: tuple[str, str], *rows: bytes, end: bool = False) -> bytes:
    head = {"db": ns[0], "collection": ns[1], "EOF": end, "CRC": 0}
    return bson.encode(head) + b"".join(rows) + TERMINATOR


def packed(*blocks: bytes, also: tuple[dict[str, str], ...] = ()) -> bytes:
    """An archive of ``s.c`` and the oplog; the prelude also names the collections in ``also``."""
    header = {"concurrent_collections": 4, "version": "0.1", "server_version": "6.0.5", "tool_version": "100.15.0"}
    collection = {
        "db": "s",
        "collection": "c",
        "metadata": json.dumps({"indexes": [], "uuid": "00"}),
        "type": "collection",
    }
    rows = (collection, {"db": "", "collection": "oplog", "metadata": ""}, *also)
    return b"".join((MAGIC, *map(bson.encode, (header, *rows)), TERMINATOR, *blocks))


C, OPLOG = ("s", "c"), ("", "oplog")
WHOLE = (
    block(C, *ROWS[:2]),
    block(OPLOG, oplog_entry(10), oplog_entry(20)),
    block(C, ROWS[2]),
    block(C, end=True),
    block(OPLOG, oplog_entry(30)),
    block(OPLOG, end=True),
)


def read_archive(tmp_path: Path, held: bytes) -> Contents:
    file = tmp_path / "b.archive"
    file.write_bytes(held)
    return read_backup(file)


@pytest.mark.parametrize("size", [0x8B1F, 0x088B1F])
def test_a_length_that_looks_like_gzip_is_a_length(tmp_path: Path, size: int) -> None:
    row = bson.encode({"text": "x" * (size - len(bson.encode({"text": ""})))})
    file = tmp_path / "c.bson"
    file.write_bytes(row * 2)
    assert row[:2] == gzip.compress(row)[:2]
    assert [*documents(file)] == [row, row]
    file.write_bytes(gzip.compress(row * 2))
    assert [*documents(file)] == [row, row]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_archive_began_and_ended_with_its_oplog(tmp_path: Path, compress: Any) -> None:
    found = read_archive(tmp_path, compress(packed(*WHOLE)))
    assert (found.backup.start, found.backup.end, found.problems) == (Ts(10, 1), Ts(30, 1), ())
    assert list(found.collections) == ["s.c"]
    assert list(archive.documents(found.backup.path)) == [("s.c", row) for row in ROWS]


@pytest.mark.parametrize("lost", [1, 5, 40, len(WHOLE[-1]) + 3])
def test_an_archive_that_is_cut_off_is_a_problem(tmp_path: Path, lost: int) -> None:
    found = read_archive(tmp_path, packed(*WHOLE)[:-lost])
    assert "incomplete" in " ".join(found.problems)
    assert found.backup.start is None


@pytest.mark.parametrize(("last", "name"), [(3, "s.c"), (5, ".oplog")])
def test_an_archive_that_ends_within_a_collection_is_a_problem(tmp_path: Path, last: int, name: str) -> None:
    found = read_archive(tmp_path, packed(*WHOLE[:last], *WHOLE[last + 1 :]))
    assert found.problems == (f"the archive breaks off within {name}",)


@pytest.mark.parametrize(
    ("blocks", "problems"),
    [
        (WHOLE, ("the archive breaks off before s.d",)),
        (WHOLE[:4], ("the archive breaks off within .oplog", "the archive breaks off before s.d")),
        ((), tuple(f"the archive breaks off before {name}" for name in (".oplog", "s.c", "s.d"))),
        ((*WHOLE, block(("s", "d"), end=True)), ()),
    ],
)
def test_an_archive_that_ends_before_a_collection_is_a_problem(
    tmp_path: Path, blocks: tuple[bytes, ...], problems: tuple[str, ...]
) -> None:
    """Cut off between two collections it reads like a whole one; but each collection of its prelude has an end."""
    also = {"db": "s", "collection": "d", "metadata": "{}"}
    assert read_archive(tmp_path, packed(*blocks, also=(also,))).problems == problems


def test_a_view_has_no_documents_and_a_time_series_has_them_elsewhere(tmp_path: Path) -> None:
    view = {"db": "s", "collection": "v", "metadata": json.dumps({"options": {"viewOn": "c"}})}
    series = {"db": "s", "collection": "t", "metadata": json.dumps({"options": {"timeseries": {"timeField": "at"}}})}
    blocks = *WHOLE, block(("s", "system.buckets.t"), end=True)
    assert read_archive(tmp_path, packed(*blocks, also=(view, series))).problems == ()
    assert read_archive(tmp_path, packed(*WHOLE, also=(view, series))).problems == (
        "the archive breaks off before s.system.buckets.t",
    )


def test_only_small_collections_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = read_archive(tmp_path, packed(*WHOLE)).backup.path
    assert small_collections(path, ["s.c"], 3) == {"s.c": ROWS}
    assert small_collections(path, ["s.c"], 2) == {}
    assert small_collections(path, ["s.d"], 2) == {"s.d": []}
    monkeypatch.setattr(archive, "SMALL", sum(map(len, ROWS)) - 1)
    assert small_collections(path, ["s.c"], 3) == {}


async def test_a_position_is_not_recorded_beside_a_backup_that_is_there(tmp_path: Path) -> None:
    """It would claim to cover what was read before it."""
    older = dump(tmp_path / "older")
    (tmp_path / "archive").write_bytes(b"")
    for out in (older, tmp_path / "archive"):
        with pytest.raises(InputError, match="exists already"):
            await prepare(cast("Any", None), "mongodb://h/", out)
