"""A class name means one thing in the whole project."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import tallyglass
import tallyglass_tui

PACKAGES = [Path(package.__file__).parent for package in (tallyglass, tallyglass_tui)]


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(package.parent)))
    assert len(places) > 400
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
