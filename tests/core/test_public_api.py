"""The public API: every exported name exists, and importing it does not import the driver."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module

import pytest
from examples import read_object_ids

PACKAGES = (
    "tallyglass",
    "tallyglass.allocate",
    "tallyglass.counters",
    "tallyglass.objectid",
    "tallyglass.oplog",
    "tallyglass.restore",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_exists(package: str) -> None:
    module = import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="none_of_that_name"):
        module.none_of_that_name  # noqa: B018


def test_reading_packages_import_no_driver_until_used() -> None:
    lazy = [package for package in PACKAGES if package != "tallyglass.allocate"]
    code = f"import sys, {', '.join(lazy)}; print([name for name in ('pymongo', 'bson') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_object_id_example() -> None:
    assert read_object_ids.main() == [datetime(2023, 12, 2, 16, 42, 37, tzinfo=UTC)]
