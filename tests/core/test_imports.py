"""What the modules import of each other: no circles, and few from one place."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_IMPORTED = 15
"""Modules of the project that one imports from: one that knows more than these has several responsibilities."""
MANY = {"tallyglass.allocate", "tallyglass_tui.counters.page", "tallyglass_tui.shell.app"}
"""Those that import from more: a facade, and two that put together what they show."""


@cache
def imports() -> dict[str, list[tuple[str, list[str]]]]:
    """By module the modules that it imports from, and what: also for types alone, and within functions."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for package in (ROOT / "core", ROOT / "tui"):
        for file in package.rglob("*.py"):
            parts = file.relative_to(package).with_suffix("").parts
            rows = found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = []
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    rows += [(alias.name, []) for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    rows.append((node.module, [alias.name for alias in node.names]))
    return found


def test_no_module_imports_back_what_imports_it() -> None:
    graph: dict[str, set[str]] = {name: set() for name in imports()}
    for name, rows in imports().items():
        for module, members in rows:
            # ``from package import module`` names a module, too.
            inner = {f"{module}.{member}" for member in members} & graph.keys()
            graph[name] |= inner or ({module} & graph.keys())
    assert len(graph) > 500
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_a_module_imports_from_few_others() -> None:
    counts = {
        name: len({module for module, _ in rows if module.startswith("tallyglass")}) for name, rows in imports().items()
    }
    assert {name for name, count in counts.items() if count > MOST_IMPORTED} == MANY, counts
