"""Records claim nothing that they were not given, and the numbers that formats and servers fix are theirs."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from tallyglass import restore
from tallyglass.restore.backup import archive, compression, s2, sidecar
from tallyglass.restore.catalogue.window import Status
from tallyglass.restore.model import document, source
from tallyglass.restore.proof import base, cover, returns

PACKAGES = ("backup", "catalogue", "model", "proof", "saved_oplog", "spare")


def records() -> Iterator[type]:
    for package in PACKAGES:
        folder = importlib.import_module(f"{restore.__name__}.{package}")
        for found in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            held = vars(importlib.import_module(found.name)).values()
            yield from (one for one in held if dataclasses.is_dataclass(one) and one.__module__ == found.name)


def test_what_a_record_was_not_given_it_does_not_claim() -> None:
    claimed = {
        f"{record.__name__}.{field.name}": field.default
        for record in records()
        for field in dataclasses.fields(record)
        if field.default and field.default is not dataclasses.MISSING and isinstance(field.default, (int, tuple))
    }
    # A counter is moved, the entries after the point are complete, and 0 is success, unless something else is known.
    assert claimed == {"Fix.needed": True, "CollectionWrites.complete": True, "Command.exits": (0,)}


@pytest.mark.parametrize(
    ("number", "fixed"),
    [
        (archive.MAGIC, bytes.fromhex("6de29981")),
        (archive.LARGEST, 16_777_216),
        (compression.LARGEST, 67_108_864),
        (s2._LARGEST_BLOCK, 4_194_304),
        (sidecar.SIDECAR_FORMAT, 1),
        (document.FORMAT, 10),
        (source.SPARE_PORT, 27_117),
        (returns.LONGEST_NAMESPACE, 255),
        (cover.NO_UPSERT_SINCE, (8, 1)),
        (base.MOST_BYTES, 68_719_476_736),
        (tuple(Status), (0, 1, 2, 3)),
    ],
)
def test_a_number_that_others_rely_on_stays(number: object, fixed: object) -> None:
    assert number == fixed
