"""Programs that tests run and that not every machine has: without them a test skips, or fails where they must be."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(*programs: str) -> None:
    """End the test here unless each of the programs is on PATH."""
    for program in programs:
        if not shutil.which(program):
            go_without(program, "it is not on PATH")


def go_without(program: str, why: str) -> NoReturn:
    """Skip the test that needs a program; fail it where the words of TALLYGLASS_REQUIRE name the program."""
    reason = f"needs {program}: {why}"
    if program in os.environ.get("TALLYGLASS_REQUIRE", "").split():
        pytest.fail(f"{reason}, and TALLYGLASS_REQUIRE names it", pytrace=False)
    pytest.skip(reason)
