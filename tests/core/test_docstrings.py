"""Docstrings say what something is, in words of their own."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEAST_WORDS = 4


def test_docstrings_are_sentences_about_their_subject() -> None:
    bad = []
    for file in (*(ROOT / "core").rglob("*.py"), *(ROOT / "tui").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node) or ""
                short = text and len(text.split()) < LEAST_WORDS and not node.name.startswith("_")
                if short or text.startswith(("The same", "As ")):
                    bad.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name}: {text}")
    assert not bad, "\n".join(bad)
