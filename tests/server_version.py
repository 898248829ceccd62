"""The version of the mongod under test, and a way to skip tests that need a newer one."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from tallyglass.restore.tools.find_mongod import find_mongod


@cache
def server_version() -> str:
    """Return the full version, such as ``6.0.5``."""
    output = subprocess.run([str(find_mongod(None)), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"db version v([0-9.]+)", output)
    assert found, output
    return found[1]


def major() -> tuple[int, int]:
    """Return the major and minor version."""
    first, second = server_version().split(".")[:2]
    return int(first), int(second)


def since(*version: int) -> None:
    """Skip the test on a server older than ``version``."""
    if major() < version:
        pytest.skip(f"MongoDB {server_version()} is older than {'.'.join(map(str, version))}")
