"""No text from data can reach a place that Textual or Rich parses as markup: read from the source of the dashboard.

What Textual parses: a plain ``str`` given to most widgets, to ``notify``, a title, a border or a tooltip. So only the
two widgets that are known to be safe here are used, each with its markup off, and nothing is ever built from markup.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallyglass_tui

SOURCE = Path(tallyglass_tui.__file__).parent
SAFE_WIDGETS = {"Static", "Input"}
"""Static with ``markup=False``; an Input shows what was typed as it is, and the driver cleans what is pasted."""

MAKES_MARKUP = {"escape", "from_ansi", "from_markup", "render_markup", "to_content", "visualize"}
PARSED_ATTRIBUTES = {"border_title", "border_subtitle", "tooltip", "title", "sub_title"}
MARKUP_OFF = {"Static", "notify"}


def offences(code: str) -> Iterator[str]:
    """Lines that a text could be parsed at."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            if node.module.startswith("textual.widgets"):
                yield from (f"{node.lineno}: widget {name}" for name in names - SAFE_WIDGETS)
            if node.module in ("rich.markup", "textual.markup"):
                yield f"{node.lineno}: {node.module}"
        elif isinstance(node, ast.Attribute) and node.attr in MAKES_MARKUP:
            yield f"{node.lineno}: .{node.attr}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {word.arg: word.value for word in node.keywords}
            off = isinstance(given.get("markup"), ast.Constant) and given["markup"].value is False
            if name in MARKUP_OFF and not off and (node.args or given):
                yield f"{node.lineno}: {name} without markup=False"
            if "message" in given and name == "exit":
                yield f"{node.lineno}: exit(message=)"
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                parsed = isinstance(target, ast.Attribute) and target.attr in PARSED_ATTRIBUTES
                if parsed and not isinstance(node.value, ast.Constant):
                    yield f"{node.lineno}: {ast.unparse(target)}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_parsed(path: Path) -> None:
    assert not [*offences(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "code",
    [
        "from textual.widgets import DataTable",
        "from textual.markup import escape",
        "Text.from_markup(name)",
        "Text.from_ansi(name)",
        "Static(name)",
        "Static(name, markup=on)",
        "self.notify(f'copied {name}')",
        "self.border_title = name",
        "widget.tooltip: str = name",
        "self.app.exit(message=name)",
    ],
)
def test_what_it_would_find(code: str) -> None:
    assert [*offences(code)]
