"""The synchronous code that is generated from asynchronous code is up to date."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

UNASYNC: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "packaging" / "unasync.py"))


def test_generated_code_matches_its_source() -> None:
    assert UNASYNC["MODULES"]
    assert UNASYNC["CLASSES"]
    assert [str(path) for path in UNASYNC["outdated"]()] == [], "run python packaging/unasync.py"


def test_the_synchronous_form_of_a_module() -> None:
    source = (
        '"""For an AsyncCounter."""\n'
        "async def first(self: AsyncThing[Any] | AsyncIOMotorThing[Any]) -> int:\n"
        "    self._check_loop()\n"
        "    async with self as it:\n"
        "        return await to_its_end(self._run(it.next()))\n"
    )
    assert UNASYNC["synchronous_module"](source, "x.py").splitlines()[1:] == [
        '"""For a Counter."""',
        "def first(self: Thing[Any]) -> int:",
        "    with self as it:",
        "        return self._run(it.next())",
    ]


def test_the_synchronous_form_of_a_class_has_its_own_docstring() -> None:
    source = (
        'class Thing:\n    """For threads."""\n\n    def next(self):\n        """Other."""\n\n\n'
        'class AsyncThing:\n    """For tasks."""\n\n    async def next(self):\n        """One id."""\n'
    )
    text = UNASYNC["with_synchronous_classes"](source, ("Thing",))
    assert text.partition("\n\n\n")[0].splitlines() == [
        "class Thing:",
        '    """For threads."""',
        "",
        "    # Generated from AsyncThing by packaging/unasync.py.",
        "    def next(self):",
        '        """One id."""',
    ]
    assert UNASYNC["with_synchronous_classes"](text, ("Thing",)) == text
