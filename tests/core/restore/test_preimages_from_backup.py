"""A document of a backup carried forward to the point: only where every way of reading the backup gives the same."""

from __future__ import annotations

from typing import Any

import pytest
from bson import encode

from tallyglass.restore.timeline.earlier_writes import ExpectedDocument
from tallyglass.restore.undo.sources.backup import DocumentStep, only_answer


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
