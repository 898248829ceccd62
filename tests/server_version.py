"""The version of the mongod that the tests start: what a server of an older one lacks is skipped on it."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from tallyglass.demo.find_mongod import find_mongod


@cache
def server_version() -> str:
    """Such as ``6.0.5``."""
    said = subprocess.run([str(find_mongod(None)), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"db version v([0-9.]+)", said)
    assert found, said
    return found[1]


def major() -> tuple[int, int]:
    """Its first two numbers."""
    first, second = server_version().split(".")[:2]
    return int(first), int(second)


def since(*version: int) -> None:
    """End the test here where the server is older."""
    if major() < version:
        pytest.skip(f"MongoDB {server_version()} has not what came with {'.'.join(map(str, version))}")
