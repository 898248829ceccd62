"""Static analysis: no text from data can reach a place where Textual or Rich parses markup.

Textual parses plain ``str`` arguments of most widgets and of ``notify``, titles, borders and tooltips. The dashboard
may therefore only use the two widgets that are safe with markup off, and must not build anything from markup.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallyglass_tui

SOURCE = Path(tallyglass_tui.__file__).parent
SAFE_WIDGETS = {"Static", "Input", "Selection"}
"""A Static with ``markup=False``. An Input shows its text verbatim, and the driver cleans pasted text; a Selection is
a pair of positions in it."""

MAKES_MARKUP = {"escape", "from_ansi", "from_markup", "render_markup", "to_content", "visualize"}
PARSED_ATTRIBUTES = {"border_title", "border_subtitle", "tooltip", "title", "sub_title"}
MARKUP_OFF = {"Static", "notify"}


def offences(code: str) -> Iterator[str]:
    """Yield the places in ``code`` where a text could be parsed as markup."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            if node.module.startswith("textual.widgets"):
                yield from (f"{node.lineno}: widget {name}" for name in names - SAFE_WIDGETS)
            if node.module in ("rich.markup", "textual.markup"):
                yield f"{node.lineno}: {node.module}"
        elif isinstance(node, ast.Attribute) and node.attr in MAKES_MARKUP and ast.unparse(node) != "re.escape":
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
def test_no_text_is_parsed_as_markup(path: Path) -> None:
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
def test_finds_every_kind_of_markup_sink(code: str) -> None:
    assert [*offences(code)]
