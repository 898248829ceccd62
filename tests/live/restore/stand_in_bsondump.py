"""STAND-IN for bsondump, for tests alone: see stand_in_common."""

from __future__ import annotations

import sys
from pathlib import Path

import bson
from bson import json_util
from stand_in_common import EXACT, documents, fail, reader


def main(argv: list[str]) -> None:
    paths = [word for word in argv if not word.startswith("-")]
    if len(paths) != 1 or set(argv) - set(paths) - {"--quiet"}:
        fail("too many positional arguments")
    with reader(Path(paths[0]), False) as file:
        for raw in documents(file):
            line = json_util.dumps(bson.decode(raw), json_options=EXACT, separators=(",", ":"))
            sys.stdout.write(line + "\n")
