"""Programs that some tests need. A test skips without them, or fails if TALLYGLASS_REQUIRE names them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import pytest

_INSTALL: Final = [
    *("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--prefer-offline"),
    *("--fetch-retries=3", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000", "--fetch-timeout=20000"),
]
MONGOOSE: Final = {"mongoose": "8.7.3", "mongoose-sequence": "6.0.1"}


def require_programs(*programs: str) -> None:
    """Skip or fail the test unless every program is on PATH."""
    for program in programs:
        if not shutil.which(program):
            skip_or_fail(program, "it is not on PATH")


def skip_or_fail(program: str, why: str) -> NoReturn:
    """Skip a test that needs ``program``, or fail it if TALLYGLASS_REQUIRE names the program."""
    reason = f"needs {program}: {why}"
    if program in os.environ.get("TALLYGLASS_REQUIRE", "").split():
        pytest.fail(f"{reason}, and TALLYGLASS_REQUIRE names it", pytrace=False)
    pytest.skip(reason)


def install_node_packages(folder: Path, packages: Mapping[str, str]) -> None:
    """Install packages of these versions into a folder for node; without them the test ends here."""
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": dict(packages)}))
    try:
        done = subprocess.run(_INSTALL, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        skip_or_fail("npm", "it could not fetch the libraries in time")
    if done.returncode:
        skip_or_fail("npm", f"it could not fetch the libraries: {done.stderr[:200]}")
