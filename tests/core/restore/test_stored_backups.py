"""Backups that PBM and wal-g have made: read whole, and each damage refused by name."""

from __future__ import annotations

import io
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from builders.history import Server
from stored_backups import FIRST, extract
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.backup import compression, s2
from tallyglass.restore.backup.backup import ARCHIVE, PBM, Contents
from tallyglass.restore.backup.bson_file import BrokenFile, Stated, documents, entry_ts
from tallyglass.restore.backup.compression import Compression, compression_of, read_plain
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.backup.unpack import unpack
from tallyglass.restore.catalogue.backups import list_backups, why_not
from tallyglass.restore.catalogue.usable_backup import UsableBackup
from tallyglass.restore.catalogue.window import RecoverableWindow, Status, Stretch, find_window, judge
from tallyglass.restore.model.source import Backup
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.undo.sources.backup import carry_forward

LZ4, ZSTD = "oplog_1795414623.21_1795414627.82.lz4", "oplog_1795414648.34_1795414663.5.zst"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extract(tmp_path_factory.mktemp("backups"), "pbm", "wal-g")


@pytest.fixture
def stored(packed: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(packed, tmp_path / "stored")


def plain(contents: Contents) -> dict[str, bytes]:
    """The documents of each collection, as they were recorded."""
    held = contents.collections.values()
    return {one.ns: b"".join(documents(one.data, one.stated)) for one in held if one.data is not None}


def test_every_compression_of_pbm_holds_the_same(packed: Path) -> None:
    notes = [path for path in sorted((packed / "pbm").glob("[cv]*/*.pbm.json")) if "nss" not in path.read_text()]
    found = {json.loads(note.read_text())["compression"]: read_backup(note) for note in notes}
    assert sorted(found) == ["gzip", "lz4", "none", "pgzip", "s2", "snappy", "zstd"]
    first = plain(found["none"])
    assert len(first) > 40
    for kind, contents in found.items():
        assert contents.problems == (), kind
        assert plain(contents) == first, kind
        assert contents.backup.end is not None
        assert [anchor.ts for anchor in contents.anchors] == [contents.backup.start, contents.backup.end]


def test_all_that_stored_backups_tell_of_themselves(packed: Path) -> None:
    """Beside their collections and the first and last entry, which other tests compare."""
    pbm, (wal_g,) = packed / "pbm" / "main", [*(packed / "wal-g").glob("basebackups_005/*Z")]
    found = read_backup(pbm / FIRST)
    start, end = Ts(1795414265, 68), Ts(1795414270, 23)
    backup = Backup(pbm / FIRST, PBM, False, start, end, "note", "6.0.5", bytes=16_173_684, compressed=True)
    databases = ("Ops", "db-1", "dbstar*x", "lt<gt>", "odd", "q?q", "semi;db", "shop", "ts", "\u00fcn\u00ef")
    assert replace(found, collections={}, anchors=()) == Contents(
        replace(backup, namespaces=tuple(sorted(found.collections))),
        fcv="6.0", set_name="rs0", databases=databases, users=True, oplog=pbm,
    )  # fmt: skip
    assert [bool(anchor.entry) for anchor in found.anchors] == [True, True]
    (stream,) = wal_g.iterdir()
    start, end, taken = Ts(1795414627, 61), Ts(1795414629, 55), stream.stat().st_mtime
    backup = Backup(
        stream, ARCHIVE, False, start, end, "note", "6.0.5", "100.18.0", bytes=1_190_392, has_oplog=True,
        taken_hint=datetime.fromtimestamp(int(taken), UTC), compressed=True,
    )  # fmt: skip
    found = read_backup(wal_g)
    assert replace(found, collections={}, anchors=()) == Contents(
        replace(backup, namespaces=tuple(sorted(found.collections))), users=True, oplog=packed / "wal-g"
    )
    assert [anchor.ts for anchor in found.anchors] == [Ts(1795414627, 63), Ts(1795414629, 47), start, end]


def test_slices_of_pbm_and_of_wal_g_join(packed: Path) -> None:
    found = read_saved([packed / "pbm" / "main", packed / "pbm" / "slices-noop"])
    assert (found.first, found.last) == (Ts(1795414256, 4), Ts(1795415165, 3))
    assert (found.hole, found.differs, found.problems) == (None, "", ())
    found = read_saved([packed / "wal-g"])
    assert (found.first, found.last) == (Ts(1795414623, 21), Ts(1795414922, 1))
    assert (found.hole, found.differs, found.problems) == (None, "", ())
    stamps = [entry for block, *_ in found.blocks(found.first, found.last) for entry in [block]]
    assert sum(map(len, stamps)) == sum(len(read_plain(path)) for path in (packed / "wal-g" / "oplog_005").iterdir())


def test_the_chunks_of_a_backup_are_read_in_order_of_their_ordinals(stored: Path) -> None:
    (chunk,) = (stored / "pbm" / "main").glob(f"{FIRST}/*/oplog/*")
    entries = list(documents(chunk))
    second, compressed = entry_ts(entries[0]).t, {}
    for ordinal, part in ((2, entries[:1]), (10, entries[1:])):
        name = f"{datetime.fromtimestamp(second, UTC):%Y%m%d%H%M%S}-{ordinal}.bson"
        compressed[name] = b"".join(part)
    chunk.unlink()
    for name, raw in compressed.items():
        (chunk.parent / name).write_bytes(raw)
    assert read_backup(stored / "pbm" / "main" / FIRST).problems == ()


def test_a_missing_slice_is_a_hole_and_a_swapped_or_cut_one_is_named(stored: Path) -> None:
    folder = stored / "wal-g" / "oplog_005"
    whole = (folder / LZ4).read_bytes()
    (folder / LZ4).write_bytes((folder / ZSTD).read_bytes())
    assert f"{LZ4}: it ends with 1795414663:5, and its name says 1795414627:82" in " ".join(
        read_saved([folder]).problems
    )
    (folder / LZ4).write_bytes(whole)
    (folder / "oplog_1795414638.8_1795414643.21.lz4").unlink()
    hole = read_saved([folder], Ts(1795414627, 61)).hole
    assert hole is not None
    assert hole.after == Ts(1795414638, 8)
    damaged = folder / "oplog_1795414905.1_1795414914.24.zst"
    for content in (b"", damaged.read_bytes()[:50]):
        damaged.write_bytes(content)
        assert damaged.name in " ".join(read_saved([folder]).problems), "also without one whole entry"
    (slice_,) = (stored / "pbm" / "slices-noop").rglob("20261123062425-13*.oplog")
    held = [*documents(slice_)]
    slice_.write_bytes(b"".join(held[:-1]))
    found = read_saved([stored / "pbm" / "slices-noop"], Ts(1795414363, 10))
    assert "its name says 1795415069:2" in " ".join(found.problems), "cut between two entries, it has no other mark"
    assert found.hole is not None


def flips(held: bytes) -> Iterator[bytes]:
    for at in range(0, len(held), max(len(held) // 200, 1)):
        yield held[:at] + bytes([held[at] ^ 4]) + held[at + 1 :]


@pytest.mark.parametrize(
    "pattern", ["*39Z/rs0/shop.ctr.s2", "*03Z/rs0/shop.ctr.snappy", "*55Z/rs0/shop.ctr.zst", "*11Z/rs0/shop.ctr.lz4"]
)
def test_a_flipped_bit_of_a_compressed_file_is_noticed(stored: Path, pattern: str) -> None:
    (file,) = (stored / "pbm" / "compressions").glob(f"2026-11-23T06:2?:{pattern}")
    whole, stated = file.read_bytes(), None
    contents = read_backup(file.parent.parent)
    stated = contents.collections["shop.ctr"].stated
    wanted = [*documents(file, stated)]
    for damaged in flips(whole):
        file.write_bytes(damaged)
        try:
            assert [*documents(file, stated)] == wanted
        except BrokenFile:
            continue
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BrokenFile, match="cut off"):
        list(documents(file))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\x01\x04a", "a block ends early"),
        (b"\x02\x00a", "another length"),
        (b"\x01\x04ab", "another length"),
        (b"\x02", "another length"),
        (b"\x80", "a block ends early"),
        (b"\x05\x00a\x01\x02", "before the block"),
        (b"\x05\x00a\x01\x00", "an offset is 0"),
    ],
)
def test_a_block_that_is_damaged_is_refused(block: bytes, why: str) -> None:
    assert s2.decode_block(b"\x05\x00a\x01\x01", repeats=False) == b"aaaaa"
    with pytest.raises(ValueError, match=why):
        s2.decode_block(block, repeats=False)


S2, SNAPPY = b"\xff\x06\0\0S2sTwO", b"\xff\x06\0\0sNaPpY"


def s2_chunk(kind: int, body: bytes) -> bytes:
    return bytes((kind, len(body), 0, 0)) + body


def plain_chunk(data: bytes) -> bytes:
    return s2_chunk(1, s2._signed(data).to_bytes(4, "little") + data)


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (b"", []),
        (S2 + plain_chunk(b"abc") + plain_chunk(b"d"), [b"abc", b"d"]),
        (S2 + s2_chunk(0x80, b"xyz") + s2_chunk(0xFE, b"") + plain_chunk(b"a"), [b"a"]),
        (S2 + plain_chunk(b"a") + SNAPPY + plain_chunk(b"b"), [b"a", b"b"]),
        (S2 + s2_chunk(0x7F, b"xyz"), "a chunk is of an unknown kind"),
        (S2 + s2_chunk(0x02, b"xyz"), "a chunk is of an unknown kind"),
        (plain_chunk(b"a"), "neither an S2 nor a Snappy stream"),
        (b"\xff\x06\0\0other!" + plain_chunk(b"a"), "neither an S2 nor a Snappy stream"),
        (S2 + s2_chunk(1, b"\0\0\0\0abc"), "the checksum of a block is wrong"),
        (S2 + plain_chunk(b"abc")[:-1], "cut off"),
        (S2 + plain_chunk(b"abc") + b"\x01\0\0", "cut off"),
    ],
)
def test_a_stream_is_of_known_chunks(stream: bytes, found: list[bytes] | str) -> None:
    if isinstance(found, str):
        with pytest.raises((ValueError, EOFError), match=found):
            list(s2.blocks(io.BytesIO(stream)))
    else:
        assert list(s2.blocks(io.BytesIO(stream))) == found


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (bytes((100, 60 << 2, 99)) + b"x" * 100, b"x" * 100),
        (b"\xac\x02" + bytes((61 << 2, 43, 1)) + b"y" * 300, b"y" * 300),
        (b"\x07\x08abc\x01\x03", b"abcabca"),
        (b"\x06\x08abc\x0a\x03\x00", b"abcabc"),
        (b"\x06\x08abc\x0b\x03\x00\x00\x00", b"abcabc"),
        (b"\x05\x00a\x01\x01", b"aaaaa"),
    ],
)
def test_each_kind_of_copy(block: bytes, plain: bytes) -> None:
    assert s2.decode_block(block, repeats=True) == plain
    assert s2.decode_block(block, repeats=False) == plain


@pytest.mark.parametrize(
    ("repeat", "length"),
    [
        (b"\x01\x00", 4), (b"\x11\x00", 8), (b"\x15\x00\x00", 8), (b"\x15\x00\xff", 263),
        (b"\x19\x00\x00\x00", 260), (b"\x19\x00\x01\x01", 517), (b"\x1d\x00\x00\x00\x00", 65_540),
        (b"\x1d\x00\x01\x00\x00", 65_541),
    ],
)  # fmt: skip
def test_a_copy_may_repeat_the_last_offset_in_s2_alone(repeat: bytes, length: int) -> None:
    plain, size = b"ab" * ((6 + length) // 2) + b"a" * (length % 2), bytearray()
    rest = len(plain)
    while rest >= 128:
        size.append(rest & 127 | 128)
        rest >>= 7
    block = bytes((*size, rest)) + b"\x04ab\x01\x02" + repeat
    assert s2.decode_block(block, repeats=True) == plain
    with pytest.raises(ValueError, match="an offset is 0"):
        s2.decode_block(block, repeats=False)


def test_the_checksum_of_a_block_needs_no_library(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = (packed / "pbm" / "compressions").glob("*39Z/rs0/shop.orders.s2")
    wanted = read_plain(file)
    monkeypatch.setattr(s2, "_crc32c", None)
    assert read_plain(file) == wanted
    held = bytearray(file.read_bytes())
    held[14] ^= 1  # the checksum of the first block
    with file.with_name("other").open("wb") as damaged:
        damaged.write(held)
    with pytest.raises(compression.CorruptFile, match="checksum"):
        read_plain(file.with_name("other"))


def change(**more: Any) -> Callable[[Path], None]:
    def work(storage: Path) -> None:
        note = storage / f"{FIRST}.pbm.json"
        content = json.loads(note.read_text())
        content["replsets"][0] |= more.pop("set", {})
        note.write_text(json.dumps(content | more))

    return work


def describe(ns: str, **more: Any) -> Callable[[Path], None]:
    """Change what the backup says of one collection."""

    def work(storage: Path) -> None:
        file = storage / FIRST / "rs0" / "metadata.json"
        content = json.loads(file.read_text())
        for row in content["namespaces"]:
            if f"{row['db']}.{row['collection']}" == ns:
                row |= more
        file.write_text(json.dumps(content))

    return work


def remove(pattern: str) -> Callable[[Path], None]:
    return lambda storage: [file.unlink() for file in (storage / FIRST).glob(pattern)] and None


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (change(last_write_ts={"T": 1795414270, "I": 24}), "by its note from 1795414265:68 to 1795414270:24"),
        (change(first_write_ts={"T": 1795414265, "I": 67}), "its own oplog reaches from 1795414265:68"),
        (remove("rs0/oplog/*"), "its own oplog is missing"),
        (change(name="2026-11-23T06:11:48Z"), "its note is that of 2026-11-23T06:11:48Z"),
        (change(status="error"), "its status is error"),
        (change(nss=["shop.*"]), "it is selective, only shop.*"),
        (change(nss=5), "it is selective, only 5"),
        (remove("rs0/shop.ctr.s2"), "the documents of shop.ctr are missing"),
        (remove("rs0/metadata.json"), "metadata.json cannot be read"),
        (describe("shop.ctr", collection="../../../evil"), "lies outside the backup"),
        (describe("shop.ctr", db="/tmp/x", size={"$numberLong": "0"}), "lies outside the backup"),
        (change(replsets=[{"name": "rs0"}, {"name": "rs1"}]), "a sharded cluster of 2 sets"),
    ],
)
def test_what_is_wrong_with_a_backup_of_pbm_is_named(
    stored: Path, damage: Callable[[Path], None], problem: str
) -> None:
    storage = stored / "pbm" / "main"
    damage(storage)
    found = read_backup(storage / FIRST)
    assert problem in " / ".join(found.problems)
    with pytest.raises(InputError, match="damaged or incomplete"):
        unpack(storage / FIRST, stored / "out")


@pytest.mark.parametrize("ends", [(math.inf, 1), (1795414265, math.inf), (2**32, 1), (-1, 1), ("1795414265", 1)])
async def test_a_note_with_times_of_no_oplog_is_refused(stored: Path, ends: tuple[Any, Any]) -> None:
    storage = stored / "pbm" / "main"
    change(last_write_ts=dict(zip("TI", ends, strict=True)))(storage)
    listed = [one async for one in list_backups(storage)]
    assert [f"{FIRST}.pbm.json is not a note of PBM, or damaged" in one.why for one in listed] == [True, False]


def test_the_collection_of_buckets_is_clustered_without_a_name(stored: Path) -> None:
    storage = stored / "pbm" / "main"
    describe("shop.ctr", metadata='{"options": {"clusteredIndex": true}, "indexes": [{"key": {"a": 1}}]}')(storage)
    found = read_backup(storage / FIRST)
    assert found.problems == ()
    assert [dict(index) for index in found.collections["shop.ctr"].indexes] == [{"key": {"a": 1}}]


async def test_documents_of_another_collection_do_not_pass(stored: Path) -> None:
    folder = stored / "pbm" / "main" / FIRST / "rs0"
    shutil.copy(folder / "odd.upper.s2", folder / "odd.UPPER.s2")
    with pytest.raises(BrokenFile, match="checksum"):
        plain(read_backup(folder.parent))
    with pytest.raises(InputError, match="checksum"):
        unpack(folder.parent, stored / "out")
    backup, point = UsableBackup(read_backup(folder.parent), Ts(1, 1)), Ts(2**32 - 1, 1)
    ns = Namespace("odd", "UPPER")
    info = CollectionInfo(ns, "collection", {}, uuid=backup.contents.collections[str(ns)].uuid_bytes)
    server: Any = Server([])
    with pytest.raises(InputError, match="checksum"):
        assert [one async for one in carry_forward(server, backup, info, iter([b"\x10\1\0\0\0"]), point)]


@pytest.mark.parametrize(
    ("path", "damage", "message"),
    [
        ("2026-11-23T06:18:44Z", {}, "PBM did not finish"),
        (FIRST, {"type": "physical"}, "is a physical backup of PBM"),
        (FIRST, {"compression": "brotli"}, "compressed with brotli"),
        (FIRST, {"set": {"name": "../rs0"}}, "a set outside the backup"),
        (FIRST, {"first_write_ts": None}, "is not a note of PBM, or damaged"),
    ],
)
def test_a_backup_of_pbm_that_is_not_read(stored: Path, path: str, damage: dict[str, Any], message: str) -> None:
    change(**damage)(stored / "pbm" / "main")
    with pytest.raises(InputError, match=message):
        read_backup(stored / "pbm" / "main" / path)


def test_a_backup_of_wal_g_has_the_positions_of_its_sentinel(stored: Path) -> None:
    bases = stored / "wal-g" / "basebackups_005"
    (folder,) = (one for one in bases.iterdir() if one.is_dir())
    found = read_backup(folder)
    assert (found.problems, found.oplog) == ((), stored / "wal-g")
    assert (found.backup.start, found.backup.end) == (Ts(1795414627, 61), Ts(1795414629, 55))
    assert (found.backup.exact, found.backup.compressed) == (True, True)
    unpack(folder, stored / "archive")
    assert compression_of(stored / "archive") is Compression.NONE
    assert read_backup(stored / "archive").collections == found.collections
    (stream,) = folder.iterdir()
    whole = stream.read_bytes()
    stream.write_bytes(whole[: len(whole) // 2])
    assert "cut off" in " ".join(read_backup(folder).problems)
    assert "by its sentinel 1190392" in " ".join(read_backup(folder).problems)
    sentinel = folder.with_name(f"{folder.name}_backup_stop_sentinel.json")
    text = sentinel.read_text()
    sentinel.write_text(text.replace(folder.name, "stream_2"))
    assert "its sentinel is that of stream_2" in " ".join(read_backup(folder).problems)
    for damaged, message in ((text.replace("logical", "binary"), "is a binary backup"), ("{}", "or damaged")):
        sentinel.write_text(damaged)
        with pytest.raises(InputError, match=message):
            read_backup(folder)
    sentinel.unlink()
    with pytest.raises(InputError, match="wal-g did not finish"):
        read_backup(folder)


async def test_a_folder_of_several_kinds_is_listed_as_one(stored: Path) -> None:
    (stored / "wal-g").rename(stored / "pbm" / "wal-g")
    found = {one.path.relative_to(stored / "pbm").as_posix(): one async for one in list_backups(stored / "pbm")}
    assert "PBM did not finish" in found["main/2026-11-23T06:18:44Z"].why
    assert "selective" in found["compressions/2026-11-23T06:26:42Z"].why
    for name in (f"main/{FIRST}", "v2.11.0/2026-11-23T06:25:21Z", "wal-g/basebackups_005/stream_20261123T061707Z"):
        assert (found[name].why, found[name].provable) == ("", None), name
    assert len(found) == 13


@pytest.mark.parametrize(("newest", "holes"), [(None, 1), (Ts(9, 1), 1), (Ts(12, 1), 2)])
def test_what_is_newer_than_the_last_slice_is_a_hole(newest: Ts | None, holes: int) -> None:
    stretches = Stretch(Ts(1, 1), Ts(3, 1)), Stretch(Ts(5, 1), Ts(9, 1))
    window = RecoverableWindow((), stretches, stretches, newest)
    assert window.holes == (Stretch(Ts(3, 1), Ts(5, 1)), Stretch(Ts(9, 1), Ts(12, 1)))[:holes]


async def test_the_window_names_its_holes(stored: Path) -> None:
    window = await find_window([stored / "pbm" / "main", stored / "wal-g"])
    end, begin = Ts(1795414363, 10), Ts(1795414629, 55)
    assert window.restorable == (Stretch(Ts(1795414270, 23), end), Stretch(begin, Ts(1795414922, 1)))
    assert (window.holes, window.newest, window.hours_left) == ((Stretch(end, begin),), None, None)
    status, reasons = judge(window, least_hours=0, head_room_hours=24)
    assert status is Status.WARNING
    assert "PBM did not finish" in reasons[0]
    assert "a hole from 2026-11-23T06:12:43Z to 2026-11-23T06:17:09Z" in reasons
    (stored / "wal-g" / "oplog_005" / LZ4).unlink()
    status, reasons = judge(await find_window([stored / "wal-g"]), least_hours=0, head_room_hours=24)
    assert (status, reasons[0]) == (Status.CRITICAL, "nothing can be restored")


FAULTS, REPEATED_FAULTS = 40, 15


@pytest.mark.long
async def test_no_fault_of_a_file_passes_the_window(stored: Path) -> None:
    """A flipped bit, a file that is cut off, missing, empty or swapped for another: chosen at random, with a seed."""
    storage, rng = stored / "pbm" / "v2.11.0", random.Random(5)
    files = [one for one in sorted(storage.rglob("*.s2")) if not one.name.startswith(("admin.", "config."))]
    assert judge(await find_window([storage]), least_hours=0, head_room_hours=0) == (Status.OK, ())
    for _ in range(FAULTS):
        file, other = rng.sample(files, 2)
        whole, at = file.read_bytes(), rng.randrange(file.stat().st_size)
        flipped = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        damaged = rng.choice([flipped, flipped, whole[:at], b"", other.read_bytes(), None])
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        if damaged is None or damaged != whole:
            status, _ = judge(await find_window([storage]), least_hours=0, head_room_hours=0)
            assert status is Status.CRITICAL, (file.name, at, damaged)
        file.write_bytes(whole)


def overlapping(folder: Path) -> list[Path]:
    """Make the slices of a folder redundant, as when several members archive theirs; returns those that were there."""
    slices = sorted(folder.iterdir(), key=lambda path: path.name)
    for one, other in pairwise(slices):
        start, end = one.name.split("_")[1], other.name.split("_")[2].rpartition(".")[0]
        (folder / f"oplog_{start}_{end}.zst").write_bytes(read_plain(one) + read_plain(other))
    return slices


@pytest.mark.long
async def test_a_fault_of_a_slice_that_others_repeat_is_named_and_tears_nothing(stored: Path) -> None:
    slices, rng = overlapping(stored / "wal-g" / "oplog_005"), random.Random(7)
    whole = await find_window([stored / "wal-g"])
    assert judge(whole, least_hours=0, head_room_hours=0) == (Status.OK, ())
    for _ in range(REPEATED_FAULTS):
        file, other = rng.sample(slices, 2)
        held, at = file.read_bytes(), rng.randrange(file.stat().st_size)
        flipped = held[:at] + bytes([held[at] ^ 1 << rng.randrange(8)]) + held[at + 1 :]
        damaged = rng.choice([flipped, flipped, held[:at], b"", other.read_bytes()])
        file.write_bytes(damaged)
        window = await find_window([stored / "wal-g"])
        status, reasons = judge(window, least_hours=0, head_room_hours=0)
        assert (status, file.name in " ".join(reasons)) == (Status.WARNING, True), (file.name, at, damaged[:20])
        assert window.restorable == whole.restorable
        file.write_bytes(held)


def test_a_gap_of_wal_g_is_a_hole_unless_another_member_archived_it(stored: Path) -> None:
    folder = stored / "wal-g" / "oplog_005"
    slices = sorted(folder.iterdir(), key=lambda path: path.name)
    lost = slices[1]
    span = lost.name.removeprefix("oplog_").rpartition(".")[0]
    kept = lost.read_bytes()
    lost.unlink()
    (folder / f"gap_{span}.lz4").write_bytes(b"")
    found = read_saved([folder], Ts(1795414623, 21))
    before, after = entry_ts([*documents(slices[0])][-1]), entry_ts(next(iter(documents(slices[2]))))
    assert str(found.hole) == f"between {before} and {after}"
    assert found.problems == ()
    lost.write_bytes(kept)
    assert read_saved([folder], Ts(1795414623, 21)).hole is None


def test_a_missing_library_is_named(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    with pytest.raises(InputError, match="without the Python package zstandard") as error:
        list(documents(packed / "wal-g" / "oplog_005" / ZSTD, Stated(0, 0)))
    assert "tallyglass[backups]" in error.value.advice


async def test_a_backup_whose_slices_cannot_be_read_is_listed_with_that(stored: Path) -> None:
    contents = read_backup(stored / "wal-g" / "basebackups_005" / "stream_20261123T061707Z")
    for file in (stored / "wal-g" / "oplog_005").iterdir():
        file.write_bytes(b"")
    why = await why_not(cast("Gateway", object()), contents, None)
    assert why.startswith("Its slices cannot be read: There is no saved oplog in ")
