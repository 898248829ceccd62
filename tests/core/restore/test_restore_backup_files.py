"""What a backup says about itself, and that no truncated, mixed or linked backup counts as complete."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import lzma
import os
import random
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson import Int64, Timestamp
from bson.datetime_ms import DatetimeMS

from tallyglass.errors import InputError, RefusedError
from tallyglass.moment import Ts
from tallyglass.restore.backup import archive
from tallyglass.restore.backup import crc64 as crc64_module
from tallyglass.restore.backup.archive import MAGIC, TERMINATOR
from tallyglass.restore.backup.backup import ARCHIVE, DIRECTORY, Anchor, Contents, StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, Stated, documents
from tallyglass.restore.backup.compression import open_plain, read_plain
from tallyglass.restore.backup.crc64 import Checksum, XzChecksum
from tallyglass.restore.backup.file_names import file_stem, full_name
from tallyglass.restore.backup.metadata import Metadata, read_metadata
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.model.source import Backup
from tallyglass.restore.plan.prepare import prepare

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


@pytest.mark.parametrize("gzipped", [False, True])
def test_all_that_a_dump_tells_of_itself(tmp_path: Path, gzipped: bool) -> None:
    folder = dump(tmp_path / "b", packed=gzipped)
    if gzipped:
        (folder / "oplog.bson").write_bytes(gzip.compress((folder / "oplog.bson").read_bytes()))
    prelude = '{"ServerVersion": "6.0.5", "ToolVersion": "100.15.0"}'
    (folder / "s" / "prelude.json").write_text(prelude)
    (folder / "admin").mkdir()
    (folder / "admin" / "system.users.bson").write_bytes(b"")
    (folder / "admin" / "system.users.metadata.json").write_text(json.dumps({"options": {}, "uuid": "0a"}))
    (folder / "s" / "v.metadata.json").write_text(json.dumps({"options": {"viewOn": "c"}}))
    (folder / "s" / "system.views.bson").write_bytes(b"")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for number, file in enumerate(files):
        os.utime(file, (1_000 + number, 1_000 + number))
    (folder / "pitr.json").write_text('{"format": 1, "before": "5:1", "term": 3, "fcv": "6.0", "set_name": "rs"}')
    os.utime(folder / "pitr.json", (500, 500))
    data = {file.name: file for file in files}
    backup = Backup(
        folder, DIRECTORY, gzipped, Ts(5, 1), Ts(30, 1), "sidecar", "6.0.5", "100.15.0",
        ("admin.system.users", "s.c", "s.v"), sum(file.stat().st_size for file in (*files, folder / "pitr.json")), True,
        datetime.fromtimestamp(500, UTC),
    )  # fmt: skip
    collections = (
        StoredCollection("admin.system.users", "collection", data["system.users.bson"], {}, (), "0a"),
        StoredCollection("s.c", "collection", data["c.bson.gz" if gzipped else "c.bson"], {}, ()),
        StoredCollection("s.v", "view", None, {"viewOn": "c"}, ()),
    )
    assert read_backup(folder) == Contents(
        backup, {one.ns: one for one in collections}, fcv="6.0", set_name="rs", databases=("s",), users=True,
        anchors=(*(Anchor(Ts(t, 1), entry=oplog_entry(t)) for t in (10, 30)), Anchor(Ts(5, 1), 3)),
        written_over=len(files) - 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "start", "end"),
    [
        ({"before": "5:1", "after": "39:1"}, Ts(5, 1), Ts(39, 1)),
        ({"before": "5:1", "after": "9:1"}, Ts(5, 1), Ts(30, 1)),  # of an earlier dump into this folder
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


def test_a_sidecar_with_a_number_that_is_none_is_a_problem(tmp_path: Path) -> None:
    folder = dump(tmp_path / "b")
    (folder / "pitr.json").write_text('{"format": 1, "before": "5:1", "term": 1e999}')
    found = read_backup(folder)
    assert (found.backup.start, found.problems) == (Ts(10, 1), ("pitr.json cannot be read",))


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
    (bare / "s" / "c.bson").rename(bare / "s" / "system.buckets.c.bson")
    assert "system.buckets.c has documents but no metadata" in problems(bare)
    cut = dump(tmp_path / "cut", packed=True)
    (cut / "oplog.bson").unlink()
    (cut / "s" / "c.bson.gz").write_bytes(b"")
    assert problems(cut) == "c.bson.gz is cut off"
    with pytest.raises(InputError, match="does not exist"):
        read_backup(tmp_path / "none")
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        read_backup(tmp_path / ("x" * 300))


def crc64(data: bytes) -> int:
    """CRC-64/ECMA-182, reflected, bit by bit."""
    state = 2**64 - 1
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0xC96C5795D7870F42 if state & 1 else 0)
    return state ^ 2**64 - 1


def block(ns: tuple[str, str], *rows: bytes, end: bytes | None = None) -> bytes:
    """One block of an archive. ``end`` is all documents of the collection, which ends here."""
    crc = crc64(end or b"")
    head = {"db": ns[0], "collection": ns[1], "EOF": end is not None, "CRC": Int64(crc - 2**64 if crc >> 63 else crc)}
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
    block(C, end=b"".join(ROWS)),
    block(OPLOG, oplog_entry(30)),
    block(OPLOG, end=b"".join(map(oplog_entry, (10, 20, 30)))),
)


OPEN = ROWS[0][:-1] + b"x"
"""What has the length of a document, and does not end like one."""


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


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_compressed_file_is_read_from_any_place(tmp_path: Path, pack: Any) -> None:
    file, held, rng = tmp_path / "c.bson", random.Random(3).randbytes(300_000), random.Random(4)
    file.write_bytes(pack(held))
    with open_plain(file) as found:
        assert found.tell() == 0
        for _ in range(30):
            at, size = rng.randrange(len(held) + 1), rng.randrange(200_000)
            assert (found.seek(at), found.tell()) == (at, at)
            assert (found.read(size), found.tell()) == (held[at : at + size], min(at + size, len(held)))
    assert read_plain(file) == held


@pytest.mark.parametrize("value", [DatetimeMS(10**15), "\N{EURO SIGN}"])
def test_a_length_that_looks_like_lzma_is_one_whatever_the_document_holds(tmp_path: Path, value: Any) -> None:
    size = len(bson.encode({"value": value, "text": ""}))
    row = bson.encode({"value": value, "text": "x" * (93 - size)}).replace(b"\xe2\x82", b"\xe2\xe2")
    file = tmp_path / "c.bson"
    file.write_bytes(row * 2)
    assert (len(row), [*documents(file)]) == (93, [row, row])


@pytest.mark.parametrize(
    ("stem", "written", "name"),
    [
        ("a+b", "a b", "a b"),
        ("a+b", "a+b", "a b"),
        ("a%2Bb", "a+b", "a+b"),
        ("a%2Bb", "a%2Bb", "a+b"),
        ("p%2520q", "p%20q", "p%20q"),
        ("a+b", "", "a b"),
    ],
)
def test_a_collection_is_named_as_mongorestore_names_it(tmp_path: Path, stem: str, written: str, name: str) -> None:
    folder = dump(tmp_path / "b")
    (folder / "s" / "c.bson").rename(folder / "s" / f"{stem}.bson")
    (folder / "s" / "c.metadata.json").rename(folder / "s" / f"{stem}.metadata.json")
    (folder / "s" / f"{stem}.metadata.json").write_text(json.dumps({"indexes": [], "collectionName": written}))
    assert (problems(folder), read_backup(folder).backup.namespaces) == ("", (f"s.{name}",))


def test_the_buckets_of_a_time_series_with_a_long_name_are_found(tmp_path: Path) -> None:
    folder, name = dump(tmp_path / "b"), "w" * 225
    (folder / "s" / "c.bson").rename(folder / "s" / f"{file_stem(f'system.buckets.{name}')}.bson")
    (folder / "s" / "c.metadata.json").unlink()
    (folder / "s" / f"{name}.metadata.json").write_text(json.dumps({"options": {"timeseries": {}}}))
    assert problems(folder) == ""


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_all_that_an_archive_tells_of_itself(tmp_path: Path, compress: Any) -> None:
    held = compress(packed(*WHOLE))
    found = read_archive(tmp_path, held)
    os.utime(found.backup.path, (500, 500))
    backup = Backup(
        tmp_path / "b.archive", ARCHIVE, compress is gzip.compress, Ts(10, 1), Ts(30, 1), "oplog", "6.0.5", "100.15.0",
        ("s.c",), len(held), True, datetime.fromtimestamp(500, UTC),
    )  # fmt: skip
    anchors = Anchor(Ts(10, 1), entry=oplog_entry(10)), Anchor(Ts(30, 1), entry=oplog_entry(30))
    collection = StoredCollection("s.c", "collection", None, {}, (), "00")
    assert read_backup(tmp_path / "b.archive") == Contents(backup, {"s.c": collection}, anchors=anchors)
    assert list(archive.documents(found.backup.path)) == [("s.c", row) for row in ROWS]


@pytest.mark.parametrize("lost", [1, 5, 40, len(WHOLE[-1]) + 3])
def test_an_archive_that_is_cut_off_is_a_problem(tmp_path: Path, lost: int) -> None:
    found = read_archive(tmp_path, packed(*WHOLE)[:-lost])
    assert "cannot be read to its end" in " ".join(found.problems)
    assert found.backup.start is None


def flips(held: bytes) -> Iterator[bytes]:
    """The bytes with one bit flipped, at each position; not those that are decompressed to the same all the same."""
    for at, bit in itertools.product(range(len(held)), (1, 128)):
        damaged = held[:at] + bytes([held[at] ^ bit]) + held[at + 1 :]
        try:
            if gzip.decompress(held) == gzip.decompress(damaged):
                continue
        except (OSError, EOFError, zlib.error):
            pass
        yield damaged


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_one_flipped_bit_of_an_archive_is_a_problem_wherever_it_lies(tmp_path: Path, compress: Any) -> None:
    """All but what the format protects with nothing: the header and the descriptions of a plain archive."""
    whole = packed(*WHOLE)
    for damaged in flips(compress(whole)):
        try:
            found = read_archive(tmp_path, damaged).problems
        except InputError as error:
            found = (error.title,)
        assert found or damaged[-len(b"".join(WHOLE)) :] == b"".join(WHOLE), damaged


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ((*WHOLE, TERMINATOR), "a block has no header"),
        ((*WHOLE, block(C, ROWS[0])), "s.c goes on after its end"),
        ((*WHOLE[:-1], block(OPLOG, ROWS[0], end=ROWS[0])), ".oplog goes on after its end"),
        ((*WHOLE, block(("s", "other"), end=b"")), "holds s.other, which it does not list"),
        ((*WHOLE, block(("s", ""), end=b"")), "the header of a block is damaged"),
        ((block(C, OPEN), WHOLE[1], block(C, end=OPEN), *WHOLE[4:]), "it ends in the middle of a document"),
        ((*WHOLE[:3], *WHOLE[4:], block(C, end=ROWS[0])), "the checksum of s.c does not match"),
    ],
)
def test_what_mongorestore_does_not_accept_in_an_archive(
    tmp_path: Path, blocks: tuple[bytes, ...], problem: str
) -> None:
    assert problem in " ".join(read_archive(tmp_path, packed(*blocks)).problems)


def test_the_checksum_is_computed_in_the_fastest_way_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(crc64_module.checksum()) is XzChecksum
    monkeypatch.setattr(crc64_module.lzma, "is_check_supported", lambda check: check != 4)
    assert type(crc64_module.checksum()) is Checksum
    monkeypatch.setattr(crc64_module, "lzma", None)
    assert type(crc64_module.checksum()) is Checksum


@pytest.mark.parametrize("kind", [XzChecksum, Checksum])
def test_the_checksum_is_that_of_any_pieces(kind: type[Checksum]) -> None:
    data = bytes(range(256)) * 600
    for pieces in ([], [b""], [data[:7], data[7:]], [data[at : at + 1000] for at in range(0, len(data), 1000)]):
        crc = crc64(b"".join(pieces))
        for given, same in ((crc, True), (crc - 2**64, True), (crc ^ 1, False)):
            found = kind()
            for piece in pieces:
                found.add(piece)
            assert found.matches(given) is same


def test_one_flipped_bit_of_a_gzip_dump_is_a_problem_wherever_it_lies(tmp_path: Path) -> None:
    """A plain dump has no checksums: there only the lengths of its documents are verified."""
    folder = dump(tmp_path / "b", packed=True)
    (folder / "s" / "c.metadata.json").rename(folder / "s" / "c.metadata.json.gz")
    data = folder / "s" / "c.bson.gz"
    for damaged in flips(data.read_bytes()):
        data.write_bytes(damaged)
        with pytest.raises(BrokenFile):
            assert [*documents(data)], damaged
    for file in (folder / "oplog.bson", folder / "s" / "c.metadata.json.gz"):
        whole = file.read_bytes()
        for damaged in flips(gzip.compress(whole)):
            file.write_bytes(damaged)
            assert read_backup(folder).problems, (file, damaged)
        file.write_bytes(whole)


@pytest.mark.parametrize(
    "text", ["", "[]", '"x"', '{"options": 5}', '{"indexes": [1]}', '{"options": {"a": {"$oid": "z"}}}']
)
def test_metadata_that_describes_no_collection_is_a_problem(tmp_path: Path, text: str) -> None:
    folder = dump(tmp_path / "b")
    (folder / "s" / "c.metadata.json").write_text(text)
    assert "s/c.metadata.json cannot be read" in problems(folder)


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
        ((*WHOLE, block(("s", "d"), end=b"")), ()),
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
    blocks = *WHOLE, block(("s", "system.buckets.t"), end=b"")
    options = {"timeseries": {"timeField": "at"}}
    whole = [
        StoredCollection("s.c", "collection", None, {}, (), "00"),
        StoredCollection("s.v", "view", None, {"viewOn": "c"}, ()),
        StoredCollection("s.t", "timeseries", None, options, ()),
    ]
    for held in (blocks, (*blocks, block(("s", "v"), end=b""))):
        for name in ("t", "system.buckets.t"):
            found = read_archive(tmp_path, packed(*held, also=(view, series | {"collection": name})))
            assert found.problems == (), "mongodump ends views, too"
            assert list(found.collections.values()) == whole
            assert found.backup.namespaces == ("s.c", "s.t", "s.v")
    assert read_archive(tmp_path, packed(*WHOLE, also=(view, series))).problems == (
        "the archive breaks off before s.system.buckets.t",
    )


async def test_a_position_is_not_recorded_beside_a_backup_that_is_there(tmp_path: Path) -> None:
    """It would claim to cover what was read before it."""
    older = dump(tmp_path / "older")
    (tmp_path / "archive").write_bytes(b"")
    for out in (older, tmp_path / "archive"):
        with pytest.raises(InputError, match="exists already"):
            await prepare(cast("Any", None), "mongodb://h/", out)


class Electing:
    """The primary of a set that elects it again, in a new term, before each answer."""

    def __init__(self) -> None:
        self.term = 0

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        if name in ("shardingState", "replSetGetStatus"):
            raise RefusedError("no", code=59)
        self.term += 1
        newest = {"ts": Timestamp(self.term, 1), "t": Int64(self.term)}
        return {"setName": "rs", "isWritablePrimary": True, "version": "6.0.5", "lastWrite": {"majorityOpTime": newest}}

    async def find_one(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"ts": Timestamp(1, 1)}

    async def list_databases(self) -> list[str]:
        return []


async def test_a_recorded_position_is_of_its_own_term(tmp_path: Path) -> None:
    found = await prepare(cast("Any", Electing()), "mongodb://h/", tmp_path / "new")
    sidecar = json.loads(found.text)
    assert "--gzip" not in str(found), "unless it is asked for"
    assert sidecar["before"] == f"{sidecar['term']}:1"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", Metadata("collection", {}, (), "", "")),
        ('{"options": {"viewOn": "c"}}', Metadata("view", {"viewOn": "c"}, (), "", "")),
        ('{"options": {"viewOn": "c"}, "type": "collection"}', Metadata("collection", {"viewOn": "c"}, (), "", "")),
        ('{"type": "view"}', Metadata("view", {}, (), "", "")),
        ('{"options": {"timeseries": {}}, "type": "x"}', Metadata("timeseries", {"timeseries": {}}, (), "", "")),
        (
            '{"options": null, "indexes": null, "uuid": null, "collectionName": 5}',
            Metadata("collection", {}, (), "", ""),
        ),
        (
            '{"indexes": [{"at": {"$date": {"$numberLong": "0"}}}], "uuid": "0a", "collectionName": "a%2Fb"}',
            Metadata("collection", {}, ({"at": datetime(1970, 1, 1, tzinfo=UTC)},), "0a", "a%2Fb"),
        ),
    ],
)
def test_the_description_of_a_collection(text: str, found: Metadata) -> None:
    assert read_metadata(text) == found


@pytest.mark.parametrize("spare", [0, 1])
def test_a_long_name_is_cut_off_as_mongodump_does(spare: int) -> None:
    """The hash is of the whole name, in the alphabet for URLs; the escaped name has 238 characters at most."""
    name = "a/" + "x" * (238 - 4 + spare)
    stem = file_stem(name)
    assert len(stem) == 238
    if not spare:
        assert stem == f"a%2F{'x' * 234}"
    else:
        digest = base64.urlsafe_b64encode(hashlib.sha1(name.encode(), usedforsecurity=False).digest()).decode()
        assert stem == f"a%2F{'x' * 204}%24{digest.rstrip('=')}"
    assert full_name(stem, name) == name
    assert full_name(stem, name.replace("/", "%2F")) == name


@pytest.mark.parametrize(
    ("stem", "content", "name"),
    [
        ("a%2Fb", "", "a/b"),
        ("a%2Fb", "a%2Fb", "a/b"),
        ("renamed", "a%2Fb", "a%2Fb"),
        ("%24renamed", "a%2Fb", "a%2Fb"),
        ("x" * 238, "a%2Fb", "a%2Fb"),
        ("x" * 235 + "%24", "a%2Fb", "a/b"),
        ("a+b", "a%20b", "a b"),
    ],
)
def test_a_file_that_does_not_have_the_name_of_its_collection_has_that_of_its_metadata(
    stem: str, content: str, name: str
) -> None:
    assert full_name(stem, content) == name


@pytest.mark.parametrize(("size", "crc", "right"), [(135, 0, True), (135, 1, False), (134, 0, False), (136, 0, False)])
def test_documents_are_those_that_were_recorded(tmp_path: Path, size: int, crc: int, right: bool) -> None:
    file, held = tmp_path / "c.bson", b"".join(ROWS)
    file.write_bytes(held)
    stated = Stated(size, crc64(held) + crc)
    if right:
        assert list(documents(file, stated)) == ROWS
        return
    with pytest.raises(BrokenFile) as broken:
        list(documents(file, stated))
    assert (broken.value.whole, broken.value.title) == (
        3,
        "c.bson is damaged or incomplete: its checksum is not the one recorded, which is of "
        f"{size} bytes, after 3 documents.",
    )
