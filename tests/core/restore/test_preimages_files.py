"""Saved pre-images are used only while they are what the plan proved."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from bson import Binary, Int64, Timestamp, decode, encode

from builders.plans import changed, make_plan
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup.bson_file import BrokenFile
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.documents import DocumentSource, documents_by_id
from tallyglass.restore.undo.sources.image_files import ImageFiles, image_file
from tallyglass.restore.undo.sources.images import ImageKey, read_stored

ROWS = [encode({"_id": n, "v": n}) for n in range(3)]
PLAN = make_plan(
    Ts(2, 1), FromImages(), datetime.now(UTC),
    returns=(Return("shop.orders", Strategy.MERGE, "beside"),),
    expected=(ExpectedNamespace("shop.orders", "collection", 3),),
)  # fmt: skip


def saved(folder: Path, rows: list[bytes]) -> Path:
    path = image_file(folder, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(rows))
    return folder


async def test_documents_are_found_by_their_ids(tmp_path: Path) -> None:
    files = ImageFiles(saved(tmp_path, ROWS), PLAN)
    copy: DocumentSource = files
    found = await documents_by_id(copy, "shop.orders", [b"\x10" + n.to_bytes(4, "little") for n in (2, 7)])
    assert [decode(raw) for raw in found.values()] == [{"_id": 2, "v": 2}]
    files.close()


@pytest.mark.parametrize("rows", [ROWS[:2], [*ROWS, encode({"_id": 3})], [*ROWS[:2], ROWS[0]], []])
def test_other_documents_than_the_plan_proved_are_refused(tmp_path: Path, rows: list[bytes]) -> None:
    with pytest.raises(InputError, match="the plan proved 3"):
        ImageFiles(saved(tmp_path, rows), PLAN)


def test_a_file_that_breaks_off_says_how_much_of_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(BrokenFile, match="after 2 documents") as broken:
        ImageFiles(saved(tmp_path, [*ROWS[:2], ROWS[2][:-1]]), PLAN)
    assert broken.value.whole == 2


def test_a_plan_that_does_not_say_how_many_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the plan proved None"):
        ImageFiles(saved(tmp_path, ROWS), changed(PLAN, expected=()))


def test_an_image_is_read_whatever_the_order_of_its_fields() -> None:
    key = {"nsUUID": Binary(bytes(16), 4), "ts": Timestamp(7, 3), "applyOpsIndex": Int64(2)}
    held = {"_id": key, "operationTime": datetime(2026, 1, 2, tzinfo=UTC), "preImage": {"_id": 1}}
    other = dict(reversed(held.items())) | {"_id": dict(reversed(key.items()))}
    for stored in (held, other):
        assert read_stored(encode(stored)) == (ImageKey(bytes(16), Ts(7, 3), 2), encode({"_id": 1}))
