"""Names, docstrings and numbers say what something is, in words of their own. Links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEAST_WORDS = 4

HOUSEHOLD = {"look", "say", "hold", "tell"}
"""First words of names of functions where the field has a term: read, show, keep, report."""
MOST_HOUSEHOLD = 18
"""How many such names there still are. Only fewer may follow."""


@cache
def modules() -> dict[str, tuple[list[str], ast.Module]]:
    """The lines and the syntax tree of each module, by its path."""
    files = [file for package in ("core", "tui") for file in sorted((ROOT / package).rglob("*.py"))]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {name: (text.splitlines(), ast.parse(text)) for name, text in texts.items()}


def definitions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for name, (_, tree) in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield f"{name}:{node.lineno} {node.name}", node


def test_docstrings_are_sentences_about_their_subject() -> None:
    bad = []
    for where, node in definitions():
        text = ast.get_docstring(node) or ""
        short = text and len(text.split()) < LEAST_WORDS and not node.name.startswith("_")
        if short or text.startswith(("The same", "As ")):
            bad.append(f"{where}: {text}")
    assert not bad, "\n".join(bad)


def test_public_functions_have_the_terms_of_the_field() -> None:
    bad = [
        where
        for where, node in definitions()
        if not isinstance(node, ast.ClassDef) and node.name.split("_")[0] in HOUSEHOLD
    ]
    assert len(bad) <= MOST_HOUSEHOLD, "\n".join(bad)


def has_number(value: ast.expr) -> bool:
    """Whether a value is a number, or an expression or tuple of numbers."""
    return isinstance(value, (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple)) and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in ast.walk(value)
    )


def has_reason(lines: list[str], node: ast.stmt, after: ast.stmt | None) -> bool:
    """Whether a comment stands on the line of a constant or above it, or a docstring below it."""
    is_documented = (
        isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    )
    beside = f"{lines[node.lineno - 1]}{lines[(node.end_lineno or node.lineno) - 1]}"
    return is_documented or "#" in beside or lines[node.lineno - 2].lstrip().startswith("#")


def test_numbers_that_decide_have_a_unit_or_a_reason() -> None:
    bad = []
    for name, (lines, tree) in modules().items():
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None or not has_number(node.value):
                continue
            target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if re.match(r"\(?_?[A-Z]", target) and not has_reason(lines, node, after):
                bad.append(f"{name}:{node.lineno} {target} = {ast.unparse(node.value)}")
    assert not bad, "\n".join(bad)


def test_links_of_the_first_pages_lead_to_files() -> None:
    """Those within ``docs`` are checked when the site is built."""
    bad, count = [], 0
    for page in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            count += 1
            if "://" not in link and not (ROOT / link).exists():
                bad.append(f"{page.name}: {link}")
    assert count > 20
    assert not bad, "\n".join(bad)


def test_the_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
