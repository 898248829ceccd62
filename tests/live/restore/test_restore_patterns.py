"""A namespace that is emitted where mongorestore reads a pattern means itself alone."""

from __future__ import annotations

from itertools import product

import pytest
from restore_scene import Scene

from tallyglass.restore.plan.steps.making import escape_pattern

pytestmark = [pytest.mark.live, pytest.mark.tools]

SIGNS = ("a", "*", "\\", "?", "\n")
NAMES = [*SIGNS, *map("".join, product(SIGNS, repeat=2))]


def test_each_collection_is_brought_back_alone_and_under_its_new_name(scene: Scene) -> None:
    for name in NAMES:
        scene.client["shop"][name].insert_one({"_id": name})
    backup = scene.backup()
    there: set[str] = set()
    for name in NAMES:
        written, beside = escape_pattern(f"shop.{name}"), f"{name}_*\\beside"
        scene.tool(
            "mongorestore", f"--host={scene.spare.members[0].address}", f"--nsInclude={written}",
            f"--nsFrom={written}", f"--nsTo={escape_pattern(f'shop.{beside}')}", str(backup),
        )  # fmt: skip
        there.add(beside)
        assert set(scene.spare_client["shop"].list_collection_names()) == there, name
        assert [row["_id"] for row in scene.spare_client["shop"][beside].find()] == [name]
