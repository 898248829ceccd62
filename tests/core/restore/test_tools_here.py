"""Which database tools a server needs, and which folders hold the programs that the steps call."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.toolset import Tools, found_in, needed_for


@pytest.mark.parametrize(
    ("server", "plain", "needed"),
    [
        ("4.4.30", True, (100, 10)),
        ("7.9.9", True, (100, 10)),
        ("8.0.0", True, (100, 15)),
        ("7.0.1", False, (100, 15)),
        ("8.2.9", False, (100, 15)),
        ("8.3.0", True, (100, 16)),
        ("8.9.0", False, (100, 16)),
        ("9.0.0", False, (100, 18)),
        ("10.0.0", False, (100, 18)),
        ("", True, (100, 15)),
    ],
)
def test_a_server_needs_tools_that_know_it(server: str, plain: bool, needed: tuple[int, int]) -> None:
    assert needed_for(server, plain=plain) == needed


def test_tools_of_one_version_do_not_differ() -> None:
    mixed = Tools({"mongodump": (100, 15, 0), "mongorestore": (100, 10, 1)})
    assert (mixed.differ, mixed.oldest) == (True, (100, 10, 1))
    same = Tools(dict.fromkeys(toolset.NAMES, (100, 15, 0)))
    assert (same.differ, same.oldest, Tools({}).differ, Tools({}).oldest) == (False, (100, 15, 0), False, None)


def test_the_folders_of_the_programs_are_kept_that_no_shell_looks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, and none with a line break or a colon: they stand in a line of a script, divided by colons."""
    places = {
        "mongodump": "/opt/tools/mongodump", "mongorestore": "/usr/bin/mongorestore",
        "mongosh": "/opt/a:b/mongosh", "node": "/opt/a\nb/node", "mongod": "/opt/db/mongod",
        "tallyglass": "/usr/local/bin/tallyglass",
    }  # fmt: skip
    monkeypatch.setattr(shutil, "which", places.get)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert found_in() == ("/opt/tools", "/opt/db")
    del places["mongod"]
    monkeypatch.setattr(toolset, "find_mongod", lambda: Path("/wheel/mongod-6.0"))
    assert found_in() == ("/opt/tools",), "a server of another name is not found by its folder"
