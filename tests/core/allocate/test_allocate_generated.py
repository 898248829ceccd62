"""The synchronous modules that are generated from asynchronous ones are up to date."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

UNASYNC: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "packaging" / "unasync.py"))


def test_generated_modules_match_their_source() -> None:
    assert UNASYNC["PAIRS"]
    assert [str(path) for path in UNASYNC["outdated"]()] == [], "run python packaging/unasync.py"


def test_the_synchronous_form() -> None:
    source = (
        '"""For an AsyncCounter."""\n'
        "async def first(self: AsyncThing) -> int:\n"
        "    self._home.check()\n"
        "    async with self as it:\n"
        "        return await it.next()\n"
    )
    assert UNASYNC["synchronous"](source, "x.py").splitlines()[1:] == [
        '"""For a Counter."""',
        "def first(self: Thing) -> int:",
        "    with self as it:",
        "        return it.next()",
    ]
