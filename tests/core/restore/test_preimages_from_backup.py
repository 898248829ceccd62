"""A document of a backup carried forward to the point: only where every way of reading the backup gives the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, decode, encode

from builders.history import COLLECTION, Row, Server, diff, entry
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.restore.backup.backup import ARCHIVE, DIRECTORY, Contents, StoredCollection
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.catalogue.usable_backup import UsableBackup
from tallyglass.restore.model.source import Backup
from tallyglass.restore.timeline.earlier_writes import ExpectedDocument
from tallyglass.restore.undo.sources import backup as source
from tallyglass.restore.undo.sources.backup import DocumentStep, carry_forward, only_answer


def update(doubtful: bool = False, **sections: Any) -> DocumentStep:
    return DocumentStep(doubtful, "u", encode({"$v": 2, "diff": sections}))


BASE = {"_id": 1, "v": 1, "in": {"a": 1}}
INSERT = DocumentStep(True, "i", encode({"_id": 1, "v": 7}))
DELETE = DocumentStep(False, "d", b"")


@pytest.mark.parametrize(
    ("bases", "steps", "wanted"),
    [
        ([BASE], [], BASE),
        ([], [], None),
        ([BASE], [update(u={"v": 2}), update(u={"v": 3})], BASE | {"v": 3}),
        ([BASE], [update(True, u={"v": 2})], BASE | {"v": 2}),
        ([BASE], [update(True, u={"v": 2}), update(True, u={"v": 3})], BASE | {"v": 3}),
        ([], [INSERT, update(u={"v": 8})], {"_id": 1, "v": 8}),
        ([BASE], [update(u={"v": 2}), INSERT], {"_id": 1, "v": 7}),
        ([BASE], [DELETE], None),
        ([BASE, BASE | {"v": 9}], [], None),
        ([BASE, BASE | {"v": 9}], [update(u={"v": 2})], BASE | {"v": 2}),
        # It was read before or after the field was appended: the fields come in another order.
        ([BASE | {"z": 1}], [update(True, i={"v": 1})], None),
        ([BASE | {"z": 1}], [update(True, i={"v": 2})], {"_id": 1, "in": {"a": 1}, "z": 1, "v": 2}),
        ([BASE], [update(sno={"u": {"a": 2}})], None),
    ],
)
def test_only_an_unambiguous_document_is_used(
    bases: list[dict[str, Any]], steps: list[DocumentStep], wanted: dict[str, Any] | None
) -> None:
    assert only_answer([encode(base) for base in bases], steps) == (encode(wanted) if wanted else None)


def test_a_backup_that_lacks_an_earlier_write_is_not_taken() -> None:
    written = ExpectedDocument(update=encode({"$v": 2, "diff": {"u": {"v": 2}}}))
    assert only_answer([encode(BASE)], [], written) is None
    assert only_answer([encode(BASE)], [update(u={"in": 1})], written) is None
    assert only_answer([encode(BASE | {"v": 2})], [], written) == encode(BASE | {"v": 2})
    assert only_answer([encode(BASE)], [update(True, u={"w": 1})], written) is None
    assert only_answer([encode(BASE | {"v": 2})], [update(True, u={"w": 1})], written) == encode(
        BASE | {"v": 2, "w": 1}
    )
    assert only_answer([encode(BASE)], [update(True, u={"v": 1})], written) == encode(BASE), "it was read after that"


@pytest.mark.parametrize("count", [99, 100, 101])
def test_only_so_many_ways_of_reading_the_backup_are_tried(count: int) -> None:
    steps = [update(True, u={"v": number}) for number in range(count)]
    assert only_answer([encode(BASE)], steps) == (encode(BASE | {"v": count - 1}) if count <= 100 else None)


@pytest.mark.parametrize(
    ("o", "allowed", "refused"),
    [
        (diff(u={"v": 2}), [{"v": 2}, {"a": 1, "v": 2}], [{"v": 1}, {"v": 2.0}, {"v": Int64(2)}, {}]),
        (diff(i={"v": float("nan")}), [{"v": float("nan")}], [{"v": 1.0}]),
        (diff(d={"v": False}), [{}], [{"v": None}]),
        (diff(sm={"u": {"x": 1}}), [{"m": {"x": 1, "y": 2}}], [{"m": {"y": 1}}, {"m": 1}, {"m": [1]}, {}]),
        (diff(sm={"d": {"x": False}}), [{"m": {}}], [{"m": {"x": 1}}, {}]),
        (diff(u={"a.b": 1, "z": 2}), [{"a.b": 1, "z": 2}], [{"a": {"b": 1}, "z": 2}, {"a.b": 1, "z": 3}]),
        (diff(stags={"a": True, "u0": 9}, u={"z": 2}), [{"tags": [], "z": 2}], [{"tags": [9], "z": 3}]),
        ({"$v": 1, "$set": {"a.b": 1, "z": 2}}, [{"z": 2}], [{"a": {"b": 1}, "z": 3}]),
        ({"$v": 1, "$unset": {"a.b": True, "z": True}}, [{}, {"a": {"b": 1}}], [{"z": 1}]),
        (diff(b={"v": {"o": 1, "d": b"x"}}), [{"v": b"y"}, {}], []),
    ],
    ids=["set", "no number", "removed", "part", "part removed", "a name with a dot", "array", "4.4", "4.4 removed",
         "patched"],
)  # fmt: skip
def test_a_document_has_what_its_last_update_set(o: Row, allowed: list[Row], refused: list[Row]) -> None:
    expected = ExpectedDocument(update=encode(o))
    assert [one for one in allowed if not expected.allows(encode(one))] == []
    assert [one for one in refused if expected.allows(encode(one))] == []


INFO = CollectionInfo(Namespace("s", "c"), "collection", {}, bytes(COLLECTION))
OPLOG = [
    entry(4, "u", diff(u={"v": 5}), 7),
    entry(5, "u", diff(u={"v": 0}), 6),
    entry(6, "u", diff(u={"v": 7}), 7),
    entry(12, "u", diff(u={"v": 2}), 1),
    entry(20, "u", diff(i={"v": 6}), 4),
    entry(21, "u", diff(i={"v": 6}), 5),
    entry(25, "u", diff(u={"w": 1}), 1),
    entry(26, "d", {"_id": 2}),
    entry(27, "i", {"_id": 8, "v": 1}),
    entry(28, "c", {"drop": "c"}, ns="s.$cmd", ui=bytes(16)),
    entry(40, "u", diff(u={"v": "after the point"}), 3),
]
ROWS = [{"_id": number, "v": number, "w": 0} for number in range(1, 8)]


def usable(tmp_path: Path, form: str = DIRECTORY, uuid: bytes = bytes(COLLECTION), rows: bytes = b"") -> UsableBackup:
    data = tmp_path / "c.bson"
    data.write_bytes(rows or b"".join(map(encode, ROWS)))
    stored = StoredCollection("s.c", "collection", data, {}, (), uuid.hex())
    backup = Backup(tmp_path, form, False, Ts(10, 1), Ts(20, 1), "oplog")
    return UsableBackup(Contents(backup, {"s.c": stored}), Ts(10, 1))


async def carried(backup: UsableBackup, oplog: list[Row] = OPLOG, info: CollectionInfo = INFO) -> dict[int, Any]:
    ids = iter([id_key(encode({"_id": number})) for number in (9, *range(1, 9))])
    rows = carry_forward(Server(oplog), backup, info, ids, Ts(30, 1))  # type: ignore[arg-type]
    return {key[1]: document and decode(document) async for key, document in rows}


@pytest.mark.parametrize("form", [DIRECTORY, ARCHIVE])
async def test_documents_are_carried_from_a_backup_to_the_point(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written up to the end of the backup may be in it; 6 is in it as it was before its last update."""
    if form == ARCHIVE:
        held = [("s.other", encode({"_id": 3, "v": "another"})), *(("s.c", encode(row)) for row in ROWS)]
        monkeypatch.setattr(source.archive, "documents", {tmp_path: held}.__getitem__)
    assert await carried(usable(tmp_path, form)) == {
        1: {"_id": 1, "v": 2, "w": 1},
        2: None,
        3: ROWS[2],
        4: {"_id": 4, "w": 0, "v": 6},
        5: {"_id": 5, "w": 0, "v": 6},
        6: None,
        7: ROWS[6],
        8: {"_id": 8, "v": 1},
        9: None,
    }
    read = usable(tmp_path, rows=b"".join(encode({"_id": number, "v": 6, "w": 0}) for number in (4, 5)))
    found = await carried(read)
    assert found[4] is None, "read before its update, it has another order of fields than after it"
    assert list(found[5]) == ["_id", "w", "v"], "its update came after the backup"


@pytest.mark.parametrize(("second", "held"), [(7, ROWS[5]), (3, None)])
async def test_what_was_written_before_a_collection_was_emptied_need_not_be_in_the_backup(
    tmp_path: Path, second: int, held: Row | None
) -> None:
    emptied = entry(second, "c", {"emptycapped": "c"}, ns="s.$cmd")
    oplog = sorted([*OPLOG, emptied], key=lambda row: row["ts"])
    assert (await carried(usable(tmp_path), oplog))[6] == held


async def test_a_backup_that_cannot_prove_a_document_is_refused(tmp_path: Path) -> None:
    dropped = [*OPLOG, entry(29, "c", {"drop": "c"}, ns="s.$cmd")]
    with pytest.raises(InputError, match="drop at 29:1 came between"):
        await carried(usable(tmp_path), dropped)
    with pytest.raises(InputError, match="is capped"):
        await carried(usable(tmp_path), info=replace(INFO, options={"capped": True}))
    for backup, info in ((usable(tmp_path, uuid=bytes(16)), INFO), (usable(tmp_path), replace(INFO, uuid=b""))):
        with pytest.raises(InputError, match="another collection of that name"):
            await carried(backup, info=info)
    with pytest.raises(InputError, match=r"has a document of s\.c that is no BSON"):
        await carried(usable(tmp_path, rows=encode({"_id": 1}).replace(b"\x10_", b"\x50_")))
    none = usable(tmp_path)
    none.contents.collections["s.c"] = replace(none.contents.collections["s.c"], data=None)
    with pytest.raises(InputError, match=r"has no documents of s\.c"):
        await carried(none)
